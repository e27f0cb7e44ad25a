"""Every field of a request can be said on the command line, in each of the three ways."""

from __future__ import annotations

import json

import pytest

from moe_select.cli.request_options import REQUEST_OPTIONS
from moe_select.vocabulary import MoEConfig, ParallelConfig

HERE = ("explain", "--preset", "zen4")

# Option, its words, and the value that arrives; what else the value needs to be legal.
OPTIONS = {
    "weight_key": (("--weights", "kInt8StaticChannelSym"), "int8_static_channel_sym"),
    "activation_key": (
        ("--activations", "int8_dynamic_token_sym", "--weights", "int8_static_channel_sym"),
        "int8_dynamic_token_sym",
    ),
    "num_experts": (("--experts", "64"), 64),
    "num_local_experts": (("--local-experts", "8"), 8),
    "topk": (("--topk", "4"), 4),
    "hidden_dim": (("--hidden", "2048"), 2048),
    "intermediate_size": (("--intermediate", "768"), 768),
    "activation": (("--activation", "gelu_pytorch_tanh"), "gelu_tanh"),
    "in_dtype": (("--dtype", "fp16"), "float16"),
    "router_logits_dtype": (("--router-dtype", "fp32"), "float32"),
    "routing_method": (("--routing", "DeepSeek-V3"), "deepseek_v3"),
    "activation_format": (("--format", "batched_experts"), "batched_experts"),
    "max_tokens": (("--max-tokens", "512"), 512),
    "parallel.tp_size": (("--tp", "2"), 2),
    "parallel.ep_size": (("--ep", "4"), 4),
    "parallel.dp_size": (("--dp", "2"), 2),
    "parallel.pcp_size": (("--pcp", "2"), 2),
    "parallel.sp_size": (("--sp", "2"), 2),
    "parallel.all2all_backend": (("--all2all", "deepep-low-latency", "--ep", "2"), "deepep_low_latency"),
    "parallel.enable_eplb": (("--eplb", "--ep", "2"), True),
    "lora": (("--lora",), True),
    "bias": (("--bias",), True),
    "batch_invariant": (("--batch-invariant",), True),
    "deterministic": (("--deterministic",), True),
    "hash_routing": (("--hash-routing",), True),
    "decomposed_routing": (("--decomposed-routing",), True),
    "layer": (("--layer", "model.layers.0"), "model.layers.0"),
    "role": (("--role", "draft"), "draft"),
    "model": (("--model", "Qwen/Qwen3-30B-A3B"), "Qwen/Qwen3-30B-A3B"),
}
ONLY_SET = {
    "swiglu_limit": ("7", 7.0),
    "swiglu_alpha": ("1.702", 1.702),
    "swiglu_beta": ("1", 1.0),
    "situ_beta": ("2", 2.0),
    "situ_linear_beta": ("0.5", 0.5),
    "moe_backend": ("cpu", "cpu"),
}


def field(report, path):
    value = report["request"]
    for part in path.split("."):
        value = value[part]
    return value


def test_the_tables_are_complete():
    assert set(OPTIONS) == {option.path for option in REQUEST_OPTIONS}
    fields = set(MoEConfig.model_fields) - {"parallel"} | {f"parallel.{name}" for name in ParallelConfig.model_fields}
    assert set(OPTIONS) | set(ONLY_SET) == fields


@pytest.mark.parametrize("path", OPTIONS)
def test_option(run_json, path):
    words, expected = OPTIONS[path]
    assert field(run_json(*HERE, *words), path) == expected


@pytest.mark.parametrize("path", OPTIONS)
def test_set_reaches_the_fields_that_options_reach(run_json, path):
    (flag, *rest), expected = OPTIONS[path]
    value, others = (rest[0], rest[1:]) if rest and not rest[0].startswith("--") else ("true", rest)
    assert field(run_json(*HERE, *others, "--set", f"{path}={value}"), path) == expected, flag


@pytest.mark.parametrize("path", ONLY_SET)
def test_set_reaches_the_rest(run_json, path):
    value, expected = ONLY_SET[path]
    assert field(run_json(*HERE, "--set", f"{path}={value}"), path) == expected


@pytest.mark.parametrize("option", [option for option in REQUEST_OPTIONS if option.type is None], ids=lambda o: o.path)
def test_flags_can_be_taken_back(run_json, option):
    on = json.dumps(
        {"parallel": {"ep_size": 2, "enable_eplb": True}, "lora": True, "bias": True} | {option.path: True}
        if "." not in option.path
        else {"parallel": {"ep_size": 2, "enable_eplb": True}}
    )
    report = run_json(*HERE, "--request", "-", f"--no-{option.flag[2:]}", input=on)
    assert field(report, option.path) is False


def test_every_option_explains_itself(run):
    text = run("explain", "--help").stdout
    for option in REQUEST_OPTIONS:
        assert option.flag in text
    assert "swigluoai_uninterleave" in " ".join(text.split())


def test_request_from_file_stdin_and_overridden(run_json, tmp_path):
    request = MoEConfig(num_experts=16, topk=2, parallel=ParallelConfig(tp_size=2), lora=True)
    path = tmp_path / "request.json"
    path.write_text(request.model_dump_json())
    from_file = run_json(*HERE, "--request", str(path))["request"]
    assert MoEConfig(**from_file) == request
    assert run_json(*HERE, "--request", "-", input=path.read_text())["request"] == from_file
    changed = run_json(*HERE, "--request", str(path), "--topk", "4", "--no-lora", "--ep", "4", "--set", "num_experts=8")
    assert MoEConfig(**changed["request"]) == request.replace(
        topk=4, num_experts=8, lora=False, parallel=ParallelConfig(tp_size=2, ep_size=4)
    )


def test_a_report_holds_a_request_that_reads_back(run_json):
    first = run_json(*HERE, "--scheme", "int8", "--experts", "8", "--tp", "2")
    again = run_json(*HERE, "--request", "-", input=json.dumps(first["request"]))
    assert again == first


@pytest.mark.parametrize(
    ("words", "pair"),
    [
        ((), ("int8_static_channel_sym", "int8_dynamic_token_sym")),
        (("--activations", "none"), ("int8_static_channel_sym", "none")),
        (("--weights", "int8_static_tensor_sym"), ("int8_static_tensor_sym", "int8_dynamic_tensor_sym")),
    ],
)
def test_scheme_is_its_first_pair_that_fits(run_json, words, pair):
    report = run_json(*HERE, "--scheme", "int8", *words)
    assert (report["request"]["weight_key"], report["request"]["activation_key"]) == pair
    assert report["scheme"] == "int8"


def test_scheme_overrides_the_file_and_set_overrides_all(run_json):
    given = json.dumps({"weight_key": "int4_static"})
    assert run_json(*HERE, "--request", "-", "--scheme", "int8", input=given)["scheme"] == "int8"
    unset = run_json(*HERE, "--request", "-", "--set", "weight_key=null", input=given)
    assert unset["request"]["weight_key"] == "none"


def test_none_on_the_command_line_overrides_the_file(run_json):
    given = json.dumps({"weight_key": "int8_static_channel_sym", "activation_key": "int8_dynamic_token_sym"})
    report = run_json(*HERE, "--request", "-", "--activations", "none", input=given)
    assert report["request"]["activation_key"] == "none"


WRONG = {
    "unknown key": (("--weights", "int8_static_chanel"), "did you mean 'int8_static_channel_sym'?"),
    "unknown activation": (("--activation", "silo"), "did you mean 'silu'?"),
    "unknown dtype": (("--dtype", "bfloat17"), "did you mean 'bfloat16'?"),
    "narrow dtype": (("--dtype", "int8"), "cannot hold activations"),
    "not a number": (("--experts", "many"), "--experts"),
    "zero": (("--topk", "0"), "--topk"),
    "too many": (("--topk", "9", "--experts", "8"), "topk 9 exceeds num_experts 8"),
    "indivisible": (("--experts", "8", "--ep", "3"), "legal ep_size: 1, 2, 4, 8"),
    "two problems": (("--experts", "8", "--ep", "3", "--topk", "9"), "topk 9 exceeds"),
    "nested": (("--all2all", "deepep_v2"), "parallel.all2all_backend deepep_v2"),
    "activations alone": (("--activations", "int8_dynamic_token_sym"), "without a weight_key"),
    "unknown field": (("--set", "tpk=8"), "did you mean 'topk'?"),
    "unknown nested field": (("--set", "parallel.tp=2"), "parallel.tp: unknown field"),
    "no such nesting": (("--set", "topk.x=8", "--topk", "2"), "cannot set 'topk.x'"),
    "no equals": (("--set", "topk"), "'topk' is not NAME=VALUE"),
    "no name": (("--set", "=8"), "'=8' is not NAME=VALUE"),
    "bad value": (("--set", "lora=maybe"), "lora"),
    "python word": (("--set", "self=1"), "self"),
    "model of parallel": (("--set", "parallel=2"), "parallel"),
    "unknown scheme": (("--scheme", "int9"), "did you mean 'int8'?"),
    "pair outside the scheme": (
        ("--scheme", "int8", "--weights", "int4_static"),
        "its pairs: [int8_static_channel_sym,",
    ),
    "unknown option": (("--expert", "8"), "--expert"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests(run, name):
    words, expected = WRONG[name]
    result = run("explain", "--preset", "zen4", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1:1: the request is not JSON"),
        ('{"topk": 2,\n}', ":2:1: the request is not JSON"),
        ("[1]", "must be a JSON object, got list"),
        ("null", "must be a JSON object, got NoneType"),
        ('{"tpk": 2}', "did you mean 'topk'?"),
        ('{"self": 2}', "self"),
        ('{"topk": -1}', "topk"),
        ('{"topk": [1]}', "topk"),
        ('{"parallel": 7}', "parallel"),
        ('{"activation": "silo"}', "silo"),
        ("[" * 100_000, "cannot read the request"),
        ('{"topk": ' + "9" * 5000 + "}", "cannot read the request"),
    ],
)
def test_wrong_request_files(run, text, expected):
    result = run("explain", "--preset", "zen4", "--request", "-", input=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr


def test_request_file_that_is_not_text(run, tmp_path):
    path = tmp_path / "request.json"
    path.write_bytes(b"\xff\xfe{}")
    result = run("explain", "--preset", "zen4", "--request", str(path))
    assert result.exit_code == 2
    assert str(path) in result.stderr


def test_request_file_that_is_not_there(run):
    result = run("explain", "--preset", "zen4", "--request", "/no/such/file")
    assert result.exit_code == 2
    assert "/no/such/file" in result.stderr

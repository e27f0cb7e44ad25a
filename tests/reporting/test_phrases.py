"""The shared phrases."""

from __future__ import annotations

import pytest

from moe_select.environment import Device, DeviceType, Environment, HostCPU
from moe_select.reporting import phrases
from moe_select.vocabulary import MoEConfig, ParallelConfig

X86 = HostCPU(arch="x86_64", uarch="zen4")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (Environment(device=Device(type=DeviceType.CPU), cpu=X86), "cpu (x86_64 zen4)"),
        (Environment(device=Device(type=DeviceType.CPU), cpu=HostCPU(arch="aarch64")), "cpu (aarch64)"),
        (
            Environment(device=Device(type=DeviceType.CPU, name="EPYC 9654", memory_gib=8.25), cpu=X86, preset="zen4"),
            "EPYC 9654 (x86_64 zen4, 8.25 GiB), preset zen4",
        ),
        (
            Environment(device=Device(type=DeviceType.CUDA, name="A100", capability=(8, 0), memory_gib=80), cpu=X86),
            "A100 (cuda 8.0, 80 GiB, host x86_64 zen4)",
        ),
        (
            Environment(device=Device(type=DeviceType.ROCM, arch="gfx942"), cpu=X86, preset="mi300x"),
            "rocm (rocm gfx942, host x86_64 zen4), preset mi300x",
        ),
        (Environment(device=Device(type=DeviceType.XPU), cpu=X86), "xpu (xpu, host x86_64 zen4)"),
    ],
)
def test_environment(environment, expected):
    assert phrases.environment_phrase(environment) == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (MoEConfig(), "no sizes given, silu, bfloat16, standard"),
        (MoEConfig(num_experts=8, hidden_dim=64), "E=8 H=64, silu, bfloat16, standard"),
        (
            MoEConfig(
                num_experts=8,
                topk=2,
                activation="gelu",
                in_dtype="float16",
                parallel=ParallelConfig(ep_size=2, dp_size=2, all2all_backend="deepep_low_latency"),
            ),
            "E=8 topk=2, gelu, float16, batched_experts",
        ),
    ],
)
def test_layer(request_, expected):
    assert phrases.layer_phrase(request_) == expected


EXTRAS = {
    "nothing": ({}, ""),
    "flags": ({"lora": True, "bias": True}, "lora, bias"),
    "values": ({"swiglu_limit": 7, "role": "draft", "max_tokens": 64}, "max_tokens=64, swiglu_limit=7.0, role=draft"),
    "tp": ({"parallel": ParallelConfig(tp_size=2), "intermediate_size": 768}, "tp_size=2, I=384 per rank"),
    "tp of an unknown size": ({"parallel": ParallelConfig(tp_size=2)}, "tp_size=2"),
    "ep": ({"parallel": ParallelConfig(ep_size=4), "num_experts": 8}, "ep_size=4, E=2 per rank"),
    "router": (
        {"routing_method": "topk", "router_logits_dtype": "float32"},
        "router_logits_dtype=float32, routing_method=topk",
    ),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_extras(name):
    fields, expected = EXTRAS[name]
    assert phrases.extras_phrase(MoEConfig(**fields)) == expected


@pytest.mark.parametrize("name", MoEConfig.model_fields)
def test_no_field_of_a_request_is_left_out(build, name):
    """Whatever differs from its default is somewhere in the text."""
    others = {"weight_key": "int8_static_channel_sym"} if name == "activation_key" else {}
    values = {
        "weight_key": "int8_static_channel_sym",
        "activation_key": "int8_dynamic_token_sym",
        "activation": "gelu",
        "activation_format": "batched_experts",
        "routing_method": "llama4",
        "role": "draft",
        "in_dtype": "float16",
        "parallel": {"sp_size": 2},
        **dict.fromkeys(
            ("lora", "bias", "batch_invariant", "deterministic", "hash_routing", "decomposed_routing"), True
        ),
        **dict.fromkeys(("layer", "model", "moe_backend"), "some_name"),
        "router_logits_dtype": "float32",
    }
    changed = MoEConfig(**{name: values.get(name, 7), **others})
    assert build["refused"](request=changed).to_text() != build["refused"](request=MoEConfig(**others)).to_text()
    shown = {"parallel": "sp_size=2"}.get(name, str(values.get(name, 7)))
    text = build["refused"](request=changed).to_text()
    assert (name if values.get(name) is True else shown) in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\nb\t c", "a b c"), ("\x1b[1m", "\N{REPLACEMENT CHARACTER}[1m"), ("", "")],
)
def test_one_line(text, expected):
    assert phrases.one_line(text) == expected

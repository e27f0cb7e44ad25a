"""Declarations and the reasons that follow: all of them, with the limit and the value given."""

from __future__ import annotations

import pytest

from moe_select import Code, Refusal, Support, Unproven, preset
from moe_select.support import ParallelSupport, any_device, cpu, cuda, multiple_of, no_parallel, pairs, rocm, xpu
from moe_select.testing import make_environment, make_request
from moe_select.vocabulary.quant_keys import kInt8DynamicTokenSym, kInt8StaticChannelSym

PAIR = (kInt8StaticChannelSym, kInt8DynamicTokenSym)


def support(**changes):
    return Support(**{"devices": (any_device(),), "quant": {PAIR}, "activations": {"silu"}, **changes})


def check(declared, request=None, environment="h200", monolithic=False):
    return list(declared.check(request or make_request(), preset(environment), monolithic=monolithic))


def test_what_is_declared_passes():
    assert check(support()) == []


@pytest.mark.parametrize(
    ("changes", "request_", "code", "words"),
    [
        ({}, {"activation": "gelu"}, Code.ACTIVATION_UNSUPPORTED, "gelu; supported: silu"),
        ({}, {"activation_key": None}, Code.QUANT_UNSUPPORTED, "takes activations int8_dynamic_token_sym"),
        ({}, {"weight_key": None, "activation_key": None}, Code.QUANT_UNSUPPORTED, "supported weights: int8_static"),
        ({}, {"in_dtype": "float64"}, Code.DTYPE_UNSUPPORTED, "float64"),
        ({}, {"lora": True}, Code.FEATURE_UNSUPPORTED, "lora"),
        ({}, {"bias": True}, Code.FEATURE_UNSUPPORTED, "bias"),
        ({}, {"batch_invariant": True}, Code.BATCH_INVARIANCE_UNSUPPORTED, "batch_invariant"),
        ({}, {"deterministic": True}, Code.NONDETERMINISTIC, "deterministic"),
        ({}, {"swiglu_limit": 7.0}, Code.ACTIVATION_UNSUPPORTED, "swiglu"),
        ({"max_experts": 4}, {}, Code.SHAPE_UNSUPPORTED, "num_experts 8 exceeds 4"),
        ({"max_topk": 1}, {}, Code.SHAPE_UNSUPPORTED, "topk 2 exceeds 1"),
        ({"max_tokens": 64}, {"max_tokens": 65}, Code.TOKEN_BOUND_EXCEEDED, "65 exceeds 64"),
        ({"shape": multiple_of(hidden_dim=128)}, {}, Code.SHAPE_UNALIGNED, "hidden_dim 64 is not a multiple of 128"),
        ({"requires": ("acme>=2",)}, {}, Code.DEPENDENCY_MISSING, "needs acme>=2, not installed"),
        ({"requires": ("triton>=99",)}, {}, Code.DEPENDENCY_MISSING, "found 3.8.0"),
        ({"parallel": no_parallel()}, {"parallel": {"ep_size": 2}}, Code.PARALLEL_UNSUPPORTED, "ep_size 2"),
        (
            {"parallel": ParallelSupport(all2all=frozenset({"deepep_v2"}))},
            {"parallel": {"ep_size": 2, "dp_size": 2}},
            Code.ALL2ALL_UNSUPPORTED,
            "allgather_reducescatter given, supported: deepep_v2",
        ),
    ],
)
def test_one_reason(changes, request_, code, words):
    (found,) = check(support(**changes), make_request(**request_))
    assert found.code is code
    assert words in found.detail


def test_tensor_parallelism_changes_the_shape_and_the_remedy_says_how():
    declared = support(shape=multiple_of(intermediate=32))
    assert check(declared) == []
    (found,) = check(declared, make_request(parallel={"tp_size": 2}))
    assert found.code is Code.SHAPE_UNALIGNED
    assert found.remedy == "tp in {1, 3} would satisfy it"


def test_all_reasons_are_collected():
    request = make_request(
        activation="gelu", lora=True, topk=8, in_dtype="float64", weight_key="mxfp4_static", activation_key=None
    )
    codes = [finding.code for finding in check(support(devices=(cpu(),), max_topk=1, requires=("acme",)), request)]
    assert codes == [
        Code.DEVICE_UNSUPPORTED,
        Code.DEPENDENCY_MISSING,
        Code.QUANT_UNSUPPORTED,
        Code.ACTIVATION_UNSUPPORTED,
        Code.DTYPE_UNSUPPORTED,
        Code.FEATURE_UNSUPPORTED,
        Code.SHAPE_UNSUPPORTED,
    ]


def test_unknown_facts_abstain():
    request = make_request(num_experts=None, topk=None, hidden_dim=None, intermediate_size=None)
    declared = support(max_experts=4, max_topk=1, max_tokens=8, shape=multiple_of(hidden_dim=128, intermediate=64))
    found = check(declared, request)
    assert all(isinstance(finding, Unproven) for finding in found)
    assert {finding.fact for finding in found} == {
        "num_experts",
        "topk",
        "max_tokens",
        "hidden_dim",
        "intermediate_size_per_partition",
    }


@pytest.mark.parametrize(
    ("changes", "request_", "code"),
    [
        ({}, {"decomposed_routing": True}, Code.ROUTING_UNSUPPORTED),
        ({}, {"routing_method": "deepseek_v3"}, Code.ROUTING_UNSUPPORTED),
        ({}, {"hash_routing": True}, Code.ROUTING_UNSUPPORTED),
        ({"router_logits_dtypes": frozenset({"float32"})}, {}, Code.ROUTER_DTYPE_UNSUPPORTED),
    ],
)
def test_routing_concerns_monolithic_classes_only(changes, request_, code):
    declared = support(routing=frozenset({"renormalize"}), **changes)
    request = make_request(**{"routing_method": "renormalize", **request_})
    assert [finding.code for finding in check(declared, request, monolithic=True)] == [code]
    assert check(declared, request) == []


@pytest.mark.parametrize(
    ("rule", "fitting", "others"),
    [
        (cuda(">=8.0"), ["a100", "h200", "b200"], ["t4", "mi300x", "zen4"]),
        (cuda("==10.*"), ["b200", "b300"], ["h200", "rtx5090"]),
        (rocm("gfx942", "gfx95*"), ["mi300x", "mi355x"], ["mi250x", "h200"]),
        (xpu(), ["max1550"], ["h200", "sapphirerapids"]),
        (cpu("x86_64", features={"amx_int8"}), ["sapphirerapids"], ["zen4", "graviton4", "h200"]),
        (cpu("aarch64"), ["graviton4"], ["zen4", "gh200"]),
        (cpu(vendors=("IBM",)), ["power10"], ["zen4"]),
        (any_device(), ["t4", "mi300x", "max1550", "power10"], []),
    ],
)
def test_devices(rule, fitting, others):
    assert all(rule.mismatch(preset(name)) is None for name in fitting)
    assert all(isinstance(rule.mismatch(preset(name)), str) for name in others)


def test_an_unknown_capability_abstains():
    environment = preset("h200")
    unknown = environment.replace(device=environment.device.replace(capability=None))
    assert isinstance(cuda(">=8.0").mismatch(unknown), Unproven)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: cuda("nine"),
        lambda: support(features={"loras": True}),
        lambda: support(activations={"silo"}),
        lambda: support(dtypes={"bf61"}),
        lambda: Refusal(Code.DEVICE_UNSUPPORTED, ""),
        lambda: Refusal("no_such_code", "x"),
    ],
)
def test_wrong_declarations(wrong):
    with pytest.raises(ValueError, match=r".+"):
        wrong()


def test_pairs():
    assert pairs([kInt8StaticChannelSym], [None, kInt8DynamicTokenSym]) == {PAIR, (kInt8StaticChannelSym, None)}


def test_fake_libraries():
    assert make_environment("h200", acme="2.1").satisfies("acme>=2")
    assert not make_environment("h200", triton=None).satisfies("triton")

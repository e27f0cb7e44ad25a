"""Declarations as plain data and in words."""

from __future__ import annotations

import json

import pytest

from moe_select.kernels.experts import ModularExperts, MonolithicExperts
from moe_select.reporting.support import limit_lines, quant_lines, quant_pairs, support_to_dict
from moe_select.support import ParallelSupport, Support, any_device, cpu, cuda, multiple_of, pairs
from moe_select.vocabulary import ActivationFormat
from moe_select.vocabulary.quant_keys import NAMED_KEYS, kInt8DynamicTokenSym, kInt8StaticChannelSym

INT8 = frozenset({(kInt8StaticChannelSym, kInt8DynamicTokenSym), (kInt8StaticChannelSym, None), (None, None)})


class Narrow(ModularExperts):
    activation_format = ActivationFormat.BATCHED_EXPERTS
    weight_layout = "tiled"
    support = Support(
        devices=(cuda(">=8.0"), cpu("x86_64", features={"amx_int8"})),
        quant=INT8,
        activations={"silu", "gelu"},
        dtypes={"bfloat16"},
        parallel=ParallelSupport(all2all=frozenset({"deepep_v2"}), data=False),
        max_experts=256,
        max_tokens=1024,
        shape=multiple_of(hidden_dim=16, intermediate=32),
        features={"lora": False, "bias": True},
        requires=("triton>=3.2",),
    )


class Wide(MonolithicExperts):
    last_resort = True
    support = Support(
        devices=(any_device(),),
        quant=pairs(NAMED_KEYS.values(), [None]),
        activations={"silu"},
        routing={"topk", "default"},
        router_logits_dtypes=frozenset({"float32"}),
    )


@pytest.mark.parametrize("experts_class", [Narrow, Wide])
def test_survives_json(experts_class):
    data = support_to_dict(experts_class)
    assert json.loads(json.dumps(data)) == data


def test_everything_declared_is_there():
    data = support_to_dict(Narrow)
    assert data["devices"] == ["cuda >=8.0", "cpu x86_64 with amx_int8"]
    assert data["quant"] == [
        ["int8_static_channel_sym", "int8_dynamic_token_sym"],
        ["int8_static_channel_sym", "none"],
        ["none", "none"],
    ]
    assert (data["activations"], data["dtypes"]) == (["gelu", "silu"], ["bfloat16"])
    assert (data["activation_format"], data["weight_layout"], data["monolithic"]) == ("batched_experts", "tiled", False)
    assert data["parallel"]["all2all"] == ["deepep_v2"]
    assert data["parallel"]["data"] is False
    assert (data["max_experts"], data["max_topk"], data["max_tokens"]) == (256, None, 1024)
    assert data["multiple_of"] == {"hidden_dim": 16, "intermediate": 32}
    assert data["features"] == {"bias": True, "lora": False}
    assert data["requires"] == ["triton>=3.2"]


def test_routing_of_monolithic_classes():
    data = support_to_dict(Wide)
    assert (data["routing"], data["router_logits_dtypes"], data["last_resort"]) == (
        ["default", "topk"],
        ["float32"],
        True,
    )
    assert support_to_dict(Narrow)["routing"] is None


def test_few_pairs_are_listed_and_many_are_counted():
    assert quant_lines(Narrow.support) == [
        "int8_static_channel_sym + int8_dynamic_token_sym",
        "int8_static_channel_sym + none",
        "none + none",
    ]
    count = len(quant_pairs(Wide.support))
    assert quant_lines(Wide.support) == [f"{count} pairs of {count} weight keys and 1 activation keys"]


def test_limits_in_words():
    assert limit_lines(Narrow) == [
        "gelu, silu",
        "bfloat16",
        "batched_experts, modular",
        "experts <= 256, tokens <= 1024, H % 16, I % 32",
        "bias",
        "needs triton>=3.2",
    ]
    assert limit_lines(Wide) == ["silu", "bfloat16, float16, float32", "standard, monolithic, last resort"]

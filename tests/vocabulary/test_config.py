"""Requests: contradictions are refused with the legal values, everything else travels."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from moe_select import Activation, MoEConfig, ParallelConfig
from moe_select.errors import RequestError
from moe_select.testing import make_request


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_experts": 6, "topk": 7}, ["topk 7 exceeds num_experts 6", "legal topk: 1 to 6"]),
        ({"num_experts": 6, "parallel": {"ep_size": 4}}, ["not divisible by ep_size 4", "1, 2, 3, 6"]),
        ({"intermediate_size": 96, "parallel": {"tp_size": 5}}, ["not divisible by tp_size 5", "1, 2, 3, 4"]),
        ({"num_experts": 8, "num_local_experts": 3, "parallel": {"ep_size": 2}}, ["legal: 4"]),
        ({"weight_key": "int8_dynamic_token_sym"}, ["dynamic scales; weights need a static key"]),
        ({"weight_key": None}, ["quantized activations need quantized weights"]),
        ({"weight_key": "int8_static_chanel_sym"}, ["did you mean 'int8_static_channel_sym'?"]),
        ({"in_dtype": "int8"}, ["int8 cannot hold activations"]),
        ({"in_dtype": "bf61"}, ["did you mean"]),
        ({"activation": "silo"}, ["activation", "silo", "did you mean 'silu'?"]),
        ({"topk": 0}, ["topk", "greater than or equal to 1"]),
        ({"hiden_dim": 3}, ["unknown field", "did you mean 'hidden_dim'?"]),
        ({"parallel": {"ep_size": 1, "all2all_backend": "deepep_v2"}}, ["ep_size is 1"]),
        ({"parallel": {"enable_eplb": True}}, ["ep_size is 1"]),
        ({"parallel": {"ep_size": 2, "dp_size": 3}}, ["must be a multiple of dp_size * pcp_size = 3"]),
        ({"num_experts": 6, "topk": 7, "intermediate_size": 96, "parallel": {"tp_size": 5}}, ["topk 7", "tp_size 5"]),
    ],
)
def test_contradictions(fields, words):
    with pytest.raises(RequestError) as caught:
        make_request(**fields)
    for word in words:
        assert word in str(caught.value)


def test_what_one_rank_holds():
    request = make_request(num_experts=8, intermediate_size=96, parallel={"tp_size": 2})
    assert (request.local_experts, request.intermediate_size_per_partition, request.w13_rows) == (8, 48, 96)
    request = make_request(num_experts=8, activation="relu2_no_mul", parallel={"ep_size": 4})
    assert (request.local_experts, request.w13_rows) == (2, 96)


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        ({}, "standard"),
        ({"ep_size": 2, "dp_size": 2, "all2all_backend": "deepep_low_latency"}, "batched_experts"),
        ({"ep_size": 2, "all2all_backend": "deepep_low_latency"}, "standard"),
    ],
)
def test_format_follows_from_the_all2all_backend(parallel, expected):
    assert make_request(parallel=parallel).resolved_activation_format.value == expected


def test_frozen_equal_and_hashable():
    one, two = make_request(), make_request()
    assert (one == two, hash(one) == hash(two), one == make_request(topk=1)) == (True, True, False)
    with pytest.raises(ValueError, match="frozen"):
        one.topk = 3
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.replace(topk=1).replace(topk=2) == one
    with pytest.raises(RequestError):
        one.model_copy(update={"topk": 99})


def test_json_round_trip():
    request = make_request(
        parallel={"ep_size": 2, "dp_size": 2, "all2all_backend": "flashinfer_all2allv"},
        swiglu_limit=7.0,
        role="draft",
        layer="l",
    )
    assert MoEConfig.model_validate_json(request.model_dump_json()) == request
    assert isinstance(request.parallel, ParallelConfig)


@pytest.mark.parametrize("activation", Activation)
def test_gates(activation):
    assert activation.is_gated != activation.value.endswith("_no_mul")


def test_spellings_of_engines():
    assert Activation("gelu_pytorch_tanh") is Activation.GELU_TANH
    assert Activation("SwigluOAI") is Activation.SWIGLUOAI


def test_the_package_imports_no_torch():
    code = "import sys, moe_select, moe_select.testing; assert not {'torch', 'triton', 'numpy', 'pytest'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there():
    import moe_select

    for name in moe_select.__all__:
        assert getattr(moe_select, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        moe_select.no_such_name  # noqa: B018
    assert callable(moe_select.build)

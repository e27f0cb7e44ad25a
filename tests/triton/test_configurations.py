"""However a GEMM is cut, it computes the same layer."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from moe_select import MoEConfig, MoEWeights, select
from moe_select.testing import error_bound, gpu_or_interpreter, oracle, random_tokens, relative_error
from moe_select_triton.config import Few, Gemm, Plan

ENVIRONMENT, DEVICE = gpu_or_interpreter(torch="2.11", triton="3.6")
ON_GPU = DEVICE == "cuda"

INT8 = {"weight_key": "int8_static_channel_sym", "activation_key": "int8_dynamic_token_sym"}
SIZES = {"num_experts": 6, "topk": 2, "hidden_dim": 160, "intermediate_size": 96}

GEMMS = {
    "plain": Gemm(16, 32, 64, 4, 3),
    "swapped": Gemm(32, 64, 64, 4, 3, swap=True),
    "two tiles of rows": Gemm(32, 64, 64, 4, 3, bm2=16, swap=True),
    "descriptor": Gemm(16, 64, 64, 4, 3, tma=True),
    "descriptor, swapped, two tiles": Gemm(32, 64, 32, 4, 3, bm2=16, swap=True, tma=True),
    "groups": Gemm(16, 32, 64, 4, 3, group=4),
    "wider than the output": Gemm(16, 128, 256, 4, 2),
}
STRIPS = {
    "strip": Gemm(32, 32, 32, 4, 2, swap=True, strip=2),
    "strip, descriptor": Gemm(16, 32, 64, 4, 2, strip=3, tma=True),
    "strip of one step": Gemm(16, 64, 128, 4, 2, strip=2),
}


def request(**changes):
    return MoEConfig(**{**SIZES, **INT8, **changes})


def build(request, plan=None):
    """A kernel and its weights; with a plan, every number of tokens runs that."""
    weights = MoEWeights.random(request, 0, DEVICE)
    kernel = select(request, backend="triton/TritonExperts", environment=ENVIRONMENT).build(weights)
    if plan is not None:
        kernel.experts._layer.planner = lambda _tokens, _topk: plan
    return kernel, weights


def check(request, count, plan=None, tokens=None):
    """Compare one call with the oracle."""
    kernel, weights = build(request, plan)
    tokens = random_tokens(request, count, 1, DEVICE) if tokens is None else tokens
    out = torch.full_like(tokens.x_TH, torch.nan)
    kernel(*tokens, out=out)
    assert relative_error(out, oracle(request, weights, *tokens)) <= error_bound(request)


@pytest.mark.parametrize("lookup", [False, True], ids=["sorted", "lookup"])
@pytest.mark.parametrize("config", GEMMS.values(), ids=GEMMS)
def test_both_gemms(config, lookup):
    check(request(), 40, Plan(config, config, lookup))


@pytest.mark.parametrize("lookup", [False, True], ids=["sorted", "lookup"])
@pytest.mark.parametrize("config", STRIPS.values(), ids=STRIPS)
def test_strips(config, lookup):
    check(request(), 40, Plan(GEMMS["plain"], config, lookup))


@pytest.mark.parametrize("few", [Few(16, 32, 2, 2), Few(32, 64, 4, 3), Few(64, 512, 4, 2)], ids=str)
def test_one_token(few):
    check(request(), 1, Plan(few, few))


@pytest.mark.parametrize("activation", ["swigluoai", "swigluoai_uninterleave", "relu2_no_mul", "situ"])
@pytest.mark.parametrize(
    "config", [GEMMS["plain"], GEMMS["descriptor, swapped, two tiles"]], ids=["plain", "descriptor"]
)
def test_where_the_gate_lies(activation, config):
    check(request(activation=activation, bias=True), 40, Plan(config, config))


def test_blocks_of_both_gemms_may_differ():
    check(request(), 60, Plan(Gemm(16, 32, 64, 4, 3), Gemm(32, 32, 64, 4, 3, bm2=16, swap=True)))


@pytest.mark.parametrize("lookup", [False, True], ids=["sorted", "lookup"])
def test_more_rows_than_a_tile_on_one_expert(lookup):
    tokens = random_tokens(request(), 50, 1, DEVICE)
    tokens.topk_ids_TK[:, 0] = 4
    tokens.topk_ids_TK[:, 1] = 5
    check(request(), 50, Plan(Gemm(16, 32, 64, 4, 3), Gemm(16, 32, 64, 4, 3), lookup), tokens)


@pytest.mark.parametrize("experts", [1, 3, 1500])
def test_any_number_of_experts(experts):
    asked = request(num_experts=experts, topk=min(experts, 2), hidden_dim=32, intermediate_size=16)
    check(asked, 300, Plan(Gemm(16, 16, 32, 4, 2), Gemm(16, 32, 32, 4, 2)))


@pytest.mark.parametrize("count", [2000, 3000])
def test_several_chunks_of_slots(count):
    asked = request(hidden_dim=32, intermediate_size=16)
    check(asked, count, Plan(Gemm(64, 16, 32, 4, 2), Gemm(64, 32, 32, 4, 2)))


def test_ids_of_64_bits():
    tokens = random_tokens(request(), 20, 1, DEVICE)
    for _ in range(2):
        check(request(), 20, None, tokens._replace(topk_ids_TK=tokens.topk_ids_TK.long()))


def test_addresses_that_are_not_aligned():
    asked = request(hidden_dim=33, intermediate_size=17)
    tokens = random_tokens(asked, 21, 1, DEVICE)
    for first in (0, 1):
        check(asked, 20, None, type(tokens)(*(part[first:] for part in tokens)))


def test_a_row_has_the_same_bits_in_any_batch():
    asked = request(batch_invariant=True)
    kernel, _ = build(asked)
    tokens = random_tokens(asked, 600, 1, DEVICE)
    whole = kernel(*tokens)
    for rows in (slice(7, 8), slice(0, 64), slice(100, 513)):
        assert torch.equal(kernel(*(part[rows] for part in tokens)), whole[rows])


def test_scratch_is_what_the_workspace_says():
    kernel, _ = build(request())
    (spec,) = kernel.experts.workspace(40, 2).values()
    assert spec.dtype == "uint8"
    assert spec.shape[0] >= 40 * 2 * (96 + 160)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("count", [1, 8, 64, 1000])
def test_runs_in_a_cuda_graph(count):
    kernel, _ = build(request())
    tokens = random_tokens(request(), count, 1, DEVICE)
    out = torch.empty_like(tokens.x_TH)
    kernel(*tokens, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*tokens, out=out)
    other = random_tokens(request(), count, 2, DEVICE)
    for place, values in zip(tokens, other, strict=True):
        place.copy_(values)
    graph.replay()
    assert torch.equal(out, kernel(*other))


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_64k_tokens():
    asked = request(hidden_dim=256, intermediate_size=128)
    check(asked, 65536)

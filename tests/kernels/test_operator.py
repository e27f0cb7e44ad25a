"""A kernel inside ``torch.compile``: one node of the graph, on every backend."""

from __future__ import annotations

import gc

import pytest
import torch

from moe_select import MoEWeights, select
from moe_select.errors import KernelCallError
from moe_select.kernels import operator
from moe_select.testing import make_request, random_tokens


@pytest.fixture(scope="module", autouse=True)
def _forget_graphs():
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_compiles_without_a_break(backend):
    request = make_request()
    kernel = select(request, backend=backend).build(MoEWeights.random(request))
    compiled = torch.compile(lambda x, w, ids: kernel(x * 2, w, ids) + x, fullgraph=True, backend="aot_eager")
    for count in (1, 9, 12):
        tokens = random_tokens(request, count, count)
        expected = kernel(tokens.x_TH * 2, *tokens[1:]) + tokens.x_TH
        assert torch.equal(compiled(*tokens), expected)


def test_writes_into_out():
    request = make_request()
    kernel = select(request, backend="cpu").build(MoEWeights.random(request))
    tokens = random_tokens(request, 7)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x, w, ids, out):
        return kernel(x, w, ids, out=out)

    out = torch.full_like(tokens.x_TH, torch.nan)
    compiled(*tokens, out)
    assert torch.equal(out, kernel(*tokens))


def test_operators_pass_torchs_own_checks():
    request = make_request()
    kernel = select(request, backend="cpu").build(MoEWeights.random(request))
    x, weights, ids = random_tokens(request, 5)
    arguments = (x, weights, ids, None, False, kernel._number)
    torch.library.opcheck(operator.modular, arguments, test_utils=("test_schema", "test_faketensor"))


def test_a_kernel_that_is_gone_says_so():
    request = make_request()
    kernel = select(request, backend="cpu").build(MoEWeights.random(request))
    number = kernel._number
    del kernel
    gc.collect()
    with pytest.raises(KernelCallError, match="keep the kernel alive"):
        operator.modular(*random_tokens(request, 2), None, False, number)


def test_errors_of_a_call_come_through():
    request = make_request()
    kernel = select(request, backend="cpu").build(MoEWeights.random(request))
    compiled = torch.compile(lambda x, w, ids: kernel(x, w, ids), fullgraph=True, backend="aot_eager")
    x, weights, ids = random_tokens(request, 3)
    with pytest.raises(KernelCallError, match="topk_ids"):
        compiled(x, weights, ids + 100)

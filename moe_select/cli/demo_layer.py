"""The layer of the demo: random weights and tokens, the same layer in bfloat16, timing.

Legend: T tokens, K top-k slots, H hidden size, I intermediate size, F = 2I, E experts, M = T * K routed rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from moe_select.kernels.weights import MoEWeights
from moe_select.reporting.phrases import plural
from moe_select.selection import select
from moe_select.testing.layers import Tokens, random_tokens, relative_error
from moe_select.testing.oracle import oracle

if TYPE_CHECKING:
    from moe_select.selection import Selection

Call = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x_TH, topk_weights_TK, topk_ids_TK) to out_TH."""

CHECKED: Final = 4
"""Rows of a call that are compared with float64."""

_SECONDS: Final = 1.5
"""Time spent on measuring one call, unless three calls take longer."""


class Measurement(NamedTuple):
    """One row of the result."""

    tokens: int
    seconds: float
    bf16_seconds: float
    error: float
    """``||out - ref|| / ||ref||`` against float64 on the same quantized weights."""


class Demo:
    """The work of the demo in steps.

    Args:
        selection: a report with a winner; its request has all sizes.
        counts: tokens of each call.
        seed: of weights and tokens.
    """

    def __init__(self, selection: Selection, counts: tuple[int, ...], seed: int) -> None:
        self._selection, self._request = selection, selection.request
        self._seed = seed
        self._inputs = [random_tokens(self._request, count, seed + i) for i, count in enumerate(counts)]
        self.baseline = "torch grouped_mm" if grouped_mm_works() else "cpu backend"
        self.measurements: list[Measurement] = []

    @property
    def steps(self) -> int:
        """How many times :meth:`run` yields."""
        return 3 + 3 * len(self._inputs)

    def run(self) -> Iterator[str]:
        """Do everything; yields what comes next, before each step."""
        yield "random weights"
        weights = MoEWeights.random(self._request.replace(weight_key=None, activation_key=None), self._seed)
        yield "quantizing to int8"
        quantized = weights.quantize(self._request.weight_key)
        yield f"building {self._selection.experts}"
        kernel = self._selection.build(quantized)
        bf16 = self._bf16_layer(weights)
        for tokens in self._inputs:
            count = len(tokens.x_TH)
            yield f"int8, {plural(count, 'token')}"
            seconds = seconds_of(kernel, tokens)
            yield f"bfloat16, {plural(count, 'token')}"
            bf16_seconds = seconds_of(bf16, tokens)
            yield f"float64, {plural(min(count, CHECKED), 'token')}"
            error = self._error(kernel, quantized, tokens)
            self.measurements.append(Measurement(count, seconds, bf16_seconds, error))

    def _bf16_layer(self, weights: MoEWeights) -> Call:
        if grouped_mm_works():
            return grouped_mm_layer(weights.w13, weights.w2)
        unquantized = self._request.replace(weight_key=None, activation_key=None)
        return select(unquantized, backend="cpu").build(weights)

    def _error(self, kernel: Call, quantized: MoEWeights, tokens: Tokens) -> float:
        """Relative error of the first rows of the whole call's output; float64 on all of them would take minutes."""
        out_TH = kernel(*tokens)[:CHECKED]
        return relative_error(out_TH, oracle(self._request, quantized, *(part[:CHECKED] for part in tokens)))


def seconds_of(call: Call, tokens: Tokens) -> float:
    """Median seconds of one call, after one that is not counted."""
    call(*tokens)
    times: list[float] = []
    while len(times) < 3 or sum(times) < _SECONDS:
        start = time.perf_counter()
        call(*tokens)
        times.append(time.perf_counter() - start)
    return median(times)


def grouped_mm_works() -> bool:
    """Whether this build of torch has a grouped bfloat16 matmul for CPUs."""
    if not hasattr(functional, "grouped_mm"):
        return False
    a, b = torch.ones(2, 16, dtype=torch.bfloat16), torch.ones(1, 16, 16, dtype=torch.bfloat16)
    try:
        functional.grouped_mm(a, b, offs=torch.tensor([2], dtype=torch.int32))
    except (RuntimeError, NotImplementedError):
        return False
    return True


def grouped_mm_layer(w13_EFH: Tensor, w2_EHI: Tensor) -> Call:
    """The layer in bfloat16 on ``torch.nn.functional.grouped_mm``: sort rows by expert, two grouped matmuls, sum."""

    def call(x_TH: Tensor, topk_weights_TK: Tensor, topk_ids_TK: Tensor) -> Tensor:
        ids_M = topk_ids_TK.flatten()
        order_M = ids_M.argsort(stable=True)
        token_M = order_M // topk_ids_TK.shape[1]
        ends_E = torch.bincount(ids_M, minlength=w13_EFH.shape[0]).cumsum(0).to(torch.int32)
        gate_MI, up_MI = functional.grouped_mm(x_TH[token_M], w13_EFH.transpose(1, 2), offs=ends_E).chunk(2, dim=-1)
        y_MH = functional.grouped_mm(functional.silu(gate_MI) * up_MI, w2_EHI.transpose(1, 2), offs=ends_E)
        weights_M = topk_weights_TK.flatten()[order_M]
        out_TH = torch.zeros(x_TH.shape, dtype=torch.float32)
        return out_TH.index_add_(0, token_M, y_MH.float() * weights_M[:, None]).to(x_TH.dtype)

    return call

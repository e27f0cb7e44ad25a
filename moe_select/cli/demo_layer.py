"""The layer of the demo: random weights and tokens, the same layer in bfloat16, timing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from moe_select.kernels.weights import MoEWeights
from moe_select.reporting.phrases import plural
from moe_select.selection import select
from moe_select.testing.baselines import Call, grouped_mm_layer, grouped_mm_works
from moe_select.testing.float64 import oracle
from moe_select.testing.layers import Tokens, random_tokens, relative_error

if TYPE_CHECKING:
    from moe_select.selection import Selection

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
        return relative_error(out_TH, oracle(self._request, quantized, *Tokens(*(part[:CHECKED] for part in tokens))))


def seconds_of(call: Call, tokens: Tokens) -> float:
    """Median seconds of one call, after one that is not counted."""
    call(*tokens)
    times: list[float] = []
    while len(times) < 3 or sum(times) < _SECONDS:
        start = time.perf_counter()
        call(*tokens)
        times.append(time.perf_counter() - start)
    return median(times)

"""Measuring launch configurations on this machine's GPU and writing the best ones to a file.

Legend: T tokens, E experts, H hidden size, I intermediate size.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import torch
import triton
from torch import Tensor

from moe_select.errors import BuildError
from moe_select.kernels import MoEWeights, make_quant_config
from moe_select.testing.layers import random_tokens, relative_error
from moe_select.vocabulary import MoEConfig
from moe_select_triton import candidates
from moe_select_triton.config import LOOKUP_SLOTS, Gemm, Plan, choose
from moe_select_triton.layer import Layer, Weights
from moe_select_triton.prepare import make_layer, shape_of
from moe_select_triton.program import make_program
from moe_select_triton.tuned import save

Progress = Callable[[str, int, int], None]
"""(what, done, of how many)."""

_MILLISECONDS: Final = 10.0
"""Device time that one configuration is measured for."""
_SLOTS_OF_A_GRAPH: Final = 8192
_AGREE: Final = 1e-2
"""Largest relative difference from what the first configuration computes; more is a miscompiled or wrong kernel."""
_TIE: Final = 0.995
"""A configuration must be faster than the best before it by this to replace it."""


class Job(NamedTuple):
    """One thing to measure."""

    tokens: int
    plan: Plan


def tune(request: MoEConfig, tokens: Sequence[int], directory: Path, progress: Progress) -> Path:
    """Measure and write.

    Args:
        request: the layer, with all its sizes.
        tokens: numbers of tokens to find configurations for.
        directory: where the file goes; :mod:`moe_select_triton.tuned` says how it is named.
        progress: called after each step.

    Returns:
        The file.

    Raises:
        BuildError: there is no GPU, or no configuration runs.

    """
    if not torch.cuda.is_available():
        raise BuildError("tuning measures on a GPU, and torch finds none here")
    weights = MoEWeights.random(request, device="cuda")
    request = weights.validate(request)
    layer = make_layer(weights, request, make_quant_config(request, weights))
    topk = request.topk or 1
    failures = _compile_all(layer, topk, [job for count in tokens for job in _jobs(layer, count, topk)], progress)
    plans = {}
    for done, count in enumerate(tokens):
        progress(f"measuring {count} tokens", done, len(tokens))
        plans[count] = _best(_Bench(layer, request, count), failures)
    progress("measured", len(tokens), len(tokens))
    facts = {
        "triton": triton.__version__,
        "torch": torch.__version__,
        "driver": _driver(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return save(directory, shape_of(layer, topk), facts, plans)


def _driver() -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return "unknown"


def _start(layer: Layer, tokens: int, topk: int) -> tuple[Plan, list[Any], list[Any]]:
    """A plan to start from, and what may replace its first and its second GEMM."""
    experts, hidden_size, size = layer.sizes
    first, second = candidates.of(layer.scheme, tokens, topk, experts, hidden_size, size, layer.gated)
    plan = choose(layer.scheme, tokens, topk, experts, pdl=_pdl())
    return plan._replace(gemm1=first[0], gemm2=second[0]), first, second


def _pdl() -> int:
    return int(torch.version.cuda is not None and torch.cuda.get_device_capability() >= (9, 0))


def _jobs(layer: Layer, tokens: int, topk: int) -> Iterator[Job]:
    plan, first, second = _start(layer, tokens, topk)
    for config in first:
        yield Job(tokens, plan._replace(gemm1=config))
    for config in second:
        yield Job(tokens, plan._replace(gemm2=config))


def _compile_all(layer: Layer, topk: int, jobs: list[Job], progress: Progress) -> set[Job]:
    """Compile in processes of their own, so that all cores work; the results are in Triton's cache. Returns what failed."""
    shell = replace(layer, w13=_shell(layer.w13), w2=_shell(layer.w2), planner=None, programs={})
    workers = max(1, min(16, (os.cpu_count() or 2) - 1))
    chunks = [jobs[start :: workers * 4] for start in range(workers * 4)]
    failed: set[Job] = set()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        work = [(shell, topk, chunk) for chunk in chunks]
        for done, result in enumerate(pool.imap_unordered(_compile_some, work)):
            progress("compiling", done + 1, len(chunks))
            failed |= result
    return failed


def _shell(operand: Weights) -> Weights:
    """The operand without its memory."""

    def bare(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else torch.empty_like(tensor, device="meta")

    return Weights(
        torch.empty_like(operand.w, device="meta"), bare(operand.scale), bare(operand.bias), bare(operand.a_scale)
    )


def _compile_some(work: tuple[Layer, int, list[Job]]) -> set[Job]:
    layer, topk, jobs = work
    failed = set()
    for job in jobs:
        try:
            make_program(layer, job.plan, job.tokens, topk, False, torch.int32).compile()
        except Exception:  # a compiler raises what it likes; this configuration is out
            failed.add(job)
    return failed


class _Bench:
    """Inputs of one number of tokens."""

    def __init__(self, layer: Layer, request: MoEConfig, tokens: int) -> None:
        self.layer, self.tokens, self.topk = layer, tokens, request.topk or 1
        calls = max(1, min(16, _SLOTS_OF_A_GRAPH // (tokens * self.topk)))
        self.inputs = []
        for seed in range(calls):
            x, weights, ids = random_tokens(request, tokens, seed, "cuda")
            self.inputs.append({"x": x, "weights": weights, "ids": ids, "out": torch.empty_like(x)})
        self.expected: Tensor | None = None

    def time(self, plan: Plan) -> float:
        """Median microseconds of the layer in a CUDA graph of calls with different inputs.

        Infinity where it does not run, or does not compute what the first configuration did.
        """
        program = make_program(self.layer, plan, self.tokens, self.topk, False, torch.int32)
        try:
            scratch = torch.empty(program.nbytes, dtype=torch.uint8, device="cuda")
            self.inputs[0]["out"].fill_(torch.nan)
            program.run(self.inputs[0], scratch)
            if not self._agrees():
                return float("inf")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for given in self.inputs:
                    program.run(given, scratch)
        except triton.runtime.errors.OutOfResources:
            return float("inf")
        return _replayed(graph) / len(self.inputs)

    def _agrees(self) -> bool:
        out = self.inputs[0]["out"].float()
        if self.expected is None:
            self.expected = out
        difference = relative_error(out, self.expected)
        return difference <= _AGREE  # and False where it is NaN


def _replayed(graph: torch.cuda.CUDAGraph) -> float:
    """Median microseconds of a replay."""
    graph.replay()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < _MILLISECONDS * 1e3 and len(times) < 50):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    return median(times)


def _best(bench: _Bench, failures: set[Job]) -> Plan:
    """One GEMM after the other, then what concerns both."""
    plan, first, second = _start(bench.layer, bench.tokens, bench.topk)
    failed = {job.plan for job in failures if job.tokens == bench.tokens}
    plan, _ = _fastest(bench, (plan._replace(gemm1=config) for config in first), failed)
    plan, time = _fastest(bench, (plan._replace(gemm2=config) for config in second), failed)
    others = [plan._replace(pdl=pdl) for pdl in ((0, 1, 2) if _pdl() else ()) if pdl != plan.pdl]
    if isinstance(plan.gemm1, Gemm) and bench.tokens * bench.topk <= LOOKUP_SLOTS:
        others.append(plan._replace(lookup=not plan.lookup))
    plan, time = _fastest(bench, others, set(), plan, time)
    if time == float("inf"):
        raise BuildError(f"no launch configuration runs for {bench.tokens} tokens")
    return plan


def _fastest(
    bench: _Bench, plans: Iterable[Plan], failed: set[Plan], best: Plan | None = None, time: float = float("inf")
) -> tuple[Plan, float]:
    for plan in plans:
        taken = float("inf") if plan in failed else bench.time(plan)
        if best is None or taken < time * _TIE:
            best, time = plan, taken
    assert best is not None
    return best, time

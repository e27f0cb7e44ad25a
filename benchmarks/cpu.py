"""The cpu backend beside the same layer in bfloat16 on ``torch.nn.functional.grouped_mm``: time, error and memory.

    python benchmarks/cpu.py [--threads 2] [--seconds 1.5] [--out FILE]

Each contender runs beside the baseline in one process, call by call in turns and each call with other tokens, so that both
meet the same machine and the same caches; a time is the median over the rounds, a ratio that of one pair's medians.
Memory is measured in processes of their own: the highest resident set while the kernel is built and run, above what the int8
weights left it at. Once as the process runs by default, ``resident``, where glibc keeps freed blocks of some megabytes in its heap;
and once with every such block given back when it is freed, ``in_use``, which is what the kernel needs.

Legend: T tokens, E experts, H hidden size, I intermediate size.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import math
import multiprocessing
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import moe_select
from moe_select import MoEConfig, MoEWeights, select
from moe_select.testing import oracle, random_tokens, relative_error
from moe_select.testing.baselines import Call, grouped_mm_layer

SHAPES = {
    "E=64 topk=8 H=1024 I=512": {"num_experts": 64, "topk": 8, "hidden_dim": 1024, "intermediate_size": 512},
    "E=8 topk=2 H=1024 I=3584": {"num_experts": 8, "topk": 2, "hidden_dim": 1024, "intermediate_size": 3584},
}
TOKENS = (1, 16, 128, 512)
PAIRS = {
    "int8 W8A8": ("int8_static_channel_sym", "int8_dynamic_token_sym"),
    "int8 W8A16": ("int8_static_channel_sym", None),
    "bfloat16": (None, None),
}
BASELINE = "grouped_mm bfloat16"
INPUTS = 8
"""Different inputs of one size, so that one token does not always meet the same experts in cache."""
M_MMAP_THRESHOLD = -3
"""The parameter of glibc's mallopt(3)."""
MMAP_THRESHOLD = 128 * 1024
"""Bytes; glibc's own initial value, which stays where it is once it is set."""


class Layer(NamedTuple):
    """One shape's contenders."""

    calls: dict[str, Call]
    requests: dict[str, MoEConfig]
    weights: dict[str, MoEWeights]


def make_layer(sizes: dict[str, int]) -> Layer:
    """Build every contender from the same random weights."""
    floats = MoEWeights.random(MoEConfig(**sizes))
    calls: dict[str, Call] = {BASELINE: grouped_mm_layer(floats.w13, floats.w2)}
    requests, weights = {}, {}
    for name, (weight_key, activation_key) in PAIRS.items():
        requests[name] = MoEConfig(**sizes, weight_key=weight_key, activation_key=activation_key)
        weights[name] = floats.quantize(weight_key)
        calls[name] = select(requests[name], backend="cpu").build(weights[name])
    return Layer(calls, requests, weights)


def measure(layer: Layer, name: str, tokens: int, seconds: float) -> tuple[float, float]:
    """Median milliseconds of one contender and of the baseline, taken in turns."""
    inputs = [random_tokens(layer.requests[name], tokens, seed) for seed in range(INPUTS)]
    calls = (layer.calls[name], layer.calls[BASELINE])
    times: tuple[list[float], list[float]] = ([], [])
    for call in calls:
        call(*inputs[0])
    end = time.perf_counter() + 2 * seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call(*inputs[rounds % INPUTS])
            taken.append(time.perf_counter() - start)
        rounds += 1
    own, baseline = (median(taken) * 1e3 for taken in times)
    return own, baseline


def error(layer: Layer, name: str) -> float:
    """Relative error of one contender against float64, on 16 tokens."""
    request = layer.requests[name]
    tokens = random_tokens(request, 16, 99)
    return relative_error(layer.calls[name](*tokens), oracle(request, layer.weights[name], *tokens))


def rows(seconds: float) -> Iterator[dict[str, Any]]:
    """One row a shape and number of tokens."""
    steps = [(label, sizes, tokens) for label, sizes in SHAPES.items() for tokens in TOKENS]
    layers: dict[str, Layer] = {}
    for label, sizes, tokens in track(steps, "measuring", console=Console(stderr=True)):
        if label not in layers:
            layers = {label: make_layer(sizes)}
        pairs = {name: measure(layers[label], name, tokens, seconds) for name in PAIRS}
        yield {
            "shape": label,
            "tokens": tokens,
            "milliseconds": {name: {"own": own, BASELINE: baseline} for name, (own, baseline) in pairs.items()},
            "ratios": {name: baseline / own for name, (own, baseline) in pairs.items()},
        }


def resident(field: str) -> int:
    """Bytes of ``VmRSS`` or ``VmHWM``."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def extra_memory(sizes: dict[str, int], threads: int, give_back: bool) -> float:
    """Peak memory of building and running W8A8, above the int8 weights, as a multiple of them."""
    torch.set_num_threads(threads)
    if give_back:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    weight_key, activation_key = PAIRS["int8 W8A8"]
    request = MoEConfig(**sizes, weight_key=weight_key, activation_key=activation_key)
    # Libraries load and thread pools start on a small layer first: that is not memory of this one.
    small = request.replace(num_experts=8, topk=2, hidden_dim=64, intermediate_size=64)
    select(small, backend="cpu").build(MoEWeights.random(small))(*random_tokens(small, 4))
    weights = MoEWeights.random(request)
    inputs = [random_tokens(request, tokens) for tokens in TOKENS]
    # Freed heap goes back to the system, so that new memory shows as growth.
    ctypes.CDLL(None).malloc_trim(0)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    kernel = select(request, backend="cpu").build(weights)
    for tokens in inputs:
        kernel(*tokens)
    return (resident("VmHWM") - before) / (weights.w13.nbytes + weights.w2.nbytes)


def machine() -> dict[str, Any]:
    """What the numbers belong to."""
    environment = moe_select.probe()
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": environment.device.name,
        "uarch": environment.cpu.uarch,
        "isa": os.environ.get("ONEDNN_MAX_CPU_ISA", "all"),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "moe_select": moe_select.__version__,
    }


def print_table(result: dict[str, Any]) -> None:
    """Ratios to the baseline: above 1 is faster."""
    table = Table(title=f"times as fast as {BASELINE}; {result['machine']}")
    for header in ("shape", "tokens", f"{BASELINE} ms", *PAIRS):
        table.add_column(header, justify="right")
    for row in result["rows"]:
        ratios = (f"{row['ratios'][name]:.2f}x" for name in PAIRS)
        baseline = min(times[BASELINE] for times in row["milliseconds"].values())
        table.add_row(row["shape"], str(row["tokens"]), f"{baseline:.2f}", *ratios)
    Console(width=140).print(table)
    for name, value in result["geometric_mean"].items():
        low, wrong = result["lowest"][name], result["errors"][name]
        print(f"{name}: geometric mean {value:.2f}x, lowest {low:.2f}x, error against float64 {wrong}")
    for label, value in result["extra_memory"].items():
        print(f"{label}: peak extra memory of W8A8 in int8 weights {value}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="time of one contender at one size")
    parser.add_argument("--out", type=Path, help="JSON; default: benchmarks/results/cpu-<uarch>.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        memory = {
            label: {
                name: round(pool.apply(extra_memory, (sizes, arguments.threads, give_back)), 2)
                for name, give_back in (("resident", False), ("in_use", True))
            }
            for label, sizes in SHAPES.items()
        }
    found = list(rows(arguments.seconds))
    errors = {label: make_layer(sizes) for label, sizes in SHAPES.items()}
    result = {
        "machine": machine(),
        "rows": found,
        "geometric_mean": {name: geometric_mean(row["ratios"][name] for row in found) for name in PAIRS},
        "lowest": {name: min(row["ratios"][name] for row in found) for name in PAIRS},
        "errors": {name: [round(error(layer, name), 4) for layer in errors.values()] for name in PAIRS},
        "extra_memory": memory,
    }
    assert all(math.isfinite(value) for value in result["geometric_mean"].values())
    print_table(result)
    out = arguments.out or Path(__file__).parent / "results" / f"cpu-{result['machine']['uarch']}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {out}")


if __name__ == "__main__":
    main()

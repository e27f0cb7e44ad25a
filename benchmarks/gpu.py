"""The triton backend beside its peers on one GPU: layer times in CUDA graphs, host time without, errors against float64.

    python benchmarks/gpu.py [--shapes qwen30,mixtral,qwen235,dsv3tp8] [--schemes w8a8,w8a16,bf16] [--out FILE]

A graph holds several calls with different tokens and routings; contenders are replayed in turns, and a time is the median over
the rounds. Humming takes part where ``humming-kernels`` is installed, ``torch.nn.functional.grouped_mm`` always.
The floor is the larger of two times: the bytes that must move (weights of the experts that get a token, tokens in and out)
over the read bandwidth measured in the same run, and the operations over the fastest dense product known here.

Legend: T tokens, E experts, H hidden size, I intermediate size.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
import triton
from torch import Tensor

import moe_select
from moe_select import MoEConfig, MoEWeights, select
from moe_select.testing import oracle, random_tokens, relative_error

sys.path.insert(0, str(Path(__file__).parent))

SHAPES = {
    "qwen30": {"num_experts": 128, "topk": 8, "hidden_dim": 2048, "intermediate_size": 768},
    "mixtral": {"num_experts": 8, "topk": 2, "hidden_dim": 4096, "intermediate_size": 14336},
    "qwen235": {"num_experts": 128, "topk": 8, "hidden_dim": 4096, "intermediate_size": 1536},
    "dsv3tp8": {"num_experts": 256, "topk": 8, "hidden_dim": 7168, "intermediate_size": 256},
}
TOKENS = (1, 8, 64, 256, 1024, 4096, 16384)
KEYS = {
    "w8a8": ("int8_static_channel_sym", "int8_dynamic_token_sym"),
    "w8a16": ("int8_static_channel_sym", None),
    "bf16": (None, None),
}
PEAK = {"w8a8": 1281e12, "w8a16": 808e12, "bf16": 808e12}
"""Operations per second of the fastest dense 8192^3 product measured on an H200 (int8 in Triton, bfloat16 in cuBLAS)."""
CALLS = {1: 16, 8: 16, 64: 16, 256: 8, 1024: 4, 4096: 2, 16384: 1}
"""Different inputs of one graph."""
ROUND_MS, ROUNDS = 6.0, 9
CHECKED = 16
"""Tokens that are compared with float64."""

Call = Callable[[Tensor, Tensor, Tensor, Tensor], Any]


def read_bandwidth() -> float:
    """Bytes per second of a reduction over 4 GiB."""
    x = torch.ones(2**30, dtype=torch.float32, device="cuda")
    return 2**32 / (time_call(lambda: torch.amax(x), 10) * 1e-6)


def time_call(call: Callable[[], Any], count: int) -> float:
    """Median microseconds on the device."""
    times = []
    for _ in range(count):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    return median(times)


def contenders(scheme: str, request: MoEConfig, weights: MoEWeights) -> dict[str, Call]:
    """Everything that can run this layer."""
    kernel = select(request, backend="triton").build(weights)
    found: dict[str, Call] = {"triton": lambda x, w, ids, out: kernel(x, w, ids, out=out)}
    if scheme == "bf16":
        from peers.grouped_mm import GroupedMMLayer

        found["grouped_mm"] = GroupedMMLayer(weights)
        return found
    for name in ("indexed", "grouped") if scheme == "w8a8" else ("indexed",):
        try:
            from peers.humming_layer import HummingLayer

            found[f"humming_{name}"] = HummingLayer(
                weights, scheme == "w8a8", {"grouped": "grouped_contiguous"}.get(name, name)
            )
        except Exception:  # a peer that cannot run is left out, and says why
            traceback.print_exc()
    return found


def capture(call: Call, inputs: list[tuple[Tensor, ...]], out: Tensor) -> torch.cuda.CUDAGraph:
    """One graph of all inputs."""
    call(*inputs[0], out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for tokens in inputs:
            call(*tokens, out)
    graph.replay()
    torch.cuda.synchronize()
    return graph


def host_time(call: Call, tokens: tuple[Tensor, ...], out: Tensor) -> float:
    """Microseconds until a call returns, the device kept from falling behind."""
    for _ in range(20):
        call(*tokens, out)
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            call(*tokens, out)
        times.append((time.perf_counter() - start) / 10 * 1e6)
    return median(times)


def floor_of(scheme: str, request: MoEConfig, inputs: list[tuple[Tensor, ...]], bandwidth: float) -> float:
    """Microseconds."""
    H, I = request.hidden_dim or 0, request.intermediate_size or 0
    T = inputs[0][0].shape[0]
    active = sum(ids.unique().numel() for _, _, ids in inputs) / len(inputs)
    per_weight = 2 if scheme == "bf16" else 1
    moved = active * 3 * H * I * per_weight + 2 * T * H * 2
    operations = 2.0 * T * (request.topk or 0) * 3 * H * I
    return max(moved / bandwidth, operations / PEAK[scheme]) * 1e6


def measure(
    scheme: str, shape: str, request: MoEConfig, weights: MoEWeights, calls: dict[str, Call], T: int, bandwidth: float
) -> Iterator[dict[str, Any]]:
    """Rows of one point."""
    inputs = [tuple(random_tokens(request, T, seed, "cuda")) for seed in range(CALLS[T])]
    out = torch.empty_like(inputs[0][0])
    floor = floor_of(scheme, request, inputs, bandwidth)
    part = [tensor[:CHECKED] for tensor in inputs[0]]
    ref = oracle(request, weights, *part)
    graphs, errors, times, host = {}, {}, {}, {}
    for name, call in calls.items():
        try:
            out.fill_(float("nan"))
            call(*inputs[0], out)
            errors[name] = relative_error(out[:CHECKED], ref)
            host[name] = host_time(call, inputs[0], out) if T <= 256 else None
            graphs[name] = capture(call, inputs, out)
        except Exception:  # the others go on
            traceback.print_exc()
    for name, graph in graphs.items():
        once = time_call(graph.replay, 3) * 1e-3
        times[name] = (max(1, min(50, int(ROUND_MS / once))), [])
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            count, taken = times[name]
            taken.append(time_call(lambda: [graph.replay() for _ in range(count)], 1) / count / len(inputs))  # noqa: B023
    for name, (_, taken) in times.items():
        yield {
            "shape": shape, "tokens": T, "scheme": scheme, "impl": name, "us": round(median(taken), 2),
            "us_min": round(min(taken), 2),
            "floor_us": round(floor, 2), "error": float(f"{errors[name]:.3g}"),
            "host_us": None if host[name] is None else round(host[name], 1),
        }  # fmt: skip


def header(bandwidth: float) -> dict[str, Any]:
    """What the numbers belong to."""
    from importlib.metadata import PackageNotFoundError, version

    import pynvml

    pynvml.nvmlInit()
    try:
        humming = version("humming-kernels")
    except PackageNotFoundError:
        humming = None
    return {
        "device": torch.cuda.get_device_name(), "driver": pynvml.nvmlSystemGetDriverVersion(), "cuda": torch.version.cuda,
        "torch": torch.__version__, "triton": triton.__version__, "humming": humming, "moe_select": moe_select.__version__,
        "python": sys.version.split()[0], "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "read_tb_per_s": round(bandwidth / 1e12, 3),
    }  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--schemes", default="w8a8,w8a16,bf16")
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "h200-triton.json")
    parser.add_argument("--seconds", type=float, default=1e9, help="points that would start later are left out")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    os.environ.setdefault("HUMMING_DISABLE_PARALLEL_BUILD", "1")
    bandwidth = read_bandwidth()
    rows: list[dict[str, Any]] = [header(bandwidth)]
    print(rows[0], flush=True)
    for scheme in arguments.schemes.split(","):
        for shape in arguments.shapes.split(","):
            request = MoEConfig(**SHAPES[shape], weight_key=KEYS[scheme][0], activation_key=KEYS[scheme][1])
            weights = MoEWeights.random(request, device="cuda")
            calls = contenders(scheme, request, weights)
            for T in map(int, arguments.tokens.split(",")):
                if time.monotonic() > end:
                    continue
                found = list(measure(scheme, shape, request, weights, calls, T, bandwidth))
                rows += found
                text = "  ".join(
                    f"{row['impl']} {row['us']:.1f} ({row['error']:.3f}, host {row['host_us']})" for row in found
                )
                print(f"{scheme} {shape} {T}: floor {found[0]['floor_us']:.1f}  {text}", flush=True)
                arguments.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
            del weights, calls
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

"""Humming's indexed and grouped experts, called as directly as its package allows: a peer in ``benchmarks/gpu.py``.

Routing tensors come from a kernel of this file: Humming ships none, and an engine brings its own. Sums over slots are those of the
triton backend.

Legend: T tokens, R = T * topk routed slots, E experts, H hidden size, I intermediate size.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from humming.forward import humming_forward, may_process_input
from humming.schema import HummingInputSchema, HummingWeightSchema
from humming.transform import prepare_and_transform_humming_tensors
from humming.tune import get_heuristics_config
from torch import Tensor

from moe_select import MoEWeights
from moe_select_triton.kernels.reduce import sum_slots

SILU = {"activation_type": "binary_split", "activation_impl": "(a / (1.f + expf(-a))) * b"}


@triton.jit(do_not_specialize=["R", "bound"])
def count(ids, counts, R, CHUNK: tl.constexpr, BINS: tl.constexpr):
    """Experts of one chunk of slots."""
    slot = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    inside = slot < R
    tl.store(
        counts + tl.program_id(0) * BINS + tl.arange(0, BINS),
        tl.histogram(tl.load(ids + slot, mask=inside, other=0), BINS, mask=inside),
    )


@triton.jit(do_not_specialize=["R", "bound", "chunks"])
def align(
    ids,
    counts,
    base,
    sorted_ids,
    expert_ids,
    padded,
    row_of,
    offsets,
    R,
    bound,
    chunks,
    BLOCK: tl.constexpr,
    BLOCK_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    BINS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Slots by expert, each expert's rows padded to blocks; and their places without padding."""
    program, bins = tl.program_id(0), tl.arange(0, BINS)
    chunk = tl.arange(0, CHUNKS)[:, None]
    counts_CE = tl.load(counts + chunk * BINS + bins[None, :], mask=chunk < chunks, other=0)
    total_E = tl.sum(counts_CE, 0)
    blocks_E = (total_E + BLOCK - 1) // BLOCK
    last_E = tl.cumsum(blocks_E, 0)
    start_E = (last_E - blocks_E) * BLOCK
    packed_E = tl.cumsum(total_E, 0) - total_E
    before_E = tl.sum(tl.where(chunk < program, counts_CE, 0), 0)
    tl.store(base + program * BINS + bins, before_E)
    if program == 0:
        tl.store(padded, tl.sum(blocks_E, 0) * BLOCK)
        tl.store(offsets + bins, packed_E)
        tl.store(offsets + BINS, R)
    for first in range(program * STEP, bound, chunks * STEP):
        block = first + tl.arange(0, STEP)
        expert = tl.sum((last_E[None, :] <= block[:, None]).to(tl.int32), 1)
        mine = bins[None, :] == expert[:, None]
        left = tl.sum(tl.where(mine, (total_E - (block[:, None] * BLOCK - start_E[None, :])), 0), 1)
        tl.store(expert_ids + block, tl.where(expert < BINS, expert, -1), mask=block < bound)
        at = tl.arange(0, BLOCK_PAD)
        pad = (at[None, :] >= left[:, None]) & (at < BLOCK)[None, :] & (block < bound)[:, None]
        tl.store(sorted_ids + block[:, None] * BLOCK + at[None, :], tl.zeros([STEP, BLOCK_PAD], tl.int32) + R, mask=pad)
    tl.store(base + (chunks + program) * BINS + bins, start_E)
    tl.store(base + (2 * chunks + program) * BINS + bins, packed_E)
    tl.debug_barrier()
    slot = program * CHUNK + tl.arange(0, CHUNK)
    inside = slot < R
    expert = tl.load(ids + slot, mask=inside, other=0)
    rank = tl.atomic_add(base + program * BINS + expert, 1, mask=inside, sem="relaxed")
    tl.store(sorted_ids + tl.load(base + (chunks + program) * BINS + expert, mask=inside) + rank, slot, mask=inside)
    tl.store(row_of + slot, tl.load(base + (2 * chunks + program) * BINS + expert, mask=inside) + rank, mask=inside)


class Operand(NamedTuple):
    """One GEMM's weights in Humming's layout."""

    config: Any
    tensors: dict[str, Tensor]


def pack(w: Tensor, scale: Tensor, a_dtype: str | None) -> Operand:
    """int8 ``[E, N, K]`` with scales ``[E, N, 1]`` in Humming's layout."""
    experts, rows, cols = w.shape
    tensors = {
        "weight": (w.view(torch.uint8) ^ 128).view(torch.int32),
        "weight_scale": scale.view(experts, rows, 1).to(torch.bfloat16),
    }
    schema = HummingWeightSchema(b_dtype="uint8")
    inputs = HummingInputSchema() if a_dtype is None else HummingInputSchema(a_dtype=a_dtype)
    if a_dtype is None:
        schema, tensors = schema.convert_symmetric_integer_weight(tensors)
    config, done = prepare_and_transform_humming_tensors(
        tensors,
        shape_n=rows,
        shape_k=cols,
        weight_schema=schema,
        input_schema=inputs,
        num_experts=experts,
        pad_n_to_multiple=256,
        pad_k_to_multiple=128,
        torch_dtype=torch.bfloat16,
    )
    return Operand(config, done)


class HummingLayer:
    """int8 experts on Humming; W8A8 or W8A16, indexed or grouped."""

    def __init__(self, weights: MoEWeights, quantized: bool, gemm_type: str = "indexed") -> None:
        a_dtype = "int8" if quantized else None
        self.quantized, self.gemm_type = quantized, gemm_type
        self.w13 = pack(weights.w13, weights.w13_scale, a_dtype)
        self.w2 = pack(weights.w2, weights.w2_scale, a_dtype)
        self.experts, self.H, self.I = weights.w2.shape
        self.compute = json.dumps({"use_batch_invariant": False, "use_f16_accum": False, "gemm_type": gemm_type})
        self.locks = torch.zeros(
            torch.cuda.get_device_properties(0).multi_processor_count * 8, dtype=torch.int32, device="cuda"
        )
        self.plans: dict[int, dict[str, Any]] = {}

    def plan(self, T: int, topk: int) -> dict[str, Any]:
        """Tiles by Humming's heuristic, and buffers."""
        if T in self.plans:
            return self.plans[T]
        R, dev = T * topk, "cuda"
        tunes = [
            get_heuristics_config(operand.config, shape_m=R, gemm_type=self.gemm_type)
            for operand in (self.w13, self.w2)
        ]
        plan: dict[str, Any] = {"tunes": [json.dumps(tune) for tune in tunes], "R": R}
        bins = triton.next_power_of_2(self.experts)
        chunks = triton.cdiv(R, 1024)
        blocks = [tune["block_shape"][0] for tune in tunes]
        ints = lambda *s: torch.empty(*s, dtype=torch.int32, device=dev)  # noqa: E731
        plan["counts"], plan["base"] = ints(chunks, bins), ints(3 * chunks, bins)
        plan["row_of"], plan["offsets"] = ints(R), ints(bins + 1)
        plan["align"] = []
        for block in dict.fromkeys(blocks):
            bound = triton.cdiv(R, block) + min(self.experts, R)
            plan["align"].append((block, bound, ints(bound * block), ints(bound), ints(1)))
        plan["of"] = [list(dict.fromkeys(blocks)).index(block) for block in blocks]
        act = torch.int8 if self.quantized else torch.bfloat16
        rows = R if self.gemm_type != "indexed" else T
        plan["q"] = torch.empty(rows, self.H, dtype=act, device=dev)
        plan["y"] = torch.empty(R, 2 * self.I, dtype=torch.bfloat16, device=dev)
        plan["q2"] = torch.empty(R, self.I, dtype=act, device=dev)
        plan["z"] = torch.empty(R, self.H, dtype=torch.bfloat16, device=dev)
        self.plans[T] = plan
        return plan

    def route(self, plan: dict[str, Any], ids: Tensor) -> None:
        """Routing tensors."""
        R, chunks, bins = plan["R"], plan["counts"].shape[0], plan["counts"].shape[1]
        count[(chunks,)](ids, plan["counts"], R, CHUNK=1024, BINS=bins)
        for block, bound, sorted_ids, expert_ids, padded in plan["align"]:
            align[(chunks,)](
                ids,
                plan["counts"],
                plan["base"],
                sorted_ids,
                expert_ids,
                padded,
                plan["row_of"],
                plan["offsets"],
                R,
                bound,
                chunks,
                BLOCK=block,
                BLOCK_PAD=triton.next_power_of_2(block),
                CHUNK=1024,
                CHUNKS=triton.next_power_of_2(chunks),
                BINS=bins,
                STEP=max(1, 4096 // bins),
                num_warps=8,
            )

    def __call__(self, x: Tensor, weights: Tensor, ids: Tensor, out: Tensor) -> Tensor:
        """The layer; ids are int32."""
        T, topk = ids.shape
        plan = self.plan(T, topk)
        self.route(plan, ids)
        (self._indexed if self.gemm_type == "indexed" else self._grouped)(plan, x, ids, T, topk)
        sorted_rows = self.gemm_type != "indexed"
        width = 1024 if plan["R"] > 512 else 256
        sum_slots[(T, triton.cdiv(self.H, width))](
            plan["z"],
            weights,
            plan["row_of"],
            ids,
            ids,
            out,
            TOPK=topk,
            H=self.H,
            BH=width,
            SORTED=sorted_rows,
            HAS_MAP=False,
            PDL=0,
            num_warps=max(1, width // 256),
        )
        return out

    def _gemm(
        self,
        operand: Operand,
        tune: str,
        plan: dict[str, Any],
        a: Tensor,
        scale: Tensor | None,
        out: Tensor,
        **routing: Any,
    ) -> None:
        humming_forward(
            operand.config,
            inputs=a,
            weight=operand.tensors["weight"],
            weight_scale=operand.tensors["weight_scale"],
            input_scale=scale,
            outputs=out,
            valid_shape_m=plan["R"],
            locks=self.locks,
            compute_config=self.compute,
            tuning_config=tune,
            **routing,
        )

    def _indexed(self, plan: dict[str, Any], x: Tensor, ids: Tensor, T: int, topk: int) -> None:  # noqa: ARG002
        q, _, scale = (
            may_process_input(self.w13.config, inputs=x, outputs=plan["q"]) if self.quantized else (x, None, None)
        )
        _, _, sorted_ids, expert_ids, padded = plan["align"][plan["of"][0]]
        self._gemm(
            self.w13,
            plan["tunes"][0],
            plan,
            q,
            scale,
            plan["y"],
            sorted_ids=sorted_ids,
            expert_ids=expert_ids,
            num_tokens_padded=padded,
            top_k=topk,
        )
        q2, _, scale2 = may_process_input(self.w2.config, inputs=plan["y"], outputs=plan["q2"], **SILU)
        _, _, sorted_ids, expert_ids, padded = plan["align"][plan["of"][1]]
        self._gemm(
            self.w2,
            plan["tunes"][1],
            plan,
            q2,
            scale2,
            plan["z"],
            sorted_ids=sorted_ids,
            expert_ids=expert_ids,
            num_tokens_padded=padded,
            top_k=1,
        )

    def _grouped(self, plan: dict[str, Any], x: Tensor, ids: Tensor, T: int, topk: int) -> None:  # noqa: ARG002
        layout = plan["offsets"][: self.experts + 1]
        q, _, scale = may_process_input(
            self.w13.config,
            inputs=x,
            outputs=plan["q"],
            layout="scatter",
            scatter_idx=plan["row_of"].view(T, topk),
            num_valid_tokens=layout[-1:],
        )
        self._gemm(self.w13, plan["tunes"][0], plan, q, scale, plan["y"], expert_layout=layout)
        q2, _, scale2 = may_process_input(
            self.w2.config, inputs=plan["y"], outputs=plan["q2"], num_valid_tokens=layout[-1:], **SILU
        )
        self._gemm(self.w2, plan["tunes"][1], plan, q2, scale2, plan["z"], expert_layout=layout)

"""Routed slots sorted by expert, on the device.

The counting is done by :func:`moe_select_triton.kernels.quantize.quantize_rows`; here every program adds the counts up again, which
is cheaper than a launch, and places the slots of its chunk. Order within an expert is whatever the atomics give: each row is
computed by itself, so it shows nowhere.

Legend: E experts of this rank, T tokens, topk slots a token, C chunks of slots, B blocks of consecutive rows of one expert.
"""

from __future__ import annotations

import triton
import triton.language as tl

from moe_select_triton.kernels.dependent import begin
from moe_select_triton.kernels.quantize import local_expert


@triton.jit
def _write_blocks(
    blocks, total_E, start_E, bound, program, programs, BLOCK: tl.constexpr, BINS: tl.constexpr, STEP: tl.constexpr
):
    # Which rows each block of a GEMM computes: (expert, first row, rows), expert -1 for the blocks that are not needed.
    experts = tl.arange(0, BINS)
    blocks_E = (total_E + BLOCK - 1) // BLOCK
    last_E = tl.cumsum(blocks_E, 0)
    for first in range(program * STEP, bound, programs * STEP):
        block = first + tl.arange(0, STEP)
        expert = tl.sum((last_E[None, :] <= block[:, None]).to(tl.int32), 1)
        mine = experts[None, :] == expert[:, None]
        before = tl.sum(tl.where(mine, (last_E - blocks_E)[None, :], 0), 1)
        start = tl.sum(tl.where(mine, start_E[None, :], 0), 1)
        total = tl.sum(tl.where(mine, total_E[None, :], 0), 1)
        done = (block - before) * BLOCK
        there = (expert < BINS) & (done < total)
        tl.store(blocks + block * 4, tl.where(there, expert, -1), mask=block < bound)
        tl.store(blocks + block * 4 + 1, start + done, mask=block < bound)
        tl.store(blocks + block * 4 + 2, tl.minimum(total - done, BLOCK), mask=block < bound)


@triton.jit(do_not_specialize=["slots", "chunks", "bound1", "bound2"])
def sort_slots(
    ids, expert_map, counts, base, slot_of, row_of, valid, blocks1, blocks2, slots, chunks, bound1, bound2,
    HAS_MAP: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, BINS: tl.constexpr, BLOCK1: tl.constexpr,
    BLOCK2: tl.constexpr, STEP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Sort by expert; one program a chunk.

    Args:
        ids: ``[T * topk]``.
        expert_map: int32, global to local.
        counts: int32 ``[C, BINS]``, from ``quantize_rows``.
        base: int32 ``[C, BINS]``, scratch.
        slot_of: int32 ``[T * topk]``, row to slot.
        row_of: int32 ``[T * topk]``, slot to row, -1 for slots that are not computed here.
        valid: int32 ``[1]``, rows computed here.
        blocks1: int32 ``[bound1, 4]``, blocks of gemm1: expert or -1, first row, rows.
        blocks2: the same for gemm2, where its blocks have another size.
        slots: T * topk.
        chunks: C, the number of programs.
        bound1: most blocks there can be.
        bound2: the same for gemm2; 0 where it uses those of gemm1.

    """
    begin(PDL)
    program = tl.program_id(0)
    chunk_C = tl.arange(0, CHUNKS)[:, None]
    bin_E = tl.arange(0, BINS)
    counts_CE = tl.load(counts + chunk_C * BINS + bin_E[None, :], mask=chunk_C < chunks, other=0)
    total_E = tl.sum(counts_CE, 0)
    start_E = tl.cumsum(total_E, 0) - total_E
    before_E = tl.sum(tl.where(chunk_C < program, counts_CE, 0), 0)
    tl.store(base + program * BINS + bin_E, start_E + before_E)
    if program == 0:
        tl.store(valid, tl.sum(total_E, 0))
    _write_blocks(blocks1, total_E, start_E, bound1, program, chunks, BLOCK1, BINS, STEP)
    if BLOCK2 != BLOCK1:
        _write_blocks(blocks2, total_E, start_E, bound2, program, chunks, BLOCK2, BINS, STEP)
    tl.debug_barrier()
    for first in range(0, CHUNK, 1024):
        slot = program * CHUNK + first + tl.arange(0, 1024)
        expert = local_expert(ids, expert_map, slot, slot < slots, HAS_MAP)
        here = expert >= 0
        row = tl.atomic_add(base + program * BINS + expert, 1, mask=here, sem="relaxed", scope="gpu")
        tl.store(slot_of + row, slot, mask=here)
        tl.store(row_of + slot, tl.where(here, row, -1), mask=slot < slots)

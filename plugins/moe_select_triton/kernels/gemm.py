"""One grouped GEMM with everything that belongs to its output: scales, biases and the activation.

Legend: R routed rows of A, K columns (the reduction), N columns of the output, E experts of this rank, F rows of w13, BM rows,
BN columns and BK steps of a tile, G for gate and U for up.
"""

from __future__ import annotations

import triton
import triton.language as tl

from moe_select_triton.kernels.dependent import begin
from moe_select_triton.kernels.quantize import local_expert
from moe_select_triton.kernels.tile import strip_of_tiles, tile

SORTED = tl.constexpr(0)
"""Rows are sorted by expert; a table says which rows a block computes."""
BY_SLOT = tl.constexpr(1)
"""Few rows: each program looks for the slots of its expert, that of the slot it belongs to."""
BY_EXPERT = tl.constexpr(2)
"""The same with one program an expert."""
BATCHED = tl.constexpr(3)
"""``[E, M, K]`` with a count per expert."""


@triton.jit
def _sorted_rows(slot_of, first, offset, count, GATHER: tl.constexpr, TOPK: tl.constexpr, SIZE: tl.constexpr):
    # Rows past the count read the last one again: cheaper than a mask in every step.
    at = offset + tl.arange(0, SIZE)
    row_out = first + tl.minimum(at, count - 1)
    row_a = row_out
    if GATHER:
        row_a = tl.load(slot_of + row_out) // TOPK
    return row_a.to(tl.int64), row_out.to(tl.int64), at < count


@triton.jit
def _found_rows(slots, mine, rank, first, count, GATHER: tl.constexpr, TOPK: tl.constexpr, SIZE: tl.constexpr):
    # The slots whose rank among those of this expert is first, first + 1 and so on.
    at = first + tl.arange(0, SIZE)
    wanted = tl.minimum(at, count - 1)
    found = mine[None, :] & (rank[None, :] == wanted[:, None])
    slot = tl.sum(tl.where(found, slots[None, :], 0), 1)
    row_a = slot // TOPK if GATHER else slot
    return row_a.to(tl.int64), slot.to(tl.int64), at < count


@triton.jit
def _order(pid, blocks, tiles, GROUP: tl.constexpr):
    # Programs that run side by side share weights (GROUP blocks of rows) and rows of A.
    group = pid // (GROUP * tiles)
    first = group * GROUP
    size = tl.minimum(blocks - first, GROUP)
    inside = pid - group * GROUP * tiles
    return first + inside % size, inside // size


@triton.jit(do_not_specialize=["rows", "blocks_bound"])
def grouped_gemm(
    a, a_scale, w, w_scale, bias, out, ids, expert_map, slot_of, blocks, rows, blocks_bound,
    K: tl.constexpr, N: tl.constexpr, GATED: tl.constexpr, INTERLEAVED: tl.constexpr, ACT: tl.constexpr, C0: tl.constexpr,
    C1: tl.constexpr, C2: tl.constexpr, A_SCALE: tl.constexpr, W_SCALE: tl.constexpr, BIAS: tl.constexpr, ACC: tl.constexpr,
    MODE: tl.constexpr, GATHER: tl.constexpr, TOPK: tl.constexpr, HAS_MAP: tl.constexpr, SLOTS: tl.constexpr,
    BM: tl.constexpr, BM2: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SWAP: tl.constexpr,
    TMA: tl.constexpr, STRIP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """``out = activation(a @ w.T * a_scale * w_scale + bias)`` for each expert's rows.

    int8 operands are multiplied exactly in int32; scales come once, at the end.

    Args:
        a: rows ``[., K]``; read at a token's row (GATHER) or at the row itself.
        a_scale: float32, one a row of ``a`` (A_SCALE 2), one for all (1) or none (0).
        w: ``[E, F, K]`` as a pointer, or a descriptor (TMA) of ``[E * F, K]``, interleaved ``[E * F / 2, 2 * K]``.
        w_scale: ``[E, F]`` (W_SCALE 2), ``[E]`` (1) or none (0).
        bias: ``[E, F]``.
        out: ``[R, N]``; N is F halved where GATED.
        ids: BY_SLOT, BY_EXPERT: ``[T * topk]``.
        expert_map: int32, global to local.
        slot_of: SORTED: row to slot.
        blocks: SORTED: table of blocks; BATCHED: int32 ``[E]``, rows of each expert.
        rows: BY_SLOT, BY_EXPERT: T * topk; BATCHED: M.
        blocks_bound: SORTED: length of the table; BATCHED: E * ceil(M / BM).

    """
    begin(PDL)
    tiles: tl.constexpr = (N + BN * STRIP - 1) // (BN * STRIP)
    pid = tl.program_id(0)
    if MODE == SORTED:
        block, tile_n = _order(pid, blocks_bound, tiles, GROUP)
        e = tl.load(blocks + block * 4)
        if e >= 0:
            first = tl.load(blocks + block * 4 + 1)
            count = tl.load(blocks + block * 4 + 2)
            a1, o1, t1 = _sorted_rows(slot_of, first, 0, count, GATHER, TOPK, BM)
            a2, o2, t2 = a1, o1, t1
            if BM2 > 0:
                a2, o2, t2 = _sorted_rows(slot_of, first, BM, count, GATHER, TOPK, BM2)
            if STRIP > 1:
                strip_of_tiles(a, a_scale, w, w_scale, bias, out, e, tile_n, a1, o1, t1, K, N, A_SCALE, W_SCALE, BIAS, ACC, BM, BN,
                       BK, SWAP, TMA, STRIP)  # fmt: skip
            else:
                tile(a, a_scale, w, w_scale, bias, out, e, tile_n, a1, o1, t1, a2, o2, t2, K, N, GATED, INTERLEAVED, ACT, C0,
                      C1, C2, A_SCALE, W_SCALE, BIAS, ACC, BM, BM2, BN, BK, SWAP, TMA)  # fmt: skip
    elif MODE == BATCHED:
        block, tile_n = _order(pid, blocks_bound, tiles, GROUP)
        steps = (rows + BM - 1) // BM
        e = block // steps
        offset = (block % steps) * BM
        count = tl.load(blocks + e)
        if offset < count:
            at = offset + tl.arange(0, BM)
            row = e.to(tl.int64) * rows + tl.minimum(at, count - 1)
            tile(a, a_scale, w, w_scale, bias, out, e, tile_n, row, row, at < count, row, row, at < count, K, N, GATED,
                  INTERLEAVED, ACT, C0, C1, C2, A_SCALE, W_SCALE, BIAS, ACC, BM, 0, BN, BK, SWAP, TMA)  # fmt: skip
    else:
        unit = pid // tiles
        tile_n = pid % tiles
        slots = tl.arange(0, SLOTS)
        experts = local_expert(ids, expert_map, slots, slots < rows, HAS_MAP)
        if MODE == BY_SLOT:
            e = tl.sum(tl.where(slots == unit, experts, 0), 0)
        else:
            e = unit
        mine = experts == e
        count = tl.sum(mine.to(tl.int32), 0)
        if MODE == BY_SLOT:
            # The first slot of an expert computes the rows of all.
            earlier = tl.sum((mine & (slots < unit)).to(tl.int32), 0)
            count = tl.where((e < 0) | (earlier > 0), 0, count)
        rank = tl.cumsum(mine.to(tl.int32), 0) - 1
        for first in range(0, count, BM):
            a1, o1, t1 = _found_rows(slots, mine, rank, first, count, GATHER, TOPK, BM)
            if STRIP > 1:
                strip_of_tiles(a, a_scale, w, w_scale, bias, out, e, tile_n, a1, o1, t1, K, N, A_SCALE, W_SCALE, BIAS, ACC, BM, BN,
                       BK, SWAP, TMA, STRIP)  # fmt: skip
            else:
                tile(a, a_scale, w, w_scale, bias, out, e, tile_n, a1, o1, t1, a1, o1, t1, K, N, GATED, INTERLEAVED, ACT, C0,
                      C1, C2, A_SCALE, W_SCALE, BIAS, ACC, BM, 0, BN, BK, SWAP, TMA)  # fmt: skip

"""One token: two launches for the whole layer, without sorting, and with quantization and the sum over slots inside.

Each program reads its share of the weights once; the token and the activations of a few rows are small enough to be read, and
quantized, by everybody.

Legend: S slots of the token (topk), H hidden size, I intermediate size, F rows of w13, BN columns and BK steps of a tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

from moe_select_triton.kernels.activation import gated, plain
from moe_select_triton.kernels.dependent import begin
from moe_select_triton.kernels.interpret import WIDEN, narrow
from moe_select_triton.kernels.quantize import (
    STATIC,
    TENSOR,
    abs_max,
    clamp_int8,
    inverse,
    local_expert,
    round_int8,
)

ROWS = tl.constexpr(16)
"""Rows of the smallest matrix instruction; the token is the first, the others are zeros."""


@triton.jit
def _as_rows(values, factor, MODE: tl.constexpr, QUANTIZE: tl.constexpr, BK: tl.constexpr):
    # [BK] as the first of ROWS rows, quantized where the layer is.
    if QUANTIZE:
        scaled = values.to(tl.float32) * factor
        if MODE == STATIC:
            scaled = clamp_int8(scaled)
        values = round_int8(scaled)
    first = tl.arange(0, ROWS)[:, None] == 0
    return tl.where(first, tl.broadcast_to(values[None, :], [ROWS, BK]), tl.zeros([ROWS, BK], values.dtype))


@triton.jit
def _product(rows, w, acc):
    if WIDEN and rows.dtype == tl.bfloat16:
        rows = rows.to(tl.float32)
    if rows.dtype != w.dtype:
        w = w.to(rows.dtype)
    return tl.dot(rows, tl.trans(w), acc, input_precision="ieee", out_dtype=acc.dtype)


@triton.jit
def _load(w, rows, k, inside, K: tl.constexpr, BK: tl.constexpr, N: tl.constexpr, BN: tl.constexpr):
    cols = k + tl.arange(0, BK)
    pointers = w + rows[:, None] * K + cols[None, :]
    if K % BK == 0 and N % BN == 0:
        tile = tl.load(pointers, eviction_policy="evict_first")
    else:
        tile = tl.load(pointers, mask=inside[:, None] & (cols < K)[None, :], other=0, eviction_policy="evict_first")
    return tile


@triton.jit
def _first_row(acc):
    return tl.sum(acc, 0).to(tl.float32)


@triton.jit
def _column_scale(w_scale, e, n, inside, F: tl.constexpr, W_SCALE: tl.constexpr):
    if W_SCALE == 2:
        scale = tl.load(w_scale + e * F + n, mask=inside, other=0.0).to(tl.float32)
    elif W_SCALE == 1:
        scale = tl.load(w_scale + e).to(tl.float32) + tl.zeros_like(n).to(tl.float32)
    else:
        scale = tl.full(n.shape, 1.0, tl.float32)
    return scale


@triton.jit
def token_gemm1(
    x, given, w, w_scale, bias, hidden, parts, ids, expert_map,
    H: tl.constexpr, H_PAD: tl.constexpr, I: tl.constexpr, GATED: tl.constexpr, INTERLEAVED: tl.constexpr, ACT: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, QUANTIZE: tl.constexpr, MODE: tl.constexpr, W_SCALE: tl.constexpr,
    BIAS: tl.constexpr, ACC: tl.constexpr, HAS_MAP: tl.constexpr, PARTS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """``hidden [S, I]`` and the largest magnitude of each of its tiles, ``parts [S, PARTS]``; one program a slot and tile.

    Args:
        x: ``[1, H]``.
        given: STATIC: the scale of ``x``.
        w: ``[E, F, H]``.
        w_scale: ``[E, F]``, ``[E]`` or none.
        bias: ``[E, F]``.
        hidden: result in the layer's dtype.
        parts: float32, result.
        ids: ``[S]``.
        expert_map: int32, global to local.

    """
    F: tl.constexpr = 2 * I if GATED else I
    tile = tl.program_id(0)
    slot = tl.program_id(1)
    begin(PDL)
    e = local_expert(ids, expert_map, slot, slot >= 0, HAS_MAP).to(tl.int64)
    n = tile * BN + tl.arange(0, BN)
    inside = n < I
    largest = 0.0
    if e >= 0:
        factor = 1.0
        scale = 1.0
        if QUANTIZE:
            if MODE == STATIC:
                scale = tl.load(given)
                factor = 1.0 / scale
            else:
                whole = tl.arange(0, H_PAD)
                amax = abs_max(tl.load(x + whole, mask=whole < H, other=0.0), 0)
                scale = amax / 127.0
                factor = inverse(amax)
        n_g = 2 * n if INTERLEAVED else n
        n_u = n_g + (1 if INTERLEAVED else I)
        rows_g = e * F + n_g
        rows_u = e * F + n_u
        acc_g = tl.zeros([ROWS, BN], ACC)
        acc_u = acc_g
        for k in range(0, H, BK):
            cols = k + tl.arange(0, BK)
            values = _as_rows(tl.load(x + cols, mask=cols < H, other=0.0), factor, MODE, QUANTIZE, BK)
            acc_g = _product(values, _load(w, rows_g, k, inside, H, BK, I, BN), acc_g)
            if GATED:
                acc_u = _product(values, _load(w, rows_u, k, inside, H, BK, I, BN), acc_u)
        y = _first_row(acc_g) * _column_scale(w_scale, e, n_g, inside, F, W_SCALE) * scale
        if BIAS:
            y += tl.load(bias + e * F + n_g, mask=inside, other=0.0).to(tl.float32)
        if GATED:
            up = _first_row(acc_u) * _column_scale(w_scale, e, n_u, inside, F, W_SCALE) * scale
            if BIAS:
                up += tl.load(bias + e * F + n_u, mask=inside, other=0.0).to(tl.float32)
            y = gated(y, up, ACT, C0, C1, C2)
        else:
            y = plain(y, ACT)
        y = narrow(y, hidden.dtype.element_ty)
        tl.store(hidden + slot * I + n, y, mask=inside)
        largest = abs_max(tl.where(inside, y, 0.0), 0)
    if QUANTIZE:
        tl.store(parts + slot * PARTS + tile, largest)


@triton.jit
def token_gemm2(
    hidden, given, parts, w, w_scale, bias, weights, out, ids, expert_map,
    TOPK: tl.constexpr, SLOTS: tl.constexpr, H: tl.constexpr, I: tl.constexpr, QUANTIZE: tl.constexpr, MODE: tl.constexpr,
    W_SCALE: tl.constexpr, BIAS: tl.constexpr, ACC: tl.constexpr, HAS_MAP: tl.constexpr, PARTS: tl.constexpr,
    PARTS_PAD: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """``out [1, H]``: the weighted sum of all slots, each with its own expert; one program a tile of columns.

    Args:
        hidden: ``[S, I]``.
        given: STATIC: the scale of ``hidden``.
        parts: float32 ``[S, PARTS]``, largest magnitudes of parts of ``hidden``.
        w: ``[E, H, I]``.
        w_scale: ``[E, H]``, ``[E]`` or none.
        bias: ``[E, H]``.
        weights: float32 ``[S]``.
        out: result.
        ids: ``[S]``.
        expert_map: int32, global to local.

    """
    STEPS: tl.constexpr = (I + BK - 1) // BK
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    inside = n < H
    begin(PDL)
    slots = tl.arange(0, SLOTS)
    experts = local_expert(ids, expert_map, slots, slots < TOPK, HAS_MAP)
    weight_S = tl.load(weights + slots, mask=experts >= 0, other=0.0)
    amax_S = tl.zeros([SLOTS], tl.float32)
    if QUANTIZE:
        if MODE == STATIC:
            amax_S += tl.load(given) * 127.0
        else:
            part = tl.arange(0, PARTS_PAD)
            there = (slots < TOPK)[:, None] & (part < PARTS)[None, :]
            amax_S = abs_max(tl.load(parts + slots[:, None] * PARTS + part[None, :], mask=there, other=0.0), 1)
            if MODE == TENSOR:
                amax_S = tl.zeros([SLOTS], tl.float32) + abs_max(amax_S, 0)
    total = tl.zeros([BN], tl.float32)
    # One loop over slots and steps, so that loads run ahead of the slot at hand.
    for step in range(TOPK * STEPS):
        slot = step // STEPS
        k = (step % STEPS) * BK
        this = slots == slot
        e = tl.sum(tl.where(this, experts, 0), 0)
        here = e >= 0
        e = tl.maximum(e, 0).to(tl.int64)
        weight = tl.sum(tl.where(this, weight_S, 0.0), 0)
        cols = k + tl.arange(0, BK)
        values = tl.load(hidden + slot * I + cols, mask=cols < tl.where(here, I, 0), other=0.0)
        if QUANTIZE:
            amax = tl.sum(tl.where(this, amax_S, 0.0), 0)
            rows = _as_rows(values, inverse(amax), MODE, True, BK)
            weight = weight * (amax / 127.0)
        else:
            rows = _as_rows(values, 1.0, MODE, False, BK)
        wanted = n < tl.where(here, H, 0)
        tile = _load(w, e * H + n, k, wanted, I, BK, H, BN)
        y = _first_row(_product(rows, tile, tl.zeros([ROWS, BN], ACC)))
        total += tl.where(here, y * weight, 0.0) * _column_scale(w_scale, e, n, inside, H, W_SCALE)
        if BIAS:
            if k == 0:
                share = tl.load(bias + e * H + n, mask=wanted, other=0.0).to(tl.float32)
                total += tl.sum(tl.where(this, weight_S, 0.0), 0) * share
    tl.store(out + n, narrow(total, out.dtype.element_ty), mask=inside)

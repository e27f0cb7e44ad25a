"""One tile of a grouped GEMM, and everything that belongs to its output: scales, biases and the activation.

Legend: R routed rows of A, K columns (the reduction), N columns of the output, E experts of this rank, F rows of w13, BM rows,
BN columns and BK steps of a tile, G for gate and U for up.
"""

from __future__ import annotations

import triton
import triton.language as tl

from moe_select_triton.kernels.activation import gated, plain
from moe_select_triton.kernels.interpret import WIDEN, narrow


@triton.jit
def _dot(w, a, acc, SWAP: tl.constexpr):
    # Swapped: weights on the side of the instruction that has 64 rows, tokens on the side that takes multiples of 8.
    if WIDEN and a.dtype == tl.bfloat16:
        a = a.to(tl.float32)
    if a.dtype != w.dtype:
        w = w.to(a.dtype)
    if SWAP:
        acc = tl.dot(w, tl.trans(a), acc, input_precision="ieee", out_dtype=acc.dtype)
    else:
        acc = tl.dot(a, tl.trans(w), acc, input_precision="ieee", out_dtype=acc.dtype)
    return acc


@triton.jit
def _zeros(BM: tl.constexpr, BN: tl.constexpr, SWAP: tl.constexpr, ACC: tl.constexpr):
    if SWAP:
        acc = tl.zeros([BN, BM], ACC)
    else:
        acc = tl.zeros([BM, BN], ACC)
    return acc


@triton.jit
def _load_w(w, row, col, k, K: tl.constexpr, N: tl.constexpr, n, stride, BK: tl.constexpr, TMA: tl.constexpr):
    # Rows past N belong to nobody: they are read from where the last one lies, or from the next expert, and not stored.
    if TMA:
        tile = w.load([row, col + k])
    else:
        rows = tl.minimum(n, N - 1).to(tl.int64) * stride
        cols = k + tl.arange(0, BK)
        if K % BK == 0:
            tile = tl.load(w + row + rows[:, None] + cols[None, :])
        else:
            tile = tl.load(w + row + rows[:, None] + cols[None, :], mask=(cols < K)[None, :], other=0)
    return tile


@triton.jit
def _load_a(a, rows, k, K: tl.constexpr, BK: tl.constexpr):
    cols = k + tl.arange(0, BK)
    if K % BK == 0:
        tile = tl.load(a + rows[:, None] * K + cols[None, :])
    else:
        tile = tl.load(a + rows[:, None] * K + cols[None, :], mask=(cols < K)[None, :], other=0)
    return tile


@triton.jit
def _scaled(acc, n, rows, a_scale, w_scale, bias, inside, SWAP: tl.constexpr, A_SCALE: tl.constexpr, W_SCALE: tl.constexpr,
            BIAS: tl.constexpr):  # fmt: skip
    # acc as [BM, BN] in float32 with what it is multiplied with and the bias.
    y = acc.to(tl.float32)
    if SWAP:
        y = tl.trans(y)
    if W_SCALE == 2:
        y = y * tl.load(w_scale + n, mask=inside, other=0.0).to(tl.float32)[None, :]
    elif W_SCALE == 1:
        y = y * tl.load(w_scale).to(tl.float32)
    if A_SCALE == 2:
        y = y * tl.load(a_scale + rows)[:, None]
    elif A_SCALE == 1:
        y = y * tl.load(a_scale)
    if BIAS:
        y = y + tl.load(bias + n, mask=inside, other=0.0).to(tl.float32)[None, :]
    return y


@triton.jit
def _finish(
    acc_g, acc_u, rows_a, rows_out, there, n_g, n_u, n, a_scale, w_scale, bias, out,
    N: tl.constexpr, GATED: tl.constexpr, ACT: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr,
    SWAP: tl.constexpr, A_SCALE: tl.constexpr, W_SCALE: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    inside = n < N
    y = _scaled(acc_g, n_g, rows_a, a_scale, w_scale, bias, inside, SWAP, A_SCALE, W_SCALE, BIAS)
    if GATED:
        up = _scaled(acc_u, n_u, rows_a, a_scale, w_scale, bias, inside, SWAP, A_SCALE, W_SCALE, BIAS)
        y = gated(y, up, ACT, C0, C1, C2)
    elif ACT is not None:
        y = plain(y, ACT)
    tl.store(
        out + rows_out[:, None] * N + n[None, :], narrow(y, out.dtype.element_ty), mask=there[:, None] & inside[None, :]
    )


@triton.jit
def tile(
    a, a_scale, w, w_scale, bias, out, e, tile_n, rows_a1, rows_out1, there1, rows_a2, rows_out2, there2,
    K: tl.constexpr, N: tl.constexpr, GATED: tl.constexpr, INTERLEAVED: tl.constexpr, ACT: tl.constexpr, C0: tl.constexpr,
    C1: tl.constexpr, C2: tl.constexpr, A_SCALE: tl.constexpr, W_SCALE: tl.constexpr, BIAS: tl.constexpr, ACC: tl.constexpr,
    BM: tl.constexpr, BM2: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SWAP: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of one expert: BM rows, and BM2 more that share its weights, times BN columns (twice where gated)."""
    F: tl.constexpr = 2 * N if GATED else N
    n = tile_n * BN + tl.arange(0, BN)
    expert = e.to(tl.int64) * F
    if INTERLEAVED:
        n_g = 2 * n
        n_u = 2 * n + 1
    else:
        n_g = n
        n_u = n + N
    # Coordinates of the gate's and the up's first row: of a descriptor, or elements from w on.
    if TMA:
        if INTERLEAVED:
            row_g = e * N + tile_n * BN
            row_u = row_g
            col_u = K
        else:
            row_g = e * F + tile_n * BN
            row_u = row_g + N
            col_u = 0
        stride = 0
    else:
        row_g = expert * K
        stride = 2 * K if INTERLEAVED else K
        row_u = row_g + (K if INTERLEAVED else N * K)
        col_u = 0
    g1 = _zeros(BM, BN, SWAP, ACC)
    u1 = g1
    g2 = g1
    u2 = g1
    if BM2 > 0:
        g2 = _zeros(BM2, BN, SWAP, ACC)
        u2 = g2
    for k in range(0, K, BK):
        a1 = _load_a(a, rows_a1, k, K, BK)
        w_g = _load_w(w, row_g, 0, k, K, N, n, stride, BK, TMA)
        g1 = _dot(w_g, a1, g1, SWAP)
        if BM2 > 0:
            a2 = _load_a(a, rows_a2, k, K, BK)
            g2 = _dot(w_g, a2, g2, SWAP)
        if GATED:
            w_u = _load_w(w, row_u, col_u, k, K, N, n, stride, BK, TMA)
            u1 = _dot(w_u, a1, u1, SWAP)
            if BM2 > 0:
                u2 = _dot(w_u, a2, u2, SWAP)
    scale = w_scale + (expert if W_SCALE == 2 else e)
    _finish(g1, u1, rows_a1, rows_out1, there1, n_g, n_u, n, a_scale, scale, bias + expert, out,
            N, GATED, ACT, C0, C1, C2, SWAP, A_SCALE, W_SCALE, BIAS)  # fmt: skip
    if BM2 > 0:
        _finish(g2, u2, rows_a2, rows_out2, there2, n_g, n_u, n, a_scale, scale, bias + expert, out,
                N, GATED, ACT, C0, C1, C2, SWAP, A_SCALE, W_SCALE, BIAS)  # fmt: skip


@triton.jit
def strip_of_tiles(
    a, a_scale, w, w_scale, bias, out, e, strip, rows_a, rows_out, there,
    K: tl.constexpr, N: tl.constexpr, A_SCALE: tl.constexpr, W_SCALE: tl.constexpr, BIAS: tl.constexpr, ACC: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SWAP: tl.constexpr, TMA: tl.constexpr, STRIP: tl.constexpr,
):  # fmt: skip
    """STRIP tiles of one expert side by side, for a short reduction: the rows are loaded once and stay, weights stream by."""
    tl.static_assert(K <= 4 * BK)
    expert = e.to(tl.int64) * N
    scale = w_scale + (expert if W_SCALE == 2 else e)
    a0 = _load_a(a, rows_a, 0, K, BK)
    a1 = a0
    a2 = a0
    a3 = a0
    if K > BK:
        a1 = _load_a(a, rows_a, BK, K, BK)
    if K > 2 * BK:
        a2 = _load_a(a, rows_a, 2 * BK, K, BK)
    if K > 3 * BK:
        a3 = _load_a(a, rows_a, 3 * BK, K, BK)
    for j in range(STRIP):
        tile_n = strip * STRIP + j
        n = tile_n * BN + tl.arange(0, BN)
        row = e * N + tile_n * BN if TMA else expert * K
        acc = _zeros(BM, BN, SWAP, ACC)
        acc = _dot(_load_w(w, row, 0, 0, K, N, n, K, BK, TMA), a0, acc, SWAP)
        if K > BK:
            acc = _dot(_load_w(w, row, 0, BK, K, N, n, K, BK, TMA), a1, acc, SWAP)
        if K > 2 * BK:
            acc = _dot(_load_w(w, row, 0, 2 * BK, K, N, n, K, BK, TMA), a2, acc, SWAP)
        if K > 3 * BK:
            acc = _dot(_load_w(w, row, 0, 3 * BK, K, N, n, K, BK, TMA), a3, acc, SWAP)
        _finish(acc, acc, rows_a, rows_out, there, n, n, n, a_scale, scale, bias + expert, out,
                N, False, None, None, None, None, SWAP, A_SCALE, W_SCALE, BIAS)  # fmt: skip

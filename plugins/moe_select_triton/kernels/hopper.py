"""The grouped GEMM of int8 operands for Hopper's tensor cores, scheduled by hand.

Triton's compiler waits for each integer product before it goes on, because it overlaps only products that are summed in float32.
Here products of consecutive steps overlap: each step issues its products, waits for those of the step before, and refills the
buffers that were read two steps ago. Weights are the side of 64 rows and come by the tensor memory accelerator; rows of A are
gathered by asynchronous copies.

Legend: R routed rows of A, K columns (the reduction), N columns of the output, E experts of this rank, F rows of w13, BM and BM2
rows, BN columns and BK steps of a tile, S buffers, G for gate and U for up.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from moe_select_triton.kernels import activation, dependent

# The same functions, compiled in this dialect.
_gated = gluon.jit(activation.gated.fn)
_begin = gluon.jit(dependent.begin.fn)
# Names of Triton 3.7 and 3.9, and those that went before.
_barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
_copy_pointers = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared
_copy_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def _copy_rows(a, rows, k, buffer, K: gl.constexpr, BK: gl.constexpr, LAYOUT: gl.constexpr):
    cols = k + gl.arange(0, BK, layout=gl.SliceLayout(0, LAYOUT))
    pointers = a + rows[:, None] * K + cols[None, :]
    if K % BK == 0:
        _copy_pointers(buffer, pointers)
    else:
        inside = gl.expand_dims(cols < K, 0) & (gl.expand_dims(rows, 1) >= 0)
        _copy_pointers(buffer, pointers, mask=inside)


@gluon.jit
def _rows(
    slot_of, first, offset, count, GATHER: gl.constexpr, TOPK: gl.constexpr, SIZE: gl.constexpr, LAYOUT: gl.constexpr
):
    # Rows past the count read the last one again.
    at = offset + gl.arange(0, SIZE, layout=gl.SliceLayout(1, LAYOUT))
    row = first + gl.minimum(at, count - 1)
    if GATHER:
        row = gl.load(slot_of + row) // TOPK
    return row.to(gl.int64)


@gluon.jit
def _finish(
    acc_g, acc_u, slot_of, first, offset, count, tile_n, expert, a_scale, w_scale, bias, out,
    N: gl.constexpr, GATED: gl.constexpr, INTERLEAVED: gl.constexpr, ACT: gl.constexpr, C0: gl.constexpr, C1: gl.constexpr,
    C2: gl.constexpr, A_SCALE: gl.constexpr, W_SCALE: gl.constexpr, BIAS: gl.constexpr, GATHER: gl.constexpr,
    TOPK: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, WARPS: gl.constexpr, ACC: gl.constexpr,
):  # fmt: skip
    n = tile_n * BN + gl.arange(0, BN, layout=gl.SliceLayout(1, ACC))
    inside = n < N
    at = offset + gl.arange(0, BM, layout=gl.SliceLayout(0, ACC))
    row_out = first + gl.minimum(at, count - 1)
    if A_SCALE == 2:
        row = row_out
        if GATHER:
            row = gl.load(slot_of + row) // TOPK
        scale_m = gl.load(a_scale + row)
    else:
        scale_m = gl.load(a_scale) + gl.full([BM], 0.0, gl.float32, layout=gl.SliceLayout(0, ACC))
    n_g = 2 * n if INTERLEAVED else n
    y = acc_g.to(gl.float32)
    if W_SCALE == 2:
        y = y * gl.load(w_scale + expert + n_g, mask=inside, other=0.0).to(gl.float32)[:, None]
    elif W_SCALE == 1:
        y = y * gl.load(w_scale).to(gl.float32)
    y = y * scale_m[None, :]
    if BIAS:
        y = y + gl.load(bias + expert + n_g, mask=inside, other=0.0).to(gl.float32)[:, None]
    if GATED:
        n_u = n_g + (1 if INTERLEAVED else N)
        up = acc_u.to(gl.float32)
        if W_SCALE == 2:
            up = up * gl.load(w_scale + expert + n_u, mask=inside, other=0.0).to(gl.float32)[:, None]
        elif W_SCALE == 1:
            up = up * gl.load(w_scale).to(gl.float32)
        up = up * scale_m[None, :]
        if BIAS:
            up = up + gl.load(bias + expert + n_u, mask=inside, other=0.0).to(gl.float32)[:, None]
        y = _gated(y, up, ACT, C0, C1, C2)
    # Each thread gets 8 columns of one row, so that a row is written in pieces of 16 bytes.
    STORE: gl.constexpr = gl.BlockedLayout(
        [8, 1], [16, 2], [BN // 128 if BN > 128 else 1, WARPS if BN <= 128 else WARPS * 128 // BN], [0, 1]
    )
    y = gl.convert_layout(y.to(out.dtype.element_ty), STORE)
    n = tile_n * BN + gl.arange(0, BN, layout=gl.SliceLayout(1, STORE))
    at = offset + gl.arange(0, BM, layout=gl.SliceLayout(0, STORE))
    row_out = (first + at).to(gl.int64)
    gl.store(out + row_out[None, :] * N + n[:, None], y, mask=(n < N)[:, None] & (at < count)[None, :])


@gluon.jit
def _order(pid, blocks, tiles, GROUP: gl.constexpr):
    group = pid // (GROUP * tiles)
    first = group * GROUP
    size = gl.minimum(blocks - first, GROUP)
    inside = pid - group * GROUP * tiles
    return first + inside % size, inside // size


@gluon.jit(do_not_specialize=["blocks_bound"])
def hopper_gemm(
    a, a_scale, w, w_scale, bias, out, slot_of, blocks, blocks_bound,
    K: gl.constexpr, N: gl.constexpr, GATED: gl.constexpr, INTERLEAVED: gl.constexpr, ACT: gl.constexpr, C0: gl.constexpr,
    C1: gl.constexpr, C2: gl.constexpr, A_SCALE: gl.constexpr, W_SCALE: gl.constexpr, BIAS: gl.constexpr, GATHER: gl.constexpr,
    TOPK: gl.constexpr, BM: gl.constexpr, BM2: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, GROUP: gl.constexpr,
    S: gl.constexpr, WARPS: gl.constexpr, PDL: gl.constexpr,
):  # fmt: skip
    """:func:`moe_select_triton.kernels.gemm.grouped_gemm` for sorted rows of int8, with the same arguments.

    Args:
        a: int8 rows ``[., K]``; read at a token's row (GATHER) or at the row itself.
        a_scale: float32, one a row of ``a`` (A_SCALE 2) or one for all (1).
        w: a descriptor of int8 ``[E * F, K]``, interleaved ``[E * F / 2, 2 * K]``, in blocks of ``[BN, BK]``.
        w_scale: ``[E, F]`` (W_SCALE 2) or ``[E]`` (1).
        bias: ``[E, F]``.
        out: ``[R, N]``; N is F halved where GATED.
        slot_of: row to slot.
        blocks: table of blocks.
        blocks_bound: its length.

    """
    F: gl.constexpr = 2 * N if GATED else N
    STEPS: gl.constexpr = (K + BK - 1) // BK
    AHEAD: gl.constexpr = S - 2
    LOAD: gl.constexpr = gl.BlockedLayout([1, 16], [512 // BK, BK // 16], [WARPS, 1], [1, 0])
    SHARED: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
    ACC1: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BM, 32])
    tiles: gl.constexpr = (N + BN - 1) // BN
    _begin(PDL)
    block, tile_n = _order(gl.program_id(0), blocks_bound, tiles, GROUP)
    e = gl.load(blocks + block * 4)
    if e >= 0:
        first = gl.load(blocks + block * 4 + 1)
        count = gl.load(blocks + block * 4 + 2)
        rows1 = _rows(slot_of, first, 0, count, GATHER, TOPK, BM, LOAD)
        if INTERLEAVED:
            row_g = e * N + tile_n * BN
            row_u = row_g
            col_u = K
        else:
            row_g = e * F + tile_n * BN
            row_u = row_g + N
            col_u = 0
        a1 = gl.allocate_shared_memory(gl.int8, [S, BM, BK], SHARED)
        w_g = gl.allocate_shared_memory(gl.int8, [S, BN, BK], SHARED)
        if GATED:
            w_u = gl.allocate_shared_memory(gl.int8, [S, BN, BK], SHARED)
        if BM2 > 0:
            rows2 = _rows(slot_of, first, BM, count, GATHER, TOPK, BM2, LOAD)
            a2 = gl.allocate_shared_memory(gl.int8, [S, BM2, BK], SHARED)
            ACC2: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BM2, 32])
            g2 = hopper.warpgroup_mma_init(gl.full([BN, BM2], 0, gl.int32, layout=ACC2))
            u2 = hopper.warpgroup_mma_init(gl.full([BN, BM2], 0, gl.int32, layout=ACC2))
        g1 = hopper.warpgroup_mma_init(gl.full([BN, BM], 0, gl.int32, layout=ACC1))
        u1 = hopper.warpgroup_mma_init(gl.full([BN, BM], 0, gl.int32, layout=ACC1))
        ready = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
        for s in gl.static_range(S):
            mbarrier.init(ready.index(s), count=1)
        hopper.fence_async_shared()
        _barrier()
        BYTES: gl.constexpr = BN * BK * (2 if GATED else 1)
        for s in gl.static_range(AHEAD):
            if s < STEPS:
                mbarrier.expect(ready.index(s), BYTES)
                _copy_tile(w, [row_g, s * BK], ready.index(s), w_g.index(s))
                if GATED:
                    _copy_tile(w, [row_u, col_u + s * BK], ready.index(s), w_u.index(s))
                _copy_rows(a, rows1, s * BK, a1.index(s), K, BK, LOAD)
                if BM2 > 0:
                    _copy_rows(a, rows2, s * BK, a2.index(s), K, BK, LOAD)
            async_copy.commit_group()
        for step in range(STEPS):
            buffer = step % S
            async_copy.wait_group(AHEAD - 1)
            mbarrier.wait(ready.index(buffer), (step // S) & 1)
            hopper.fence_async_shared()
            _barrier()
            # Operands are [BN, BK] and [BK, BM]; all products of a step count as it is issued.
            g1 = hopper.warpgroup_mma(w_g.index(buffer), a1.index(buffer).permute((1, 0)), g1, is_async=True)
            if BM2 > 0:
                g2 = hopper.warpgroup_mma(w_g.index(buffer), a2.index(buffer).permute((1, 0)), g2, is_async=True)
            if GATED:
                u1 = hopper.warpgroup_mma(w_u.index(buffer), a1.index(buffer).permute((1, 0)), u1, is_async=True)
                if BM2 > 0:
                    u2 = hopper.warpgroup_mma(w_u.index(buffer), a2.index(buffer).permute((1, 0)), u2, is_async=True)
            # These products are in flight still. Those of the step before are done here, and those before them, since the barrier,
            # everywhere.
            PENDING: gl.constexpr = (2 if GATED else 1) * (2 if BM2 > 0 else 1)
            if GATED and BM2 > 0:
                g1, u1, g2, u2 = _keep4(g1, u1, g2, u2, PENDING)
            elif GATED:
                g1, u1 = _keep2(g1, u1, PENDING)
            elif BM2 > 0:
                g1, g2 = _keep2(g1, g2, PENDING)
            else:
                g1 = hopper.warpgroup_mma_init(hopper.warpgroup_mma_wait(PENDING, deps=[g1]))
            after = step + AHEAD
            if after < STEPS:
                free = after % S
                mbarrier.expect(ready.index(free), BYTES)
                _copy_tile(w, [row_g, after * BK], ready.index(free), w_g.index(free))
                if GATED:
                    _copy_tile(w, [row_u, col_u + after * BK], ready.index(free), w_u.index(free))
                _copy_rows(a, rows1, after * BK, a1.index(free), K, BK, LOAD)
                if BM2 > 0:
                    _copy_rows(a, rows2, after * BK, a2.index(free), K, BK, LOAD)
            async_copy.commit_group()
        async_copy.wait_group(0)
        y_g1 = hopper.warpgroup_mma_wait(0, deps=[g1])
        y_u1 = y_g1
        if GATED:
            y_u1 = hopper.warpgroup_mma_wait(0, deps=[u1])
        expert = e.to(gl.int64) * F
        scale = w_scale + (0 if W_SCALE == 2 else e)
        _finish(y_g1, y_u1, slot_of, first, 0, count, tile_n, expert, a_scale, scale, bias, out, N, GATED, INTERLEAVED, ACT, C0, C1,
                C2, A_SCALE, W_SCALE, BIAS, GATHER, TOPK, BM, BN, WARPS, ACC1)  # fmt: skip
        if BM2 > 0:
            y_g2 = hopper.warpgroup_mma_wait(0, deps=[g2])
            y_u2 = y_g2
            if GATED:
                y_u2 = hopper.warpgroup_mma_wait(0, deps=[u2])
            _finish(y_g2, y_u2, slot_of, first, BM, count, tile_n, expert, a_scale, scale, bias, out, N, GATED, INTERLEAVED, ACT,
                    C0, C1, C2, A_SCALE, W_SCALE, BIAS, GATHER, TOPK, BM2, BN, WARPS, ACC2)  # fmt: skip
        for s in gl.static_range(S):
            mbarrier.invalidate(ready.index(s))


@gluon.jit
def _keep2(x, y, PENDING: gl.constexpr):
    x, y = hopper.warpgroup_mma_wait(PENDING, deps=[x, y])
    return hopper.warpgroup_mma_init(x), hopper.warpgroup_mma_init(y)


@gluon.jit
def _keep4(x, y, z, v, PENDING: gl.constexpr):
    x, y, z, v = hopper.warpgroup_mma_wait(PENDING, deps=[x, y, z, v])
    return (
        hopper.warpgroup_mma_init(x),
        hopper.warpgroup_mma_init(y),
        hopper.warpgroup_mma_init(z),
        hopper.warpgroup_mma_init(v),
    )

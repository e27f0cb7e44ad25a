"""Dynamic and static int8 quantization of rows, symmetric: q = round(x * 127 / max|x|), half to even.

Legend: R rows, K columns of a row.
"""

from __future__ import annotations

import triton
import triton.language as tl

from moe_select_triton.kernels.dependent import begin

TOKEN = tl.constexpr(0)
"""One scale a row, from its own range."""
TENSOR = tl.constexpr(1)
"""One scale for all rows, from the range of all."""
STATIC = tl.constexpr(2)
"""One scale that is given."""

ALL = tl.constexpr(0)
"""Every row holds something."""
FIRST = tl.constexpr(1)
"""The first ``valid[0]`` rows do."""
BY_SLOT = tl.constexpr(2)
"""Rows are slots; those of experts elsewhere do not."""
PER_EXPERT = tl.constexpr(3)
"""Rows are ``[E, M]``; the first ``valid[e]`` of each M do."""


@triton.jit
def abs_max(x, axis: tl.constexpr):
    """Largest magnitude along an axis. Compared as integers, in whose order NaN is largest: it is not lost."""
    bits = x.to(tl.float32).to(tl.int32, bitcast=True) & 0x7FFFFFFF
    return tl.max(bits, axis).to(tl.float32, bitcast=True)


@triton.jit
def inverse(amax):
    """127 / amax; 0 for rows of zeros."""
    return tl.where(amax == 0.0, 0.0, 127.0 / amax)


@triton.jit
def round_int8(x):
    """To the nearest integer, half to even, by the rounding of an addition to 1.5 * 2**23."""
    return ((x + 12582912.0) - 12582912.0).to(tl.int8)


@triton.jit
def clamp_int8(x):
    """Saturate before :func:`round_int8`, for scales that were not taken from these values."""
    return tl.where(x > 127.0, 127.0, tl.where(x < -128.0, -128.0, x))


@triton.jit
def _histogram(ids, expert_map, counts, rows, chunk, HAS_MAP: tl.constexpr, CHUNK: tl.constexpr, BINS: tl.constexpr):
    # Experts of one chunk of the routed slots, counted without atomics on memory that somebody would have to clear.
    total = tl.zeros([BINS], tl.int32)
    for first in range(0, CHUNK, 1024):
        slot = chunk * CHUNK + first + tl.arange(0, 1024)
        expert = local_expert(ids, expert_map, slot, slot < rows, HAS_MAP)
        total += tl.histogram(tl.where(expert < 0, 0, expert), BINS, mask=expert >= 0)
    tl.store(counts + chunk * BINS + tl.arange(0, BINS), total)


@triton.jit
def local_expert(ids, expert_map, slot, inside, HAS_MAP: tl.constexpr):
    """Expert of this rank for each slot; -1 for padding, for experts of other ranks and where not ``inside``."""
    expert = tl.load(ids + slot, mask=inside, other=-1).to(tl.int32)
    if HAS_MAP:
        expert = tl.load(expert_map + expert, mask=expert >= 0, other=-1)
    return expert


@triton.jit
def _holds(row, rows, valid, ids, expert_map, slots, VALID: tl.constexpr, HAS_MAP: tl.constexpr):
    # Which rows hold anything.
    here = row < rows
    if VALID == FIRST:
        here = row < tl.load(valid)
    elif VALID == BY_SLOT:
        here = local_expert(ids, expert_map, row, here, HAS_MAP) >= 0
    elif VALID == PER_EXPERT:
        here = here & (row % slots < tl.load(valid + row // slots, mask=here, other=0))
    return here


@triton.jit(do_not_specialize=["rows", "slots", "chunks"])
def quantize_rows(
    x, out, scale, given, valid, ids, expert_map, counts, rows, slots, chunks,
    K: tl.constexpr, K_PAD: tl.constexpr, ROWS: tl.constexpr, MODE: tl.constexpr, PARTS: tl.constexpr,
    VALID: tl.constexpr, QUANTIZE: tl.constexpr, HAS_MAP: tl.constexpr, CHUNK: tl.constexpr, BINS: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Quantize ``x [R, K]`` to int8 ``out`` with ``scale`` (``[R]``, or ``[1]`` where one is shared).

    The first ``chunks`` programs count the experts of the routed slots instead: both are ready at once, and neither waits.

    Args:
        x: ``[R, K]``.
        out: int8 ``[R, K]``.
        scale: float32.
        given: STATIC: the scale; TENSOR: largest magnitudes of PARTS parts of x.
        valid: int32, as VALID says.
        ids: ``[slots]``, global or local expert ids.
        expert_map: int32, global to local.
        counts: int32 ``[chunks, BINS]``.
        rows: R.
        slots: T * topk; M where VALID is PER_EXPERT.
        chunks: programs that count.

    """
    begin(PDL)
    pid = tl.program_id(0)
    if pid < chunks:
        _histogram(ids, expert_map, counts, slots, pid, HAS_MAP, CHUNK, BINS)
    if QUANTIZE:
        if pid >= chunks:
            row = (pid - chunks) * ROWS + tl.arange(0, ROWS)
            here = _holds(row, rows, valid, ids, expert_map, slots, VALID, HAS_MAP)
            if tl.max(here.to(tl.int32), 0) > 0:
                col = tl.arange(0, K_PAD)
                offset = row[:, None].to(tl.int64) * K + col[None, :]
                inside = here[:, None] & (col < K)[None, :]
                values = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
                if MODE == TOKEN:
                    amax = abs_max(values, 1)
                    tl.store(scale + row, amax / 127.0, mask=here)
                    q = round_int8(values * inverse(amax)[:, None])
                elif MODE == TENSOR:
                    amax = abs_max(tl.load(given + tl.arange(0, PARTS)), 0)
                    tl.store(scale, amax / 127.0)
                    q = round_int8(values * inverse(amax))
                else:
                    fixed = tl.load(given)
                    tl.store(scale, fixed)
                    q = round_int8(clamp_int8(values / fixed))
                tl.store(out + offset, q, mask=inside)


@triton.jit(do_not_specialize=["rows", "slots"])
def largest_parts(
    x, parts, valid, ids, expert_map, rows, slots,
    K: tl.constexpr, K_PAD: tl.constexpr, PARTS: tl.constexpr, VALID: tl.constexpr, HAS_MAP: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Largest magnitude of each of PARTS parts of ``x [R, K]``, float32 ``[PARTS]``; rows that hold nothing are left out.

    Args:
        x: ``[R, K]``.
        parts: result.
        valid: int32, as VALID says.
        ids: ``[slots]``.
        expert_map: int32, global to local.
        rows: R.
        slots: T * topk; M where VALID is PER_EXPERT.

    """
    begin(PDL)
    col = tl.arange(0, K_PAD)
    bits = tl.zeros([K_PAD], tl.int32)
    for row in range(tl.program_id(0), rows, PARTS):
        here = _holds(row, rows, valid, ids, expert_map, slots, VALID, HAS_MAP)
        values = tl.load(x + tl.cast(row, tl.int64) * K + col, mask=col < tl.where(here, K, 0), other=0.0).to(
            tl.float32
        )
        bits = tl.maximum(bits, values.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    tl.store(parts + tl.program_id(0), tl.max(bits, 0).to(tl.float32, bitcast=True))

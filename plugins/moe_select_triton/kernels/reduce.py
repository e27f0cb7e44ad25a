"""The weighted sum over a token's slots.

Legend: T tokens, topk slots a token, H hidden size.
"""

from __future__ import annotations

import triton
import triton.language as tl

from moe_select_triton.kernels.dependent import begin
from moe_select_triton.kernels.interpret import narrow
from moe_select_triton.kernels.quantize import local_expert


@triton.jit
def sum_slots(
    y, weights, row_of, ids, expert_map, out,
    TOPK: tl.constexpr, H: tl.constexpr, BH: tl.constexpr, SORTED: tl.constexpr, HAS_MAP: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Write ``out [T, H]``, in float32 up to the last step. Slots that were not computed here count nothing.

    Args:
        y: ``[T * topk, H]``, rows of gemm2: sorted, or one a slot.
        weights: float32 ``[T, topk]``.
        row_of: SORTED: int32 ``[T * topk]``, slot to row of ``y`` or -1.
        ids: otherwise: ``[T, topk]``.
        expert_map: int32, global to local.
        out: result.

    """
    begin(PDL)
    token = tl.program_id(0)
    col = tl.program_id(1) * BH + tl.arange(0, BH)
    total = tl.zeros([BH], tl.float32)
    for k in tl.static_range(TOPK):
        slot = token * TOPK + k
        if SORTED:
            row = tl.load(row_of + slot)
            here = row >= 0
        else:
            row = slot
            here = local_expert(ids, expert_map, slot, slot >= 0, HAS_MAP) >= 0
        values = tl.load(y + tl.cast(row, tl.int64) * H + col, mask=col < tl.where(here, H, 0), other=0.0).to(
            tl.float32
        )
        total += tl.where(here, tl.load(weights + slot), 0.0) * values
    tl.store(out + tl.cast(token, tl.int64) * H + col, narrow(total, out.dtype.element_ty), mask=col < H)

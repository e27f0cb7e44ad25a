"""The layer in bfloat16 on ``torch.nn.functional.grouped_mm``, without a host synchronization: a peer in ``benchmarks/gpu.py``.

What is not a matmul runs in kernels of the triton backend, so that the matmuls are what differs.

Legend: T tokens, R = T * topk routed slots, E experts, H hidden size, I intermediate size.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from moe_select import MoEWeights
from moe_select_triton.kernels.reduce import sum_slots


@triton.jit
def gather(x, slot_of, out, TOPK: tl.constexpr, H: tl.constexpr, BH: tl.constexpr):
    """Tokens in the order of their experts."""
    row = tl.program_id(0)
    col = tl.program_id(1) * BH + tl.arange(0, BH)
    token = tl.load(slot_of + row) // TOPK
    tl.store(out + row.to(tl.int64) * H + col, tl.load(x + token.to(tl.int64) * H + col, mask=col < H), mask=col < H)


@triton.jit
def silu_and_mul(y, out, I: tl.constexpr, BI: tl.constexpr):
    """``silu(y[:, :I]) * y[:, I:]``."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BI + tl.arange(0, BI)
    gate = tl.load(y + row * 2 * I + col, mask=col < I).to(tl.float32)
    up = tl.load(y + row * 2 * I + I + col, mask=col < I).to(tl.float32)
    tl.store(out + row * I + col, (gate / (1.0 + tl.exp(-gate)) * up).to(out.dtype.element_ty), mask=col < I)


class GroupedMMLayer:
    """Unquantized experts."""

    def __init__(self, weights: MoEWeights) -> None:
        self.w13, self.w2 = weights.w13.transpose(1, 2), weights.w2.transpose(1, 2)
        self.experts, self.H, self.I = weights.w2.shape

    def __call__(self, x: Tensor, weights: Tensor, ids: Tensor, out: Tensor) -> Tensor:
        """The layer; ids are int32."""
        T, topk = ids.shape
        R = T * topk
        flat = ids.flatten()
        order = flat.argsort(stable=True).to(torch.int32)
        ends = torch.searchsorted(
            flat[order], torch.arange(self.experts, device=x.device, dtype=torch.int32), right=True
        ).to(torch.int32)
        row_of = torch.empty_like(order)
        row_of[order] = torch.arange(R, device=x.device, dtype=torch.int32)
        rows = torch.empty(R, self.H, dtype=x.dtype, device=x.device)
        gather[(R, triton.cdiv(self.H, 1024))](x, order, rows, topk, self.H, 1024)
        y = functional.grouped_mm(rows, self.w13, offs=ends)
        hidden = torch.empty(R, self.I, dtype=x.dtype, device=x.device)
        silu_and_mul[(R, triton.cdiv(self.I, 1024))](y, hidden, self.I, 1024)
        z = functional.grouped_mm(hidden, self.w2, offs=ends)
        width = 1024 if R > 512 else 256
        sum_slots[(T, triton.cdiv(self.H, width))](z, weights, row_of, ids, ids, out, TOPK=topk, H=self.H, BH=width, SORTED=True,
                                                   HAS_MAP=False, PDL=0, num_warps=max(1, width // 256))  # fmt: skip
        return out

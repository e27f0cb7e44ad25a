"""What kernels are timed beside: the same layer on torch's own operators.

Legend: T tokens, K top-k slots, H hidden size, I intermediate size, F = 2I, E experts, R = T * K routed rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Call = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x_TH, topk_weights_TK, topk_ids_TK) to out_TH."""


def grouped_mm_works() -> bool:
    """Whether this build of torch has a grouped bfloat16 matmul for CPUs."""
    if not hasattr(functional, "grouped_mm"):
        return False
    a, b = torch.ones(2, 16, dtype=torch.bfloat16), torch.ones(1, 16, 16, dtype=torch.bfloat16)
    try:
        functional.grouped_mm(a, b, offs=torch.tensor([2], dtype=torch.int32))
    except (RuntimeError, NotImplementedError):
        return False
    return True


def grouped_mm_layer(w13_EFH: Tensor, w2_EHI: Tensor) -> Call:
    """The layer in bfloat16 on ``torch.nn.functional.grouped_mm``: sort rows by expert, two grouped matmuls, sum."""

    def call(x_TH: Tensor, topk_weights_TK: Tensor, topk_ids_TK: Tensor) -> Tensor:
        ids_R = topk_ids_TK.flatten()
        order_R = ids_R.argsort(stable=True)
        token_R = order_R // topk_ids_TK.shape[1]
        ends_E = torch.bincount(ids_R, minlength=w13_EFH.shape[0]).cumsum(0).to(torch.int32)
        gate_RI, up_RI = functional.grouped_mm(x_TH[token_R], w13_EFH.transpose(1, 2), offs=ends_E).chunk(2, dim=-1)
        y_RH = functional.grouped_mm(functional.silu(gate_RI) * up_RI, w2_EHI.transpose(1, 2), offs=ends_E)
        weights_R = topk_weights_TK.flatten()[order_R]
        out_TH = torch.zeros(x_TH.shape, dtype=torch.float32)
        return out_TH.index_add_(0, token_R, y_RH.float() * weights_R[:, None]).to(x_TH.dtype)

    return call

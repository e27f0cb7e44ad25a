"""int8 W8A16: few rows on torch's kernel that reads int8 weights, many rows on weights converted on the way.

An int8 value is exact in bfloat16, so converted weights lose nothing; scales are applied to the float32 output, since the
kernel takes them in bfloat16 only.

Legend: T tokens, N and K rows and columns of one GEMM's weights.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import linear

FEW_ROWS: Final = 8
"""Up to here converting the weights costs more than it saves."""
ALIGNMENT: Final = 32
"""The kernel loads whole vectors: a reduction that is no multiple, or memory that does not begin at one, ends the process."""


class WeightOnlyLinear:
    """One expert's weights as they are.

    Args:
        w_NK: int8.
        scale: ``[N, 1]`` per channel or ``[1, 1]`` per tensor.

    """

    def __init__(self, w_NK: Tensor, scale: Tensor | None) -> None:
        assert scale is not None  # checked when the layer was built
        self.w_NK = w_NK.contiguous()
        self.is_aligned = w_NK.shape[1] % ALIGNMENT == 0 and self.w_NK.data_ptr() % ALIGNMENT == 0
        self.scale_N = scale.float().reshape(-1)
        self.ones_N = torch.ones(w_NK.shape[0], dtype=torch.bfloat16)

    def __call__(self, values: Tensor, span: slice) -> Tensor:
        """The span's rows of ``[T, K]`` in bfloat16, float16 or float32 to ``[span, N]`` in float32."""
        values = values[span]
        few = len(values) <= FEW_ROWS and values.data_ptr() % ALIGNMENT == 0
        if few and self.is_aligned and values.dtype is torch.bfloat16:
            out_TN = torch._weight_int8pack_mm(values, self.w_NK, self.ones_N).float()
        else:
            # Processors without native float16 GEMMs run float32 ones faster.
            dtype = torch.bfloat16 if values.dtype is torch.bfloat16 else torch.float32
            out_TN = linear(values.to(dtype), self.w_NK.to(dtype)).float()
        return out_TN.mul_(self.scale_N)

"""Unquantized experts.

Legend: T tokens, N and K rows and columns of one GEMM's weights.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import linear


class PlainLinear:
    """One expert's weights as they are."""

    def __init__(self, w_NK: Tensor, scale: Tensor | None) -> None:  # noqa: ARG002
        self.w_NK = w_NK

    def __call__(self, values: Tensor, span: slice) -> Tensor:
        """The span's rows of ``[T, K]`` to ``[span, N]`` in float32."""
        return linear(values[span].to(self.w_NK.dtype), self.w_NK).float()

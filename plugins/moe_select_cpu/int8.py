"""int8 W8A8 on oneDNN.

oneDNN multiplies unsigned activations fast on every instruction set it has int8 kernels for; signed ones fall back to a scalar
reference loop on processors without AMX. So activations are shifted: ``u8 = s8 + 128`` with a zero point of 128 is the same
symmetric int8.

Legend: T tokens, N and K rows and columns of one GEMM's weights.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import pad

from moe_select.kernels.quant_config import QuantConfig
from moe_select.vocabulary import PER_TENSOR
from moe_select_cpu.compute import Rows

ZERO_POINT: Final = 128
HIGHEST: Final = 127.0
FEW_ROWS: Final = 8
FINE: Final = 8
COARSE: Final = 16
"""Numbers of rows that are multiplied: any up to 8, multiples of 8 up to 32, multiples of 16 beyond."""


def rounded_rows(rows: int) -> int:
    """The number of rows that oneDNN is given.

    It makes and keeps a primitive for every size it meets, which takes about ten times as long as one multiplication and most of
    a megabyte on AMX. A handful of sizes is made once; the processor multiplies blocks of 8 or 16 rows in any case.
    """
    if rows <= FEW_ROWS:
        return rows
    step = FINE if rows <= 4 * FINE else COARSE
    return -(-rows // step) * step


def window_of(span: slice, length: int) -> tuple[slice, slice]:
    """The rows that oneDNN is given for a span, and where the span lies among them.

    Neighbours fill the number up: they cost what padding would, and nothing is copied. The window ends past ``length`` where there
    are too few of them.
    """
    rows = span.stop - span.start
    size = rounded_rows(rows)
    start = max(0, min(span.start, length - size))
    return slice(start, start + size), slice(span.start - start, span.stop - start)


class Int8Linear:
    """One expert's weights, packed for oneDNN.

    Args:
        w_NK: int8.
        scale: ``[N, 1]`` per channel or ``[1, 1]`` per tensor.

    """

    def __init__(self, w_NK: Tensor, scale: Tensor | None) -> None:
        assert scale is not None  # checked when the layer was built
        rows = w_NK.shape[0]
        self.packed = torch.ops.onednn.qlinear_prepack(w_NK.contiguous(), None)
        self.scale_N = scale.float().expand(rows, 1).reshape(rows).contiguous()
        self.zero_points_N = torch.zeros(rows, dtype=torch.int32)

    def __call__(self, values: Tensor, span: slice) -> Tensor:
        """The span's rows of ``[T, K]`` in uint8 to ``[span, N]`` in float32."""
        window, inside = window_of(span, len(values))
        missing = window.stop - len(values)
        out = torch.ops.onednn.qlinear_pointwise(
            pad(values, (0, 0, 0, missing)) if missing > 0 else values[window],
            1.0,
            ZERO_POINT,
            self.packed,
            self.scale_N,
            self.zero_points_N,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return out[inside]


class Quantizer:
    """Symmetric int8 rows, shifted to uint8.

    Args:
        static: the one scale, or None to take it from the rows.
        shared_scale: one dynamic scale for all rows instead of one a row.

    """

    def __init__(self, static: Tensor | None, shared_scale: bool) -> None:
        self.static = None if static is None else static.float().reshape(1, 1)
        self.shared_scale = shared_scale

    def __call__(self, rows: Tensor) -> Rows:
        """Quantize ``[T, K]`` floats. A row with NaN or Inf has a scale that is not finite, which its output keeps."""
        rows = rows.float()
        scale = self.static
        if scale is None:
            # The largest magnitude of a row. Two vectorized passes: aminmax is one, but scalar along the last dimension.
            high, low = rows.amax(-1, keepdim=True), rows.amin(-1, keepdim=True)
            scale = torch.maximum(high, low.neg_()) / HIGHEST
            scale = scale.amax(0, keepdim=True) if self.shared_scale else scale
        shifted = (rows / scale).round_()
        if self.static is not None:
            shifted.clamp_(-ZERO_POINT, HIGHEST)
        # A row of zeros is 0 / 0; whatever it becomes here is multiplied by its scale, 0.
        values = shifted.add_(ZERO_POINT).to(torch.uint8)
        return Rows(values, scale)


def activation_quantizer(config: QuantConfig, gemm: str) -> Quantizer:
    """The quantizer of one GEMM's activations; ``gemm`` is ``a1`` or ``a2``."""
    key = config.activation_key
    assert key is not None
    static = getattr(config, f"{gemm}_scale")
    return Quantizer(static, shared_scale=static is None and key.group == PER_TENSOR)

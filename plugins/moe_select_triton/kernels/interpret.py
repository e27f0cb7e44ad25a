"""What Triton's interpreter does otherwise than a GPU."""

from __future__ import annotations

import triton
import triton.language as tl
from triton import knobs

WIDEN = tl.constexpr(bool(knobs.runtime.interpret))
"""Products of bfloat16 are taken in float32: numpy has no bfloat16."""


@triton.jit
def narrow(x, dtype: tl.constexpr):
    """float32 to the dtype, rounded to nearest; the interpreter would cut a bfloat16 off."""
    if WIDEN and dtype == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
        x = tl.where((bits & 0x7FFFFFFF) > 0x7F800000, x, rounded)
    return x.to(dtype)

"""How far a kernel may be from the float64 oracle: declared once, for every kernel."""

from __future__ import annotations

from typing import Final

from moe_select.vocabulary import MoEConfig
from moe_select.vocabulary.dtypes import DTYPES

_BY_DTYPE: Final = {"float64": 1e-6, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""Rounding of inputs, intermediates and outputs to the layer's dtype."""

_BY_ACTIVATION_BITS: Final = {8: 5e-3, 4: 5e-2}
"""Quantized activations: a value that lies between two codes may be rounded either way, once before each GEMM."""


def error_bound(request: MoEConfig) -> float:
    """Largest ``||out - ref|| / ||ref||`` that counts as correct."""
    bound = _BY_DTYPE[request.in_dtype]
    if request.activation_key is not None:
        bound += _BY_ACTIVATION_BITS[DTYPES[request.activation_key.dtype].bits]
    return bound

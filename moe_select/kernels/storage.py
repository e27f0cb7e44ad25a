"""How a quantized operand lies in memory: the one table of canonical storage, and packing.

Elements are packed along the reduction (last) dimension, lowest bits first. Scales are shaped ``[..., N/r, K/c]`` for a
group of ``r`` rows and ``c`` columns, so a scale per channel is ``[..., N, 1]`` and one per tensor ``[..., 1, 1]``. E8M0
scales are ``uint8`` exponents with a bias of 127 (OCP Microscaling Formats v1.0).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from moe_select.errors import WeightError
from moe_select.vocabulary import QuantKey
from moe_select.vocabulary.quant import GroupShape


class Storage(NamedTuple):
    """Element type in memory, elements in one of them, and the range of an element's value."""

    dtype: torch.dtype
    packed: int
    lowest: float
    highest: float
    offset: int = 0
    """Added to the value before it is stored (biased types)."""


STORAGE: Final[dict[str, Storage]] = {
    "int8": Storage(torch.int8, 1, -128, 127),
    "uint8": Storage(torch.uint8, 1, 0, 255),
    "int4": Storage(torch.int8, 1, -8, 7),
    "uint4": Storage(torch.int32, 8, 0, 15),
    "uint4b8": Storage(torch.int32, 8, -8, 7, 8),
    "uint8b128": Storage(torch.int32, 4, -128, 127, 128),
    "float8_e4m3fn": Storage(torch.float8_e4m3fn, 1, -448, 448),
    "float8_e4m3fnuz": Storage(torch.float8_e4m3fnuz, 1, -240, 240),
    "float8_e5m2": Storage(torch.float8_e5m2, 1, -57344, 57344),
    "float4_e2m1fn": Storage(torch.uint8, 2, -6, 6),
}
"""Dtype name to canonical storage. Types that are not here have no defined layout yet."""

FP4_VALUES: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of the E2M1 codes 0 to 7; code 8 and up are their negatives (OCP Microscaling Formats v1.0, 5.3.3)."""


def storage_of(key: QuantKey) -> Storage:
    """Canonical storage of a key's elements. Raises :class:`WeightError` where none is defined."""
    if key.dtype not in STORAGE:
        raise WeightError(f"{key} has no storage layout; dtypes that have one: {', '.join(STORAGE)}")
    return STORAGE[key.dtype]


def scale_torch_dtype(name: str) -> torch.dtype:
    """Torch dtype that stores scales of a dtype name."""
    return torch.uint8 if name == "float8_e8m0fnu" else getattr(torch, name)


def scale_shape(group: GroupShape, rows: int, cols: int) -> tuple[int, int]:
    """Number of scales along rows and columns of an ``[rows, cols]`` operand.

    A channel of weights ``[N, K]`` is one row, whichever of the two spellings of one-scale-a-row the key uses.
    """
    if group == (-1, 1):
        return rows, 1
    row = 1 if group.row == -1 else -(-rows // group.row)
    col = 1 if group.col == -1 else -(-cols // group.col)
    return row, col


def pack(values: Tensor, storage: Storage) -> Tensor:
    """Integers ``[..., K]`` (offset already added) to packed ``[..., K / packed]``."""
    if storage.packed == 1:
        return values.to(storage.dtype)
    per, bits = storage.packed, storage.dtype.itemsize * 8 // storage.packed
    if values.shape[-1] % per:
        raise WeightError(
            f"last dimension {values.shape[-1]} is not a multiple of {per}, the elements packed in one item"
        )
    groups = values.to(torch.int64).unflatten(-1, (-1, per))
    shifts = torch.arange(per, device=values.device) * bits
    words = (groups << shifts).sum(-1)
    if storage.dtype is torch.int32:
        words = torch.where(words >= 1 << 31, words - (1 << 32), words)
    return words.to(storage.dtype)


def unpack(packed: Tensor, storage: Storage) -> Tensor:
    """Inverse of :func:`pack`; int32, offset still added."""
    if storage.packed == 1:
        return packed.to(torch.int32)
    per, bits = storage.packed, storage.dtype.itemsize * 8 // storage.packed
    shifts = torch.arange(per, device=packed.device, dtype=torch.int32) * bits
    fields = (packed.to(torch.int32).unsqueeze(-1) >> shifts) & ((1 << bits) - 1)
    return fields.flatten(-2)


def encode_fp4(values: Tensor) -> Tensor:
    """Nearest E2M1 codes (ties to the even code) of floats, saturating; int32."""
    # Midpoints between neighbours. A tie goes to the even code: upwards where the upper code is even.
    bounds = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], dtype=values.dtype, device=values.device)
    magnitude = values.abs().unsqueeze(-1)
    upper_is_even = torch.tensor([False, True] * 3 + [False], device=values.device)
    code = torch.where(upper_is_even, magnitude >= bounds, magnitude > bounds).sum(-1, dtype=torch.int32)
    return code + 8 * torch.signbit(values).to(torch.int32)


def decode_fp4(codes: Tensor, dtype: torch.dtype) -> Tensor:
    """Values of E2M1 codes."""
    table = torch.tensor([*FP4_VALUES, *(-value for value in FP4_VALUES)], dtype=dtype, device=codes.device)
    return table[codes.long()]


def decode_scale(scale: Tensor, name: str, dtype: torch.dtype) -> Tensor:
    """Stored scales as floats."""
    if name == "float8_e8m0fnu":
        exponent = scale.view(torch.uint8).to(torch.int32)
        value = torch.ldexp(torch.ones_like(exponent, dtype=dtype), exponent - 127)
        return torch.where(exponent == 255, torch.nan, value)
    return scale.to(dtype)

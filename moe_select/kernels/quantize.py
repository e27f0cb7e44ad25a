"""Quantizing and dequantizing, for weights and activations alike. Works on any device torch runs on.

Legend: N rows, K columns (the reduction) of an operand ``[..., N, K]``; a token batch ``[..., T, K]`` is one too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from moe_select.errors import WeightError
from moe_select.kernels.storage import (
    decode_fp4,
    decode_scale,
    encode_fp4,
    pack,
    scale_shape,
    scale_torch_dtype,
    storage_of,
    unpack,
)
from moe_select.vocabulary import QuantKey
from moe_select.vocabulary.dtypes import DTYPES
from moe_select.vocabulary.quant import GroupShape

_E8M0: Final = "float8_e8m0fnu"
_FP8_MAX: Final = 448.0


class Quantized(NamedTuple):
    """An operand with what it takes to read it."""

    values: Tensor
    """Canonical storage, ``[..., N, K / packed]``."""
    scale: Tensor
    """``[..., N / r, K / c]``."""
    zero_point: Tensor | None = None
    """int32, shaped like ``scale``."""
    scale_2: Tensor | None = None
    """Second level, float32, ``[..., 1, 1]`` per tensor or ``[..., N, 1]`` per token."""


def quantize(
    x: Tensor,
    key: QuantKey,
    *,
    scale: Tensor | None = None,
    zero_point: Tensor | None = None,
    scale_2: Tensor | None = None,
) -> Quantized:
    """Quantize ``[..., N, K]`` by a key.

    Args:
        x: floats; leading dimensions are independent tensors.
        key: the target. Keys with a second level (nvfp4) take their global scale from ``scale_2``, else from the data.
        scale: static scales, used instead of the data's own range: ``[..., N/r, K/c]``, or one value for all.
        zero_point: static zero points, shaped like ``scale``; required with it where the key is asymmetric.
        scale_2: static second-level scale, one value for all.

    Rows that hold NaN or Inf get a non-finite scale and zero elements, so the trouble stays in their groups.

    Raises:
        WeightError: the key has no defined quantization, or K does not divide by its group.

    """
    storage = storage_of(key)
    work = x.to(torch.float64 if x.dtype is torch.float64 else torch.float32)
    scale, zero_point, scale_2 = (_spread(part, x.dim()) for part in (scale, zero_point, scale_2))
    if scale_2 is None and key.scale2 is not None:
        scale_2 = _global_scale(work, key)
    if scale is None:
        scale, zero_point = _scales(work, key, scale_2)
    divisor = _expand(_effective(scale, key, scale_2, work.dtype), work.shape, key)
    scaled = torch.where(divisor > 0, work / divisor, 0.0)
    if zero_point is not None:
        scaled = scaled + _expand(zero_point.to(work.dtype), work.shape, key)
    if not storage.dtype.is_floating_point:
        scaled = torch.nan_to_num(scaled, nan=0.0, posinf=storage.highest, neginf=storage.lowest)
    return Quantized(_store(scaled, key), scale, zero_point, scale_2)


def _spread(part: Tensor | None, dims: int) -> Tensor | None:
    """One value for all, with as many dimensions as the operand."""
    return part.reshape((1,) * dims) if part is not None and part.numel() == 1 else part


def dequantize(operand: Quantized, key: QuantKey, dtype: torch.dtype = torch.float32) -> Tensor:
    """Inverse of :func:`quantize`, computed in ``dtype``."""
    storage = storage_of(key)
    if key.dtype == "float4_e2m1fn":
        values = decode_fp4(unpack(operand.values, storage), dtype)
    elif DTYPES[key.dtype].kind == "float":
        values = operand.values.to(dtype)
    else:
        values = unpack(operand.values, storage).to(dtype) - storage.offset
    if operand.zero_point is not None:
        values = values - _expand(operand.zero_point.to(dtype), values.shape, key)
    return values * _expand(_effective(operand.scale, key, operand.scale_2, dtype), values.shape, key)


def _store(scaled: Tensor, key: QuantKey) -> Tensor:
    storage = storage_of(key)
    clamped = scaled.clamp(storage.lowest, storage.highest)
    if key.dtype == "float4_e2m1fn":
        return pack(encode_fp4(clamped), storage)
    if DTYPES[key.dtype].kind == "float":
        return clamped.to(storage.dtype)
    return pack(clamped.round().to(torch.int32) + storage.offset, storage)


def _effective(scale: Tensor, key: QuantKey, scale_2: Tensor | None, dtype: torch.dtype) -> Tensor:
    first = decode_scale(scale, key.scale.dtype, dtype)
    return first if scale_2 is None else first * scale_2.to(dtype)


def _extent(group: GroupShape, rows: int, cols: int) -> tuple[int, int]:
    """Rows and columns of one group; see :func:`scale_shape` for channels."""
    if group == (-1, 1):
        return 1, cols
    return (rows if group.row == -1 else group.row), (cols if group.col == -1 else group.col)


def _expand(scale: Tensor, shape: torch.Size, key: QuantKey) -> Tensor:
    """Scales repeated to the elements they belong to, by broadcasting wherever one group spans the extent."""
    rows, cols = shape[-2:]
    extent = _extent(key.group, rows, cols)
    for dim, size, group in ((-2, rows, extent[0]), (-1, cols, extent[1])):
        if scale.shape[dim] not in (1, size) and group > 1:
            scale = scale.repeat_interleave(group, dim).narrow(dim, 0, size)
    return scale


def _grouped(x: Tensor, key: QuantKey) -> Tensor:
    """``[..., N/r, K/c, r*c]``: elements of each group together, padded by zeros where blocks overhang."""
    rows, cols = x.shape[-2:]
    row, col = _extent(key.group, max(rows, 1), cols)
    n, k = scale_shape(key.group, max(rows, 1), cols)
    if cols % col and row == 1:
        raise WeightError(f"{key} has groups of {col} along the last dimension, and {cols} is not a multiple of {col}")
    padded = torch.nn.functional.pad(x, (0, k * col - cols, 0, n * row - rows))
    return padded.unflatten(-1, (k, col)).unflatten(-3, (n, row)).transpose(-3, -2).flatten(-2)


def _scales(x: Tensor, key: QuantKey, scale_2: Tensor | None) -> tuple[Tensor, Tensor | None]:
    storage, groups = storage_of(key), _grouped(x, key)
    if not key.symmetric:
        return _affine(groups, key)
    amax = groups.abs().amax(-1)
    if key.scale.dtype == _E8M0:
        return _power_of_two(amax, key), None
    scale = amax / storage.highest
    if scale_2 is not None:
        scale = torch.where(scale_2 > 0, scale / scale_2, 0.0).clamp(max=_FP8_MAX)
    return scale.to(scale_torch_dtype(key.scale.dtype)), None


def _affine(groups: Tensor, key: QuantKey) -> tuple[Tensor, Tensor]:
    storage = storage_of(key)
    # Zero stays exactly representable, so padding and relu zeros do not drift.
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scale = ((high - low) / (storage.highest - storage.lowest)).to(scale_torch_dtype(key.scale.dtype))
    offset = torch.where(scale > 0, storage.lowest - low / scale.to(low.dtype), 0.0)
    zero_point = torch.nan_to_num(offset).round().clamp(storage.lowest, storage.highest).to(torch.int32)
    return scale, zero_point


def _power_of_two(amax: Tensor, key: QuantKey) -> Tensor:
    """E8M0 exponents. FP4 takes the rule of the OCP spec (section 6.3: floor, largest elements saturate); FP8 rounds up,
    as hardware converters do, so that nothing saturates.
    """
    exponent = torch.frexp(amax).exponent - 1  # floor(log2(amax))
    if key.dtype == "float4_e2m1fn":
        exponent = exponent - 2
    else:
        highest = storage_of(key).highest
        exponent = torch.ceil(torch.log2(amax / highest).nan_to_num(0.0, 0.0, -127.0)).to(torch.int32)
    biased = (exponent + 127).clamp(0, 254)
    biased = torch.where(amax == 0, 0, biased)
    return torch.where(amax.isfinite(), biased, 255).to(torch.uint8)


def _global_scale(x: Tensor, key: QuantKey) -> Tensor:
    """Second level chosen so that the largest block scale is the largest value its dtype holds."""
    assert key.scale2 is not None
    dims = (-1,) if key.scale2.group == (1, -1) else (-2, -1)
    amax = x.abs().amax(dims, keepdim=True) if x.numel() else x.new_zeros(*x.shape[:-2], 1, 1)
    return (amax / (storage_of(key).highest * _FP8_MAX)).to(torch.float32)

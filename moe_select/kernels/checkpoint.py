"""Weights of one layer from a checkpoint in the names and layouts of compressed-tensors.

Legend: E experts, H hidden size, I intermediate size of this rank, N rows and K columns of one projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from moe_select.errors import WeightError
from moe_select.kernels.quantize import Quantized, dequantize, quantize
from moe_select.kernels.storage import STORAGE, unpack
from moe_select.vocabulary import PER_TENSOR, QuantKey, parse_optional_key

if TYPE_CHECKING:
    from moe_select.kernels.weights import MoEWeights

NAMES: Final = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
"""Spellings of (gate, up, down); ``up_proj`` and ``down_proj`` alone are an MLP without a gate."""


def from_checkpoint(tensors: Mapping[str, Tensor], key: QuantKey | str | None, prefix: str = "") -> MoEWeights:
    """Stack the experts of one layer.

    Args:
        tensors: ``<prefix><expert>.<projection>.<part>`` for every expert from 0 on. Parts: ``weight`` or
            ``weight_packed`` (int4 in int32, values plus 8, low nibble first), ``weight_scale``,
            ``weight_zero_point``, ``weight_global_scale`` (a divisor), ``input_scale``, ``input_global_scale`` (a
            divisor), ``bias``.
        key: how the weights are quantized.
        prefix: what stands before the expert's number: ``model.layers.3.mlp.experts.``.

    Returns:
        Canonical weights. Gate and up scales of one value each that differ are brought to the larger one; static
        activation scales become the largest of all experts.

    Raises:
        WeightError: something is missing, or there are no experts under the prefix.

    """
    from moe_select.kernels.weights import MoEWeights

    reader = _Reader(tensors, parse_optional_key(key), prefix)
    fields: dict[str, Any] = {"key": reader.key}
    for operand, projections in reader.operands.items():
        for suffix, value in reader.operand(projections)._asdict().items():
            fields[operand + _SUFFIXES[suffix]] = value
        fields[f"{operand}_bias"] = reader.bias(projections)
    for number, projections in (("a1", reader.operands["w13"]), ("a2", reader.operands["w2"])):
        fields[f"{number}_scale"] = reader.largest(projections, "input_scale")
        fields[f"{number}_scale_2"] = reader.reciprocal_of_smallest(projections, "input_global_scale")
    return MoEWeights(**fields)


_SUFFIXES: Final = {"values": "", "scale": "_scale", "zero_point": "_zero_point", "scale_2": "_scale_2"}


class _Reader:
    """The tensors of one layer."""

    def __init__(self, tensors: Mapping[str, Tensor], key: QuantKey | None, prefix: str) -> None:
        self.tensors, self.key, self.prefix = tensors, key, prefix
        numbers = {name[len(prefix) :].partition(".")[0] for name in tensors if name.startswith(prefix)}
        found = sorted(int(number) for number in numbers if number.isdecimal())
        if not found or found != list(range(len(found))):
            raise WeightError(f"no experts 0, 1, ... under the prefix {prefix!r}; found: {found or 'none'}")
        self.experts = range(len(found))
        self.operands = self._projections()

    def _projections(self) -> dict[str, tuple[str, ...]]:
        first = {
            name[len(self.prefix) + 2 :].partition(".")[0]
            for name in self.tensors
            if name.startswith(f"{self.prefix}0.")
        }
        for gate, up, down in NAMES:
            if {up, down} <= first:
                return {"w13": (gate, up) if gate in first else (up,), "w2": (down,)}
        known = " or ".join(", ".join(names) for names in NAMES)
        raise WeightError(
            f"expert 0 under {self.prefix!r} has {', '.join(sorted(first)) or 'nothing'}; expected {known}"
        )

    def operand(self, projections: tuple[str, ...]) -> Quantized:
        """One stacked operand."""
        per_expert = [self._joined([self._projection(expert, name) for name in projections]) for expert in self.experts]
        parts = (_stack([item[i] for item in per_expert]) for i in range(4))
        return Quantized(*parts)  # type: ignore[arg-type]

    def _projection(self, expert: int, name: str) -> Quantized:
        """``[N, K]`` in canonical storage."""
        if self.key is None:
            return Quantized(self._get(expert, name, "weight"), None)  # type: ignore[arg-type]
        packed = self._find(expert, name, "weight_packed")
        values = self._get(expert, name, "weight") if packed is None else self._repacked(packed)
        scale = self._get(expert, name, "weight_scale")
        scale = scale.reshape(1, 1) if scale.numel() == 1 else scale.reshape(scale.shape[0], -1)
        divisor = self._find(expert, name, "weight_global_scale")
        scale_2 = None if divisor is None else divisor.float().reciprocal().reshape(1, 1)
        return Quantized(values, scale, self._zero_point(expert, name, values.shape[0]), scale_2)

    def _repacked(self, packed: Tensor) -> Tensor:
        """Packed nibbles are stored alike for biased types; signed int4 is kept one value a byte."""
        if self.key is not None and self.key.dtype == "int4":
            return (unpack(packed, STORAGE["uint4b8"]) - STORAGE["uint4b8"].offset).to(torch.int8)
        return packed

    def _zero_point(self, expert: int, name: str, rows: int) -> Tensor | None:
        """int32 ``[N, K/g]``; checkpoints pack 4-bit ones along the rows."""
        found = self._find(expert, name, "weight_zero_point")
        if found is None or self.key is None or self.key.symmetric:
            return None
        if self.key.dtype == "uint4" and found.shape[0] != rows:
            return unpack(found.t().contiguous(), STORAGE["uint4"])[:, :rows].t().contiguous()
        return found.to(torch.int32).reshape(found.shape[0] if found.dim() else 1, -1)

    def _joined(self, parts: list[Quantized]) -> Quantized:
        """Gate and up rows of one expert as one operand."""
        if len(parts) == 1:
            return parts[0]
        parts = self._one_scale(parts)
        values, scales, points = (_cat([part[i] for part in parts]) for i in range(3))
        if self.key is not None and self.key.group == PER_TENSOR:
            scales, points = parts[0].scale, parts[0].zero_point
        return Quantized(values, scales, points, parts[0].scale_2)  # type: ignore[arg-type]

    def _one_scale(self, parts: list[Quantized]) -> list[Quantized]:
        """Quantize again where one value must serve both halves and they differ."""
        key, first, second = self.key, parts[0], parts[1]
        if key is None:
            return parts
        if key.group == PER_TENSOR and not torch.equal(first.scale, second.scale):
            largest = torch.maximum(first.scale, second.scale)
            return [quantize(dequantize(part, key), key, scale=largest) for part in parts]
        if first.scale_2 is not None and second.scale_2 is not None and not torch.equal(first.scale_2, second.scale_2):
            largest = torch.maximum(first.scale_2, second.scale_2)
            return [quantize(dequantize(part, key), key, scale_2=largest) for part in parts]
        return parts

    def bias(self, projections: tuple[str, ...]) -> Tensor | None:
        """``[E, N]``, or None where expert 0 has none."""
        if self._find(0, projections[0], "bias") is None:
            return None
        return torch.stack([torch.cat([self._get(e, name, "bias") for name in projections]) for e in self.experts])

    def largest(self, projections: tuple[str, ...], part: str) -> Tensor | None:
        """The largest value over experts and projections; None where there is none."""
        found = self._all(projections, part)
        return torch.stack(found).max() if found else None

    def reciprocal_of_smallest(self, projections: tuple[str, ...], part: str) -> Tensor | None:
        """One over the smallest divisor."""
        found = self._all(projections, part)
        return torch.stack(found).min().reciprocal() if found else None

    def _all(self, projections: tuple[str, ...], part: str) -> list[Tensor]:
        found = [self._find(expert, name, part) for expert in self.experts for name in projections]
        present = [tensor.float().reshape(()) for tensor in found if tensor is not None]
        if present and len(present) != len(found):
            raise WeightError(f"{part} is given for {len(present)} of {len(found)} projections under {self.prefix!r}")
        return present

    def _find(self, expert: int, name: str, part: str) -> Tensor | None:
        return self.tensors.get(f"{self.prefix}{expert}.{name}.{part}")

    def _get(self, expert: int, name: str, part: str) -> Tensor:
        found = self._find(expert, name, part)
        if found is None:
            raise WeightError(f"{self.prefix}{expert}.{name}.{part} is missing")
        return found


def _stack(parts: list[Tensor | None]) -> Tensor | None:
    return None if parts[0] is None else torch.stack([part for part in parts if part is not None])


def _cat(parts: list[Tensor | None]) -> Tensor | None:
    return None if parts[0] is None else torch.cat([part for part in parts if part is not None])

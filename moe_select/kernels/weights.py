"""The weights of one MoE layer in the canonical layout, as checkpoints and on-line quantization deliver them.

Legend: E experts of this rank, H hidden size, I intermediate size of this rank, F rows of w13 (2I gated, I not),
N rows and K columns of an operand, r and c the rows and columns of one quantization group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor

from moe_select.errors import WeightError
from moe_select.kernels.quantize import Quantized, dequantize, quantize
from moe_select.kernels.storage import storage_of
from moe_select.vocabulary import QuantKey, parse_optional_key

if TYPE_CHECKING:
    from moe_select.vocabulary import MoEConfig

Operand = Literal["w13", "w2"]
OPERANDS: tuple[Operand, Operand] = ("w13", "w2")


@dataclass(frozen=True, eq=False, kw_only=True)
class MoEWeights:
    """Weights, scales, zero points and biases of the experts of one rank.

    ``w13`` is ``[E, F, H]`` (gate rows, then up rows; interleaved for ``swigluoai``) and ``w2`` is ``[E, H, I]``. A
    quantized operand is stored as :data:`moe_select.kernels.storage.STORAGE` says, packed along its last dimension.
    :meth:`validate` checks the shapes; making an instance does not.
    """

    w13: Tensor
    w2: Tensor
    key: QuantKey | None = None
    """How both operands are quantized; a name is accepted."""
    w13_scale: Tensor | None = None
    """``[E, F/r, H/c]``."""
    w2_scale: Tensor | None = None
    """``[E, H/r, I/c]``."""
    w13_scale_2: Tensor | None = None
    """Second-level scales that multiply the first level, float32 ``[E, 1, 1]``."""
    w2_scale_2: Tensor | None = None
    w13_zero_point: Tensor | None = None
    """int32, shaped like ``w13_scale``."""
    w2_zero_point: Tensor | None = None
    w13_bias: Tensor | None = None
    """``[E, F]``."""
    w2_bias: Tensor | None = None
    """``[E, H]``."""
    a1_scale: Tensor | None = None
    """Static scale of the first GEMM's activations, a scalar."""
    a2_scale: Tensor | None = None
    """Static scale of the second GEMM's activations, a scalar."""
    a1_zero_point: Tensor | None = None
    """Static zero point of asymmetric activations, an integer scalar."""
    a2_zero_point: Tensor | None = None
    a1_scale_2: Tensor | None = None
    """Static second-level scale of the first GEMM's activations (nvfp4), a float32 scalar."""
    a2_scale_2: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", parse_optional_key(self.key))

    @property
    def num_experts(self) -> int:
        """E, the experts of this rank."""
        return int(self.w13.shape[0])

    @property
    def device(self) -> torch.device:
        """Where ``w13`` lies."""
        return self.w13.device

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for _, tensor in self.tensors())

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor of everything that is there."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                yield field.name, value

    def operand(self, name: Operand, experts: slice = slice(None)) -> Quantized:
        """One quantized operand, of some experts."""
        parts = (getattr(self, name + suffix) for suffix in ("", "_scale", "_zero_point", "_scale_2"))
        return Quantized(*(None if part is None else part[experts] for part in parts))  # type: ignore[arg-type]

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to(self, device: torch.device | str) -> Self:
        """A copy on a device."""
        return self._map(lambda tensor: tensor.to(device))

    def quantize(self, key: QuantKey | str | None) -> Self:
        """Quantize float weights on line, from their own range.

        Works expert by expert, so that the extra memory is that of one expert in float32.

        Raises:
            WeightError: the weights are quantized already, or the key has no defined quantization.

        """
        key = parse_optional_key(key)
        if key is None:
            return self
        if self.key is not None:
            raise WeightError(f"weights are quantized as {self.key} already; dequantize() them first")
        parts: dict[str, Tensor | None] = {}
        for name in OPERANDS:
            done = [quantize(expert, key) for expert in getattr(self, name).split(1)]
            for suffix, tensors in zip(("", "_scale", "_zero_point", "_scale_2"), zip(*done, strict=True), strict=True):
                parts[name + suffix] = None if tensors[0] is None else torch.cat(tensors)
        return self.replace(key=key, **parts)

    def dequantize(self, dtype: torch.dtype = torch.float32) -> Self:
        """The same weights as floats; biases keep their values and follow the dtype."""
        if self.key is None:
            return self._map(lambda tensor: tensor.to(dtype))
        empty = dict.fromkeys(f"{name}_{part}" for name in OPERANDS for part in ("scale", "scale_2", "zero_point"))
        values = {name: dequantize(self.operand(name), self.key, dtype) for name in OPERANDS}
        biases = {
            name: None if b is None else b.to(dtype)
            for name, b in (("w13_bias", self.w13_bias), ("w2_bias", self.w2_bias))
        }
        return self.replace(key=None, **empty, **values, **biases)

    def validate(self, request: MoEConfig) -> MoEConfig:
        """Check every tensor against the request.

        Returns:
            The request with the sizes it did not state filled in from the tensors.

        Raises:
            WeightError: lists everything that is missing, contradictory or misshapen.

        """
        from moe_select.kernels.validate import validate

        return validate(self, request)

    @classmethod
    def random(cls, request: MoEConfig, seed: int = 0, device: torch.device | str = "cpu") -> Self:
        """Random weights that fit a request: normal, scaled to keep the size of activations, quantized by its key.

        Raises:
            WeightError: the request lacks a size, or its key has no defined quantization.

        """
        from moe_select.kernels.random_weights import random_weights

        fields: dict[str, Any] = random_weights(request, seed, device)
        return cls(**fields).quantize(request.weight_key)

    @classmethod
    def from_checkpoint(cls, tensors: Mapping[str, Tensor], key: QuantKey | str | None, prefix: str = "") -> MoEWeights:
        """Weights from a checkpoint's tensors; see :func:`moe_select.kernels.checkpoint.from_checkpoint`."""
        from moe_select.kernels.checkpoint import from_checkpoint

        return from_checkpoint(tensors, key, prefix)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        return self.replace(**{name: function(tensor) for name, tensor in self.tensors()})


def sizes(weights: MoEWeights) -> tuple[int, int, int, int]:
    """E, F, H and I as the tensors have them, packing undone."""
    packed = 1 if weights.key is None else storage_of(weights.key).packed
    experts, rows, cols = weights.w13.shape
    return experts, rows, cols * packed, weights.w2.shape[2] * packed

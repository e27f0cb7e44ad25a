"""What a kernel needs to know about quantization besides the weights themselves: scales, zero points, biases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from moe_select.errors import WeightError
from moe_select.vocabulary import MoEConfig, QuantKey

if TYPE_CHECKING:
    from moe_select.kernels.weights import MoEWeights


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantConfig:
    """Quantization of one layer. Shapes are those of :class:`MoEWeights`; activation scales are scalars."""

    weight_key: QuantKey | None = None
    activation_key: QuantKey | None = None
    w13_scale: Tensor | None = None
    w2_scale: Tensor | None = None
    w13_scale_2: Tensor | None = None
    w2_scale_2: Tensor | None = None
    w13_zero_point: Tensor | None = None
    w2_zero_point: Tensor | None = None
    w13_bias: Tensor | None = None
    w2_bias: Tensor | None = None
    a1_scale: Tensor | None = None
    a2_scale: Tensor | None = None
    a1_zero_point: Tensor | None = None
    a2_zero_point: Tensor | None = None
    a1_scale_2: Tensor | None = None
    a2_scale_2: Tensor | None = None

    @property
    def per_token(self) -> bool:
        """True when each token of the activations has its own, dynamic scale."""
        key = self.activation_key
        return key is not None and not key.static and key.group == (1, -1)


_CARRIED = tuple(name for name in QuantConfig.__dataclass_fields__ if not name.endswith("_key"))


def make_quant_config(request: MoEConfig, weights: MoEWeights) -> QuantConfig:
    """The quantization of a layer from its request (which activations) and its weights (which scales).

    w8a8 and w8a16 differ only in ``activation_key``; a dynamic key takes its scales from each call, a static one from
    ``a1_scale`` and ``a2_scale``.

    Raises:
        WeightError: activation scales are missing, come alone, or are given for a key that computes its own.

    """
    problems = list(_activation_problems(request.activation_key, weights))
    if problems:
        raise WeightError("\n".join(["contradictory activation scales:", *(f"  - {line}" for line in problems)]))
    carried = {name: getattr(weights, name) for name in _CARRIED}
    return QuantConfig(weight_key=weights.key, activation_key=request.activation_key, **carried)


def _activation_problems(key: QuantKey | None, weights: MoEWeights) -> Iterator[str]:
    needed = {
        "scale": key is not None and key.static,
        "zero_point": key is not None and key.static and not key.symmetric,
        "scale_2": key is not None and key.scale2 is not None and key.scale2.static,
    }
    for part, wanted in needed.items():
        names = [f"a1_{part}", f"a2_{part}"]
        given = [name for name in names if getattr(weights, name) is not None]
        if len(given) == 1:
            other = next(name for name in names if name not in given)
            yield f"{given[0]} without {other}: both GEMMs need one, or neither"
        elif given and not wanted:
            why = "unquantized activations have none" if key is None else f"{key} does not take it"
            yield f"{' and '.join(given)} given, but {why}"
        elif wanted and not given:
            yield f"{' and '.join(names)} are missing; {key} needs them"
        for name in given:
            value = getattr(weights, name)
            if value.numel() != 1:
                yield f"{name} is {list(value.shape)}; expected one value for the layer"

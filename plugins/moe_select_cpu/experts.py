"""The experts classes of the cpu backend. What they compute is in :mod:`moe_select_cpu.compute`.

Legend: as in :mod:`moe_select.kernels.experts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from moe_select.kernels.experts import ExpertInputs, ModularExperts, Workspace
from moe_select.support import ParallelSupport, QuantPair, Support, cpu, pairs
from moe_select.vocabulary import Activation
from moe_select.vocabulary.quant_keys import (
    kInt8DynamicTensorSym,
    kInt8DynamicTokenSym,
    kInt8StaticChannelSym,
    kInt8StaticTensorSym,
)

if TYPE_CHECKING:
    from torch import Tensor

    from moe_select.kernels.weights import MoEWeights
    from moe_select_cpu.compute import Layer

_WEIGHTS: Final = (kInt8StaticChannelSym, kInt8StaticTensorSym)
_ACTIVATIONS: Final = (kInt8DynamicTokenSym, kInt8DynamicTensorSym, kInt8StaticTensorSym)


def _support(quant: frozenset[QuantPair]) -> Support:
    return Support(
        devices=(cpu(),),
        quant=quant,
        activations=frozenset(Activation),
        parallel=ParallelSupport(eplb=True),
        features={"bias": True, "deterministic": True, "swiglu_constants": True},
        requires=("torch>=2.11",),
    )


class _CPUExperts(ModularExperts):
    """Sorts rows by expert, runs the experts that got some in blocks that stay in cache, and sums in float32."""

    expects_unquantized_inputs: ClassVar[bool] = True

    def apply(self, out: Tensor, inputs: ExpertInputs, prepared: Layer, workspace: Workspace) -> None:  # noqa: ARG002
        """Write the weighted sum ``[T, H]``."""
        from moe_select_cpu.compute import run

        run(out, inputs, prepared, self.request)


class CPUExpertsInt8(_CPUExperts):
    """int8 weights and activations, on oneDNN with weights packed at build."""

    support = _support(pairs(_WEIGHTS, _ACTIVATIONS))
    weight_layout = "onednn_qlinear"

    def prepare_weights(self, weights: MoEWeights) -> Any:
        """Pack every expert for oneDNN: one more copy of the int8 weights, and the caller's may be freed."""
        from moe_select_cpu.compute import make_layer
        from moe_select_cpu.int8 import Int8Linear, activation_quantizer

        quantizers = [activation_quantizer(self.quant_config, gemm) for gemm in ("a1", "a2")]
        return make_layer(weights, Int8Linear, quantizers)


class CPUExpertsInt8WeightOnly(_CPUExperts):
    """int8 weights, activations as they are."""

    support = _support(pairs(_WEIGHTS, (None,)))

    def prepare_weights(self, weights: MoEWeights) -> Any:
        """Keep references to the weights: nothing is copied."""
        from moe_select_cpu.compute import as_dtype, make_layer
        from moe_select_cpu.weight_only import WeightOnlyLinear

        return make_layer(weights, WeightOnlyLinear, [as_dtype(self.request.in_dtype)] * 2)


class CPUUnquantizedExperts(_CPUExperts):
    """float32, bfloat16 and float16."""

    support = _support(frozenset({(None, None)}))

    def prepare_weights(self, weights: MoEWeights) -> Any:
        """Keep references to the weights: nothing is copied."""
        from moe_select_cpu.compute import as_dtype, make_layer
        from moe_select_cpu.unquantized import PlainLinear

        return make_layer(weights, PlainLinear, [as_dtype(self.request.in_dtype)] * 2)

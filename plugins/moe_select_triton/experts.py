"""The experts classes of the Triton backend. Kernels are in :mod:`moe_select_triton.kernels`, imported when they run.

Legend: as in :mod:`moe_select.kernels.experts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from moe_select.kernels.experts import BufferSpec, ExpertInputs, ModularExperts, Workspace
from moe_select.support import Code, ParallelSupport, Refusal, Support, cuda, pairs, rocm, xpu
from moe_select.vocabulary import PER_TOKEN, Activation, ActivationFormat, MoEConfig
from moe_select.vocabulary.quant_keys import (
    kInt8DynamicTensorSym,
    kInt8DynamicTokenSym,
    kInt8StaticChannelSym,
    kInt8StaticTensorSym,
)

if TYPE_CHECKING:
    from pydantic import BaseModel
    from torch import Tensor

    from moe_select.environment import Environment
    from moe_select.kernels.weights import MoEWeights
    from moe_select_triton.layer import Layer

_WEIGHTS: Final = (kInt8StaticChannelSym, kInt8StaticTensorSym)
_ACTIVATIONS: Final = (kInt8DynamicTokenSym, kInt8DynamicTensorSym, kInt8StaticTensorSym, None)

_SUPPORT: Final = Support(
    devices=(cuda(">=8.0"), rocm(), xpu()),
    quant=pairs(_WEIGHTS, _ACTIVATIONS) | {(None, None)},
    activations=frozenset(Activation),
    parallel=ParallelSupport(eplb=True),
    features={"bias": True, "deterministic": True, "batch_invariant": True, "swiglu_constants": True},
    requires=("torch>=2.11", "triton>=3.6"),
)


class _TritonExperts(ModularExperts):
    """What both formats share."""

    support = _SUPPORT
    _batched: ClassVar[bool] = False
    _layer: Layer

    @classmethod
    def refusals(cls, request: MoEConfig, environment: Environment, options: BaseModel | None) -> Iterator[Refusal]:  # noqa: ARG003
        """One scale for all rows of a call depends on the call."""
        key = request.activation_key
        if request.batch_invariant and key is not None and not key.static and key.group != PER_TOKEN:
            detail = f"activations {key} share one scale among the rows of a call"
            yield Refusal(Code.BATCH_INVARIANCE_UNSUPPORTED, detail, remedy="quantize activations per token")

    def prepare_weights(self, weights: MoEWeights) -> Layer:
        """Keep references to contiguous weights: nothing is copied."""
        from moe_select.user_files import tuned_directory
        from moe_select_triton.options import TritonOptions
        from moe_select_triton.prepare import make_layer

        options = self.options
        given = options.configs if isinstance(options, TritonOptions) else None
        directory = tuned_directory("triton") if given is None else given
        self._layer = make_layer(weights, self.request, self.quant_config, directory)
        return self._layer

    def workspace(self, num_tokens: int, topk: int) -> Mapping[str, BufferSpec]:
        """One part of memory that all launches of a call share."""
        return {"scratch": BufferSpec((self._layer.nbytes(num_tokens, topk, self._batched),), "uint8")}


class TritonExperts(_TritonExperts):
    """Tokens as they come, ``[T, H]``: sorted by expert on the device, summed at the end."""

    expects_unquantized_inputs: ClassVar[bool] = True

    def apply(self, out: Tensor, inputs: ExpertInputs, prepared: Layer, workspace: Workspace) -> None:
        """Write the weighted sum ``[T, H]``."""
        ids = inputs.topk_ids_TK
        program = prepared.program(ids.shape[0], ids.shape[1], inputs.expert_map_G is not None, ids.dtype)
        given = {"x": inputs.x, "weights": inputs.topk_weights_TK, "ids": ids, "out": out}
        if inputs.expert_map_G is not None:
            given["map"] = inputs.expert_map_G
        program.run(given, workspace["scratch"])


class BatchedTritonExperts(_TritonExperts):
    """Tokens of each expert together, ``[E, M, H]``; the rows of one expert are counted on the device."""

    activation_format = ActivationFormat.BATCHED_EXPERTS
    reduces: ClassVar[bool] = False
    _batched: ClassVar[bool] = True

    def apply(self, out: Tensor, inputs: ExpertInputs, prepared: Layer, workspace: Workspace) -> None:
        """Write ``[E, M, H]``; rows past an expert's count are left as they are."""
        assert inputs.expert_num_tokens_E is not None
        ids, width = inputs.topk_ids_TK, inputs.x.shape[1]
        if not width:
            return
        program = prepared.program(ids.shape[0], ids.shape[1], False, ids.dtype, width)
        given = {"x": inputs.x, "counts": inputs.expert_num_tokens_E, "ids": ids, "out": out}
        if inputs.x_scale is not None:
            given["x_scale"] = inputs.x_scale
        program.run(given, workspace["scratch"])

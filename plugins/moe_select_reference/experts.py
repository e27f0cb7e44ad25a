"""The experts classes of the reference backend. What they compute is in :mod:`moe_select_reference.compute`.

Legend: as in :mod:`moe_select.kernels.experts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from moe_select.kernels.experts import ExpertInputs, Experts, ModularExperts, MonolithicExperts, Workspace
from moe_select.support import Code, ParallelSupport, QuantPair, Refusal, Support, any_device, pairs
from moe_select.vocabulary import Activation, ActivationFormat, MoEConfig, QuantKey, RoutingMethod
from moe_select.vocabulary.quant_keys import NAMED_KEYS

if TYPE_CHECKING:
    from pydantic import BaseModel
    from torch import Tensor

    from moe_select.environment import Environment
    from moe_select.kernels.prepare_finalize import QuantizedActivations
    from moe_select.kernels.routing import Router
    from moe_select.kernels.weights import MoEWeights

# 6-bit floats have no storage layout yet.
_DEFINED: Final = [key for key in NAMED_KEYS.values() if not key.dtype.startswith("float6")]
_WEIGHTS: Final = [key for key in _DEFINED if key.static]
_PACKED: Final = {"uint4": 8, "uint4b8": 8, "uint8b128": 4, "float4_e2m1fn": 2}
"""Elements that share one stored item along the reduction."""


def _is_activation(key: QuantKey) -> bool:
    """Activations are quantized by row or as a whole, in types that GEMMs take."""
    whole_rows = key.group.row in (1, -1) and key.group != (-1, 1)
    return whole_rows and key.dtype in ("int8", "float8_e4m3fn", "float4_e2m1fn") and key.scale.group.row in (1, -1)


def _supported_pairs() -> frozenset[QuantPair]:
    activations = [key for key in _DEFINED if _is_activation(key) and not (key.static and key.group.row == 1)]
    return pairs(_WEIGHTS, [None, *activations]) | {(None, None)}


_PAIRS: Final = _supported_pairs()


def _support(**changes: Any) -> Support:
    features = {"bias": True, "deterministic": True, "swiglu_constants": True}
    common: dict[str, Any] = {
        "devices": (any_device(),),
        "quant": _PAIRS,
        "activations": frozenset(Activation),
        "dtypes": frozenset({"bfloat16", "float16", "float32"}),
        "parallel": ParallelSupport(eplb=True),
        "features": features,
        "requires": ("torch>=2.11",),
    }
    return Support(**common | changes)


class _Reference(Experts):
    """Shapes that cannot be packed or grouped, and weights kept as they are."""

    last_resort = True

    @classmethod
    def refusals(
        cls,
        request: MoEConfig,
        environment: Environment,  # noqa: ARG003
        options: BaseModel | None,  # noqa: ARG003
    ) -> Iterator[Refusal]:
        """Refuses reductions that do not divide by the elements packed together, or by a quantization group."""
        sizes = {
            "hidden_dim": request.hidden_dim,
            "intermediate_size_per_partition": request.intermediate_size_per_partition,
        }
        for name, size in sizes.items():
            for key in (request.weight_key, request.activation_key):
                multiple = 1 if key is None else _multiple(key)
                if size is not None and size % multiple:
                    detail = f"{name} {size} is not a multiple of {multiple}, as {key} needs"
                    yield Refusal(Code.SHAPE_UNALIGNED, detail)

    def prepare_weights(self, weights: MoEWeights) -> MoEWeights:
        """Nothing to convert: an expert is dequantized when it runs."""
        return weights


def _multiple(key: QuantKey) -> int:
    grouped = key.group.col if key.group.row == 1 and key.group.col > 0 else 1
    return max(grouped, _PACKED.get(key.dtype, 1))


class ReferenceExperts(_Reference, ModularExperts):
    """Dequantizes each expert that got tokens and computes in float32."""

    support = _support()
    reduces = False

    def apply(self, out: Tensor, inputs: ExpertInputs, prepared: MoEWeights, workspace: Workspace) -> None:  # noqa: ARG002
        """Write ``[T, K, H]``."""
        from moe_select_reference.compute import run_standard

        run_standard(out, inputs, prepared, self.request, self.quant_config)


class ReferenceBatchedExperts(_Reference, ModularExperts):
    """The same on ``[E, M, H]``."""

    support = _support()
    activation_format = ActivationFormat.BATCHED_EXPERTS
    reduces = False

    def apply(self, out: Tensor, inputs: ExpertInputs, prepared: MoEWeights, workspace: Workspace) -> None:  # noqa: ARG002
        """Write ``[E, M, H]``; rows beyond an expert's count are left alone."""
        from moe_select_reference.compute import run_batched

        run_batched(out, inputs, prepared, self.request, self.quant_config)


class ReferenceMonolithicExperts(_Reference, MonolithicExperts):
    """Routes by itself, then the same. Takes unquantized inputs, since a router may scale them first."""

    support = _support(routing=frozenset(RoutingMethod) - {RoutingMethod.UNSPECIFIED})
    expects_unquantized_inputs = True

    def apply(
        self,
        out_TH: Tensor,
        activations: QuantizedActivations,
        router_logits_TG: Tensor,
        router: Router,
        expert_map_G: Tensor | None,
        prepared: MoEWeights,
        workspace: Workspace,  # noqa: ARG002
    ) -> None:
        """Route, compute, and write ``[T, H]``."""
        from moe_select_reference.compute import run_monolithic

        weights_TK, ids_TK = router.route(router_logits_TG)
        inputs = ExpertInputs(activations.x, None, weights_TK, ids_TK, expert_map_G)
        run_monolithic(out_TH, inputs, router.weights_on_input, prepared, self.request, self.quant_config)

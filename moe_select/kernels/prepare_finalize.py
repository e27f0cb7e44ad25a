"""The contract of prepare/finalize: quantize and dispatch tokens, combine the results.

Shape suffixes as in :mod:`moe_select.kernels.experts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from moe_select.support import Refusal
from moe_select.vocabulary import ActivationFormat, MoEConfig

if TYPE_CHECKING:
    from torch import Tensor

    from moe_select.environment import Environment
    from moe_select.kernels.experts import ExpertInputs
    from moe_select.kernels.quant_config import QuantConfig


class QuantizedActivations(NamedTuple):
    """Activations as the experts take them; everything but ``x`` is None when they are not quantized.

    Shapes are those of :class:`moe_select.kernels.experts.ExpertInputs`.
    """

    x: Tensor
    x_scale: Tensor | None = None
    x_zero_point: Tensor | None = None
    x_scale_2: Tensor | None = None


class PrepareFinalize(ABC):
    """Base of prepare/finalize classes. An instance serves one layer.

    Args:
        request: the layer, as selected.
        quant_config: how activations are quantized, with static scales where there are any.
        quantize_inputs: False when the experts take unquantized inputs.

    """

    name: ClassVar[str]
    activation_format: ClassVar[ActivationFormat]
    travels: ClassVar[bool] = False
    """True when tokens reach other ranks, so that the experts' rows are not the caller's."""

    def __init__(self, request: MoEConfig, quant_config: QuantConfig, quantize_inputs: bool) -> None:
        self.request = request
        self.quant_config = quant_config
        self.quantize_inputs = quantize_inputs

    @classmethod
    @abstractmethod
    def refusals(cls, request: MoEConfig, environment: Environment) -> Iterable[Refusal]:
        """Why this class cannot carry the request's tokens; empty when it can."""

    @abstractmethod
    def prepare(
        self,
        x_TH: Tensor,
        topk_weights_TK: Tensor,
        topk_ids_TK: Tensor,
        expert_map_G: Tensor | None,
        apply_router_weight_on_input: bool,
    ) -> tuple[ExpertInputs, Any]:
        """Quantize and dispatch. Returns the experts' inputs and a state for :meth:`finalize`."""

    @abstractmethod
    def finalize(self, out_TH: Tensor, expert_out: Tensor, inputs: ExpertInputs, state: Any, reduced: bool) -> None:
        """Combine into ``out_TH``. ``reduced`` is the experts class's ``reduces``; when True and nothing has to travel,
        the kernel passes ``out_TH`` itself as ``expert_out``.
        """

    @abstractmethod
    def prepare_monolithic(self, x_TH: Tensor) -> QuantizedActivations:
        """Quantize for monolithic experts."""

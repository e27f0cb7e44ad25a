"""The contract of experts classes: permute, gemm1, activation, gemm2, unpermute.

Shape suffixes: T tokens, K top-k slots, H hidden size, I intermediate size of this rank, F rows of w13 (2I gated, I not),
E experts of this rank, G experts over all ranks, M rows per expert of the batched format.

Modules that define experts import their kernels inside the methods that run them: a class must be importable, and its
predicates callable, on a machine that has neither torch nor the kernel library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from moe_select.support import Refusal, Support
from moe_select.vocabulary import ActivationFormat, MoEConfig

if TYPE_CHECKING:
    from pydantic import BaseModel
    from torch import Tensor

    from moe_select.environment import Environment
    from moe_select.kernels.prepare_finalize import QuantizedActivations
    from moe_select.kernels.quant_config import QuantConfig
    from moe_select.kernels.routing import Router
    from moe_select.kernels.weights import MoEWeights


class ExpertInputs(NamedTuple):
    """What prepare hands to the experts.

    Standard format: ``x`` is ``[T, H]``; batched format: ``x`` is ``[E, M, H]`` and ``expert_num_tokens`` says how many of
    the M rows of each expert are real (the others hold anything).
    """

    x: Tensor
    x_scale: Tensor | None
    """Scales of a quantized ``x`` with the group's extent kept: ``[T, 1]`` per token, ``[1, 1]`` per tensor (in both
    formats), ``[T, H/g]`` per group, ``[E, M, 1]`` ... in the batched format. None when ``x`` is not quantized."""
    topk_weights_TK: Tensor
    """float32. All ones where the router weight was applied on the input."""
    topk_ids_TK: Tensor
    """Global expert ids, int32 or int64; -1 marks padding, which contributes nothing."""
    expert_map_G: Tensor | None = None
    """int32, global id to local id or -1. None: ids are local ids."""
    expert_num_tokens_E: Tensor | None = None
    """int32; only in the batched format."""
    x_zero_point: Tensor | None = None
    """Zero points of an asymmetric ``x``, shaped like ``x_scale``."""
    x_scale_2: Tensor | None = None
    """Second-level scales: ``[1, 1]`` per tensor, ``[T, 1]`` or ``[E, M, 1]`` per token. They multiply ``x_scale``."""


class BufferSpec(NamedTuple):
    """Shape and dtype name of one workspace buffer."""

    shape: tuple[int, ...]
    dtype: str


Workspace = Mapping[str, "Tensor"]


class Experts(ABC):
    """Base of all experts classes. An instance serves one layer; it may keep what :meth:`prepare_weights` returns.

    Args:
        request: the layer, as selected.
        quant_config: scales, zero points and biases of the layer.
        options: the backend's validated options, or None where it has no options model.

    """

    support: ClassVar[Support]
    activation_format: ClassVar[ActivationFormat] = ActivationFormat.STANDARD
    monolithic: ClassVar[bool] = False
    weight_layout: ClassVar[str] = "canonical"
    """Id of the layout that :meth:`prepare_weights` produces. Classes with equal ids can read each other's weights."""
    expects_unquantized_inputs: ClassVar[bool] = False
    """True when the class quantizes activations itself, so prepare passes them through."""
    reduces: ClassVar[bool] = True
    """True when ``apply`` writes ``[T, H]`` with top-k weights applied and slots summed; False when it writes
    ``[T, K, H]`` (standard) or ``[E, M, H]`` (batched) and finalize does both."""
    last_resort: ClassVar[bool] = False
    """True for emulation: chosen only where it is named and nothing else remains, with a warning."""

    def __init__(self, request: MoEConfig, quant_config: QuantConfig, options: BaseModel | None = None) -> None:
        self.request = request
        self.quant_config = quant_config
        self.options = options

    @classmethod
    def refusals(cls, request: MoEConfig, environment: Environment, options: BaseModel | None) -> Iterable[Refusal]:
        """Reasons that :attr:`support` cannot express. Pure: no device query, import probe or environment variable."""
        return ()

    @abstractmethod
    def prepare_weights(self, weights: MoEWeights) -> Any:
        """Convert canonical weights to this class's layout, once. What it returns is handed to every ``apply``."""

    def workspace(self, num_tokens: int, topk: int) -> Mapping[str, BufferSpec]:
        """Buffers that one ``apply`` over at most ``num_tokens`` tokens needs; their contents are undefined."""
        return {}


class ModularExperts(Experts):
    """Experts that take routing decisions."""

    @abstractmethod
    def apply(self, out: Tensor, inputs: ExpertInputs, prepared: Any, workspace: Workspace) -> None:
        """Write the layer's output.

        Args:
            out: uninitialized, in the request's ``in_dtype``; ``[T, H]``, or as :attr:`reduces` says.
            inputs: tokens and routing.
            prepared: what :meth:`prepare_weights` returned.
            workspace: the buffers :meth:`workspace` asked for, at least that large along the first dimension.

        """


class MonolithicExperts(Experts):
    """Experts that route inside."""

    monolithic: ClassVar[bool] = True

    @abstractmethod
    def apply(
        self,
        out_TH: Tensor,
        activations: QuantizedActivations,
        router_logits_TG: Tensor,
        router: Router,
        expert_map_G: Tensor | None,
        prepared: Any,
        workspace: Workspace,
    ) -> None:
        """Route, compute and write ``[T, H]``. ``router`` holds the routing method and its parameters."""

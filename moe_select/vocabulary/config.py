"""The request: everything a framework says about one MoE layer."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from moe_select.vocabulary.dtypes import DTYPES, parse_dtype
from moe_select.vocabulary.frozen import FrozenModel
from moe_select.vocabulary.parallel import ParallelConfig
from moe_select.vocabulary.quant import QuantKey, parse_optional_key
from moe_select.vocabulary.terms import Activation, ActivationFormat, Role, RoutingMethod

Count = Annotated[int, Field(ge=1)]


class MoEConfig(FrozenModel):
    """One MoE layer as a request. Frozen, hashable, round-trips through JSON.

    Sizes are those of the whole layer; what one rank holds follows from ``parallel``
    (:attr:`local_experts`, :attr:`intermediate_size_per_partition`). A shape that is not given is unknown: predicates
    about it abstain and the report lists them as unproven.

    Raises:
        RequestError: unknown fields, or values that contradict each other; the message lists the legal values.

    """

    _label: ClassVar[str] = "MoE config"

    num_experts: Count | None = None
    """E, over all ranks, redundant (EPLB) copies included."""
    num_local_experts: Count | None = None
    """Experts on this rank; derived as ``num_experts / ep_size`` when not given."""
    topk: Count | None = None
    hidden_dim: Count | None = None
    """H."""
    intermediate_size: Count | None = None
    """I of the whole layer, before tensor parallelism."""
    activation: Activation = Activation.SILU
    weight_key: QuantKey | None = None
    activation_key: QuantKey | None = None
    in_dtype: str = "bfloat16"
    router_logits_dtype: str | None = None
    """None means the same as ``in_dtype``."""
    activation_format: ActivationFormat | None = None
    """None derives it from the all2all backend."""
    routing_method: RoutingMethod = RoutingMethod.UNSPECIFIED
    parallel: ParallelConfig = ParallelConfig()
    max_tokens: Count | None = None
    """Most tokens that one call may bring to this rank."""
    lora: bool = False
    bias: bool = False
    batch_invariant: bool = False
    deterministic: bool = False
    hash_routing: bool = False
    decomposed_routing: bool = False
    """The framework routes by itself, so monolithic experts cannot serve it."""
    swiglu_limit: float | None = None
    swiglu_alpha: float | None = None
    swiglu_beta: float | None = None
    situ_beta: float | None = None
    situ_linear_beta: float | None = None
    layer: str | None = None
    """The layer's module name, for rules."""
    role: Role = Role.TARGET
    model: str | None = None
    """The model's name, for rules."""
    moe_backend: str | None = None
    """An explicit backend as the framework's user spelled it; ``auto`` and None differ."""

    @field_validator("weight_key", "activation_key", mode="before")
    @classmethod
    def _parse_key(cls, value: Any) -> Any:
        return parse_optional_key(value) if isinstance(value, str) else value

    @field_validator("in_dtype", "router_logits_dtype", mode="before")
    @classmethod
    def _parse_float_dtype(cls, value: Any) -> Any:
        if value is None:
            return None
        name = parse_dtype(value)
        if DTYPES[name].kind != "float" or DTYPES[name].bits < 16:
            raise ValueError(f"{name} cannot hold activations; legal: float64, float32, float16, bfloat16")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = [*self._expert_problems(), *self._shard_problems(), *self._quant_problems()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _expert_problems(self) -> list[str]:
        experts, ep = self.num_experts, self.parallel.ep_size
        problems = []
        if experts is not None and experts % ep:
            problems.append(
                f"num_experts {experts} is not divisible by ep_size {ep}; legal ep_size: {divisors(experts)}"
            )
        if experts is not None and self.topk is not None and self.topk > experts:
            problems.append(f"topk {self.topk} exceeds num_experts {experts}; legal topk: 1 to {experts}")
        local = self.num_local_experts
        if experts is not None and local is not None and experts % ep == 0 and local != experts // ep:
            problems.append(
                f"num_local_experts {local} contradicts num_experts {experts} over ep_size {ep}; legal: {experts // ep}"
            )
        return problems

    def _shard_problems(self) -> list[str]:
        size, tp = self.intermediate_size, self.parallel.tp_size
        if size is None or size % tp == 0:
            return []
        return [f"intermediate_size {size} is not divisible by tp_size {tp}; legal tp_size: {divisors(size)}"]

    def _quant_problems(self) -> list[str]:
        problems = []
        if self.weight_key is not None and not self.weight_key.static:
            problems.append(f"weight_key {self.weight_key} has dynamic scales; weights need a static key")
        if self.weight_key is None and self.activation_key is not None:
            problems.append(
                f"activation_key {self.activation_key} without a weight_key: quantized activations need quantized weights"
            )
        return problems

    @property
    def local_experts(self) -> int | None:
        """Experts on this rank."""
        if self.num_local_experts is not None or self.num_experts is None:
            return self.num_local_experts
        return self.num_experts // self.parallel.ep_size

    @property
    def intermediate_size_per_partition(self) -> int | None:
        """I of this rank's shard."""
        return None if self.intermediate_size is None else self.intermediate_size // self.parallel.tp_size

    @property
    def resolved_activation_format(self) -> ActivationFormat:
        """The format tokens arrive in, given or derived from the all2all backend."""
        if self.activation_format is not None:
            return self.activation_format
        batched = self.parallel.use_all2all and self.parallel.all2all_backend.is_batched
        return ActivationFormat.BATCHED_EXPERTS if batched else ActivationFormat.STANDARD

    @property
    def resolved_router_logits_dtype(self) -> str:
        """Dtype of the router logits."""
        return self.router_logits_dtype or self.in_dtype

    @property
    def w13_rows(self) -> int | None:
        """Rows of ``w13`` on this rank: ``2I`` when gated, else ``I``."""
        size = self.intermediate_size_per_partition
        return None if size is None else size * (2 if self.activation.is_gated else 1)


def divisors(number: int, most: int = 12) -> str:
    """The divisors of ``number`` as text, cut after ``most``.

    >>> divisors(12)
    '1, 2, 3, 4, 6, 12'
    """
    found = [i for i in range(1, number + 1) if number % i == 0]
    return ", ".join(map(str, found[:most])) + (", ..." if len(found) > most else "")

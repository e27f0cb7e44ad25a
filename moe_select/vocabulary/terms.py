"""Closed sets of names: activations, activation formats, routing methods, all-to-all backends."""

from __future__ import annotations

from enum import StrEnum

from moe_select.vocabulary.suggest import did_you_mean


class _Term(StrEnum):
    """A name with a helpful error for the ones that do not exist."""

    @classmethod
    def _missing_(cls, value: object) -> _Term | None:
        name = str(value).strip().lower().replace("-", "_")
        name = cls._aliases().get(name, name)
        if name in cls._value2member_map_:
            return cls(name)
        known = [member.value for member in cls]
        raise ValueError(f"unknown {cls.label()} {value!r}{did_you_mean(name, known)}; known: {', '.join(known)}")

    @classmethod
    def _aliases(cls) -> dict[str, str]:
        return {}

    @classmethod
    def label(cls) -> str:
        """What one of these is called in messages."""
        return cls.__name__.lower()


class Activation(_Term):
    """What happens between the two GEMMs.

    Gated activations take ``[..., 2I]`` (gate half, then up half) to ``[..., I]``; the ``_no_mul`` forms take ``[..., I]``
    to ``[..., I]``. ``swigluoai`` interleaves gate and up columns (as GPT-OSS checkpoints do); its ``_uninterleave`` form
    is the same function on two halves.
    """

    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    RELU2 = "relu2"
    SWIGLUOAI = "swigluoai"
    SWIGLUOAI_UNINTERLEAVE = "swigluoai_uninterleave"
    SWIGLUSTEP = "swiglustep"
    SITU = "situ"
    SILU_NO_MUL = "silu_no_mul"
    GELU_NO_MUL = "gelu_no_mul"
    GELU_TANH_NO_MUL = "gelu_tanh_no_mul"
    RELU2_NO_MUL = "relu2_no_mul"

    @property
    def is_gated(self) -> bool:
        """True when gemm1 produces a gate and an up projection (``w13`` has ``2I`` rows)."""
        return not self.value.endswith("_no_mul")

    @classmethod
    def _aliases(cls) -> dict[str, str]:
        return {"gelu_pytorch_tanh": "gelu_tanh", "gelu_pytorch_tanh_no_mul": "gelu_tanh_no_mul"}


class ActivationFormat(_Term):
    """How tokens are laid out when they reach the experts."""

    STANDARD = "standard"
    """``[T, H]``, one row a token."""
    BATCHED_EXPERTS = "batched_experts"
    """``[E, max_tokens, H]``, the rows of each local expert together, with a count per expert."""

    @classmethod
    def label(cls) -> str:
        """What one of these is called in messages."""
        return "activation format"


class RoutingMethod(_Term):
    """How router logits become top-k weights and ids; only monolithic experts care."""

    DEFAULT = "default"
    """softmax, then top-k."""
    RENORMALIZE = "renormalize"
    """top-k, then softmax over the chosen logits."""
    RENORMALIZE_NAIVE = "renormalize_naive"
    """softmax, top-k, then divide by the sum of the chosen."""
    DEEPSEEK_V3 = "deepseek_v3"
    """sigmoid, bias added for the choice only, group-limited top-k, renormalized."""
    DEEPSEEK_V4 = "deepseek_v4"
    """sqrt(softplus), bias for the choice only, renormalized."""
    LLAMA4 = "llama4"
    """top-1, sigmoid of the chosen logit."""
    TOPK = "topk"
    """top-k of the logits as they are."""
    SIGMOID = "sigmoid"
    """sigmoid, then top-k."""
    SIGMOID_RENORM = "sigmoid_renorm"
    """sigmoid, top-k, renormalized."""
    MINIMAX2 = "minimax2"
    """sigmoid, bias for the choice only, ungrouped top-k, renormalized."""
    CUSTOM = "custom"
    """a callable of the framework's."""
    SIMULATED = "simulated"
    """ids made up for benchmarking."""
    UNSPECIFIED = "unspecified"

    @classmethod
    def label(cls) -> str:
        """What one of these is called in messages."""
        return "routing method"


class All2AllBackend(_Term):
    """Who carries tokens between expert- and data-parallel ranks."""

    ALLGATHER_REDUCESCATTER = "allgather_reducescatter"
    ALL_TO_ALL = "all_to_all"
    BATCHED_ALL_TO_ALL = "batched_all_to_all"
    DEEPEP_HIGH_THROUGHPUT = "deepep_high_throughput"
    DEEPEP_LOW_LATENCY = "deepep_low_latency"
    DEEPEP_V2 = "deepep_v2"
    NIXL_EP = "nixl_ep"
    FLASHINFER_NVLINK_ONE_SIDED = "flashinfer_nvlink_one_sided"
    FLASHINFER_NVLINK_TWO_SIDED = "flashinfer_nvlink_two_sided"
    MORI_HIGH_THROUGHPUT = "mori_high_throughput"
    MORI_LOW_LATENCY = "mori_low_latency"
    MOONEP = "moonep"
    PASSTHROUGH = "passthrough"

    @classmethod
    def _aliases(cls) -> dict[str, str]:
        return {"flashinfer_all2allv": "flashinfer_nvlink_two_sided"}

    @classmethod
    def label(cls) -> str:
        """What one of these is called in messages."""
        return "all2all backend"

    @property
    def is_batched(self) -> bool:
        """True for the ones that deliver ``batched_experts``."""
        return self in (self.DEEPEP_LOW_LATENCY, self.NIXL_EP, self.BATCHED_ALL_TO_ALL)

    @property
    def needs_expert_parallel(self) -> bool:
        """True for the ones that only move tokens between expert-parallel ranks."""
        return self not in (self.ALLGATHER_REDUCESCATTER, self.PASSTHROUGH)


class Role(_Term):
    """Which model of a speculative-decoding pair a layer belongs to."""

    TARGET = "target"
    DRAFT = "draft"

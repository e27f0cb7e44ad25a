"""Optional features of a request that a class must declare to serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moe_select.support.refusal import Code
from moe_select.vocabulary import MoEConfig


class Feature(NamedTuple):
    """One feature: when a request asks for it, and the code of a refusal over it."""

    asked: Callable[[MoEConfig], bool]
    code: Code
    meaning: str
    monolithic_only: bool = False


FEATURES: Final[dict[str, Feature]] = {
    "lora": Feature(lambda r: r.lora, Code.FEATURE_UNSUPPORTED, "LoRA adapters on the experts"),
    "bias": Feature(lambda r: r.bias, Code.FEATURE_UNSUPPORTED, "biases of the two GEMMs"),
    "batch_invariant": Feature(
        lambda r: r.batch_invariant, Code.BATCH_INVARIANCE_UNSUPPORTED, "a row's bits do not depend on its batch"
    ),
    "deterministic": Feature(lambda r: r.deterministic, Code.NONDETERMINISTIC, "the same input gives the same bits"),
    "swiglu_constants": Feature(
        lambda r: any(value is not None for value in (r.swiglu_limit, r.swiglu_alpha, r.swiglu_beta)),
        Code.ACTIVATION_UNSUPPORTED,
        "swiglu_limit, swiglu_alpha and swiglu_beta of the request are honoured",
    ),
    "hash_routing": Feature(
        lambda r: r.hash_routing, Code.ROUTING_UNSUPPORTED, "hash-based routing inside the kernel", monolithic_only=True
    ),
}

"""A refusal is data: a closed code, a detail that names the limit and the value given, and a remedy where one exists."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Why a candidate was refused. Tests and tools rely on these, not on the wording of details."""

    DEVICE_UNSUPPORTED = "device_unsupported"
    QUANT_UNSUPPORTED = "quant_unsupported"
    ACTIVATION_UNSUPPORTED = "activation_unsupported"
    FORMAT_UNSUPPORTED = "format_unsupported"
    DTYPE_UNSUPPORTED = "dtype_unsupported"
    PARALLEL_UNSUPPORTED = "parallel_unsupported"
    ALL2ALL_UNSUPPORTED = "all2all_unsupported"
    SHAPE_UNALIGNED = "shape_unaligned"
    SHAPE_UNSUPPORTED = "shape_unsupported"
    TOKEN_BOUND_EXCEEDED = "token_bound_exceeded"
    ROUTING_UNSUPPORTED = "routing_unsupported"
    ROUTER_DTYPE_UNSUPPORTED = "router_dtype_unsupported"
    FEATURE_UNSUPPORTED = "feature_unsupported"
    BATCH_INVARIANCE_UNSUPPORTED = "batch_invariance_unsupported"
    NONDETERMINISTIC = "nondeterministic"
    DEPENDENCY_MISSING = "dependency_missing"
    BUILD_MISSING = "build_missing"
    OPTION_MISMATCH = "option_mismatch"
    NOT_INSTALLED = "not_installed"
    UNKNOWN_BACKEND = "unknown_backend"
    AMBIGUOUS_BACKEND = "ambiguous_backend"
    NOT_REQUESTED = "not_requested"
    DENIED_BY_POLICY = "denied_by_policy"
    EXCLUDED_BY_REQUIRE = "excluded_by_require"
    PLUGIN_BROKEN = "plugin_broken"

    @property
    def distance(self) -> int:
        """How far from working a candidate with this refusal is, for nearest-miss order: a setting is nearer than an
        installation, an installation nearer than other hardware.
        """
        return _DISTANCE.get(self, 10)


_DISTANCE = {
    Code.DENIED_BY_POLICY: 1,
    Code.EXCLUDED_BY_REQUIRE: 1,
    Code.NOT_REQUESTED: 1,
    Code.OPTION_MISMATCH: 2,
    Code.DEPENDENCY_MISSING: 5,
    Code.NOT_INSTALLED: 5,
    Code.UNKNOWN_BACKEND: 3,
    Code.AMBIGUOUS_BACKEND: 1,
    Code.BUILD_MISSING: 6,
    Code.QUANT_UNSUPPORTED: 30,
    Code.PLUGIN_BROKEN: 40,
    Code.DEVICE_UNSUPPORTED: 100,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a candidate cannot serve a request."""

    code: Code
    detail: str
    remedy: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", Code(self.code))
        if not self.detail:
            raise ValueError(f"a refusal with code {self.code.value} needs a detail that names the limit and the value")

    def __str__(self) -> str:
        return f"{self.code.value}: {self.detail}" + (f" ({self.remedy})" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Unproven:
    """A check that abstained because the request does not state the fact."""

    fact: str
    detail: str

    def __str__(self) -> str:
        return f"{self.fact} not given: {self.detail}"


class Verdict(StrEnum):
    """What a candidate can do for a request."""

    SUPPORTED = "supported"
    LAST_RESORT = "last_resort"
    """Runs, but as emulation: chosen only where a policy or caller names it and nothing else remains."""
    REFUSED = "refused"

"""Which parallel layouts an experts class can serve, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moe_select.support.refusal import Code, Refusal
from moe_select.vocabulary import All2AllBackend, ParallelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSupport:
    """Parallel layouts. The defaults accept everything except load-balanced (EPLB) experts."""

    expert: bool = True
    """Experts spread over ranks."""
    data: bool = True
    """``dp_size`` above 1."""
    sequence: bool = True
    """``sp_size`` above 1."""
    eplb: bool = False
    all2all: frozenset[All2AllBackend] | None = None
    """Allowed all-to-all backends when tokens travel; None allows all, an empty set allows none."""
    requires_all2all: bool = False

    def __post_init__(self) -> None:
        if self.all2all is not None:
            object.__setattr__(self, "all2all", frozenset(All2AllBackend(name) for name in self.all2all))

    def check(self, parallel: ParallelConfig) -> Iterator[Refusal]:
        """Yield what this layout does that the class cannot."""
        limits = (
            (self.expert, parallel.use_ep, f"ep_size {parallel.ep_size} given, expert parallelism unsupported"),
            (self.data, parallel.dp_size > 1, f"dp_size {parallel.dp_size} given, only 1 supported"),
            (self.sequence, parallel.sp_size > 1, f"sp_size {parallel.sp_size} given, only 1 supported"),
            (self.eplb, parallel.enable_eplb, "enable_eplb given, load-balanced experts unsupported"),
        )
        for allowed, asked, detail in limits:
            if asked and not allowed:
                yield Refusal(Code.PARALLEL_UNSUPPORTED, detail)
        yield from self._check_all2all(parallel)

    def _check_all2all(self, parallel: ParallelConfig) -> Iterator[Refusal]:
        given = parallel.all2all_backend
        if not parallel.use_all2all:
            if self.requires_all2all:
                yield Refusal(Code.ALL2ALL_UNSUPPORTED, "needs an all2all backend, but no tokens travel in this layout")
        elif self.all2all is not None and given not in self.all2all:
            allowed = ", ".join(sorted(self.all2all)) or "none"
            yield Refusal(Code.ALL2ALL_UNSUPPORTED, f"all2all_backend {given.value} given, supported: {allowed}")


def no_parallel() -> ParallelSupport:
    """One rank only (tensor parallelism is a matter of shape and always allowed)."""
    return ParallelSupport(expert=False, data=False, sequence=False, all2all=frozenset())

"""Shape rules: what the sizes of one partition must divide by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moe_select.support.refusal import Code, Refusal, Unproven
from moe_select.vocabulary import MoEConfig


@dataclass(frozen=True, slots=True)
class ShapeRule:
    """Alignment of H and of this rank's I."""

    hidden_dim: int = 1
    intermediate: int = 1

    def check(self, request: MoEConfig) -> Iterator[Refusal | Unproven]:
        """Yield what is wrong or unknown about the request's shape."""
        yield from _alignment("hidden_dim", request.hidden_dim, self.hidden_dim, None)
        yield from _alignment(
            "intermediate_size_per_partition",
            request.intermediate_size_per_partition,
            self.intermediate,
            self._tp_remedy(request),
        )

    def _tp_remedy(self, request: MoEConfig) -> str | None:
        size = request.intermediate_size
        if size is None or size % self.intermediate:
            return None
        legal = [tp for tp in range(1, size // self.intermediate + 1) if size % (tp * self.intermediate) == 0]
        return f"tp in {{{', '.join(map(str, legal[:8]))}}} would satisfy it"

    def __str__(self) -> str:
        parts = [f"{name} % {n}" for name, n in (("H", self.hidden_dim), ("I", self.intermediate)) if n > 1]
        return ", ".join(parts)


def multiple_of(*, hidden_dim: int = 1, intermediate: int = 1) -> ShapeRule:
    """H and this rank's I must be multiples of these."""
    return ShapeRule(hidden_dim, intermediate)


def _alignment(name: str, size: int | None, multiple: int, remedy: str | None) -> Iterator[Refusal | Unproven]:
    if multiple == 1:
        return
    if size is None:
        yield Unproven(name, f"must be a multiple of {multiple}")
    elif size % multiple:
        detail = f"{name} {size} is not a multiple of {multiple} ({size} % {multiple} = {size % multiple})"
        yield Refusal(Code.SHAPE_UNALIGNED, detail, remedy)

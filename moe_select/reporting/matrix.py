"""Which backend runs what where: real decisions for every quantization pair and environment, without any sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moe_select.errors import RequestError
from moe_select.policy.model import ExplicitBackend, Origin
from moe_select.support import QuantPair
from moe_select.vocabulary import MoEConfig, format_optional_key

if TYPE_CHECKING:
    from moe_select.environment import Environment
    from moe_select.plugins import Registry
    from moe_select.policy import Policy

NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair in one environment."""

    selected: str | None
    """Backend that the policy chooses."""
    on_request: tuple[str, ...]
    """Other backends that run when they are named."""

    def __str__(self) -> str:
        others = f" ({', '.join(self.on_request)})" if self.on_request else ""
        return f"{self.selected or NOTHING}{others}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"selected": self.selected, "on_request": list(self.on_request)}


@dataclass(frozen=True, slots=True)
class Row:
    """One (weights, activations) pair and its cell in every environment."""

    scheme: str | None
    pair: QuantPair
    cells: Mapping[str, Cell]

    @property
    def labels(self) -> tuple[str, str, str]:
        """Scheme, weights and activations as they are spelled."""
        return self.scheme or NOTHING, format_optional_key(self.pair[0]), format_optional_key(self.pair[1])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        _, weights, activations = self.labels
        cells = {name: cell.to_dict() for name, cell in self.cells.items()}
        return {"scheme": self.scheme, "weight_key": weights, "activation_key": activations, "devices": cells}


def matrix(
    environments: Mapping[str, Environment], policy: Policy, registry: Registry, *, unlisted: bool = False
) -> list[Row]:
    """Rows for the pairs of the policy's schemes, in its order.

    Args:
        environments: name of a column to environment.
        policy: what decides.
        registry: installed backends.
        unlisted: also the pairs that a class supports and no scheme lists.

    """
    rows = []
    for scheme, pair in _pairs(policy, registry, unlisted):
        try:
            request = MoEConfig(weight_key=pair[0], activation_key=pair[1])
        except RequestError:
            continue  # a declared pair that no request can ask for
        cells = {name: _cell(request, environment, policy, registry) for name, environment in environments.items()}
        rows.append(Row(scheme, pair, cells))
    return rows


def _pairs(policy: Policy, registry: Registry, unlisted: bool) -> Iterator[tuple[str | None, QuantPair]]:
    listed = {pair: scheme.name for scheme in policy.schemes.values() for pair in scheme.match}
    for pair, name in listed.items():
        yield name, pair
    if not unlisted:
        return
    found = {
        pair
        for registered in registry.backends
        for experts_class in registered.backend.experts
        for pair in experts_class.support.quant
    }
    for pair in sorted(found - set(listed), key=lambda pair: tuple(map(format_optional_key, pair))):
        yield None, pair


def _cell(request: MoEConfig, environment: Environment, policy: Policy, registry: Registry) -> Cell:
    from moe_select.selection import decide

    selected = decide(request, environment, policy, registry).winner
    by_name = (
        decide(request, environment, policy, registry, ExplicitBackend(name, Origin("matrix"))).winner
        for name in _names(registry)
    )
    others = dict.fromkeys(winner.backend for winner in by_name if winner is not None)
    chosen = selected.backend if selected else None
    return Cell(chosen, tuple(name for name in others if name != chosen))


def _names(registry: Registry) -> Iterable[str]:
    return [registered.qualified_name for registered in registry.backends]


def alike(rows: list[Row], names: Iterable[str]) -> list[list[str]]:
    """Columns grouped by equal content, so that a terminal can show twenty devices in a few columns."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(str(row.cells[name]) for row in rows), []).append(name)
    return list(groups.values())

"""From names in a policy to candidates: every experts class that could be meant, and why a name means none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moe_select.plugins.types import RegisteredBackend
from moe_select.policy.model import Origin, Policy, Target
from moe_select.selection.report import Effect
from moe_select.support import Code, Refusal
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from moe_select.kernels.experts import Experts
    from moe_select.plugins import Registry


@dataclass(slots=True)
class Entry:
    """One candidate while it is being ranked."""

    backend: str
    origin: Origin
    registered: RegisteredBackend | None = None
    experts_class: type[Experts] | None = None
    named: bool = True
    """False when only a pattern reached it; such an entry is never a last resort."""
    refusals: list[Refusal] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def experts(self) -> str:
        """Class name, empty when the backend is not there."""
        return self.experts_class.__name__ if self.experts_class else ""

    @property
    def distribution(self) -> str:
        """Distribution of the provider, empty when the backend is not there."""
        return self.registered.provider.distribution if self.registered else ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity: one class of one backend of one distribution."""
        return self.distribution, self.backend, self.experts

    def is_meant_by(self, target: Target) -> bool:
        """Whether a rule's target means this entry."""
        if self.registered is None:
            return target.matches("", self.backend, "") or target.text == self.backend
        return target.matches(self.distribution, self.backend, self.experts)


def expand(targets: Iterable[Target], policy: Policy, registry: Registry) -> list[Entry]:
    """Entries meant by ``targets``, in order, each class once."""
    entries: dict[tuple[str, str, str], Entry] = {}
    for target in targets:
        for entry in _entries_of(target, policy, registry):
            known = entries.setdefault(entry.key, entry)
            known.named = known.named or entry.named
    return list(entries.values())


def _entries_of(target: Target, policy: Policy, registry: Registry) -> Iterator[Entry]:
    if target.is_pattern:
        for registered in registry.backends:
            yield from (entry for entry in _classes(registered, target, named=False) if entry.is_meant_by(target))
        return
    found = registry.find(target.backend)
    if len(found) != 1:
        refusal = _ambiguous(target, found) if found else _absent(target, policy, registry)
        yield Entry(target.backend, target.origin, refusals=[refusal])
        return
    meant = [entry for entry in _classes(found[0], target) if target.experts in (None, entry.experts)]
    yield from meant or [Entry(target.text, target.origin, refusals=[_unknown_class(target, found[0])])]


def _classes(registered: RegisteredBackend, target: Target, named: bool = True) -> Iterator[Entry]:
    for experts_class in registered.backend.experts:
        yield Entry(registered.name, target.origin, registered, experts_class, named)


def _ambiguous(target: Target, found: tuple[RegisteredBackend, ...]) -> Refusal:
    names = " or ".join(registered.qualified_name for registered in found)
    return Refusal(
        Code.AMBIGUOUS_BACKEND, f"backend {target.backend!r} is provided by {len(found)} distributions", f"say {names}"
    )


def _absent(target: Target, policy: Policy, registry: Registry) -> Refusal:
    name = target.backend
    declared = policy.declared.get(name)
    broken = next((plugin for plugin in registry.broken if plugin.may_provide(name)), None)
    if broken is not None:
        return Refusal(
            Code.PLUGIN_BROKEN, f"backend {name!r} is unavailable: {broken}", "repair or reinstall the plugin"
        )
    if declared is not None:
        return Refusal(
            Code.NOT_INSTALLED, f"backend {name!r} is declared at {declared.origin} but not installed", declared.install
        )
    known = sorted({registered.name for registered in registry.backends} | set(policy.declared))
    return Refusal(
        Code.UNKNOWN_BACKEND,
        f"backend {name!r} is unknown{did_you_mean(name, known)}; known: {', '.join(known) or 'none'}",
        "install the plugin that provides it, or correct the name",
    )


def _unknown_class(target: Target, registered: RegisteredBackend) -> Refusal:
    known = [experts_class.__name__ for experts_class in registered.backend.experts]
    wanted = target.experts or ""
    detail = (
        f"backend {registered.name!r} has no class {wanted!r}{did_you_mean(wanted, known)}; it has {', '.join(known)}"
    )
    return Refusal(Code.UNKNOWN_BACKEND, detail, "correct the class name")

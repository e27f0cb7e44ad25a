"""Applying rules: they reorder, add, exclude and configure entries, and leave their mark on each one they touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moe_select.policy.model import Policy, Rule, Target
from moe_select.selection.candidates import Entry, expand
from moe_select.selection.report import Effect
from moe_select.support import Code, Refusal

if TYPE_CHECKING:
    from moe_select.plugins import Registry


@dataclass
class Ranking:
    """Entries in their present order. ``fixed`` means that an explicit backend chose them, so rules add none."""

    entries: list[Entry]
    policy: Policy
    registry: Registry
    fixed: bool
    notices: list[str] = field(default_factory=list)

    def apply(self, rule: Rule) -> None:
        """Apply one rule whose condition holds."""
        if rule.require:
            self._require(rule)
        if rule.prefer:
            self._move(rule, "prefer", rule.prefer)
        if rule.demote:
            self._move(rule, "demote", rule.demote)
        if rule.deny:
            self._deny(rule)
        for backend, options in rule.options.items():
            for entry in self._meant(rule, "options", (Target(backend, rule.origin),)):
                entry.options.update(options)

    def _meant(self, rule: Rule, verb: str, targets: Iterable[Target]) -> list[Entry]:
        """Entries that the targets mean, in the targets' order, marked; a target that means none is worth a notice."""
        found: dict[tuple[str, str, str], Entry] = {}
        for target in targets:
            hits = [entry for entry in self.entries if entry.is_meant_by(target)]
            if not hits and not self.fixed:
                self.notices.append(f"rule {rule.name!r} ({target.origin}): {verb} {target} matched no candidate")
            found.update((entry.key, entry) for entry in hits)
        effect = Effect(verb, rule.name, rule.origin, rule.reason)
        for entry in found.values():
            entry.effects.append(effect)
        return list(found.values())

    def _add_named(self, targets: Iterable[Target]) -> None:
        if self.fixed:
            return
        named = expand((target for target in targets if not target.is_pattern), self.policy, self.registry)
        present = {entry.key: entry for entry in self.entries}
        for entry in named:
            if entry.key in present:
                present[entry.key].named = True
            else:
                self.entries.append(entry)

    def _require(self, rule: Rule) -> None:
        self._add_named(rule.require)
        kept = self._meant(rule, "require", rule.require)
        keys = {entry.key for entry in kept}
        wanted = ", ".join(map(str, rule.require))
        for entry in self.entries:
            if entry.key not in keys:
                detail = f"rule {rule.name!r} ({rule.origin}) requires {wanted}" + (
                    f": {rule.reason}" if rule.reason else ""
                )
                entry.refusals.append(Refusal(Code.EXCLUDED_BY_REQUIRE, detail))
        self.entries = kept + [entry for entry in self.entries if entry.key not in keys]

    def _move(self, rule: Rule, verb: str, targets: tuple[Target, ...]) -> None:
        if verb == "prefer":
            self._add_named(targets)
        moved = self._meant(rule, verb, targets)
        keys = {entry.key for entry in moved}
        rest = [entry for entry in self.entries if entry.key not in keys]
        self.entries = moved + rest if verb == "prefer" else rest + moved

    def _deny(self, rule: Rule) -> None:
        for entry in self._meant(rule, "deny", rule.deny):
            why = f": {rule.reason}" if rule.reason else ""
            detail = f"denied by rule {rule.name!r} ({rule.origin}){why}"
            entry.refusals.append(Refusal(Code.DENIED_BY_POLICY, detail, "change the rule to allow it"))

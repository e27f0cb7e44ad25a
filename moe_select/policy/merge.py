"""Merging layers, weakest first, by one rule: per key; maps merge, lists replace, ``...`` splices the list below.

Rules add up; a rule with the name of one below takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from moe_select.policy.document import Document, Listed, RuleLayer, SchemeLayer, show
from moe_select.policy.model import DeclaredBackend, ExplicitBackend, Origin, Policy, Rule, Scheme, Target
from moe_select.policy.plain import fingerprint_of
from moe_select.policy.problems import Problems
from moe_select.support import QuantPair
from moe_select.vocabulary.suggest import did_you_mean

T = TypeVar("T")


@dataclass
class _SchemeDraft:
    """A scheme while layers are merged into it; None is unset."""

    origin: Origin
    match: Mapping[QuantPair, Origin] | None = None
    aliases: dict[str, tuple[Target, ...]] = field(default_factory=dict)
    backends: tuple[Target, ...] | None = None


class Merger:
    """The policy while layers are put on top of each other."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.layers: list[str] = []
        self.schemes: dict[str, _SchemeDraft] = {}
        self.rules: dict[str, Rule] = {}
        self.declared: dict[str, DeclaredBackend] = {}
        self.backend: ExplicitBackend | None = None

    def start_from(self, policy: Policy) -> None:
        """Take a finished policy as the layers below."""
        self.layers = list(policy.layers)
        self.schemes = {
            scheme.name: _SchemeDraft(scheme.origin, scheme.match, dict(scheme.aliases), scheme.backends)
            for scheme in policy.schemes.values()
        }
        self.rules = {rule.name: rule for rule in policy.rules}
        self.declared, self.backend = dict(policy.declared), policy.backend

    def add(self, document: Document) -> None:
        """Put one layer on top."""
        self.layers.append(document.source)
        for scheme in document.schemes.values():
            self._add_scheme(scheme)
        for rule in document.rules:
            self._add_rule(rule)
        self.declared.update(document.declared)
        self.backend = document.backend or self.backend

    def _add_scheme(self, layer: SchemeLayer) -> None:
        draft = self.schemes.setdefault(layer.name, _SchemeDraft(layer.origin))
        draft.origin = layer.origin
        where = f"schemes.{layer.name}"
        if layer.match is not None:
            pairs = self._spliced(layer.match, draft.match, f"{where}.match")
            draft.match = {pair: layer.match.written.get(pair) or (draft.match or {})[pair] for pair in pairs}
        for name, targets in layer.aliases.items():
            draft.aliases[name] = self._spliced(targets, draft.aliases.get(name), f"{where}.aliases.{name}")
        if layer.backends is not None:
            draft.backends = self._spliced(layer.backends, draft.backends, f"{where}.backends")

    def _add_rule(self, layer: RuleLayer) -> None:
        below = self.rules.get(layer.name)
        if not layer.enabled:
            if below is None and not layer.verbs and not layer.options:
                known = did_you_mean(layer.name, self.rules)
                self.problems.error(layer.origin, f"there is no rule {layer.name!r} below to switch off{known}")
            self.rules.pop(layer.name, None)
            return
        verbs = {
            verb: self._spliced(listed, getattr(below, verb, None) or None, f"{verb} of a rule {layer.name!r}")
            for verb, listed in layer.verbs.items()
        }
        self.rules[layer.name] = Rule(
            name=layer.name,
            when=layer.when,
            require=verbs.get("require", ()),
            prefer=verbs.get("prefer", ()),
            demote=verbs.get("demote", ()),
            deny=verbs.get("deny", ()),
            options={name: values.plain() for name, (_, values) in layer.options.items()},
            reason=layer.reason,
            origin=layer.origin,
        )

    def _spliced(self, listed: Listed[T], below: Collection[T] | None, where: str) -> tuple[T, ...]:
        """The list with ``...`` replaced by what is below, except what is written here: that stands where it is."""
        if listed.splice is not None and below is None:
            self.problems.error(listed.splice, f"`...` has nothing to stand for: no layer below has {where}")
        written, found = listed.written, list[T]()
        for item in listed.items:
            if item is not None:
                found.append(item.value)
            else:
                found.extend(value for value in below or () if value not in written)
        return tuple(found)

    def policy(self) -> Policy:
        """The merged policy. What only shows after merging is reported."""
        self._check_schemes()
        schemes = {
            name: Scheme(name, draft.match or {}, draft.aliases, draft.backends or (), draft.origin)
            for name, draft in self.schemes.items()
        }
        rules = tuple(self.rules.values())
        return Policy(
            schemes=schemes,
            rules=rules,
            declared=self.declared,
            backend=self.backend,
            layers=tuple(self.layers),
            fingerprint=fingerprint_of(schemes.values(), rules, self.declared.values(), self.backend),
            libraries=frozenset(_libraries(rules)),
        )

    def _check_schemes(self) -> None:
        owners: dict[QuantPair, tuple[str, Origin]] = {}
        for name, draft in self.schemes.items():
            for key, value in (("match", draft.match), ("backends", draft.backends)):
                if value is None:
                    help = "no layer has it; did you mean another scheme? known: " + ", ".join(self.schemes)
                    self.problems.error(draft.origin, f"scheme {name!r} has no `{key}`", help)
            for pair, origin in (draft.match or {}).items():
                if pair in owners:
                    other, first = owners[pair]
                    help = f"first at {first}; a pair belongs to one scheme"
                    self.problems.error(origin, f"{show(pair)} is matched by {other!r} already", help)
                owners.setdefault(pair, (name, origin))


def _libraries(rules: Iterable[Rule]) -> Iterable[str]:
    """Distributions whose versions the rules ask about."""
    return (term.key for rule in rules for term in rule.when.all_terms() if term.key is not None)

"""A policy as plain data: for its fingerprint, for YAML, and value by value with origins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from moe_select.policy.document import AUTO, VERBS, VERSION
from moe_select.vocabulary import format_optional_key

if TYPE_CHECKING:
    from moe_select.policy.model import DeclaredBackend, ExplicitBackend, Origin, Policy, Rule, Scheme


def plain_policy(policy: Policy) -> dict[str, Any]:
    """The policy as one document that says all of it."""
    return _plain(policy.schemes.values(), policy.rules, policy.declared.values(), policy.backend)


def fingerprint_of(
    schemes: Iterable[Scheme],
    rules: Iterable[Rule],
    declared: Iterable[DeclaredBackend],
    backend: ExplicitBackend | None,
) -> str:
    """16 hex digits of the content. Positions and comments do not count; order does."""
    return hashlib.sha256(json.dumps(_plain(schemes, rules, declared, backend)).encode()).hexdigest()[:16]


def policy_to_yaml(policy: Policy) -> str:
    """The policy as a document; reading it back gives a policy with the same fingerprint."""
    import yaml

    return str(yaml.safe_dump(plain_policy(policy), sort_keys=False, width=120, default_flow_style=None))


class EffectiveValue(NamedTuple):
    """One value of the merged policy and where it was said."""

    path: str
    """``schemes.int8.backends[0]``, ``rules[small-cards].deny[0]`` ..."""
    value: Any
    origin: Origin


def effective_values(policy: Policy) -> list[EffectiveValue]:
    """Every value in force, in the order of :func:`policy_to_yaml`."""
    return list(_values(policy))


def _values(policy: Policy) -> Iterator[EffectiveValue]:
    if policy.backend is not None:
        yield EffectiveValue("backend", policy.backend.name, policy.backend.origin)
    for declared in policy.declared.values():
        yield EffectiveValue(f"backends.{declared.name}.install", declared.install, declared.origin)
    for scheme in policy.schemes.values():
        yield from _scheme_values(scheme)
    for rule in policy.rules:
        yield from _rule_values(rule)


def _scheme_values(scheme: Scheme) -> Iterator[EffectiveValue]:
    path = f"schemes.{scheme.name}"
    for i, (pair, origin) in enumerate(scheme.match.items()):
        yield EffectiveValue(f"{path}.match[{i}]", [format_optional_key(key) for key in pair], origin)
    for name, targets in scheme.aliases.items():
        for i, target in enumerate(targets):
            yield EffectiveValue(f"{path}.aliases.{name}[{i}]", target.text, target.origin)
    for i, target in enumerate(scheme.backends):
        yield EffectiveValue(f"{path}.backends[{i}]", target.text, target.origin)
    if not scheme.backends:
        yield EffectiveValue(f"{path}.backends", [], scheme.origin)


def _rule_values(rule: Rule) -> Iterator[EffectiveValue]:
    path = f"rules[{rule.name}]"
    for name, value in rule.when.plain().items():
        yield EffectiveValue(f"{path}.when.{name}", value, rule.origin)
    for verb in VERBS:
        for i, target in enumerate(getattr(rule, verb)):
            yield EffectiveValue(f"{path}.{verb}[{i}]", target.text, target.origin)
    for backend, options in rule.options.items():
        for name, value in options.items():
            yield EffectiveValue(f"{path}.options.{backend}.{name}", value, rule.origin)
    if rule.reason:
        yield EffectiveValue(f"{path}.reason", rule.reason, rule.origin)


def _plain(
    schemes: Iterable[Scheme],
    rules: Iterable[Rule],
    declared: Iterable[DeclaredBackend],
    backend: ExplicitBackend | None,
) -> dict[str, Any]:
    found: dict[str, Any] = {"version": VERSION}
    # An explicit `auto` in the strongest layer decides as if nothing was asked, but says so.
    if backend is not None:
        found["backend"] = AUTO if backend.is_auto else backend.name
    if names := {item.name: {"install": item.install} if item.install else {} for item in declared}:
        found["backends"] = names
    if described := {scheme.name: _plain_scheme(scheme) for scheme in schemes}:
        found["schemes"] = described
    if listed := [_plain_rule(rule) for rule in rules]:
        found["rules"] = listed
    return found


def _plain_scheme(scheme: Scheme) -> dict[str, Any]:
    found: dict[str, Any] = {"match": [[format_optional_key(key) for key in pair] for pair in scheme.match]}
    if scheme.aliases:
        found["aliases"] = {name: [target.text for target in targets] for name, targets in scheme.aliases.items()}
    found["backends"] = [target.text for target in scheme.backends]
    return found


def _plain_rule(rule: Rule) -> dict[str, Any]:
    found: dict[str, Any] = {"name": rule.name}
    if when := rule.when.plain():
        found["when"] = when
    for verb in VERBS:
        if targets := getattr(rule, verb):
            found[verb] = [target.text for target in targets]
    if rule.options:
        found["options"] = {name: dict(options) for name, options in rule.options.items()}
    if rule.reason:
        found["reason"] = rule.reason
    return found

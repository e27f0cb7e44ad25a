"""Conditions of rules, in three values: true, false, and unknown where a fact is not known.

A rule applies where its condition is true. Unknown is not true, and neither is ``not:`` of unknown: a rule never acts
on a fact that nobody stated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from moe_select.policy.fields import FIELDS, Facts, Field, suggest_field
from moe_select.policy.kinds import Test
from moe_select.policy.model import Origin
from moe_select.policy.nodes import Node
from moe_select.policy.reader import Reader

NOT = "not"


@dataclass(frozen=True, slots=True)
class Term:
    """One field with its alternatives."""

    field: str
    tests: tuple[Test, ...]
    key: str | None = None
    """Which of a keyed field's facts: the library."""
    origins: tuple[Origin, ...] = dataclasses.field(compare=False, default=(), repr=False)
    """Where each alternative was written."""

    def evaluate(self, facts: Facts) -> bool | None:
        """Whether any alternative holds; None when the fact is unknown."""
        fact = facts[self.field]
        if self.key is not None and fact is not None:
            fact = fact.get(self.key, "none")
        if fact is None:
            return None
        return _any(test.holds(fact) for test in self.tests)

    def plain(self) -> Any:
        """The alternatives as they would be written."""
        written = [test.written for test in self.tests]
        return written[0] if len(written) == 1 else written


@dataclass(frozen=True, slots=True)
class Condition:
    """Terms that must all hold, and a condition that must not."""

    terms: tuple[Term, ...] = ()
    excluded: Condition | None = None

    def evaluate(self, facts: Facts) -> bool | None:
        """True, false, or None when an unknown fact leaves it open."""
        parts = [term.evaluate(facts) for term in self.terms]
        if self.excluded is not None:
            inner = self.excluded.evaluate(facts)
            parts.append(None if inner is None else not inner)
        if False in parts:
            return False
        return None if None in parts else True

    def matches(self, facts: Facts) -> bool:
        """Whether the rule applies."""
        return self.evaluate(facts) is True

    def all_terms(self) -> Iterator[Term]:
        """The terms of this condition and of what it excludes."""
        yield from self.terms
        if self.excluded is not None:
            yield from self.excluded.all_terms()

    def plain(self) -> dict[str, Any]:
        """The condition as it would be written."""
        found: dict[str, Any] = {}
        for term in self.terms:
            if term.key is None:
                found[term.field] = term.plain()
            else:
                found.setdefault(term.field, {})[term.key] = term.plain()
        if self.excluded is not None:
            found[NOT] = self.excluded.plain()
        return found


ALWAYS = Condition()


def read_condition(node: Node, reader: Reader) -> Condition:
    """The condition a ``when:`` map spells; what cannot be read is reported and left out."""
    terms: list[Term] = []
    excluded: Condition | None = None
    for name, value in reader.entries(node, "conditions"):
        if name == NOT:
            excluded = _read_excluded(value, reader)
            continue
        row = FIELDS.get(name)
        if row is None:
            known = f"known: {', '.join([*FIELDS, NOT])}"
            reader.error(node.key_nodes[name], f"unknown condition {name!r}{suggest_field(name)}", known)
        elif row.unavailable:
            reader.error(node.key_nodes[name], f"conditions on {name} are not available yet", row.unavailable)
        elif row.keyed:
            terms.extend(_read_keyed(row, value, reader))
        else:
            terms.extend(_read_term(row, value, reader))
    return Condition(tuple(terms), excluded)


def _read_excluded(node: Node, reader: Reader) -> Condition | None:
    if node.kind == "map" and not node.entries:
        reader.error(node, "`not` without conditions never holds", "remove it, or say what must not hold")
        return None
    return read_condition(node, reader)


def _read_keyed(row: Field, node: Node, reader: Reader) -> Iterator[Term]:
    if node.kind != "map" or not node.entries:
        reader.error(node, f"{row.name}: expected a map from a name to {row.kind.form}, got {node.given}")
        return
    for name, value in node.entries.items():
        yield from _read_term(row, value, reader, canonicalize_name(name))


def _read_term(row: Field, node: Node, reader: Reader, key: str | None = None) -> Iterator[Term]:
    if node.kind == "list" and not node.items:
        reader.error(node, f"{row.name}: an empty list never holds", f"expected {row.kind.form}, or a list of these")
        return
    nodes = node.items if node.kind == "list" else (node,)
    tests = tuple(test for test in (_read_test(row, value, reader) for value in nodes) if test is not None)
    if len(tests) == len(nodes):
        yield Term(row.name, tests, key, tuple(value.origin for value in nodes))


def _read_test(row: Field, node: Node, reader: Reader) -> Test | None:
    if node.scalar == "...":
        reader.error(node, f"{row.name}: `...` has no meaning in a condition", "a rule's condition is written in full")
        return None
    try:
        return row.kind.parse(node)
    except ValueError as error:
        reader.error(node, f"{row.name}: {error}")
        return None


def _any(results: Iterable[bool | None]) -> bool | None:
    found = list(results)
    if True in found:
        return True
    return None if None in found else False

"""How the value of a condition is written, checked and compared, by kind of fact.

A kind's ``parse`` turns what an operator wrote into a :class:`Test`, or raises ValueError with what is allowed. A test
answers None when it cannot compare; :mod:`moe_select.policy.conditions` treats that as unknown.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from moe_select.policy.nodes import Node, Scalar
from moe_select.vocabulary import format_optional_key, parse_optional_key
from moe_select.vocabulary.quant_keys import NAMED_KEYS
from moe_select.vocabulary.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class Test:
    """One alternative of a condition: its canonical spelling, and whether a known fact meets it."""

    written: Scalar
    holds: Callable[[Any], bool | None] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a field are written."""

    form: str
    """What may be written, for the manual and for messages."""
    parse: Callable[[Node], Test]
    """The test that a scalar node spells. Raises ValueError saying what is allowed."""
    schema: Mapping[str, Any]
    """JSON schema of one value."""


PATTERN_SCHEMA: Final[Mapping[str, Any]] = {"type": "string", "pattern": r"[*?\[]"}


def is_pattern(text: str) -> bool:
    """Whether the text has a wildcard."""
    return any(mark in text for mark in "*?[")


def matches_pattern(text: str, pattern: str) -> bool:
    """Shell-style match that ignores case."""
    return fnmatchcase(text.casefold(), pattern.casefold())


def words(
    label: str,
    choices: Iterable[str],
    read: Callable[[str], str] | None = None,
    *,
    spellings: Iterable[str] = (),
    form: str = "",
    schema: Mapping[str, Any] | None = None,
) -> Kind:
    """A name of a set, or a pattern that matches some of them.

    Args:
        label: what one of these is called in messages.
        choices: canonical names.
        read: canonical name of a spelling; raises ValueError. Default: only the canonical names are spellings.
        spellings: further spellings that ``read`` accepts, for the schema.
        form: what may be written; default: the list of choices.
        schema: of a name; default: an enumeration.

    """
    known = tuple(choices)
    form = form or f"one of {', '.join(known)}"

    def exact(text: str) -> str:
        if text not in known:
            raise ValueError(f"unknown {label} {text!r}{did_you_mean(text, known)}; known: {', '.join(known)}")
        return text

    def parse(node: Node) -> Test:
        text = _text(node, form)
        if not is_pattern(text):
            name = (read or exact)(text)
            return Test(name, lambda fact: bool(fact == name))
        if not any(matches_pattern(choice, text) for choice in known):
            raise ValueError(f"pattern {text!r} matches no {label}; known: {', '.join(known)}")
        return Test(text, lambda fact: matches_pattern(fact, text))

    return Kind(form, parse, {"anyOf": [schema or {"enum": [*known, *spellings]}, PATTERN_SCHEMA]})


def quant_keys() -> Kind:
    """A quant key in any spelling, ``none``, or a pattern of canonical spellings."""
    return words(
        "quant key",
        ("none", *NAMED_KEYS),
        lambda text: format_optional_key(parse_optional_key(text)),
        form="a quant key, none, or a pattern such as fp8_*",
        schema={"$ref": "#/$defs/quant_key"},
    )


def pattern(example: str) -> Kind:
    """Any text, with ``*``, ``?`` and ``[...]`` as wildcards; case does not count."""
    form = f"text or a pattern such as {example}"

    def parse(node: Node) -> Test:
        text = _text(node, form)
        return Test(text, lambda fact: matches_pattern(fact, text))

    return Kind(form, parse, {"type": "string", "pattern": r"\S"})


def flag() -> Kind:
    """True or false."""

    def parse(node: Node) -> Test:
        value = node.scalar
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {node.given}")
        return Test(value, lambda fact: fact is value)

    return Kind("true or false", parse, {"type": "boolean"})


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON: Final = r"\s*(<=|>=|==|!=|<|>)?\s*(-?\d+(?:\.\d+)?)\s*"
_COMPARISONS_SCHEMA: Final = {"type": "string", "pattern": f"^{_COMPARISON}(,{_COMPARISON})*$"}


def number(example: str = ">=64,<1024") -> Kind:
    """A number, or comparisons that must all hold, joined by commas."""
    form = f"a number or comparisons such as {example!r}"

    def parse(node: Node) -> Test:
        value = node.scalar
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Test(value, lambda fact: bool(fact == value))
        text = _text(node, form)
        clauses = [re.fullmatch(_COMPARISON, part, re.ASCII) for part in text.split(",")]
        if None in clauses:
            raise ValueError(f"cannot read {text!r}; expected {form}")
        tests = [(_OPERATORS[clause[1] or "=="], float(clause[2])) for clause in clauses if clause]
        return Test(_squeeze(text), lambda fact: all(compare(fact, bound) for compare, bound in tests))

    return Kind(form, parse, {"anyOf": [{"type": "number"}, _COMPARISONS_SCHEMA]})


_RANGE_SCHEMA: Final = {"type": "string", "pattern": r"^\s*[<>=!~]*\s*v?\d[^,]*(,[^,]+)*$"}


def version_range(example: str, form: str = "") -> Kind:
    """A version, a prefix (``9.*``), or comparisons that must all hold, joined by commas."""
    form = form or f"a version range such as {example!r}"

    def parse(node: Node) -> Test:
        # 9.0 and 12.10 unquoted are numbers to YAML, so the text as it was written is what counts.
        is_number = isinstance(node.scalar, int | float) and not isinstance(node.scalar, bool)
        text = _squeeze(node.text if is_number else _text(node, form))
        range_ = _specifiers(text, form)
        return Test(text, lambda fact: _contains(range_, fact))

    return Kind(form, parse, {"anyOf": [{"type": "number"}, _RANGE_SCHEMA]})


def library_version() -> Kind:
    """A version range, ``none`` (not installed) or ``*`` (any version)."""
    ranges = version_range(">=3.2", "a version range such as '>=3.2', '*' (any version) or none (not installed)")

    def parse(node: Node) -> Test:
        if node.scalar == "none":
            return Test("none", lambda fact: bool(fact == "none"))
        if node.scalar == "*":
            return Test("*", lambda fact: bool(fact != "none"))
        test = ranges.parse(node)
        return Test(test.written, lambda fact: False if fact == "none" else test.holds(fact))

    return Kind(ranges.form, parse, {"anyOf": [{"enum": ["none", "*"]}, *ranges.schema["anyOf"]]})


def members(example: str) -> Kind:
    """Names or patterns that a set must have, all of them, joined by commas."""
    form = f"a name, or names that must all be there, such as {example!r}"

    def parse(node: Node) -> Test:
        text = _squeeze(_text(node, form))
        wanted = text.split(",")
        if not all(wanted):
            raise ValueError(f"cannot read {text!r}; expected {form}")
        return Test(text, lambda fact: all(any(matches_pattern(have, name) for have in fact) for name in wanted))

    return Kind(form, parse, {"type": "string", "pattern": r"^[^,]+(,[^,]+)*$"})


def _text(node: Node, form: str) -> str:
    if isinstance(node.scalar, str) and node.scalar.strip():
        return node.scalar.strip()
    raise ValueError(f"expected {form}, got {node.given}")


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _specifiers(text: str, form: str) -> SpecifierSet:
    clauses = [part if part[:1] in tuple("<>=!~") else f"=={part}" for part in text.split(",")]
    for clause in clauses:
        if major := re.fullmatch(r"={2,3}(\d+)", clause):
            raise ValueError(
                f"{text!r} is not clear: '{major[1]}.*' is all of {major[1]}.x, '{major[1]}.0' one version"
            )
    try:
        return SpecifierSet(",".join(clauses))
    except InvalidSpecifier:
        raise ValueError(f"cannot read {text!r}; expected {form}") from None


def _contains(range_: SpecifierSet, fact: str) -> bool | None:
    try:
        return range_.contains(Version(fact), prereleases=True)
    except InvalidVersion:
        return None

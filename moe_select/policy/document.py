"""One layer of a policy: what a single document says, before it is merged with the layers below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from moe_select.policy.conditions import ALWAYS, Condition
from moe_select.policy.model import DeclaredBackend, ExplicitBackend, Origin, Target
from moe_select.policy.nodes import Node
from moe_select.support import QuantPair
from moe_select.vocabulary import format_optional_key

VERSION: Final = 1
VERBS: Final = ("require", "prefer", "demote", "deny")
DOCUMENT_KEYS: Final = ("version", "backend", "backends", "schemes", "rules")
SCHEME_KEYS: Final = ("match", "aliases", "backends")
RULE_KEYS: Final = ("name", "enabled", "when", *VERBS, "options", "reason")
SPLICE: Final = "..."
AUTO: Final = "auto"
PACKAGED: Final = "moe_select/backends.yaml"
"""Source of the packaged default, in positions too: the same on every machine."""
VARIABLE_LAYER: Final = "environment variables"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """A value and where it was written."""

    value: T
    origin: Origin


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A list that may splice the one below it: None among the items stands for ``...``."""

    items: tuple[Placed[T] | None, ...]
    splice: Origin | None = None
    """Where ``...`` was written."""

    @property
    def written(self) -> dict[T, Origin]:
        """The items written here."""
        return {item.value: item.origin for item in self.items if item is not None}


@dataclass(frozen=True, slots=True)
class SchemeLayer:
    """What one layer says about a scheme; None is unset."""

    name: str
    origin: Origin
    match: Listed[QuantPair] | None = None
    aliases: Mapping[str, Listed[Target]] = field(default_factory=dict)
    backends: Listed[Target] | None = None


@dataclass(frozen=True, slots=True)
class RuleLayer:
    """What one layer says about a rule."""

    name: str
    origin: Origin
    when: Condition = ALWAYS
    verbs: Mapping[str, Listed[Target]] = field(default_factory=dict)
    options: Mapping[str, tuple[Target, Node]] = field(default_factory=dict)
    """Target text to the target and its options."""
    reason: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """One layer."""

    source: str
    schemes: Mapping[str, SchemeLayer] = field(default_factory=dict)
    rules: tuple[RuleLayer, ...] = ()
    declared: Mapping[str, DeclaredBackend] = field(default_factory=dict)
    backend: ExplicitBackend | None = None

    def targets(self) -> Iterator[Target]:
        """Every target that the layer names, in lists and as keys of options."""
        for scheme in self.schemes.values():
            for listed in (*scheme.aliases.values(), *([scheme.backends] if scheme.backends else [])):
                yield from listed.written
        for rule in self.rules:
            for listed in rule.verbs.values():
                yield from listed.written
            yield from (target for target, _ in rule.options.values())


def normalize_alias(name: str) -> str:
    """Frameworks spell backends with hyphens or underscores and in any case."""
    return name.strip().lower().replace("-", "_")


def show(value: object) -> str:
    """A target or a pair as it is written."""
    if isinstance(value, tuple):
        return f"[{', '.join(format_optional_key(key) for key in value)}]"
    return str(value)

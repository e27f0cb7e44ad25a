"""The policy as values: what a parsed and merged ``backends.yaml`` says, each part with where it was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from moe_select.support import QuantPair

if TYPE_CHECKING:
    from moe_select.policy.conditions import Condition


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was said: a file position, an environment variable or a call."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Target:
    """``backend``, ``backend/ExpertsClass``, ``distribution:backend`` or a ``*`` pattern of these."""

    text: str
    origin: Origin = field(compare=False, default=Origin("<call>"))

    @property
    def is_pattern(self) -> bool:
        """True when the text has a wildcard; patterns only choose among listed candidates, they never add one."""
        return any(mark in self.text for mark in "*?[")

    @property
    def backend(self) -> str:
        """The backend part, with the distribution when one was given."""
        return self.text.partition("/")[0]

    @property
    def experts(self) -> str | None:
        """The experts class part."""
        return self.text.partition("/")[2] or None

    def matches(self, distribution: str, backend: str, experts: str) -> bool:
        """Whether a candidate is meant."""
        name = f"{distribution}:{backend}" if ":" in self.backend else backend
        return fnmatchcase(name, self.backend) and (self.experts is None or fnmatchcase(experts, self.experts))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Scheme:
    """A named set of (weights, activations) pairs and the backends tried for it, in order."""

    name: str
    match: Mapping[QuantPair, Origin]
    """The pairs, in the order they are written, each with where."""
    aliases: Mapping[str, tuple[Target, ...]]
    """Framework spelling to targets."""
    backends: tuple[Target, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Rule:
    """An adjustment of the order where a condition holds."""

    name: str
    when: Condition
    require: tuple[Target, ...]
    prefer: tuple[Target, ...]
    demote: tuple[Target, ...]
    deny: tuple[Target, ...]
    options: Mapping[str, Mapping[str, Any]]
    """Backend name to options, unvalidated."""
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class DeclaredBackend:
    """A name that some machines of a fleet do not have installed."""

    name: str
    install: str | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class ExplicitBackend:
    """A backend asked for by name; ``auto`` cancels a weaker layer's request."""

    name: str
    origin: Origin

    @property
    def is_auto(self) -> bool:
        """True for ``auto``."""
        return self.name == "auto"


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """The merged policy. Immutable, and a key of caches by identity; equal files give equal fingerprints."""

    schemes: Mapping[str, Scheme]
    rules: tuple[Rule, ...]
    declared: Mapping[str, DeclaredBackend]
    backend: ExplicitBackend | None
    """Top-level ``backend:`` of the strongest file layer that has one."""
    layers: tuple[str, ...]
    """Names of the layers, weakest first."""
    fingerprint: str
    """16 hex digits of the content: positions and comments do not count, order does."""
    libraries: frozenset[str] = frozenset()
    """Distributions whose versions the rules ask about; the environment must be probed for them."""

    def scheme_of(self, pair: QuantPair) -> Scheme | None:
        """The scheme that lists this pair."""
        return next((scheme for scheme in self.schemes.values() if pair in scheme.match), None)

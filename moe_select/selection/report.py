"""The report of one decision. Exceptions, log lines, tables, JSON and tests all render this object."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from moe_select.environment import Environment
from moe_select.plugins.types import Provider
from moe_select.policy.model import ExplicitBackend, Origin
from moe_select.support import Refusal, Unproven, Verdict
from moe_select.vocabulary import MoEConfig

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.table import Table

    from moe_select.kernels.experts import Experts
    from moe_select.kernels.kernel import MoEKernel, MonolithicMoEKernel
    from moe_select.kernels.weights import MoEWeights


@dataclass(frozen=True, slots=True)
class Effect:
    """What one rule or setting did to one candidate."""

    verb: str
    """``require``, ``prefer``, ``demote``, ``deny``, ``options`` or ``backend`` (an explicit request)."""
    rule: str
    origin: Origin
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.verb} by {self.rule} ({self.origin}){why}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One experts class of one backend, judged."""

    backend: str
    experts: str
    """Class name; empty for a backend that is not installed."""
    provider: Provider | None
    verdict: Verdict
    origin: Origin
    """Where the candidate was listed."""
    refusals: tuple[Refusal, ...] = ()
    unproven: tuple[Unproven, ...] = ()
    effects: tuple[Effect, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    experts_class: type[Experts] | None = field(default=None, repr=False, compare=False)
    validated_options: BaseModel | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """``backend/ExpertsClass``, or the bare backend where no class is known."""
        return f"{self.backend}/{self.experts}" if self.experts else self.backend

    @property
    def miss(self) -> tuple[int, int]:
        """Sort key of nearest-miss order: total distance of the refusals, then their number."""
        return sum(refusal.code.distance for refusal in self.refusals), len(self.refusals)


@dataclass(frozen=True)
class Selection:
    """The outcome of one decision: who won, who was outranked, who was refused and all the reasons."""

    request: MoEConfig
    environment: Environment
    scheme: str | None
    explicit: ExplicitBackend | None
    """The explicit backend in force, if any."""
    candidates: tuple[Candidate, ...]
    """In the order they were ranked; the winner is the first supported one."""
    winner: Candidate | None
    deciding: Origin | None
    """What put the winner where it is."""
    notices: tuple[str, ...]
    """Things an operator should know that decided nothing: patterns that matched nothing, denied but absent names ..."""
    policy_fingerprint: str
    registry_fingerprint: str
    registry: Any = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """True when there is a winner."""
        return self.winner is not None

    @property
    def backend(self) -> str | None:
        """Winning backend."""
        return self.winner.backend if self.winner else None

    @property
    def experts(self) -> str | None:
        """Winning experts class."""
        return self.winner.experts if self.winner else None

    @property
    def outranked(self) -> tuple[Candidate, ...]:
        """Candidates that could have run but stood behind the winner."""
        return tuple(c for c in self.candidates if c.verdict is not Verdict.REFUSED and c is not self.winner)

    @property
    def refused(self) -> tuple[Candidate, ...]:
        """Refused candidates, nearest miss first."""
        return tuple(sorted((c for c in self.candidates if c.verdict is Verdict.REFUSED), key=lambda c: c.miss))

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of the decision: equal on ranks that decided the same thing for the same reasons."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Plain data of the whole report, in a stable order."""
        from moe_select.reporting.plain import selection_to_dict

        return selection_to_dict(self)

    def to_json(self) -> str:
        """The report as indented JSON, fingerprint included."""
        return json.dumps({**self.to_dict(), "fingerprint": self.fingerprint}, indent=2)

    def to_text(self) -> str:
        """The report as plain text, as exceptions carry it."""
        from moe_select.reporting.text import selection_to_text

        return selection_to_text(self)

    def to_table(self) -> Table:
        """The report as a rich table."""
        from moe_select.reporting.table import selection_to_table

        return selection_to_table(self)

    def log_line(self) -> str:
        """The report in one line."""
        from moe_select.reporting.text import selection_to_line

        return selection_to_line(self)

    def build(self, weights: MoEWeights, **arguments: Any) -> MoEKernel | MonolithicMoEKernel:
        """Convert the weights to the winner's layout and return the kernel. See :func:`moe_select.kernels.builder.build`."""
        from moe_select.kernels.builder import build

        return build(self, weights, **arguments)

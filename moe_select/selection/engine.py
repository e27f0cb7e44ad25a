"""The decision itself: a pure function of request, environment, policy, registry and explicit backend."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from moe_select.environment import Environment
from moe_select.policy import facts
from moe_select.policy.model import ExplicitBackend, Origin, Policy, Scheme, Target
from moe_select.selection.candidates import expand
from moe_select.selection.judge import judge
from moe_select.selection.ranking import Ranking
from moe_select.selection.report import Candidate, Selection
from moe_select.support import Verdict
from moe_select.vocabulary import MoEConfig, format_optional_key

if TYPE_CHECKING:
    from moe_select.plugins import Registry


def decide(
    request: MoEConfig,
    environment: Environment,
    policy: Policy,
    registry: Registry,
    explicit: ExplicitBackend | None = None,
) -> Selection:
    """Rank and judge every candidate and report the outcome, winner or not.

    ``explicit`` is the strongest backend asked for by name; None and ``auto`` leave the choice to the policy. Nothing is
    read besides the arguments, and nothing is raised for a request that cannot be served.
    """
    scheme = policy.scheme_of((request.weight_key, request.activation_key))
    pinned = explicit if explicit is not None and not explicit.is_auto else None
    listed = _explicit_targets(pinned, scheme) if pinned else (scheme.backends if scheme else ())
    ranking = Ranking(expand(listed, policy, registry), policy, registry, fixed=pinned is not None)
    known = facts(request, environment, scheme.name if scheme else None)
    for rule in policy.rules:
        if rule.when.matches(known):
            ranking.apply(rule)
    candidates = tuple(judge(entry, request, environment) for entry in ranking.entries)
    winner = _winner(candidates)
    notices = [*ranking.notices, *_notices(request, policy, scheme, candidates, winner)]
    selection = Selection(
        request=request,
        environment=environment,
        scheme=scheme.name if scheme else None,
        explicit=explicit,
        candidates=candidates,
        winner=winner,
        deciding=_deciding(winner, pinned),
        notices=tuple(dict.fromkeys(notices)),
        policy_fingerprint=policy.fingerprint,
        registry_fingerprint=registry.fingerprint,
        registry=registry,
    )
    return selection if winner or not pinned else _with_alternative(selection, policy, registry)


def _explicit_targets(explicit: ExplicitBackend, scheme: Scheme | None) -> tuple[Target, ...]:
    """A framework's alias in this scheme, or the name itself."""
    alias = explicit.name.lower().replace("-", "_")
    if scheme is not None and alias in scheme.aliases:
        return tuple(replace(target, origin=explicit.origin) for target in scheme.aliases[alias])
    return (Target(explicit.name, explicit.origin),)


def _winner(candidates: tuple[Candidate, ...]) -> Candidate | None:
    for verdict in (Verdict.SUPPORTED, Verdict.LAST_RESORT):
        found = next((candidate for candidate in candidates if candidate.verdict is verdict), None)
        if found is not None:
            return found
    return None


def _deciding(winner: Candidate | None, explicit: ExplicitBackend | None) -> Origin | None:
    """What put the winner first: the explicit request, else the last rule that moved it, else the list it stands in."""
    if winner is None:
        return None
    if explicit is not None:
        return explicit.origin
    moves = [effect.origin for effect in winner.effects if effect.verb in ("require", "prefer")]
    return moves[-1] if moves else winner.origin


def _notices(
    request: MoEConfig,
    policy: Policy,
    scheme: Scheme | None,
    candidates: tuple[Candidate, ...],
    winner: Candidate | None,
) -> list[str]:
    notices = []
    if scheme is None:
        given = f"weights {format_optional_key(request.weight_key)}, activations {format_optional_key(request.activation_key)}"
        notices.append(f"no scheme of the policy matches {given}; schemes: {', '.join(policy.schemes) or 'none'}")
    elif not candidates:
        notices.append(f"scheme {scheme.name!r} ({scheme.origin}) lists no backends")
    if winner is not None and winner.verdict is Verdict.LAST_RESORT:
        notices.append(f"{winner.name} is a last resort (emulation): correct but slow, and nothing else remained")
    return notices


def _with_alternative(selection: Selection, policy: Policy, registry: Registry) -> Selection:
    """An explicit backend failed: say what would run without it."""
    free = decide(selection.request, selection.environment, policy, registry)
    if free.winner is None:
        return selection
    asked = selection.explicit.name if selection.explicit else ""
    notice = f"without the explicit backend {asked!r}, {free.winner.name} would be selected"
    return replace(selection, notices=(*selection.notices, notice))

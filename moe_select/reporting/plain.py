"""The report as plain data that ``json.dumps`` accepts, in a stable order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from moe_select.vocabulary import MoEConfig, format_optional_key

if TYPE_CHECKING:
    from moe_select.plugins.types import Provider
    from moe_select.policy.model import ExplicitBackend, Origin
    from moe_select.selection.report import Candidate, Effect, Selection


def selection_to_dict(selection: Selection) -> dict[str, Any]:
    """All of the report as plain data.

    ``request`` and ``environment`` read back with ``MoEConfig.model_validate`` and ``Environment.model_validate``.
    ``winner`` names the candidate by its index, since two distributions may provide one backend name.
    """
    return {
        "outcome": "selected" if selection.ok else "refused",
        "winner": _winner(selection),
        "deciding": selection.deciding and origin_to_dict(selection.deciding),
        "scheme": selection.scheme,
        "explicit": selection.explicit and _explicit(selection.explicit),
        "request": request_to_dict(selection.request),
        "environment": selection.environment.model_dump(mode="json"),
        "candidates": [candidate_to_dict(candidate) for candidate in selection.candidates],
        "notices": list(selection.notices),
        "policy_fingerprint": selection.policy_fingerprint,
        "registry_fingerprint": selection.registry_fingerprint,
    }


def request_to_dict(request: MoEConfig) -> dict[str, Any]:
    """Every field; an operand that is not quantized has the key ``none``."""
    keys = {name: format_optional_key(getattr(request, name)) for name in ("weight_key", "activation_key")}
    return request.model_dump(mode="json") | keys


def candidate_to_dict(candidate: Candidate) -> dict[str, Any]:
    """One candidate with every reason."""
    return {
        "name": candidate.name,
        "backend": candidate.backend,
        "experts": candidate.experts or None,
        "provider": candidate.provider and provider_to_dict(candidate.provider),
        "verdict": candidate.verdict.value,
        "origin": origin_to_dict(candidate.origin),
        "refusals": [
            {"code": refusal.code.value, "detail": refusal.detail, "remedy": refusal.remedy}
            for refusal in candidate.refusals
        ],
        "unproven": [{"fact": unproven.fact, "detail": unproven.detail} for unproven in candidate.unproven],
        "effects": [_effect(effect) for effect in candidate.effects],
        "options": plain(candidate.options),
    }


def origin_to_dict(origin: Origin) -> dict[str, Any]:
    """``source``, ``line`` and ``column``; the last two are null for variables and calls."""
    return asdict(origin)


def provider_to_dict(provider: Provider) -> dict[str, Any]:
    """``plugin``, ``distribution`` and ``version``."""
    return asdict(provider)


def plain(value: Any) -> Any:
    """Any value as plain data: sets sorted, what JSON has no form for as its ``str``.

    >>> plain({"b": (1, None), "a": {"y", "x"}})
    {'b': [1, None], 'a': ['x', 'y']}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def _winner(selection: Selection) -> dict[str, Any] | None:
    winner = selection.winner
    if winner is None:
        return None
    index = next(i for i, candidate in enumerate(selection.candidates) if candidate is winner)
    return {"name": winner.name, "backend": winner.backend, "experts": winner.experts, "candidate": index}


def _explicit(explicit: ExplicitBackend) -> dict[str, Any]:
    return {"name": explicit.name, "origin": origin_to_dict(explicit.origin)}


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "verb": effect.verb,
        "rule": effect.rule,
        "reason": effect.reason or None,
        "origin": origin_to_dict(effect.origin),
    }

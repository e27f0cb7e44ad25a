"""``select`` and ``explain``: the defaults, the cache and the log around the pure engine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from moe_select.environment import Environment
from moe_select.errors import SelectionError
from moe_select.plugins import Registry
from moe_select.selection.ambient import (
    reset_policies,
    resolve_environment,
    resolve_explicit,
    resolve_policy,
    resolve_registry,
)
from moe_select.selection.engine import decide
from moe_select.selection.report import Selection
from moe_select.support import Verdict
from moe_select.vocabulary import MoEConfig

if TYPE_CHECKING:
    from moe_select.policy import PolicySource

logger: Final = logging.getLogger("moe_select")

_MOST_CACHED: Final = 4096
_cache: dict[tuple[object, ...], Selection] = {}
_logged: set[tuple[object, ...]] = set()


def select(
    request: MoEConfig,
    *,
    environment: Environment | None = None,
    policy: PolicySource | None = None,
    registry: Registry | None = None,
    backend: str | None = None,
) -> Selection:
    """Choose the experts class that will run a layer.

    Args:
        request: the layer.
        environment: where it runs; default: this machine, probed once.
        policy: a :class:`Policy`, or a layer on top of the installed ones: a path or a mapping.
        registry: backends to choose from; default: the installed plugins.
        backend: explicit backend (or a framework's alias for one, or ``backend/ExpertsClass``). It runs or the call
            fails. ``auto`` cancels weaker explicit settings; None leaves them alone.

    Returns:
        The report, with a winner. Call :meth:`Selection.build` on it.

    Raises:
        SelectionError: nothing can serve the request; carries the report with every candidate's reasons.
        PolicyError: the policy has problems.

    """
    selection = explain(request, environment=environment, policy=policy, registry=registry, backend=backend)
    if selection.winner is None:
        raise SelectionError(selection)
    return selection


def explain(
    request: MoEConfig,
    *,
    environment: Environment | None = None,
    policy: PolicySource | None = None,
    registry: Registry | None = None,
    backend: str | None = None,
) -> Selection:
    """The report that :func:`select` decides by, whether or not there is a winner. Arguments as there."""
    registry = resolve_registry(registry)
    environment = resolve_environment(environment, registry)
    loaded = resolve_policy(policy, registry)
    explicit = resolve_explicit(backend, request, loaded)
    # Policies and registries are keyed by identity: the key holds them, so their ids cannot be reused.
    key = (request, environment, loaded, registry, explicit)
    selection = _cache.get(key)
    if selection is None:
        selection = decide(request, environment, loaded, registry, explicit)
        _remember(key, selection)
    return selection


def clear_caches() -> None:
    """Forget decisions and loaded policies: the next call reads policy files again and logs its choice again."""
    _cache.clear()
    _logged.clear()
    reset_policies()


def _remember(key: tuple[object, ...], selection: Selection) -> None:
    if len(_cache) >= _MOST_CACHED:
        _cache.clear()
    _cache[key] = selection
    _log(key, selection)
    if selection.winner is not None:
        selection.registry.notify_selected(selection)


def _log(key: tuple[object, ...], selection: Selection) -> None:
    """One line a distinct decision: layers that differ only in their name and are decided alike share one."""
    name = selection.winner.name if selection.winner else None
    decision = (name, selection.deciding, selection.request.replace(layer=None), *key[1:])
    if decision in _logged:
        return
    _logged.add(decision)
    if selection.winner is None:
        logger.info("%s", selection.log_line())
    else:
        level = logging.WARNING if selection.winner.verdict is Verdict.LAST_RESORT else logging.INFO
        logger.log(level, "%s", selection.log_line())
    for candidate in selection.refused:
        logger.debug("%s refused: %s", candidate.name, "; ".join(map(str, candidate.refusals)))

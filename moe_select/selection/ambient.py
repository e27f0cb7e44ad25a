"""What a call does not say: the defaults of this process and the ``override`` context manager.

The engine is pure; everything it would otherwise have to look up is looked up here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from moe_select.environment import Environment, current
from moe_select.plugins import Registry, default_registry
from moe_select.policy import SELECTION_VARIABLES, load_policy
from moe_select.policy.model import ExplicitBackend, Origin, Policy
from moe_select.vocabulary import MoEConfig

if TYPE_CHECKING:
    from moe_select.policy import PolicySource


class Overrides(NamedTuple):
    """What the innermost ``override`` blocks say; None leaves a value alone."""

    backend: str | None = None
    policy: PolicySource | None = None
    environment: Environment | None = None
    registry: Registry | None = None


_OVERRIDES: Final[ContextVar[Overrides]] = ContextVar("moe_select_overrides", default=Overrides())
_policies: dict[tuple[object, ...], Policy] = {}
_lock: Final = threading.Lock()


@contextmanager
def override(
    *,
    backend: str | None = None,
    policy: PolicySource | None = None,
    environment: Environment | None = None,
    registry: Registry | None = None,
) -> Iterator[None]:
    """Strongest layer for the calls made inside the block, in this thread or task.

    Args:
        backend: explicit backend, stronger than every argument and setting; ``auto`` cancels them.
        policy: policy layer put on top of the others: a :class:`Policy` replaces them.
        environment: environment for calls that do not pass one.
        registry: registry for calls that do not pass one.

    """
    old = _OVERRIDES.get()
    new = Overrides(
        backend if backend is not None else old.backend,
        policy if policy is not None else old.policy,
        environment or old.environment,
        registry or old.registry,
    )
    token = _OVERRIDES.set(new)
    try:
        yield
    finally:
        _OVERRIDES.reset(token)


def overrides() -> Overrides:
    """The overrides in force."""
    return _OVERRIDES.get()


def resolve_registry(given: Registry | None) -> Registry:
    """The registry of the call, of an override, or of the process."""
    return given or overrides().registry or default_registry()


def resolve_environment(given: Environment | None, registry: Registry) -> Environment:
    """The environment of the call, of an override, or the probed one of this process."""
    return given or overrides().environment or current(registry.requirements)


def resolve_policy(given: PolicySource | None, registry: Registry) -> Policy:
    """The policy of the call and of overrides on top of the layers of files and environment variables.

    Raises:
        PolicyError: with the problems of all layers.

    """
    sources = tuple(source for source in (given, overrides().policy) if source is not None)
    for source in reversed(sources):
        if isinstance(source, Policy):
            return source
    if any(isinstance(source, Mapping) for source in sources):
        return load_policy(environ=os.environ, extra=sources, registry=registry)
    key = (registry, tuple(map(str, sources)), _file_stamps(sources), _variables())
    policy = _policies.get(key)
    if policy is None:
        with _lock:
            policy = load_policy(environ=os.environ, extra=sources, registry=registry)
            _policies[key] = policy
    return policy


def resolve_explicit(argument: str | None, request: MoEConfig, policy: Policy) -> ExplicitBackend | None:
    """The strongest explicit backend: override, argument, request, then the policy's own (variables over files)."""
    spoken = (
        (overrides().backend, "override(backend=...)"),
        (argument, "select(backend=...)"),
        (request.moe_backend, "MoEConfig.moe_backend"),
    )
    for name, source in spoken:
        if name is not None:
            return ExplicitBackend(name, Origin(source))
    return policy.backend


def reset_policies() -> None:
    """Forget loaded policies, so that edited files are read again."""
    _policies.clear()


def _variables() -> tuple[str | None, ...]:
    return tuple(os.environ.get(name) for name in SELECTION_VARIABLES)


def _file_stamps(sources: tuple[PolicySource, ...]) -> tuple[int, ...]:
    """Modification times, so that an edited file passed by path is read again."""
    return tuple(os.stat(source).st_mtime_ns if os.path.exists(source) else 0 for source in sources)  # type: ignore[arg-type]

"""The registry: what all plugins declared, each declaration stamped with where it came from. Immutable."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from moe_select.plugins.types import BrokenPlugin, Provider, RegisteredBackend, RegisteredPrepareFinalize

if TYPE_CHECKING:
    from moe_select.selection.report import Selection

Observer = tuple[Provider, Callable[..., Any]]
"""A plugin and its ``moe_select_selected``."""


class PluginWarning(UserWarning):
    """A plugin is broken and was left out, or an observer raised."""


class Registry:
    """Backends and prepare/finalize classes, sorted by name and distribution, so that install order never shows.

    Compares and hashes by identity: a registry keys caches. Make one by :func:`load_registry` or :meth:`from_plugins`.
    """

    def __init__(
        self,
        *,
        backends: Iterable[RegisteredBackend] = (),
        prepare_finalize: Iterable[RegisteredPrepareFinalize] = (),
        broken: Iterable[BrokenPlugin] = (),
        blocked: Iterable[Provider] = (),
        providers: Iterable[Provider] = (),
        observers: Iterable[Observer] = (),
    ) -> None:
        self.backends = tuple(sorted(backends, key=lambda item: (item.name, _order(item.provider))))
        self.prepare_finalize = tuple(sorted(prepare_finalize, key=lambda item: (item.name, _order(item.provider))))
        self.broken = tuple(sorted(broken, key=lambda item: _order(item.provider)))
        self.blocked = tuple(sorted(blocked, key=_order))
        self.providers = tuple(sorted(providers, key=_order))
        self._observers = tuple(sorted(observers, key=lambda item: _order(item[0])))
        self._silenced: set[Provider] = set()

    @classmethod
    def from_plugins(cls, *plugins: Any, strict: bool = True) -> Registry:
        """A registry of these plugin objects (modules, or instances with hook methods) and nothing that is installed.

        Args:
            plugins: objects, or ``(object, Provider)`` pairs that say where an object comes from.
            strict: raise for a broken plugin; otherwise it is a :class:`PluginWarning` and kept under :attr:`broken`.

        Raises:
            PluginError: in strict mode, a plugin broke its contract.

        """
        from moe_select.plugins.manager import Collector

        collector = Collector(strict=strict)
        for plugin in plugins:
            collector.register(*plugin) if isinstance(plugin, tuple) else collector.register(plugin)
        return collector.freeze()

    def find(self, name: str) -> tuple[RegisteredBackend, ...]:
        """Backends of a bare name, or the one of ``distribution:backend``; empty where there is none."""
        distribution, colon, backend = name.rpartition(":")
        if not colon:
            return tuple(item for item in self.backends if item.name == name)
        wanted = canonicalize_name(distribution)
        return tuple(
            item
            for item in self.backends
            if item.name == backend and canonicalize_name(item.provider.distribution) == wanted
        )

    @cached_property
    def requirements(self) -> frozenset[str]:
        """Everything that experts classes require of installed libraries; the environment is probed for it."""
        return frozenset(
            requirement
            for item in self.backends
            for experts_class in item.backend.experts
            for requirement in experts_class.support.requires
        )

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of the names, classes and versions, whatever the order of installation."""
        lines = [
            f"{item.qualified_name} {item.provider.version} {' '.join(c.__name__ for c in item.backend.experts)}"
            for item in self.backends
        ]
        lines += [f"{item.name} {item.provider}" for item in self.prepare_finalize]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def notify_selected(self, selection: Selection) -> None:
        """Tell every observer. One that raises is reported once, and decides nothing."""
        for provider, observe in self._observers:
            try:
                observe(selection=selection)
            except Exception as error:
                if provider not in self._silenced:
                    self._silenced.add(provider)
                    message = f"moe_select_selected of plugin {provider.plugin!r} ({provider}) raised"
                    warnings.warn(f"{message} {type(error).__name__}: {error}", PluginWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<Registry {', '.join(item.qualified_name for item in self.backends) or 'without backends'}>"


def _order(provider: Provider) -> tuple[str, str, str]:
    return provider.distribution, provider.plugin, provider.version

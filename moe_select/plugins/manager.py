"""Finding and loading plugins, each in isolation: one that breaks takes nothing with it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pluggy
from packaging.utils import canonicalize_name

from moe_select.errors import PluginError, RegistryFrozenError
from moe_select.plugins import hookspec
from moe_select.plugins.declarations import DeclarationError, Declarations, read_declarations
from moe_select.plugins.hookspec import PROJECT
from moe_select.plugins.registry import Observer, PluginWarning, Registry
from moe_select.plugins.types import BrokenPlugin, Provider
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

STRICT: Final = "MOE_SELECT_STRICT_PLUGINS"
DISABLE: Final = "MOE_SELECT_DISABLE_PLUGINS"
HOOKS: Final = tuple(name for name in vars(hookspec) if name.startswith(f"{PROJECT}_"))
BACKENDS, PREPARE_FINALIZE, SELECTED = HOOKS
_BREAKS: Final = (Exception, SystemExit)
"""What a plugin may do to its own loading; an interrupt is the user's."""


class Collector:
    """Takes plugins one by one and makes a registry of them.

    Args:
        strict: raise :class:`PluginError` for a broken plugin instead of warning.

    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspec)
        self._declared: list[Declarations] = []
        self._observers: list[Observer] = []
        self._broken: list[BrokenPlugin] = []
        self._blocked: list[Provider] = []
        self._providers: list[Provider] = []
        self._frozen = False

    def register(self, plugin: Any, provider: Provider | None = None) -> None:
        """Take one plugin object.

        Raises:
            RegistryFrozenError: the registry was made already.
            PluginError: the plugin broke its contract, in strict mode.

        """
        provider = provider or _provider_of(plugin)
        if self._frozen:
            raise RegistryFrozenError(
                f"plugin {provider.plugin!r} came too late: backends were chosen from already, and decisions may not "
                "change under a running engine; register before the first select(), or pass registry="
            )
        stage = "register"
        try:
            self._check_hooks(plugin)
            self._manager.register(plugin, str((provider.distribution, provider.plugin)))
            stage = "hook"
            declared = self._ask(plugin, provider)
        except DeclarationError as error:
            self._break(plugin, BrokenPlugin(provider, "declaration", str(error)), error)
        except _BREAKS as error:
            self._break(plugin, BrokenPlugin(provider, stage, _cause(error)), error)
        else:
            self._declared.append(declared)
            self._providers.append(provider)
            if hasattr(plugin, SELECTED):
                self._observers.append((provider, self._only(plugin, SELECTED)))

    def load(self, entry_point: EntryPoint) -> None:
        """Import one entry point and take what it names."""
        provider = provider_of_entry_point(entry_point)
        try:
            plugin = entry_point.load()
        except _BREAKS as error:
            self._break(None, BrokenPlugin(provider, "import", _cause(error)), error)
        else:
            self.register(plugin, provider)

    def has(self, plugin: Any) -> bool:
        """Whether the object was taken already, by an entry point of its own."""
        return self._manager.is_registered(plugin)

    def block(self, provider: Provider) -> None:
        """Remember a plugin that the user does not want imported."""
        self._blocked.append(provider)

    def freeze(self) -> Registry:
        """The registry; nothing can be registered afterwards."""
        self._frozen = True
        return Registry(
            backends=[item for declared in self._declared for item in declared.backends],
            prepare_finalize=[item for declared in self._declared for item in declared.prepare_finalize],
            broken=self._broken,
            blocked=self._blocked,
            providers=self._providers,
            observers=self._observers,
        )

    def _check_hooks(self, plugin: Any) -> None:
        """A function that looks like a hook and is none would be ignored silently: a misspelling, or no marker."""
        if plugin is None or isinstance(plugin, str | int | bytes):
            raise PluginError(f"the entry point names {plugin!r}; expected a module or an object with hooks")
        found = [name for name in dir(plugin) if name.startswith(f"{PROJECT}_") and callable(getattr(plugin, name))]
        for name in found:
            if name not in HOOKS:
                raise PluginError(f"unknown hook {name!r}{did_you_mean(name, HOOKS)}; hooks: {', '.join(HOOKS)}")
            if self._manager.parse_hookimpl_opts(plugin, name) is None:
                raise PluginError(f"{name} is not marked: decorate it with @moe_select.hookimpl")
        if not found:
            raise PluginError(f"implements no hook; hooks: {', '.join(HOOKS)}")

    def _ask(self, plugin: Any, provider: Provider) -> Declarations:
        answers = {name: self._only(plugin, name)() for name in (BACKENDS, PREPARE_FINALIZE)}
        for name, answer in answers.items():
            if hasattr(plugin, name) and not answer:  # pluggy leaves out an answer that is None
                raise DeclarationError(f"{name} returned None; expected to yield declarations")
        return read_declarations(provider, answers[BACKENDS], answers[PREPARE_FINALIZE])

    def _only(self, plugin: Any, hook: str) -> Any:
        """The hook with this plugin's implementation alone, so that what it raises is its own."""
        others = [other for other in self._manager.get_plugins() if other is not plugin]
        return partial(_call, self._manager.subset_hook_caller(hook, others))

    def _break(self, plugin: Any, broken: BrokenPlugin, error: BaseException) -> None:
        if self._manager.is_registered(plugin):
            self._manager.unregister(plugin)
        self._broken.append(broken)
        if self.strict:
            raise PluginError(str(broken)) from error
        warnings.warn(f"{broken}; its backends are left out", PluginWarning, stacklevel=4)


def _call(caller: Any, **arguments: Any) -> Any:
    return caller(**arguments)


def _cause(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"


def _provider_of(plugin: Any) -> Provider:
    name = getattr(plugin, "__name__", None) or type(plugin).__name__
    return Provider(name, name, "unknown")


def provider_of_entry_point(entry_point: EntryPoint) -> Provider:
    """Where an entry point comes from."""
    distribution = entry_point.dist
    if distribution is None:
        return Provider(entry_point.name, entry_point.value, "unknown")
    return Provider(entry_point.name, canonicalize_name(distribution.name), distribution.version)


def load_registry(
    environ: Mapping[str, str], entry_points: Iterable[EntryPoint] | None = None, plugins: Iterable[Any] = ()
) -> Registry:
    """Load every installed plugin.

    Args:
        environ: environment variables, of which ``MOE_SELECT_STRICT_PLUGINS`` and ``MOE_SELECT_DISABLE_PLUGINS`` are read.
        entry_points: instead of those of the group ``moe_select``.
        plugins: plugin objects besides the installed ones.

    Raises:
        PluginError: a plugin is broken in strict mode, or a variable cannot be read.

    """
    collector = Collector(strict=_is_strict(environ))
    found = _distinct(_installed() if entry_points is None else entry_points)
    disabled = _disabled(environ, [provider for provider, _ in found])
    for provider, entry_point in found:
        collector.block(provider) if provider in disabled else collector.load(entry_point)
    for plugin in plugins:
        if not collector.has(plugin):
            collector.register(plugin)
    return collector.freeze()


def _installed() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return entry_points(group=PROJECT)


def _distinct(entry_points: Iterable[EntryPoint]) -> list[tuple[Provider, EntryPoint]]:
    """In an order of their own; one that is found twice (an editable install beside a wheel's leftovers) counts once."""
    found = {(provider_of_entry_point(item), item.value): item for item in entry_points}
    named = [(provider, item) for (provider, _), item in found.items()]
    return sorted(named, key=lambda pair: (pair[0].distribution, pair[0].plugin, pair[0].version, pair[1].value))


def _is_strict(environ: Mapping[str, str]) -> bool:
    value = environ.get(STRICT, "").strip().lower()
    if value not in ("", "0", "false", "1", "true"):
        raise PluginError(f"{STRICT}={value}: expected 1 (raise for a broken plugin) or 0")
    return value in ("1", "true")


def _disabled(environ: Mapping[str, str], providers: list[Provider]) -> set[Provider]:
    """Providers that are named by entry point or by distribution; a name that means none is worth a warning."""
    names = [name.strip() for name in environ.get(DISABLE, "").split(",") if name.strip()]
    disabled: set[Provider] = set()
    for name in names:
        meant = {item for item in providers if canonicalize_name(name) in _names(item)}
        if not meant:
            known = sorted({other for item in providers for other in (item.plugin, item.distribution)})
            hint = did_you_mean(name, known)
            warnings.warn(f"{DISABLE}: no plugin {name!r} is installed{hint}", PluginWarning, stacklevel=4)
        disabled |= meant
    return disabled


def _names(provider: Provider) -> tuple[str, str]:
    return canonicalize_name(provider.plugin), canonicalize_name(provider.distribution)


_lock: Final = threading.RLock()
_default: list[Registry] = []
_registered: list[Any] = []


def default_registry() -> Registry:
    """The registry of this process: the installed plugins and those given to :func:`register`, loaded once."""
    if not _default:
        with _lock:
            if not _default:
                _default.append(load_registry(os.environ, plugins=_registered))
    return _default[0]


def register(plugin: Any) -> None:
    """Add a plugin object to the process's registry, for backends that come without a package.

    Raises:
        RegistryFrozenError: backends were chosen from already.

    """
    with _lock:
        if _default:
            collector = Collector()
            collector.freeze()
            collector.register(plugin)
        _registered.append(plugin)


def reset_default_registry() -> None:
    """Forget the process's registry, so that plugins are loaded again. For tests and notebooks."""
    with _lock:
        _default.clear()
        _registered.clear()

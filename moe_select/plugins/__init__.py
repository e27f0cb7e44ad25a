"""Plugins: the hooks, what they declare, and the registry that collects it."""

from moe_select.plugins.hookspec import hookimpl
from moe_select.plugins.manager import default_registry, load_registry, register, reset_default_registry
from moe_select.plugins.registry import PluginWarning, Registry
from moe_select.plugins.types import Backend, BrokenPlugin, Provider, RegisteredBackend, RegisteredPrepareFinalize

__all__ = [
    "Backend",
    "BrokenPlugin",
    "PluginWarning",
    "Provider",
    "RegisteredBackend",
    "RegisteredPrepareFinalize",
    "Registry",
    "default_registry",
    "hookimpl",
    "load_registry",
    "register",
    "reset_default_registry",
]

"""Plugins: the hooks, what they declare, and the registry that collects it."""

from moe_select.plugins.hookspec import hookimpl, hookspec
from moe_select.plugins.types import Backend, BrokenPlugin, Provider, RegisteredBackend, RegisteredPrepareFinalize


class PluginWarning(UserWarning):
    """A plugin is broken and was left out."""


__all__ = [
    "Backend",
    "BrokenPlugin",
    "PluginWarning",
    "Provider",
    "RegisteredBackend",
    "RegisteredPrepareFinalize",
    "hookimpl",
    "hookspec",
]

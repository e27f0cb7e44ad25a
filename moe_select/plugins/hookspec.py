"""The hooks a plugin may implement, and the two markers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from moe_select.kernels.prepare_finalize import PrepareFinalize
    from moe_select.plugins.types import Backend
    from moe_select.selection.report import Selection

PROJECT: Final = "moe_select"
"""pluggy project name, and the entry-point group that plugins are found under."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as the implementation of the hook of the same name."""


@hookspec
def moe_select_backends() -> Iterable[Backend]:  # type: ignore[empty-body]
    """Yield the backends this plugin provides. Declares only: it imports no kernel and asks no device."""


@hookspec
def moe_select_prepare_finalize() -> Iterable[type[PrepareFinalize]]:  # type: ignore[empty-body]
    """Yield the prepare/finalize classes this plugin provides. Declares only."""


@hookspec
def moe_select_selected(selection: Selection) -> None:
    """Observe a decision, once per distinct one. What it raises is reported and changes nothing."""

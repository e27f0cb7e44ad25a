"""The plugin that provides prepare/finalize without parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from moe_select.kernels.local import LocalBatched, LocalStandard
from moe_select.kernels.prepare_finalize import PrepareFinalize
from moe_select.plugins.hookspec import hookimpl


@hookimpl
def moe_select_prepare_finalize() -> Iterator[type[PrepareFinalize]]:
    """Declare both formats."""
    yield LocalStandard
    yield LocalBatched

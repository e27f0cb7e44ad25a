"""Progress bars."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from moe_select.cli.output import make_console

if TYPE_CHECKING:
    from rich.progress import Progress


def make_progress() -> Progress:
    """A bar on stderr, so that what is on stdout can be kept."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=make_console(sys.stderr))

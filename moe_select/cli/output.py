"""Printing: one console for tables, plain lines for pipes."""

from __future__ import annotations

import json
import os
import sys
from typing import IO, TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_WIDTH: Final = 120
"""Columns of a table that is not printed to a terminal; ``COLUMNS`` overrides it."""


def show(*parts: RenderableType) -> None:
    """Print tables and texts on standard output.

    Colour only on a terminal, and as NO_COLOR says. What goes to a pipe has no trailing blanks.
    """
    out = make_console(sys.stdout)
    if out.is_terminal:
        out.print(*parts, sep="\n")
        return
    with out.capture() as captured:
        out.print(*parts, sep="\n")
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def make_console(file: IO[str]) -> Console:
    """A console that leaves broken pipes to the application and takes no text for markup."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if file.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return _Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_columns(rows: list[tuple[str, ...]]) -> None:
    """Left-aligned columns, never cut or wrapped, so that lines can be searched."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())


def finish(yes: bool) -> None:
    """Exit code 0 for yes, 1 for no."""
    click.get_current_context().exit(0 if yes else 1)

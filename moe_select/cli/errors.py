"""Wrong input, as the command line reports it."""

from __future__ import annotations

import sys
from typing import IO, Any, Final

import click

INVALID: Final = 2
"""Exit code of wrong usage and wrong input."""


class InputError(click.ClickException):
    """Input that the library refuses; printed as it is, without a traceback."""

    exit_code = INVALID

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on stderr."""
        click.echo(f"error: {self.format_message()}", file=file or sys.stderr)

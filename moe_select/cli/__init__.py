"""The command ``moe-select``. Nothing of it is imported by ``import moe_select``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 yes, 1 no, 2 wrong usage or input.

    Args:
        arguments: the words after the program's name; default: those of this process.

    """
    from moe_select.cli.app import application

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show an arrow is no reason to fail.
            stream.reconfigure(errors="replace")
    application.main(args=None if arguments is None else list(arguments), prog_name="moe-select")

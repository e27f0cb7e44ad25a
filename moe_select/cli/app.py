"""The command group: commands are imported when they are asked for, and errors become messages and exit codes."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn

import click

from moe_select.cli.errors import InputError
from moe_select.errors import MoESelectError
from moe_select.vocabulary.suggest import did_you_mean

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""What a shell reports for a program that ended by SIGINT, and by SIGPIPE."""


class Place(NamedTuple):
    """Where a command is, and its line in the list of commands: showing that list imports none of them."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final[dict[str, Place]] = {
    "select": Place("choose", "select_command", "Print the backend that would run a layer."),
    "explain": Place("choose", "explain_command", "Show every candidate and every reason."),
    "list": Place("listing", "list_command", "List installed backends and what they support."),
    "matrix": Place("matrix", "matrix_command", "Show which backend runs what on which device."),
    "lint": Place("policy", "lint_command", "Check a policy file."),
    "schema": Place("policy", "schema_command", "Print the JSON schema of policy files."),
    "config": Place("policy", "config_command", "Print the policy in force."),
    "plugins": Place("plugins", "plugins_command", "Show plugins: loaded, broken and blocked."),
    "env": Place("env", "env_command", "Show the environment that decisions are made for."),
    "tune": Place("tune", "tune_command", "Measure launch configurations on this GPU and keep the best."),
    "demo": Place("demo", "demo_command", "Build, run and explain one int8 MoE layer."),
}


class Application(click.Group):
    """Commands by name, imported lazily; the one place where errors of the library meet the terminal."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names in the order that a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, or None."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        command: click.Command = getattr(import_module(f"moe_select.cli.{place.module}"), place.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a misspelt name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}; known: {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever the library refuses becomes a message and an exit code."""
        with _quiet_library():
            try:
                return _flushed(super().invoke, ctx)
            except MoESelectError as error:
                raise InputError(str(error)) from error
            except BrokenPipeError:
                _end_after_broken_pipe(ctx)
            except KeyboardInterrupt:
                click.echo("interrupted", err=True)
                ctx.exit(INTERRUPTED)


def _flushed(invoke: Any, ctx: click.Context) -> Any:
    """Flush inside, so that a reader that went away is noticed here and not at interpreter exit."""
    try:
        return invoke(ctx)
    finally:
        sys.stdout.flush()


def _end_after_broken_pipe(ctx: click.Context) -> NoReturn:
    """The reader has seen enough. The rest of the buffer goes nowhere, or the interpreter would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    ctx.exit(BROKEN_PIPE)


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Warnings become one line each on stderr; logging stays with those who configured it."""
    handler = logging.NullHandler()
    logger = logging.getLogger("moe_select")
    logger.addHandler(handler)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        finally:
            logger.removeHandler(handler)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"warning: {message}", err=True)


@click.group(
    cls=Application,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 yes, 1 no (refused, problems found), 2 wrong usage or input.",
)
@click.version_option(package_name="moe-select", prog_name="moe-select")
def application() -> None:
    """Decides which mixture-of-experts (MoE) kernel runs, and says why.

    \b
    Example:
      moe-select explain --preset h200 --scheme int8 --experts 128 --topk 8
    """

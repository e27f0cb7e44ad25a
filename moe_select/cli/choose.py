"""``select`` and ``explain``: one decision, its winner or all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moe_select.cli.inputs import decision_options, read_inputs
from moe_select.cli.output import finish, show

if TYPE_CHECKING:
    from moe_select.selection import Selection

_JSON = click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")


@click.command("select")
@decision_options
@_JSON
def select_command(as_json: bool, **options: Any) -> None:
    """Print the backend and the class that would run a layer; without one, every reason on stderr.

    Exit code 0 when a backend was found, 1 when none can run the layer.

    \b
    Example:
      moe-select select --preset zen4 --scheme int8 --experts 64 --topk 8
    """
    selection = read_inputs(options).explain()
    if as_json:
        click.echo(selection.to_json())
    elif selection.winner is not None:
        click.echo(selection.winner.name)
    else:
        click.echo(selection.to_text(), err=True)
    finish(selection.ok)


@click.command("explain")
@decision_options
@_JSON
@click.option("--text", "as_text", is_flag=True, help="Print plain text, as exceptions carry it.")
def explain_command(as_json: bool, as_text: bool, **options: Any) -> None:
    """Show every candidate: what would run and why, what was outranked, what was refused and all the reasons.

    Exit code 0 when a backend was found, 1 when none can run the layer.

    \b
    Examples:
      moe-select explain --preset h200 --scheme int8 --experts 128 --topk 8 --hidden 2048 --intermediate 768
      moe-select explain --weights int8_static_channel_sym --tp 2 --backend cpu --json
    """
    selection = read_inputs(options).explain()
    if as_json:
        click.echo(selection.to_json())
    elif as_text:
        click.echo(selection.to_text())
    else:
        print_selection(selection)
    finish(selection.ok)


def print_selection(selection: Selection) -> None:
    """Outcome, what was asked, the table, the notices."""
    from rich.text import Text

    from moe_select.reporting import phrases
    from moe_select.reporting.text import selection_head

    outcome, *asked = selection_head(selection)
    show(Text(outcome, "bold green" if selection.ok else "bold red"), Text("\n".join(asked)))
    if selection.candidates:
        show(selection.to_table())
    for notice in selection.notices:
        show(Text(f"notice: {phrases.one_line(notice)}", "yellow"))

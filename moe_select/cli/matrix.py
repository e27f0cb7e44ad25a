"""``matrix``: which backend runs which quantization on which device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from moe_select.cli.errors import InputError
from moe_select.cli.inputs import library_option, policy_option, read_policy, with_libraries
from moe_select.cli.output import print_json, show
from moe_select.cli.parameters import preset_names
from moe_select.cli.request_options import find_scheme

if TYPE_CHECKING:
    from rich.table import Table

    from moe_select.environment import Environment
    from moe_select.plugins import Registry
    from moe_select.reporting.matrix import Cell, Row

HERE: Final = "here"
_COLUMNS: Final = 3
"""Groups of devices side by side in one table."""


@click.command("matrix")
@click.option("--devices", default="all", show_default=True, metavar="NAMES", help="Presets by comma; `here`; `all`.")
@click.option("--scheme", "schemes", multiple=True, metavar="NAME", help="Only pairs of this scheme. Repeatable.")
@click.option("--unlisted", is_flag=True, help="Also pairs that a class supports and no scheme lists.")
@policy_option
@library_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table with a column for each device.")
def matrix_command(
    *,
    devices: str,
    schemes: tuple[str, ...],
    unlisted: bool,
    policy: str | None,
    libraries: tuple[tuple[str, str], ...],
    as_json: bool,
    markdown: bool,
) -> None:
    """Show which backend the policy chooses for each quantization on each device, and in parentheses which others run
    when they are named. Sizes are left open, so a layer may still be refused for its shape.

    \b
    Examples:
      moe-select matrix --devices all
      moe-select matrix --devices here,h200,mi300x --scheme int8 --markdown
    """
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    from moe_select.plugins import default_registry
    from moe_select.reporting.matrix import matrix

    registry = default_registry()
    merged = read_policy(policy, registry)
    for name in schemes:
        find_scheme(name, merged)
    environments = {
        name: with_libraries(environment, libraries) for name, environment in _environments(devices, registry)
    }
    found = matrix(environments, merged, registry, unlisted=unlisted)
    rows = [row for row in found if not schemes or row.scheme in schemes]
    if as_json:
        print_json({"devices": list(environments), "rows": [row.to_dict() for row in rows]})
    elif markdown:
        click.echo("\n".join(_markdown(rows, list(environments))))
    else:
        _print_tables(rows, list(environments))


def _environments(devices: str, registry: Registry) -> Iterator[tuple[str, Environment]]:
    """The named environments; a name that is no preset is the preset's own error."""
    from moe_select.environment import current, preset

    names = preset_names() if devices == "all" else [name.strip() for name in devices.split(",") if name.strip()]
    if not names:
        raise InputError(f"--devices {devices!r} names no device")
    for name in names:
        yield name, current(registry.requirements) if name == HERE else preset(name)


def _print_tables(rows: list[Row], names: list[str]) -> None:
    from moe_select.reporting.matrix import alike

    groups = alike(rows, names)
    for start in range(0, len(groups), _COLUMNS):
        show(_table(rows, groups[start : start + _COLUMNS]))
    show("backend = chosen by the policy; (backend) = runs when named; - = none")


def _table(rows: list[Row], groups: list[list[str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("scheme", "weights", "activations"):
        table.add_column(header, overflow="fold")
    for names in groups:
        table.add_column(Text(", ".join(names)), overflow="fold", ratio=1)
    for row in rows:
        cells = [row.cells[names[0]] for names in groups]
        table.add_row(*map(Text, row.labels), *(Text(str(cell), _style(cell)) for cell in cells))
    return table


def _style(cell: Cell) -> str:
    if cell.selected:
        return "green"
    return "yellow" if cell.on_request else "dim"


def _markdown(rows: list[Row], names: list[str]) -> Iterator[str]:
    headers = ["scheme", "weights", "activations", *names]
    yield f"| {' | '.join(headers)} |"
    yield f"|{'---|' * len(headers)}"
    for row in rows:
        scheme, weights, activations = row.labels
        cells = [scheme, f"`{weights}`", f"`{activations}`", *(str(row.cells[name]) for name in names)]
        yield f"| {' | '.join(cells)} |"

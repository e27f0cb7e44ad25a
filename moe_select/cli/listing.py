"""``list``: backends, their classes, where they came from and what they support."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from moe_select.cli.errors import InputError
from moe_select.cli.output import print_json, show
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from rich.table import Table

    from moe_select.plugins import RegisteredBackend, Registry


@click.command("list")
@click.argument("backends", nargs=-1, metavar="[BACKEND]...")
@click.option("--json", "as_json", is_flag=True, help="Print everything that the classes declare as JSON.")
def list_command(backends: tuple[str, ...], as_json: bool) -> None:
    """List installed backends, their classes best first, and what these support.

    \b
    Examples:
      moe-select list
      moe-select list cpu --json
    """
    from moe_select.plugins import default_registry

    registry = default_registry()
    chosen = _chosen(registry, backends)
    if as_json:
        print_json([backend_to_dict(registered) for registered in chosen])
    elif chosen:
        show(_table(chosen))
    else:
        click.echo("no backends are installed", err=True)


def _chosen(registry: Registry, names: tuple[str, ...]) -> list[RegisteredBackend]:
    """The named backends, in the registry's order.

    Raises:
        InputError: a name that is not installed.

    """
    found = [registered for name in names for registered in registry.find(name)]
    known = [registered.name for registered in registry.backends]
    for name in names:
        if not registry.find(name):
            raise InputError(
                f"no backend {name!r} is installed{did_you_mean(name, known)}; installed: {', '.join(known) or 'none'}"
            )
    return [registered for registered in registry.backends if not names or registered in found]


def backend_to_dict(registered: RegisteredBackend) -> dict[str, Any]:
    """One backend with everything its classes declare."""
    from moe_select.reporting.plain import provider_to_dict
    from moe_select.reporting.support import support_to_dict

    backend = registered.backend
    return {
        "name": backend.name,
        "description": backend.description,
        "provider": provider_to_dict(registered.provider),
        "options": backend.options.model_json_schema() if backend.options else None,
        "experts": [
            {"name": experts_class.__name__, "support": support_to_dict(experts_class)}
            for experts_class in backend.experts
        ],
    }


def _table(backends: Iterable[RegisteredBackend]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from moe_select.reporting.support import limit_lines, quant_lines

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("backend", no_wrap=True)
    table.add_column("devices", overflow="fold")
    table.add_column("weights + activations", overflow="fold")
    table.add_column("other", overflow="fold")
    for registered in backends:
        for experts_class in registered.backend.experts:
            name, support = f"{registered.name}/{experts_class.__name__}", experts_class.support
            table.add_row(
                Text.assemble((name, "bold"), "\n", (str(registered.provider), "dim")),
                Text("\n".join(map(str, support.devices))),
                Text("\n".join(quant_lines(support))),
                Text("\n".join(limit_lines(experts_class))),
                end_section=True,
            )
    return table

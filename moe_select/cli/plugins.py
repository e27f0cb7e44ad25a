"""``plugins``: what was loaded, what is broken, what is blocked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from moe_select.cli.output import finish, print_columns, print_json

if TYPE_CHECKING:
    from moe_select.plugins import Provider, Registry


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugins_command(as_json: bool) -> None:
    """Show installed plugins: the version, the state, and what each one provides or why it is broken.

    Exit code 0 when all of them work, 1 when one is broken.

    \b
    Examples:
      moe-select plugins
      MOE_SELECT_DISABLE_PLUGINS=acme moe-select plugins --json
    """
    from moe_select.plugins import PluginWarning, default_registry

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # the rows below say all of it
        registry = default_registry()
    rows = list(_rows(registry))
    if as_json:
        print_json(rows)
    else:
        print_columns(
            [(row["plugin"], f"{row['distribution']} {row['version']}", row["state"], _what(row)) for row in rows]
        )
    finish(not registry.broken)


def _rows(registry: Registry) -> Iterator[dict[str, Any]]:
    for provider in registry.providers:
        provides = {
            "backends": [item.name for item in registry.backends if item.provider == provider],
            "prepare_finalize": [item.name for item in registry.prepare_finalize if item.provider == provider],
        }
        yield {**_row(provider, "loaded"), **provides}
    for broken in registry.broken:
        yield {**_row(broken.provider, "broken"), "stage": broken.stage, "cause": broken.cause}
    for provider in registry.blocked:
        yield _row(provider, "blocked")


def _row(provider: Provider, state: str) -> dict[str, Any]:
    from moe_select.reporting.plain import provider_to_dict

    return {**provider_to_dict(provider), "state": state}


def _what(row: dict[str, Any]) -> str:
    if row["state"] == "broken":
        return f"failed at {row['stage']}: {row['cause']}"
    if row["state"] == "blocked":
        return "not imported: MOE_SELECT_DISABLE_PLUGINS names it"
    words = {"backends": row["backends"], "prepare/finalize": row["prepare_finalize"]}
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in words.items() if names) or "observes"

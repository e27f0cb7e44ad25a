"""``env``: the facts that decisions are made on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from moe_select.cli.inputs import environment_options, read_environment
from moe_select.cli.output import print_columns, print_json
from moe_select.cli.parameters import preset_names

if TYPE_CHECKING:
    from moe_select.environment import Environment


@click.command("env")
@environment_options
@click.option("--presets", is_flag=True, help="List the named machines.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON that --environment reads.")
def env_command(presets: bool, as_json: bool, **options: Any) -> None:
    """Show the environment that decisions are made for: this machine, or a preset.

    \b
    Examples:
      moe-select env
      moe-select env --preset mi300x
      moe-select env --json > here.json
    """
    if presets:
        _print_presets(as_json)
        return
    from moe_select.plugins import default_registry

    environment = read_environment(options, default_registry())
    if as_json:
        print_json(environment.model_dump(mode="json"))
    else:
        print_columns(list(_rows(environment)))


def _print_presets(as_json: bool) -> None:
    from moe_select.environment import preset
    from moe_select.reporting.phrases import environment_phrase

    names = preset_names()
    if as_json:
        print_json(names)
    else:
        print_columns([(name, environment_phrase(preset(name)).removesuffix(f", preset {name}")) for name in names])


def _rows(environment: Environment) -> Iterator[tuple[str, str]]:
    """Facts that are known, in words."""
    device, host = environment.device, environment.cpu
    capability = f"{device.capability[0]}.{device.capability[1]}" if device.capability else None
    facts = (
        ("preset", environment.preset),
        ("device", device.type.value),
        ("device name", device.name),
        ("capability", capability),
        ("arch", device.arch),
        ("memory", f"{device.memory_gib:.4g} GiB" if device.memory_gib is not None else None),
        ("host", " ".join(word for word in (host.arch, host.vendor, host.uarch) if word)),
        ("host features", " ".join(sorted(host.features)) or None),
        ("os", environment.os),
    )
    yield from ((name, value) for name, value in facts if value is not None)
    for library, version in environment.libraries:
        yield "library", f"{library} {version}"
    yield "fingerprint", environment.fingerprint

"""Named machines, so that a laptop can answer what another one would choose. The facts are in ``presets.yaml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from moe_select.environment.environment import Environment
from moe_select.errors import InvalidEnvironmentError
from moe_select.vocabulary.suggest import did_you_mean


@cache
def preset(name: str) -> Environment:
    """The environment of a named machine.

    Raises:
        InvalidEnvironmentError: there is no such preset; suggests the nearest one.

    >>> preset("h200").device.capability
    (9, 0)

    """
    document = _document()
    row = document["machines"].get(name)
    if row is None:
        known = preset_names()
        raise InvalidEnvironmentError(
            "preset", [f"unknown preset {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"]
        )
    return Environment(
        device=row["device"],
        cpu=document["hosts"][row["host"]],
        libraries=document["libraries"][row["device"]["type"]],
        preset=name,
    )


def preset_names() -> tuple[str, ...]:
    """Names of all presets, in the order of the file: GPUs by vendor and age, then processors."""
    return tuple(_document()["machines"])


@cache
def _document() -> dict[str, Any]:
    import yaml

    text = Path(__file__).with_name("presets.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found

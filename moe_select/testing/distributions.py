"""Distributions for tests: real metadata and real modules in a directory, found by ``importlib.metadata`` as installed ones are."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path

from moe_select.plugins.hookspec import PROJECT


def install(
    directory: Path,
    name: str,
    modules: Mapping[str, str],
    *,
    version: str = "1.0",
    entry_points: Mapping[str, str] | None = None,
) -> list[EntryPoint]:
    """Write a distribution into a directory; put the directory on ``sys.path`` to import it.

    Args:
        directory: plays ``site-packages``.
        name: distribution name.
        modules: module name to source text (indentation is removed).
        version: of the distribution.
        entry_points: entry point name to module; default: one for each module, of the same name.

    Returns:
        The entry points, as :func:`moe_select.plugins.load_registry` takes them.

    """
    directory.mkdir(parents=True, exist_ok=True)
    for module, source in modules.items():
        (directory / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(_lines(entry_points or {m: m for m in modules})), encoding="utf-8")
    return [item for item in PathDistribution(info).entry_points if item.group == PROJECT]


def _lines(entry_points: Mapping[str, str]) -> Iterable[str]:
    yield f"[{PROJECT}]"
    for name, value in entry_points.items():
        yield f"{name} = {value}"
    yield ""

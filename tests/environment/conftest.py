"""Machines made of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moe_select.environment import Environment, System, probe


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Environment]:
    """Probe a machine that has only the given files, environment variables and drivers."""

    def machine(files: dict[str, str] | None = None, **changes) -> Environment:
        for path, text in (files or {}).items():
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        fields = {"environ": {}, "machine": "x86_64", "os": "linux", "nvml": lambda: None, "archspec": lambda: None}
        return probe(system=System(root=tmp_path, **{**fields, **changes}))

    return machine

"""Running commands in this process and in their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moe_select.cli.app import application

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output does not depend on the terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run a command; an exception that is not an exit is the test's failure."""

    def run(*arguments: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(application, arguments, input=input, prog_name="moe-select")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def run_json(run: Callable[..., Result]) -> Callable[..., Any]:
    """Run a command with ``--json`` and read what it printed."""

    def run_json(*arguments: str, input: str | None = None) -> Any:
        return json.loads(run(*arguments, "--json", input=input).stdout)

    return run_json


@pytest.fixture
def run_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python in its own process."""

    def run_process(*arguments: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run_process

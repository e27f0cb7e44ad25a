"""Every example runs, in its own process, as a user would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run_python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    done = run_python(str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_examples_exist():
    assert len(EXAMPLES) >= 3


def readme_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("index", range(len(readme_blocks())))
def test_readme_python_runs(index, tmp_path):
    done = run_python("-c", readme_blocks()[index], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_readme_shows_a_short_select_example():
    block = readme_blocks()[0]
    assert "moe_select.select(" in block
    assert len([line for line in block.splitlines() if line.strip()]) <= 15

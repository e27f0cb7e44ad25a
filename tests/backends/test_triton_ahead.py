"""Every kernel compiles for the devices that it is declared for, whether or not one is there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "cuda:100", "hip:gfx942"])
def test_compiles_ahead_of_time(target, tmp_path):
    environ = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environ["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-m", "moe_select_triton.ahead", target]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{target}: " in done.stdout
    assert int(done.stdout.split()[1]) > 50

"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before torch is imported: workers side by side that all use every core wait for each other most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Kernels for GPUs are interpreted where there is none. Triton reads this when a kernel is defined.
if not Path("/dev/nvidiactl").exists() and not Path("/dev/kfd").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import moe_select

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _clean_process(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees the settings of the machine it runs on, nor the decisions of another test."""
    for name in list(os.environ):
        if name.startswith("MOE_SELECT_") and name not in ("MOE_SELECT_UPDATE_GOLDEN", "MOE_SELECT_GOLDEN"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))
    moe_select.clear_caches()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT

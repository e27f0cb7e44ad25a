"""What probing reads: a file tree, environment variables, NVML. Tests hand in another one."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

GIB: Final = 1 << 30
"""Bytes in a GiB."""


def _import_nvml() -> ModuleType | None:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def _archspec_name() -> str | None:
    try:
        import archspec.cpu

        return str(archspec.cpu.host().name)
    except Exception:  # whatever a processor nobody thought of makes it raise
        return None


@dataclass(frozen=True)
class System:
    """One machine as probing sees it. The defaults are this machine."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    machine: str = field(default_factory=platform.machine)
    os: str = field(default_factory=lambda: platform.system().lower())
    nvml: Callable[[], Any] = _import_nvml
    """Returns the module ``pynvml``, or None where it is missing."""
    archspec: Callable[[], str | None] = _archspec_name
    """Returns the microarchitecture as archspec names it."""

    def read(self, path: str) -> str:
        """A file's text; empty where it cannot be read."""
        try:
            return self.root.joinpath(path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, for :meth:`read`, numbers in them sorted as numbers; none where they cannot be listed."""
        try:
            found = [f"/{path.relative_to(self.root).as_posix()}" for path in self.root.glob(pattern.lstrip("/"))]
        except OSError:
            return []
        return sorted(found, key=_natural)


def _natural(path: str) -> list[str | int]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path)]

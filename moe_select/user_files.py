"""Where a user's own files are: the policy layer, and what was tuned for their machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_directory(environ: Mapping[str, str] = os.environ) -> Path | None:
    """``$XDG_CONFIG_HOME/moe_select``, by default in ``~/.config``; None without a home.

    As the XDG specification says, a relative directory does not count.
    """
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".config")
    return Path(base, "moe_select")


def tuned_directory(backend: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where ``moe-select tune`` puts a backend's files, and where the backend looks for them."""
    base = user_directory(environ)
    return None if base is None else base / backend

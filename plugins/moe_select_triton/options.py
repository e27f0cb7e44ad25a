"""What a policy may tell this backend."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class TritonOptions(BaseModel):
    """Options of the backend ``triton``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    configs: Path | None = None
    """Directory of tuned launch configurations; by default the one that ``moe-select tune triton`` writes to."""

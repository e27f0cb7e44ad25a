"""The backend ``triton``: int8 and unquantized experts in Triton, for CUDA, ROCm and XPU devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moe_select.plugins import Backend, hookimpl
from moe_select_triton.experts import BatchedTritonExperts, TritonExperts
from moe_select_triton.options import TritonOptions

if TYPE_CHECKING:
    from moe_select.plugins.types import Progress
    from moe_select.vocabulary import MoEConfig

__all__ = ["BatchedTritonExperts", "TritonExperts", "TritonOptions"]


@hookimpl
def moe_select_backends() -> Iterator[Backend]:
    """Declare the backend."""
    yield Backend(
        name="triton",
        experts=(TritonExperts, BatchedTritonExperts),
        description="int8 W8A8 and W8A16, unquantized; activation fused into the first GEMM",
        options=TritonOptions,
        tune=_tune,
    )


def _tune(request: MoEConfig, tokens: Sequence[int], directory: Path, progress: Progress) -> Path:
    from moe_select_triton.tune import tune

    return tune(request, tokens, directory, progress)

"""The backend ``triton``: int8 and unquantized experts in Triton, for CUDA, ROCm and XPU devices."""

from __future__ import annotations

from collections.abc import Iterator

from moe_select.plugins import Backend, hookimpl
from moe_select_triton.experts import BatchedTritonExperts, TritonExperts

__all__ = ["BatchedTritonExperts", "TritonExperts"]


@hookimpl
def moe_select_backends() -> Iterator[Backend]:
    """Declare the backend."""
    yield Backend(
        name="triton",
        experts=(TritonExperts, BatchedTritonExperts),
        description="int8 W8A8 and W8A16, unquantized; activation fused into the first GEMM",
    )

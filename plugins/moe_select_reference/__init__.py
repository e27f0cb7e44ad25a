"""The backend ``reference``: every quantization scheme by dequantizing and computing in float32, on any device.

A last resort: it runs only where a policy or a caller names it.
"""

from __future__ import annotations

from collections.abc import Iterator

from moe_select.plugins import Backend, hookimpl
from moe_select_reference.experts import ReferenceBatchedExperts, ReferenceExperts, ReferenceMonolithicExperts

__all__ = ["ReferenceBatchedExperts", "ReferenceExperts", "ReferenceMonolithicExperts"]


@hookimpl
def moe_select_backends() -> Iterator[Backend]:
    """Declare the backend."""
    yield Backend(
        name="reference",
        experts=(ReferenceExperts, ReferenceBatchedExperts, ReferenceMonolithicExperts),
        description="emulation in float32: every quantization scheme, any device, slow",
    )

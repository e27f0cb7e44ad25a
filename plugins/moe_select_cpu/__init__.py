"""The backend ``cpu``: int8 and unquantized experts for any processor torch runs on."""

from __future__ import annotations

from collections.abc import Iterator

from moe_select.plugins import Backend, hookimpl
from moe_select_cpu.experts import CPUExpertsInt8, CPUExpertsInt8WeightOnly, CPUUnquantizedExperts

__all__ = ["CPUExpertsInt8", "CPUExpertsInt8WeightOnly", "CPUUnquantizedExperts"]


@hookimpl
def moe_select_backends() -> Iterator[Backend]:
    """Declare the backend."""
    yield Backend(
        name="cpu",
        experts=(CPUExpertsInt8, CPUExpertsInt8WeightOnly, CPUUnquantizedExperts),
        description="int8 W8A8 on oneDNN with prepacked weights, int8 W8A16, unquantized",
    )

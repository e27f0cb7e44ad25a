"""Kernels: the contracts of experts and prepare/finalize, weights and how they are quantized, and building.

Names that need torch are imported when they are first used, so that declaring a backend stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moe_select.kernels.experts import BufferSpec, ExpertInputs, Experts, ModularExperts, MonolithicExperts, Workspace
from moe_select.kernels.prepare_finalize import PrepareFinalize

if TYPE_CHECKING:
    from moe_select.kernels.builder import build
    from moe_select.kernels.kernel import MoEKernel, MonolithicMoEKernel
    from moe_select.kernels.quant_config import QuantConfig, make_quant_config
    from moe_select.kernels.routing import Router
    from moe_select.kernels.weights import MoEWeights

LAZY: Final = {
    "MoEKernel": "moe_select.kernels.kernel",
    "MoEWeights": "moe_select.kernels.weights",
    "MonolithicMoEKernel": "moe_select.kernels.kernel",
    "QuantConfig": "moe_select.kernels.quant_config",
    "Router": "moe_select.kernels.routing",
    "build": "moe_select.kernels.builder",
    "make_quant_config": "moe_select.kernels.quant_config",
}
"""Name to the module that needs torch."""


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BufferSpec",
    "ExpertInputs",
    "Experts",
    "MoEKernel",
    "MoEWeights",
    "ModularExperts",
    "MonolithicExperts",
    "MonolithicMoEKernel",
    "PrepareFinalize",
    "QuantConfig",
    "Router",
    "Workspace",
    "build",
    "make_quant_config",
]

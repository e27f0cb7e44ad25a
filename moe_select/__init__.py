"""Decides which mixture-of-experts kernel an inference engine runs, says why, and builds it.

Nothing here imports torch until a name that needs it is used, so asking what another machine would run stays cheap:

>>> import moe_select
>>> request = moe_select.MoEConfig(
...     num_experts=128, topk=8, hidden_dim=2048, intermediate_size=768,
...     weight_key="int8_static_channel_sym", activation_key="int8_dynamic_token_sym",
... )
>>> moe_select.select(request, environment=moe_select.preset("zen4")).winner.name
'cpu/CPUExpertsInt8'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moe_select import kernels
from moe_select.environment import Device, DeviceType, Environment, HostCPU, preset, preset_names, probe
from moe_select.errors import (
    BuildError,
    InvalidEnvironmentError,
    InvalidValueError,
    KernelCallError,
    MoESelectError,
    PluginError,
    PolicyError,
    RegistryFrozenError,
    RequestError,
    SelectionError,
    WeightError,
)
from moe_select.kernels import (
    BufferSpec,
    ExpertInputs,
    Experts,
    ModularExperts,
    MonolithicExperts,
    PrepareFinalize,
    Workspace,
)
from moe_select.plugins import Backend, PluginWarning, Registry, default_registry, hookimpl, register
from moe_select.policy import Policy, load_policy, parse_policy
from moe_select.selection import Candidate, Selection, clear_caches, decide, explain, override, select
from moe_select.support import Code, Refusal, Support, Unproven, Verdict
from moe_select.vocabulary import (
    Activation,
    ActivationFormat,
    All2AllBackend,
    GroupShape,
    MoEConfig,
    ParallelConfig,
    QuantKey,
    Role,
    RoutingMethod,
    ScaleDesc,
)

if TYPE_CHECKING:
    from moe_select.kernels import (
        MoEKernel,
        MoEWeights,
        MonolithicMoEKernel,
        QuantConfig,
        Router,
        build,
        make_quant_config,
    )

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in kernels.LAZY:
        return getattr(kernels, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *kernels.LAZY})


__all__ = [
    "Activation",
    "ActivationFormat",
    "All2AllBackend",
    "Backend",
    "BufferSpec",
    "BuildError",
    "Candidate",
    "Code",
    "Device",
    "DeviceType",
    "Environment",
    "ExpertInputs",
    "Experts",
    "GroupShape",
    "HostCPU",
    "InvalidEnvironmentError",
    "InvalidValueError",
    "KernelCallError",
    "MoEConfig",
    "MoEKernel",
    "MoESelectError",
    "MoEWeights",
    "ModularExperts",
    "MonolithicExperts",
    "MonolithicMoEKernel",
    "ParallelConfig",
    "PluginError",
    "PluginWarning",
    "Policy",
    "PolicyError",
    "PrepareFinalize",
    "QuantConfig",
    "QuantKey",
    "Refusal",
    "Registry",
    "RegistryFrozenError",
    "RequestError",
    "Role",
    "Router",
    "RoutingMethod",
    "ScaleDesc",
    "Selection",
    "SelectionError",
    "Support",
    "Unproven",
    "Verdict",
    "WeightError",
    "Workspace",
    "build",
    "clear_caches",
    "decide",
    "default_registry",
    "explain",
    "hookimpl",
    "load_policy",
    "make_quant_config",
    "override",
    "parse_policy",
    "preset",
    "preset_names",
    "probe",
    "register",
    "select",
]

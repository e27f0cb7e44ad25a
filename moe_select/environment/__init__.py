"""Where a request runs: this machine, probed once, or a named one."""

from moe_select.environment.environment import Device, DeviceType, Environment, HostCPU
from moe_select.environment.presets import preset, preset_names
from moe_select.environment.probe import current, probe, reset_current
from moe_select.environment.system import System

__all__ = [
    "Device",
    "DeviceType",
    "Environment",
    "HostCPU",
    "System",
    "current",
    "preset",
    "preset_names",
    "probe",
    "reset_current",
]

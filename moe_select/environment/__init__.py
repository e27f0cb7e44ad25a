"""Where a request runs."""

from moe_select.environment.environment import Device, DeviceType, Environment, HostCPU

__all__ = ["Device", "DeviceType", "Environment", "HostCPU"]

"""Finding the accelerator that a process would use, from drivers and the kernel's file system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from moe_select.environment.environment import Device, DeviceType
from moe_select.environment.system import System

_GIB: Final = 1 << 30
_INTEL: Final = "0x8086"
_PROPERTY: Final = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)


def accelerator(system: System) -> Device | None:
    """The first visible NVIDIA, AMD or Intel GPU; None on a machine that has none."""
    return _nvidia(system) or _amd(system) or _intel(system)


def _nvidia(system: System) -> Device | None:
    visible = system.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        return None
    module = system.nvml()
    if module is None:
        return None
    with _initialized(module) as ready:
        if not ready:
            return None
        try:
            handle = _handle(module, visible)
            if handle is None:
                return None
            return Device(
                type=DeviceType.CUDA,
                name=_text(module.nvmlDeviceGetName(handle)),
                capability=tuple(module.nvmlDeviceGetCudaComputeCapability(handle)),
                memory_gib=round(module.nvmlDeviceGetMemoryInfo(handle).total / _GIB, 2),
            )
        except module.NVMLError:
            return None


@contextmanager
def _initialized(module: Any) -> Iterator[bool]:
    """NVML between its start and its end; False where there is no driver."""
    try:
        module.nvmlInit()
    except module.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        module.nvmlShutdown()


def _handle(module: Any, visible: str | None) -> Any:
    """The device that CUDA would number 0: an index, or (the beginning of) a UUID."""
    first = (visible or "0").split(",")[0].strip()
    count = module.nvmlDeviceGetCount()
    if first.isdecimal():
        return module.nvmlDeviceGetHandleByIndex(int(first)) if int(first) < count else None
    handles = [module.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
    for handle in handles:
        if _text(module.nvmlDeviceGetUUID(handle)).startswith(first):
            return handle
    # A slice of a GPU (MIG) has its capability; which GPU is cut up matters only where there are several kinds.
    return handles[0] if first.startswith("MIG-") and handles else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _amd(system: System) -> Device | None:
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        value = system.environ.get(variable)
        if value is not None and value.strip() in ("", "-1"):
            return None
    for node in system.glob("/sys/class/kfd/kfd/topology/nodes/*/properties"):
        found = dict(_PROPERTY.findall(system.read(str(node.relative_to(system.root)))))
        version = int(found.get("gfx_target_version", 0))
        if version:  # processors are nodes too, with version 0
            name = system.read(str(node.with_name("name").relative_to(system.root))).strip() or None
            banks = system.glob(str(node.parent.relative_to(system.root) / "mem_banks/*/properties"))
            sizes = [dict(_PROPERTY.findall(system.read(str(b.relative_to(system.root))))) for b in banks]
            memory = sum(int(bank.get("size_in_bytes", 0)) for bank in sizes)
            gib = round(memory / _GIB, 2) if memory else None
            return Device(type=DeviceType.ROCM, name=name, arch=gfx_name(version), memory_gib=gib)
    return None


def gfx_name(version: int) -> str:
    """The name of a ``gfx_target_version``: decimal major, minor and step in two digits each, the last two hexadecimal.

    >>> gfx_name(90402), gfx_name(90010), gfx_name(120001)
    ('gfx942', 'gfx90a', 'gfx1201')
    """
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _intel(system: System) -> Device | None:
    """Discrete GPUs only: they are driven by ``xe``, or are a data-centre GPU by class."""
    if system.environ.get("ONEAPI_DEVICE_SELECTOR", "").endswith(":cpu"):
        return None
    for vendor in system.glob("/sys/class/drm/card*/device/vendor"):
        relative = vendor.relative_to(system.root)
        driver = system.read(str(relative.with_name("uevent")))
        if system.read(str(relative)).strip() == _INTEL and "DRIVER=xe" in driver:
            return Device(type=DeviceType.XPU)
    return None

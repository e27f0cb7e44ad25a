"""Finding the NVIDIA GPU that CUDA would number 0, from NVML: asking CUDA itself would initialize it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from moe_select.environment.environment import Device, DeviceType
from moe_select.environment.processors import memory_gib
from moe_select.environment.system import GIB, System

_log: Final = logging.getLogger(__name__)


def nvidia_device(system: System) -> Device | None:
    """The first visible NVIDIA GPU; None where there is none, or no driver.

    Numbers are NVML's, in the order of the PCI bus. CUDA puts the fastest kind first unless ``CUDA_DEVICE_ORDER`` is
    ``PCI_BUS_ID``, which matters only on machines with several kinds of GPU.
    """
    visible = system.environ.get("CUDA_VISIBLE_DEVICES", "0")
    first = visible.split(",")[0].strip()
    module = system.nvml() if first and first != "-1" else None
    if module is None:
        return None
    with _initialized(module) as ready:
        try:
            return _describe(module, first, system) if ready else None
        except Exception as error:  # half a driver, or another module of that name
            _log.warning("NVML is here, but cannot describe GPU %s: %s: %s", first, type(error).__name__, error)
            return None


@contextmanager
def _initialized(module: Any) -> Iterator[bool]:
    """NVML between its start and its end; False where there is no driver."""
    try:
        module.nvmlInit()
    except Exception:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(Exception):
            module.nvmlShutdown()


def _describe(module: Any, first: str, system: System) -> Device | None:
    found = _find(module, first)
    if found is None:
        return None
    gpu, part = found
    major, minor = module.nvmlDeviceGetCudaComputeCapability(gpu)
    return Device(
        type=DeviceType.CUDA,
        name=_text(module.nvmlDeviceGetName(gpu)),
        capability=(major, minor),
        memory_gib=_memory_gib(module, part, system),
    )


def _find(module: Any, first: str) -> tuple[Any, Any] | None:
    """The GPU, and the part of it that a process gets: a slice where the GPU is cut up (MIG), else all of it."""
    if first.startswith("MIG-"):
        with suppress(module.NVMLError):  # there is no such slice, so CUDA finds no device
            part = module.nvmlDeviceGetHandleByUUID(first)
            return module.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part), part
        return None
    handles = [module.nvmlDeviceGetHandleByIndex(index) for index in range(module.nvmlDeviceGetCount())]
    if first.isdecimal():
        matching = handles[int(first) : int(first) + 1]
    else:  # the beginning of a UUID is enough for CUDA
        matching = [handle for handle in handles if _text(module.nvmlDeviceGetUUID(handle)).startswith(first)]
    return (matching[0], _first_slice(module, matching[0])) if matching else None


def _first_slice(module: Any, gpu: Any) -> Any:
    """Of a GPU in MIG mode CUDA shows slices only."""
    with suppress(module.NVMLError):  # most GPUs have no such mode
        if module.nvmlDeviceGetMigMode(gpu)[0]:
            for index in range(module.nvmlDeviceGetMaxMigDeviceCount(gpu)):
                with suppress(module.NVMLError):  # places may be empty
                    return module.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
    return gpu


def _memory_gib(module: Any, part: Any, system: System) -> float | None:
    total = 0
    with suppress(module.NVMLError):
        total = module.nvmlDeviceGetMemoryInfo(part).total
    # GPUs that share the host's memory, such as GB10, report none of their own.
    return round(total / GIB, 2) if total else memory_gib(system)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

"""Finding the accelerator that a process would use, from drivers and the kernel's file system."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moe_select.environment.environment import Device, DeviceType
from moe_select.environment.nvidia import nvidia_device
from moe_select.environment.system import GIB, System

_INTEL: Final = "0x8086"
_PROPERTY: Final = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)


def accelerator(system: System) -> Device | None:
    """The first visible NVIDIA, AMD or Intel GPU; None on a machine that has none."""
    return nvidia_device(system) or _amd(system) or _intel(system)


class _Node(NamedTuple):
    """A GPU in the topology of AMD's driver."""

    folder: str
    properties: dict[str, int]

    def is_called(self, word: str) -> bool:
        return word.lower() == f"gpu-{self.properties.get('unique_id', 0):x}"


def _amd(system: System) -> Device | None:
    nodes = _visible(_nodes(system), system.environ.get("ROCR_VISIBLE_DEVICES"))
    # HIP numbers what the runtime below it left over, and reads CUDA's variable where its own is not set.
    hip = system.environ.get("HIP_VISIBLE_DEVICES", system.environ.get("CUDA_VISIBLE_DEVICES"))
    nodes = _visible(nodes, hip)
    if not nodes:
        return None
    node = nodes[0]
    return Device(
        type=DeviceType.ROCM,
        name=_amd_name(system, node),
        arch=gfx_name(node.properties["gfx_target_version"]),
        memory_gib=_amd_memory_gib(system, node),
    )


def _nodes(system: System) -> list[_Node]:
    paths = system.glob("/sys/class/kfd/kfd/topology/nodes/*/properties")
    nodes = [_Node(path.rpartition("/")[0], _properties(system, path)) for path in paths]
    return [node for node in nodes if node.properties.get("gfx_target_version")]  # processors are nodes too, with 0


def _properties(system: System, path: str) -> dict[str, int]:
    return {name: int(value) for name, value in _PROPERTY.findall(system.read(path))}


def _visible(nodes: list[_Node], value: str | None) -> list[_Node]:
    """Nodes by number or unique id; a word that names none ends the list, as in the runtimes."""
    if value is None:
        return nodes
    shown: list[_Node] = []
    for word in map(str.strip, value.split(",")):
        if word.isdecimal():
            matching = nodes[int(word) : int(word) + 1]
        else:
            matching = [node for node in nodes if node.is_called(word)]
        if not matching:
            break
        shown += matching
    return shown


def _amd_name(system: System, node: _Node) -> str | None:
    """The product's name, or the chip's; newer drivers call every chip ``ip discovery``."""
    minor = node.properties.get("drm_render_minor", 0)
    product = system.read(f"/sys/class/drm/renderD{minor}/device/product_name").strip()
    chip = system.read(f"{node.folder}/name").strip()
    return product or (chip if chip != "ip discovery" else "") or None


def _amd_memory_gib(system: System, node: _Node) -> float | None:
    banks = system.glob(f"{node.folder}/mem_banks/*/properties")
    total = sum(_properties(system, bank).get("size_in_bytes", 0) for bank in banks)
    return round(total / GIB, 2) or None


def gfx_name(version: int) -> str:
    """The name of a ``gfx_target_version``: decimal major, minor and step in two digits each, the last two hexadecimal.

    >>> gfx_name(90402), gfx_name(90010), gfx_name(120001)
    ('gfx942', 'gfx90a', 'gfx1201')
    """
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _intel(system: System) -> Device | None:
    """GPUs driven by ``xe``; integrated ones that ``i915`` drives are too slow to count."""
    if system.environ.get("ONEAPI_DEVICE_SELECTOR", "").endswith(":cpu"):
        return None
    for path in system.glob("/sys/class/drm/card*/device/vendor"):
        folder = path.rpartition("/")[0]
        driver = system.read(f"{folder}/uevent").split()
        if system.read(path).strip() == _INTEL and "DRIVER=xe" in driver:
            return Device(type=DeviceType.XPU, memory_gib=_intel_memory_gib(system, folder))
    return None


def _intel_memory_gib(system: System, folder: str) -> float | None:
    """Memory of the first tile: each tile is a device of its own."""
    text = system.read(f"{folder}/tile0/physical_vram_size_bytes").strip()
    try:
        return round(int(text, 0) / GIB, 2) or None  # written as 0x...
    except ValueError:
        return None

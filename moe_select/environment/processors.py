"""The host processor, from ``/proc/cpuinfo``."""

from __future__ import annotations

import re
from typing import Final

from moe_select.environment.environment import HostCPU
from moe_select.environment.system import System

_ARCHS: Final = {"amd64": "x86_64", "arm64": "aarch64", "x64": "x86_64"}
_LINE: Final = re.compile(r"^([^:\n]+?)\s*:\s*(.*)$", re.MULTILINE)
_FEATURE: Final = re.compile(
    r"sse4_[12]|ssse3|avx\w*|amx_\w+|fma|f16c|gfni|asimd\w*|sve\w*|sme(?!p)\w*|i8mm|bf16|fphp|vsx|altivec|mma|arch_3_\w+|rvv|zv\w+"
)
"""Flags about vectors and matrices: others decide nothing here."""
_VENDORS: Final = {
    "AuthenticAMD": "AMD",
    "HygonGenuine": "Hygon",
    "GenuineIntel": "Intel",
    "0x41": "ARM",
    "0x42": "Broadcom",
    "0x48": "HiSilicon",
    "0x61": "Apple",
    "0xc0": "Ampere",
}
_ARM_PARTS: Final = {
    "0xd0c": "neoverse_n1",
    "0xd40": "neoverse_v1",
    "0xd49": "neoverse_n2",
    "0xd4f": "neoverse_v2",
    "0xd84": "neoverse_v3",
}
_ZEN4_MODELS: Final = (range(0x10, 0x20), range(0x60, 0x80), range(0xA0, 0xB0))


def processor(system: System) -> HostCPU:
    """What the kernel says about the first processor."""
    # Only the first block of lines: the others repeat it for every core.
    info = {key.strip().lower(): value.strip() for key, value in reversed(_LINE.findall(system.read("/proc/cpuinfo")))}
    arch = _ARCHS.get(system.machine.lower(), system.machine.lower())
    flags = (info.get("flags") or info.get("features") or "").split()
    power = re.match(r"power(\d+)", info.get("cpu", ""), re.IGNORECASE)
    if power:
        flags = [*flags, *_power_flags(info["cpu"])]
    return HostCPU(
        arch=arch,
        vendor="IBM" if power else _VENDORS.get(info.get("vendor_id") or info.get("cpu implementer", "")),
        uarch=_uarch(info, arch, system),
        features=frozenset(flag for flag in flags if _FEATURE.fullmatch(flag)),
    )


def processor_name(system: System) -> str | None:
    """The name that the vendor gave it."""
    found = dict(reversed(_LINE.findall(system.read("/proc/cpuinfo"))))
    return found.get("model name") or found.get("cpu") or None


def _uarch(info: dict[str, str], arch: str, system: System) -> str | None:
    """archspec's name, except where virtual machines hide a flag that it insists on."""
    known = _amd_uarch(info) or _ARM_PARTS.get(info.get("cpu part", ""))
    if known is not None:
        return known
    power = re.match(r"power(\d+)", info.get("cpu", ""), re.IGNORECASE)
    if power:
        return f"power{power[1]}{'le' if arch.endswith('le') else ''}"
    name = system.archspec()
    return None if name == arch else name


def _amd_uarch(info: dict[str, str]) -> str | None:
    family, model = (_number(info.get(key, "")) for key in ("cpu family", "model"))
    if info.get("vendor_id") != "AuthenticAMD" or family is None or model is None:
        return None
    if family == 26:
        return "zen5"
    return "zen4" if family == 25 and any(model in models for models in _ZEN4_MODELS) else None


def _power_flags(name: str) -> list[str]:
    """The kernel lists no flags for Power: vectors came with Power7, matrices with Power10."""
    generation = int(re.findall(r"\d+", name)[0])
    return ["altivec", "vsx", *(["mma", "arch_3_1"] if generation >= 10 else [])]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def memory_gib(system: System) -> float | None:
    """Memory of the host."""
    found = re.search(r"^MemTotal:\s*(\d+) kB", system.read("/proc/meminfo"), re.MULTILINE)
    return round(int(found[1]) / (1 << 20), 2) if found and int(found[1]) else None

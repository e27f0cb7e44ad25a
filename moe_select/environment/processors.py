"""The host processor, from ``/proc/cpuinfo``."""

from __future__ import annotations

import re
from typing import Final

from moe_select.environment.environment import HostCPU
from moe_select.environment.system import System

_ARCHS: Final = {"amd64": "x86_64", "arm64": "aarch64", "x64": "x86_64"}
_LINE: Final = re.compile(r"^([^:\n]+?)\s*:\s*(.*)$", re.MULTILINE)
_FEATURE: Final = re.compile(
    r"sse4_[12]|ssse3|avx\w*|amx_\w+|fma|f16c|gfni|asimd\w*|sve\w*|sme(?!p)\w*|i8mm|bf16|fphp"
    r"|vsx|altivec|mma|arch_3_\w+|vx|vxe\d?|rvv|zv\w+"
)
"""Flags about vectors and matrices: others decide nothing here."""
_VENDORS: Final = {
    "AuthenticAMD": "AMD",
    "HygonGenuine": "Hygon",
    "GenuineIntel": "Intel",
    "IBM/S390": "IBM",
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
_ZEN4_MODELS: Final = (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0))
_X86_MODELS: Final = {
    **{("AuthenticAMD", 25, model): "zen4" for model in _ZEN4_MODELS},
    ("GenuineIntel", 6, 0xAD): "graniterapids",
    ("GenuineIntel", 6, 0xAE): "graniterapids",
}
"""Where archspec goes by flags that virtual machines hide, or does not know the newest."""


def processor(system: System) -> HostCPU:
    """What the kernel says about the first processor."""
    # Only the first block of lines: the others repeat it for every core.
    info = {key.strip().lower(): value.strip() for key, value in reversed(_LINE.findall(system.read("/proc/cpuinfo")))}
    arch = _ARCHS.get(system.machine.lower(), system.machine.lower())
    power = _power_generation(info.get("cpu", "")) is not None
    return HostCPU(
        arch=arch,
        vendor="IBM" if power else _VENDORS.get(info.get("vendor_id") or info.get("cpu implementer", "")),
        uarch=_uarch(info, arch, system),
        features=_features(info, arch),
    )


def _features(info: dict[str, str], arch: str) -> frozenset[str]:
    flags = (info.get("flags") or info.get("features") or "").split()
    flags += [*_power_flags(info.get("cpu", "")), *_riscv_flags(info.get("isa", ""))]
    if arch == "x86_64":
        flags = [flag for flag in flags if flag != "sme"]  # encrypts memory there, and multiplies matrices on Arm
    return frozenset(flag for flag in flags if _FEATURE.fullmatch(flag))


def processor_name(system: System) -> str | None:
    """The name that the vendor gave it."""
    found = dict(reversed(_LINE.findall(system.read("/proc/cpuinfo"))))
    return found.get("model name") or found.get("cpu") or None


def _uarch(info: dict[str, str], arch: str, system: System) -> str | None:
    """Archspec's name, or a better one where it is known to be wrong."""
    known = _x86_uarch(info) or _ARM_PARTS.get(info.get("cpu part", ""))
    if known is not None:
        return known
    generation = _power_generation(info.get("cpu", ""))
    if generation is not None:
        return f"power{generation}{'le' if arch.endswith('le') else ''}"
    name = system.archspec()
    return None if name == arch else name


def _x86_uarch(info: dict[str, str]) -> str | None:
    vendor, family = info.get("vendor_id", ""), _number(info.get("cpu family", ""))
    if vendor == "AuthenticAMD" and family == 26:
        return "zen5"
    return _X86_MODELS.get((vendor, family or 0, _number(info.get("model", ""))))


def _power_generation(name: str) -> int | None:
    found = re.match(r"power(\d+)", name, re.IGNORECASE)
    return int(found[1]) if found else None


def _power_flags(name: str) -> list[str]:
    """The kernel lists no flags for Power: vectors came with Power7, matrices with Power10."""
    generation = _power_generation(name)
    if generation is None or generation < 7:
        return []
    return ["altivec", "vsx", *(["mma", "arch_3_1"] if generation >= 10 else [])]


def _riscv_flags(isa: str) -> list[str]:
    """``rv64imafdcv_zvfh``: single letters, then words."""
    letters, *words = isa.lower().split("_")
    return [*words, *(["rvv"] if "v" in letters[4:] else [])]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def memory_gib(system: System) -> float | None:
    """Memory of the host."""
    found = re.search(r"^MemTotal:\s*(\d+) kB", system.read("/proc/meminfo"), re.MULTILINE)
    return round(int(found[1]) / (1 << 20), 2) if found and int(found[1]) else None

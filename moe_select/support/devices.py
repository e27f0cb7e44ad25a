"""Which devices an experts class runs on, as data."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from moe_select.environment.environment import DeviceType, Environment
from moe_select.support.refusal import Unproven


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """One kind of device. Empty fields do not restrict."""

    type: DeviceType | None
    capability: str = ""
    """PEP 440 style range of the CUDA capability (``>=8.0``, ``==9.0``, ``==10.*``)."""
    archs: tuple[str, ...] = ()
    """ROCm architectures, ``*`` patterns allowed; or processor architectures for CPUs."""
    vendors: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    """Instruction sets the processor must have, all of them."""

    def mismatch(self, environment: Environment) -> str | Unproven | None:
        """None when the device fits, a detail when it does not, :class:`Unproven` when a fact is missing."""
        device = environment.device
        if self.type is not None and device.type is not self.type:
            return f"device is {device.type.value}"
        if self.capability:
            return self._capability_mismatch(environment)
        if self.type is DeviceType.CPU:
            return self._cpu_mismatch(environment)
        if self.archs:
            return self._arch_mismatch(device.arch)
        return None

    def _capability_mismatch(self, environment: Environment) -> str | Unproven | None:
        capability = environment.device.capability
        if capability is None:
            return Unproven("capability", f"must be {self.capability}")
        text = f"{capability[0]}.{capability[1]}"
        return None if SpecifierSet(self.capability).contains(text) else f"capability is {text}"

    def _arch_mismatch(self, arch: str | None) -> str | Unproven | None:
        if arch is None:
            return Unproven("arch", f"must be {' or '.join(self.archs)}")
        return None if any(fnmatchcase(arch, pattern) for pattern in self.archs) else f"arch is {arch}"

    def _cpu_mismatch(self, environment: Environment) -> str | Unproven | None:
        cpu = environment.cpu
        if self.archs and not any(fnmatchcase(cpu.arch, pattern) for pattern in self.archs):
            return f"processor is {cpu.arch}"
        if self.vendors and cpu.vendor not in self.vendors:
            return f"processor vendor is {cpu.vendor or 'unknown'}"
        missing = sorted(self.features - cpu.features)
        return f"processor lacks {', '.join(missing)}" if missing else None

    def __str__(self) -> str:
        if self.type is None:
            return "any device"
        parts = [self.type.value, self.capability, "/".join(self.archs), "/".join(self.vendors)]
        if self.features:
            parts.append("with " + ", ".join(sorted(self.features)))
        return " ".join(part for part in parts if part)


def cuda(capability: str = "") -> DeviceRule:
    """NVIDIA GPUs in a capability range: ``cuda(">=8.0")``, ``cuda("==9.0")``, ``cuda("==10.*")``.

    Raises:
        ValueError: the range is not a version specifier.

    """
    try:
        SpecifierSet(capability)
    except InvalidSpecifier:
        raise ValueError(f"cuda({capability!r}): expected a range such as '>=8.0', '==9.0' or '==10.*'") from None
    return DeviceRule(DeviceType.CUDA, capability)


def rocm(*archs: str) -> DeviceRule:
    """AMD GPUs, all or the named architectures: ``rocm("gfx942", "gfx95*")``."""
    return DeviceRule(DeviceType.ROCM, archs=archs)


def xpu() -> DeviceRule:
    """Intel GPUs."""
    return DeviceRule(DeviceType.XPU)


def cpu(*archs: str, vendors: tuple[str, ...] = (), features: frozenset[str] | set[str] = frozenset()) -> DeviceRule:
    """Host processors: ``cpu()``, ``cpu("x86_64", features={"amx_int8"})``, ``cpu("aarch64")``."""
    return DeviceRule(DeviceType.CPU, archs=archs, vendors=vendors, features=frozenset(features))


def any_device() -> DeviceRule:
    """Every device."""
    return DeviceRule(None)

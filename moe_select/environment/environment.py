"""Where a request runs, as a frozen value: no query of a device happens after it was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import Field, SerializerFunctionWrapHandler, field_serializer, field_validator, model_serializer

from moe_select.errors import InvalidEnvironmentError, InvalidValueError
from moe_select.vocabulary.frozen import FrozenModel


class DeviceType(StrEnum):
    """Kind of device that runs the experts."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"
    TPU = "tpu"
    OTHER = "other"


class Device(FrozenModel):
    """The device that runs the experts."""

    _label: ClassVar[str] = "device"
    _error: ClassVar[type[InvalidValueError]] = InvalidEnvironmentError

    type: DeviceType
    name: str | None = None
    capability: tuple[int, int] | None = None
    """CUDA compute capability, (9, 0) for Hopper."""
    arch: str | None = None
    """ROCm architecture, ``gfx942``."""
    memory_gib: float | None = Field(default=None, gt=0)

    @field_validator("capability", mode="before")
    @classmethod
    def _parse_capability(cls, value: Any) -> Any:
        if isinstance(value, str):
            major, _, minor = value.partition(".")
            if not (major.isdigit() and minor.isdigit()):
                raise ValueError(f"capability {value!r} is not MAJOR.MINOR such as 9.0")
            return int(major), int(minor)
        return value


class HostCPU(FrozenModel):
    """The processor of the host."""

    _label: ClassVar[str] = "cpu"
    _error: ClassVar[type[InvalidValueError]] = InvalidEnvironmentError

    arch: str = "x86_64"
    """``x86_64``, ``aarch64``, ``ppc64le``, ``s390x``, ``riscv64`` ..."""
    vendor: str | None = None
    """``AMD``, ``Intel``, ``ARM``, ``IBM`` ..."""
    uarch: str | None = None
    """Microarchitecture name as archspec spells it: ``zen4``, ``sapphirerapids``, ``neoverse_v2``, ``power10le``."""
    features: frozenset[str] = frozenset()
    """Instruction-set flags as Linux spells them: ``avx512_vnni``, ``amx_int8``, ``i8mm`` ..."""

    @field_serializer("features")
    def _sorted(self, value: frozenset[str]) -> list[str]:
        return sorted(value)


class Environment(FrozenModel):
    """Device, host processor and installed libraries. Frozen, hashable, JSON round trip, order-independent fingerprint."""

    _label: ClassVar[str] = "environment"
    _error: ClassVar[type[InvalidValueError]] = InvalidEnvironmentError

    device: Device
    cpu: HostCPU = HostCPU()
    libraries: tuple[tuple[str, str], ...] = ()
    """Distribution name (normalized) and version, sorted; given as a mapping or as pairs."""
    os: str = "linux"
    preset: str | None = None
    """Name of the preset this came from; None when probed or hand-made."""
    tensors_on: str | None = None
    """What torch calls the device that holds the tensors, where it is not the device itself: kernels written for a GPU that an
    interpreter runs on the host. No decision depends on it."""

    @field_validator("libraries", mode="before")
    @classmethod
    def _normalize(cls, value: Any) -> Any:
        pairs: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
        # Two spellings of one name are one library, and the last word counts.
        return tuple(sorted({canonicalize_name(str(name)): str(version) for name, version in pairs}.items()))

    @model_serializer(mode="wrap")
    def _without_tensors_on(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if data.get("tensors_on") is None:
            data.pop("tensors_on", None)
        return data

    @property
    def fingerprint(self) -> str:
        """16 hex digits that depend on the facts and not on the order they were given in."""
        facts = json.dumps(self.model_dump(mode="json", exclude={"preset", "tensors_on"}), sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:16]

    def version(self, library: str) -> str | None:
        """Version of an installed distribution, or None where it is absent."""
        return dict(self.libraries).get(canonicalize_name(library))

    def satisfies(self, requirement: str) -> bool:
        """Whether a PEP 508 requirement such as ``triton>=3.2`` is met by the installed libraries."""
        wanted = Requirement(requirement)
        have = self.version(wanted.name)
        if have is None:
            return False
        try:
            return wanted.specifier.contains(Version(have), prereleases=True)
        except InvalidVersion:
            return not str(wanted.specifier)

    def with_libraries(self, **versions: str) -> Environment:
        """A copy with libraries added or changed; underscores in names read as hyphens."""
        return self.replace(libraries={**dict(self.libraries), **versions})

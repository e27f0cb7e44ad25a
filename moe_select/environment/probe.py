"""Asking this machine, once, what it is."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from moe_select.environment.accelerators import accelerator
from moe_select.environment.environment import Device, DeviceType, Environment
from moe_select.environment.libraries import installed
from moe_select.environment.processors import memory_gib, processor, processor_name
from moe_select.environment.system import System

_lock: Final = threading.Lock()
_hardware: list[Environment] = []
_probed: dict[frozenset[str], Environment] = {}


def probe(requirements: Iterable[str] = (), system: System | None = None) -> Environment:
    """The environment of this machine, asked anew. Imports neither torch nor any library that it reports.

    Args:
        requirements: PEP 508 requirements; the versions of the distributions that they name are looked up besides the
            common ones.
        system: another machine than this one, for tests.

    """
    hardware = _probe_hardware(system or System())
    return hardware.replace(libraries=installed(requirements))


def current(requirements: Iterable[str] = ()) -> Environment:
    """The environment of this machine, probed once; equal requirements give the same object."""
    key = frozenset(requirements)
    found = _probed.get(key)
    if found is None:
        with _lock:
            if not _hardware:
                _hardware.append(_probe_hardware(System()))
            found = _probed.setdefault(key, _hardware[0].replace(libraries=installed(key)))
    return found


def reset_current() -> None:
    """Forget what was probed. For tests, and after a library was installed."""
    with _lock:
        _hardware.clear()
        _probed.clear()


def _probe_hardware(system: System) -> Environment:
    host = processor(system)
    device = accelerator(system)
    if device is None:
        device = Device(type=DeviceType.CPU, name=processor_name(system), memory_gib=memory_gib(system))
    return Environment(device=device, cpu=host, os=system.os)

"""NVIDIA GPUs that are cut up, share the host's memory, or have half a driver."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

MEMINFO = {"/proc/meminfo": "MemTotal:       127600748 kB\n"}


class NVMLError(Exception):
    pass


class FakeNVML:
    """One GPU ``G``, and its slices ``S0`` ... where it is in MIG mode; attributes may be replaced."""

    NVMLError = NVMLError

    def __init__(self, *, mig=False, slices=(), memory=80, **functions):
        self.closed = 0
        self.mig, self.slices, self.memory = mig, slices, memory
        vars(self).update(functions)

    def nvmlInit(self):
        pass

    def nvmlShutdown(self):
        self.closed += 1

    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return "G"

    def nvmlDeviceGetUUID(self, handle):
        return "GPU-1f2e"

    def nvmlDeviceGetName(self, handle):
        if handle != "G":
            raise NVMLError("slices have no such name")
        return "NVIDIA H100"

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return [9, 0]

    def nvmlDeviceGetMemoryInfo(self, handle):
        size = self.memory if handle == "G" else 10
        if size is None:
            raise NVMLError("not supported")
        return SimpleNamespace(total=size << 30)

    def nvmlDeviceGetMigMode(self, handle):
        return [int(self.mig), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if index not in self.slices:
            raise NVMLError("not found")
        return f"S{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != "MIG-77":
            raise NVMLError("not found")
        return "S0"

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        return "G"


def broken(*arguments):
    raise AttributeError("no such function in this driver")


@pytest.mark.parametrize(
    ("nvml", "visible", "memory"),
    [
        (FakeNVML(), None, 80.0),
        (FakeNVML(), "GPU-1f", 80.0),
        (FakeNVML(mig=True, slices=(2, 3)), None, 10.0),
        (FakeNVML(mig=True, slices=(2, 3)), "0", 10.0),
        (FakeNVML(mig=True, slices=()), None, 80.0),
        (FakeNVML(mig=True, slices=(0,)), "MIG-77", 10.0),
        # GB10 says "not supported"; some drivers say 0.
        (FakeNVML(memory=None), None, 121.69),
        (FakeNVML(memory=0), None, 121.69),
    ],
)
def test_what_a_process_gets(machine, nvml, visible, memory):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    device = machine(MEMINFO, nvml=lambda: nvml, environ=environ).device
    assert (device.type, device.name, device.capability) == ("cuda", "NVIDIA H100", (9, 0))
    assert device.memory_gib == memory
    assert nvml.closed == 1


@pytest.mark.parametrize("visible", ["", " ", "-1", "-1,0", ",0", "NoDevFiles", "1", "MIG-78", "GPU-2"])
def test_nothing_visible(machine, visible):
    nvml = FakeNVML()
    assert machine(nvml=lambda: nvml, environ={"CUDA_VISIBLE_DEVICES": visible}).device.type == "cpu"


@pytest.mark.parametrize("function", ["nvmlDeviceGetCount", "nvmlDeviceGetName", "nvmlDeviceGetCudaComputeCapability"])
def test_half_a_driver_warns_and_is_no_gpu(machine, caplog, function):
    nvml = FakeNVML(**{function: broken})
    assert machine(nvml=lambda: nvml).device.type == "cpu"
    assert "no such function in this driver" in caplog.text
    assert nvml.closed == 1


def test_no_driver_is_quiet(machine, caplog):
    nvml = FakeNVML(nvmlInit=broken)
    assert machine(nvml=lambda: nvml).device.type == "cpu"
    assert (caplog.text, nvml.closed) == ("", 0)
    assert machine(nvml=lambda: FakeNVML(nvmlShutdown=broken)).device.type == "cuda"

"""Probing, on file trees of machines that this is not."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from moe_select.environment import System, current, probe, reset_current

ZEN4 = (
    "vendor_id\t: AuthenticAMD\ncpu family\t: 25\n"
    "model\t\t: 17\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu avx2 avx512_vnni smep\n"
)
SPR = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\nflags\t\t: avx512f amx_int8 amx_tile\n"
GRAVITON4 = "processor\t: 0\nFeatures\t: fp asimd sve2 i8mm bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
POWER10 = "processor\t: 0\ncpu\t\t: POWER10 (architected), altivec supported\n"


class NVML(SimpleNamespace):
    """Two GPUs, as pynvml shows them."""

    class NVMLError(Exception):
        pass

    def __init__(self, broken=False):
        super().__init__(broken=broken)

    def nvmlInit(self):  # noqa: N802
        if self.broken:
            raise self.NVMLError

    def nvmlShutdown(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return f"GPU-{handle}abc"

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return [b"NVIDIA H200", "NVIDIA L4"][handle]

    def nvmlDeviceGetCudaComputeCapability(self, handle):  # noqa: N802
        return [(9, 0), (8, 9)][handle]

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=[141, 24][handle] << 30)


def machine(root, files=None, nvml=None, **changes):
    for path, text in {"proc/cpuinfo": ZEN4, "proc/meminfo": "MemTotal:  25165824 kB\n", **(files or {})}.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    fields = {
        "root": root,
        "environ": {},
        "machine": "x86_64",
        "os": "linux",
        "nvml": lambda: nvml,
        "archspec": lambda: "zen2",
    }
    return probe(system=System(**{**fields, **changes}))


@pytest.mark.parametrize(
    ("cpuinfo", "arch", "vendor", "uarch", "features"),
    [
        (ZEN4, "x86_64", "AMD", "zen4", {"avx2", "avx512_vnni"}),
        (ZEN4.replace("25", "26"), "x86_64", "AMD", "zen5", {"avx2", "avx512_vnni"}),
        (SPR, "x86_64", "Intel", "zen2", {"avx512f", "amx_int8", "amx_tile"}),
        (GRAVITON4, "aarch64", "ARM", "neoverse_v2", {"asimd", "sve2", "i8mm", "bf16"}),
        (POWER10, "ppc64le", "IBM", "power10le", {"altivec", "vsx", "mma", "arch_3_1"}),
        ("", "riscv64", None, "zen2", set()),
    ],
)
def test_processors(tmp_path, cpuinfo, arch, vendor, uarch, features):
    cpu = machine(tmp_path, {"proc/cpuinfo": cpuinfo}, machine=arch).cpu
    assert (cpu.arch, cpu.vendor, cpu.uarch, set(cpu.features)) == (arch, vendor, uarch, features)


def test_a_processor_is_the_device_where_there_is_no_other(tmp_path):
    device = machine(tmp_path).device
    assert (device.type, device.name, device.memory_gib) == ("cpu", "AMD EPYC 9654", 24.0)


@pytest.mark.parametrize(
    ("visible", "name"),
    [
        (None, "NVIDIA H200"),
        ("1", "NVIDIA L4"),
        ("1,0", "NVIDIA L4"),
        ("GPU-1a", "NVIDIA L4"),
        ("MIG-x", None),
        ("", None),
        ("-1", None),
        ("7", None),
        ("GPU-9", None),
    ],
)
def test_nvidia(tmp_path, visible, name):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    device = machine(tmp_path, nvml=NVML(), environ=environ).device
    if name is None:
        assert device.type == "cpu"
    else:
        assert (device.type, device.name) == ("cuda", name)
        assert device.capability == ((9, 0) if "H200" in name else (8, 9))


def test_no_driver(tmp_path):
    assert machine(tmp_path, nvml=NVML(broken=True)).device.type == "cpu"


NODE = "sys/class/kfd/kfd/topology/nodes"
AMD = {
    f"{NODE}/0/properties": "cpu_cores_count 64\ngfx_target_version 0\n",
    f"{NODE}/1/properties": "simd_count 304\ngfx_target_version 90402\n",
    f"{NODE}/1/name": "ip discovery\n",
    f"{NODE}/1/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {192 << 30}\n",
}


def test_amd(tmp_path):
    device = machine(tmp_path, AMD).device
    assert (device.type, device.arch, device.memory_gib) == ("rocm", "gfx942", 192.0)
    assert machine(tmp_path, AMD, environ={"HIP_VISIBLE_DEVICES": ""}).device.type == "cpu"


@pytest.mark.parametrize(("driver", "type_"), [("xe", "xpu"), ("i915", "cpu")])
def test_intel(tmp_path, driver, type_):
    base = "sys/class/drm/card0/device"
    files = {f"{base}/vendor": "0x8086\n", f"{base}/uevent": f"DRIVER={driver}\n"}
    assert machine(tmp_path, files).device.type == type_


def test_this_machine_once():
    reset_current()
    assert current() is current()
    assert current({"pytest>=1"}) is current(["pytest>=1"])
    assert current({"pytest>=1"}).version("pytest")
    assert current({"not a requirement!!"}).version("torch")


def test_probing_imports_no_library():
    code = "import sys, moe_select; moe_select.probe(); assert not {'torch', 'triton'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""AMD and Intel GPUs, from the files of their drivers."""

from __future__ import annotations

import pytest

from moe_select.environment.accelerators import gfx_name

NODES = "/sys/class/kfd/kfd/topology/nodes"


def amd_node(number, gfx, *, memory=(), name="ip discovery", unique_id=0, minor=0):
    properties = f"simd_count 304\ngfx_target_version {gfx}\nunique_id {unique_id}\ndrm_render_minor {minor}\n"
    banks = {f"{NODES}/{number}/mem_banks/{i}/properties": f"size_in_bytes {s}\n" for i, s in enumerate(memory)}
    return {f"{NODES}/{number}/properties": properties, f"{NODES}/{number}/name": f"{name}\n", **banks}


PROCESSOR = {f"{NODES}/0/properties": "cpu_cores_count 64\ngfx_target_version 0\n", f"{NODES}/0/name": "EPYC\n"}
# Node 10 comes after node 2, although its name sorts before.
TWO = {**PROCESSOR, **amd_node(10, 110000, unique_id=0xBEEF), **amd_node(2, 90402, unique_id=0xCAFE)}


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90008, "gfx908"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100306, "gfx1036"),
        (110000, "gfx1100"),
        (120001, "gfx1201"),
    ],
)
def test_names_of_architectures(machine, version, name):
    assert gfx_name(version) == name
    assert machine(amd_node(1, version)).device.arch == name


@pytest.mark.parametrize(
    ("environ", "arch"),
    [
        ({}, "gfx942"),
        ({"HIP_VISIBLE_DEVICES": "1"}, "gfx1100"),
        ({"ROCR_VISIBLE_DEVICES": "1,0"}, "gfx1100"),
        # HIP counts what the runtime left over.
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, "gfx1100"),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, None),
        ({"ROCR_VISIBLE_DEVICES": "GPU-beef"}, "gfx1100"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-f00d"}, None),
        ({"CUDA_VISIBLE_DEVICES": "1"}, "gfx1100"),
        ({"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "0"}, "gfx942"),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({"HIP_VISIBLE_DEVICES": ""}, None),
        ({"HIP_VISIBLE_DEVICES": "-1"}, None),
        ({"ROCR_VISIBLE_DEVICES": ""}, None),
        ({"HIP_VISIBLE_DEVICES": "7,0"}, None),
    ],
)
def test_which_amd_gpu(machine, environ, arch):
    device = machine(TWO, environ=environ).device
    assert (device.type, device.arch) == (("cpu", None) if arch is None else ("rocm", arch))


def test_memory_of_all_banks(machine):
    gib = 1 << 30
    assert machine(amd_node(1, 90402, memory=(128 * gib, 64 * gib + gib // 2))).device.memory_gib == 192.5


@pytest.mark.parametrize("banks", [{}, {f"{NODES}/1/mem_banks/0/properties": "size_in_bytes many\n"}])
def test_unknown_memory(machine, banks):
    assert machine({**amd_node(1, 90402), **banks}).device.memory_gib is None


@pytest.mark.parametrize(
    ("chip", "product", "expected"),
    [
        ("aldebaran", None, "aldebaran"),
        ("ip discovery", None, None),
        ("ip discovery", "AMD Instinct MI300X OAM\n", "AMD Instinct MI300X OAM"),
        ("ip discovery", "\n", None),
    ],
)
def test_names_of_amd_gpus(machine, chip, product, expected):
    files = amd_node(1, 90402, name=chip, minor=129)
    if product is not None:
        files["/sys/class/drm/renderD129/device/product_name"] = product
    assert machine(files).device.name == expected


@pytest.mark.parametrize("text", ["", "\x00\xff garbage", "gfx_target_version\n", "gfx_target_version x\n"])
def test_broken_files_are_no_gpu(machine, text):
    assert machine({f"{NODES}/1/properties": text}).device.type == "cpu"


def test_a_file_where_a_folder_belongs(machine):
    assert machine({NODES: "", "/sys/class/drm": ""}).device.type == "cpu"


def card(number, driver, *, vendor="0x8086", memory=None):
    base = f"/sys/class/drm/card{number}/device"
    files = {f"{base}/vendor": f"{vendor}\n", f"{base}/uevent": f"DRIVER={driver}\nPCI_CLASS=30000\n"}
    return files if memory is None else {**files, f"{base}/tile0/physical_vram_size_bytes": memory}


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        (card(0, "xe", memory="0x300000000\n"), {}, ("xpu", 12.0)),
        (card(0, "xe", memory="12884901888\n"), {}, ("xpu", 12.0)),
        (card(0, "xe", memory="unknown\n"), {}, ("xpu", None)),
        (card(0, "xe"), {}, ("xpu", None)),
        ({**card(0, "i915"), **card(1, "xe")}, {}, ("xpu", None)),
        (card(0, "i915"), {}, ("cpu", None)),
        (card(0, "xengine"), {}, ("cpu", None)),
        (card(0, "xe", vendor="0x1002"), {}, ("cpu", None)),
        (card(0, "xe"), {"ONEAPI_DEVICE_SELECTOR": "*:cpu"}, ("cpu", None)),
    ],
)
def test_intel_gpus(machine, files, environ, expected):
    device = machine(files, environ=environ).device
    assert (device.type, device.memory_gib) == expected


def test_amd_before_intel(machine):
    assert machine({**amd_node(1, 90402), **card(0, "xe")}).device.type == "rocm"

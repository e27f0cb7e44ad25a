"""What is in the table of named machines."""

from __future__ import annotations

import pytest

from moe_select.environment import DeviceType, preset, preset_names
from moe_select.errors import InvalidEnvironmentError

ALL = [preset(name) for name in preset_names()]


@pytest.mark.parametrize("capability", ["7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"])
def test_every_generation_of_nvidia(capability):
    wanted = tuple(map(int, capability.split(".")))
    assert [e.preset for e in ALL if e.device.type is DeviceType.CUDA and e.device.capability == wanted]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_every_generation_of_amd(arch):
    assert [e.preset for e in ALL if e.device.type is DeviceType.ROCM and e.device.arch == arch]


@pytest.mark.parametrize(
    ("name", "arch", "has", "lacks"),
    [
        ("x86_avx2", "x86_64", {"avx2", "fma"}, {"avx512f"}),
        ("skylake_avx512", "x86_64", {"avx512bw"}, {"avx512_vnni", "amx_int8"}),
        ("icelake", "x86_64", {"avx512_vnni"}, {"avx512_bf16", "amx_int8"}),
        ("sapphirerapids", "x86_64", {"avx512_bf16", "amx_int8", "amx_bf16"}, {"amx_fp16"}),
        ("graniterapids", "x86_64", {"amx_int8", "amx_fp16"}, set()),
        ("zen4", "x86_64", {"avx512_vnni", "avx512_bf16"}, {"amx_int8", "avx_vnni"}),
        ("zen5", "x86_64", {"avx512_bf16", "avx_vnni"}, {"amx_int8"}),
        ("ampere_altra", "aarch64", {"asimddp"}, {"i8mm", "sve"}),
        ("ampereone", "aarch64", {"i8mm", "bf16"}, {"sve"}),
        ("graviton3", "aarch64", {"sve", "i8mm", "bf16"}, {"sve2"}),
        ("graviton4", "aarch64", {"sve2", "i8mm"}, {"sme"}),
        ("grace", "aarch64", {"sve2", "i8mm"}, {"sme"}),
        ("power9", "ppc64le", {"vsx"}, {"mma"}),
        ("power10", "ppc64le", {"vsx", "mma"}, set()),
    ],
)
def test_processors(name, arch, has, lacks):
    environment = preset(name)
    assert (environment.device.type, environment.cpu.arch) == (DeviceType.CPU, arch)
    assert environment.cpu.features >= has
    assert not environment.cpu.features & lacks


def test_libraries_follow_the_device():
    for environment in ALL:
        assert environment.version("torch")
        assert environment.satisfies("pydantic>=2.8")
        assert (environment.version("triton") is None) == (environment.device.type is DeviceType.CPU)


def test_facts_fit_the_device():
    for environment in ALL:
        device = environment.device
        assert device.name
        assert (device.capability is not None) == (device.type is DeviceType.CUDA)
        assert (device.arch is not None) == (device.type is DeviceType.ROCM)


@pytest.mark.parametrize("name", ["", "H200", "no such machine at all"])
def test_an_unknown_name_lists_the_known(name):
    with pytest.raises(InvalidEnvironmentError) as caught:
        preset(name)
    assert f"unknown preset {name!r}" in caught.value.problems[0]
    assert ", ".join(preset_names()) in str(caught.value)

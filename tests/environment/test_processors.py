"""Host processors, from what the kernel writes about them."""

from __future__ import annotations

import pytest

from moe_select.environment import preset

X86 = "vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: a processor\nflags\t\t: {flags}\n\n"
ARM = "processor\t: 0\nFeatures\t: {flags}\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n\n"


def cpuinfo(text, cores=2, **facts):
    facts = {
        "vendor": "AuthenticAMD",
        "family": 25,
        "model": 17,
        "flags": "fpu",
        "implementer": "0x41",
        "part": "0",
        **facts,
    }
    return {"/proc/cpuinfo": text.format(**facts) * cores}


@pytest.mark.parametrize(
    ("facts", "uarch"),
    [
        ({"family": 25, "model": 0x10}, "zen4"),
        ({"family": 25, "model": 0x1F}, "zen4"),
        ({"family": 25, "model": 0x61}, "zen4"),
        ({"family": 25, "model": 0x7F}, "zen4"),
        ({"family": 25, "model": 0xA0}, "zen4"),
        ({"family": 25, "model": 0xAF}, "zen4"),
        ({"family": 26, "model": 0x02}, "zen5"),
        ({"family": 25, "model": 0x01}, "archspec's"),  # Zen 3
        ({"family": 25, "model": 0x20}, "archspec's"),
        ({"family": 25, "model": "unknown"}, "archspec's"),
        ({"family": 23, "model": 0x31}, "archspec's"),
        ({"vendor": "GenuineIntel", "family": 6, "model": 0xAD}, "graniterapids"),
        ({"vendor": "GenuineIntel", "family": 6, "model": 0x8F}, "archspec's"),
        ({"vendor": "GenuineIntel", "family": 25, "model": 0x11}, "archspec's"),
    ],
)
def test_microarchitecture_of_x86(machine, facts, uarch):
    assert machine(cpuinfo(X86, **facts), archspec=lambda: "archspec's").cpu.uarch == uarch


@pytest.mark.parametrize(
    ("implementer", "part", "vendor", "uarch"),
    [
        ("0x41", "0xd0c", "ARM", "neoverse_n1"),
        ("0x41", "0xd40", "ARM", "neoverse_v1"),
        ("0x41", "0xd4f", "ARM", "neoverse_v2"),
        ("0xc0", "0xac3", "Ampere", "archspec's"),
        ("0x99", "0x001", None, "archspec's"),
    ],
)
def test_arm(machine, implementer, part, vendor, uarch):
    files = cpuinfo(ARM, implementer=implementer, part=part)
    cpu = machine(files, machine="arm64", archspec=lambda: "archspec's").cpu
    assert (cpu.arch, cpu.vendor, cpu.uarch) == ("aarch64", vendor, uarch)


@pytest.mark.parametrize(
    ("machine_", "text", "flags", "kept"),
    [
        (
            "x86_64",
            X86,
            "fpu sse2 sse4_2 smep sme smap avx fma fma4 f16c amx_tile gfni",
            "sse4_2 avx fma f16c amx_tile gfni",
        ),
        (
            "AMD64",
            X86,
            "avx_vnni avx512vbmi avx512_fp16 avxother movbe sme",
            "avx_vnni avx512vbmi avx512_fp16 avxother",
        ),
        (
            "aarch64",
            ARM,
            "fp asimd aes sve2 svebf16 sme smef16f32 i8mm bf16 crc32",
            "asimd sve2 svebf16 sme smef16f32 i8mm bf16",
        ),
    ],
)
def test_only_flags_about_vectors_and_matrices(machine, machine_, text, flags, kept):
    assert machine(cpuinfo(text, flags=flags), machine=machine_).cpu.features == set(kept.split())


@pytest.mark.parametrize(
    ("machine_", "text", "vendor", "uarch", "features"),
    [
        (
            "ppc64le",
            "cpu\t: POWER10 (architected), altivec supported\n",
            "IBM",
            "power10le",
            "altivec vsx mma arch_3_1",
        ),
        ("ppc64le", "cpu\t: POWER9, altivec supported\n", "IBM", "power9le", "altivec vsx"),
        ("ppc64", "cpu\t: POWER8E (raw), altivec supported\n", "IBM", "power8", "altivec vsx"),
        ("ppc64", "cpu\t: PowerPC G5\n", None, None, ""),
        ("s390x", "vendor_id : IBM/S390\nfeatures\t: esan3 zarch vx vxd vxe vxe2\n", "IBM", None, "vx vxe vxe2"),
        ("riscv64", "hart\t: 0\nisa\t: rv64imafdcv_zicbom_zvfh\n", None, None, "rvv zvfh"),
        ("riscv64", "hart\t: 0\nisa\t: rv64imafdc_zicbom\n", None, None, ""),
        ("x86_64", "", None, None, ""),
        ("x86_64", "no colon here\n:::\n: \x00\n", None, None, ""),
    ],
)
def test_other_processors(machine, machine_, text, vendor, uarch, features):
    cpu = machine({"/proc/cpuinfo": text}, machine=machine_).cpu
    assert (cpu.arch, cpu.vendor, cpu.uarch) == (machine_, vendor, uarch)
    assert cpu.features == set(features.split())


def test_a_generic_name_says_nothing(machine):
    assert machine(archspec=lambda: "x86_64").cpu.uarch is None


@pytest.mark.parametrize(
    ("text", "gib"),
    [("MemTotal: 24686592 kB\n", 23.54), ("MemTotal: 0 kB\n", None), ("", None), ("MemTotal: lots", None)],
)
def test_memory_of_the_host(machine, text, gib):
    device = machine({"/proc/meminfo": text}).device
    assert (device.type, device.name, device.memory_gib) == ("cpu", None, gib)


def test_presets_say_what_probing_would(machine):
    """Flags of a Zen 4 server in full: the preset has the same ones."""
    flags = (
        "fpu sse sse2 ht pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 popcnt aes avx f16c sse4a avx2 bmi2 avx512f avx512dq rdseed"
        " adx avx512ifma avx512cd sha_ni avx512bw avx512vl avx512_bf16 avx512vbmi umip avx512_vbmi2 gfni vaes vpclmulqdq"
        " avx512_vnni avx512_bitalg avx512_vpopcntdq rdpid sme sev smep"
    )
    assert machine(cpuinfo(X86, flags=flags)).cpu == preset("zen4").cpu

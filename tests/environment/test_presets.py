"""Named machines."""

from __future__ import annotations

import pytest

from moe_select import preset, preset_names
from moe_select.errors import InvalidEnvironmentError


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_an_environment(name):
    environment = preset(name)
    assert environment.preset == name
    assert environment.satisfies("torch>=2.11")
    assert environment.device.memory_gib
    assert environment.cpu.features
    assert preset(name) is environment


def test_they_differ():
    assert len({preset(name).fingerprint for name in preset_names()}) == len(preset_names())


def test_what_must_be_there():
    devices = [preset(name).device for name in preset_names()]
    assert {(7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)} <= {device.capability for device in devices}
    assert {"gfx942", "gfx950"} <= {device.arch for device in devices}
    assert "xpu" in {device.type for device in devices}
    hosts = [preset(name).cpu for name in preset_names() if preset(name).device.type == "cpu"]
    assert {"zen4", "zen5", "neoverse_v2", "power10le"} <= {host.uarch for host in hosts}
    x86 = [host for host in hosts if host.arch == "x86_64"]
    assert {"amx_int8" in host.features for host in x86} == {True, False}


def test_a_misspelt_name():
    with pytest.raises(InvalidEnvironmentError, match="did you mean 'h200'"):
        preset("h20")

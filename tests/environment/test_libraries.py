"""Installed distributions."""

from __future__ import annotations

from importlib import metadata

import pytest

from moe_select.environment import probe
from moe_select.environment.libraries import installed


@pytest.fixture
def site(monkeypatch):
    """Only the given distributions are installed."""

    def site(**versions):
        known = {name.replace("_", "-"): version for name, version in versions.items()}

        def version(name):
            if name not in known:
                raise metadata.PackageNotFoundError(name)
            return known[name]

        monkeypatch.setattr(metadata, "version", version)

    return site


@pytest.mark.parametrize(
    ("there", "requirements", "found"),
    [
        ({}, ["torch>=2", "acme"], {}),
        ({"torch": "2.13.0+cpu", "acme": "1"}, [], {"torch": "2.13.0+cpu"}),
        (
            {"torch": "2.13.0", "acme_moe": "1"},
            ["Acme_MoE[cuda]>=2; python_version > '3'"],
            {"torch": "2.13.0", "acme-moe": "1"},
        ),
        ({"acme": "1"}, ["acme @ https://example.org/acme.whl"], {"acme": "1"}),
        ({"acme": "1"}, ["acme >> 1", ""], {}),
        # Libraries that come under several names.
        ({"pytorch_triton_rocm": "3.4.0"}, ["triton>=3"], {"triton": "3.4.0"}),
        ({"triton": "3.8.0", "pytorch_triton_rocm": "3.4.0"}, [], {"triton": "3.8.0"}),
        ({"amd_aiter": "0.1"}, [], {"aiter": "0.1"}),
        # An installation that was cut short has no version.
        ({"torch": None}, [], {}),
    ],
)
def test_versions(site, there, requirements, found):
    site(**there)
    assert installed(requirements) == found


def test_what_is_really_here():
    found = installed(["hypothesis"])
    assert found["pydantic"] == metadata.version("pydantic")
    assert probe(["hypothesis>=99"]).version("hypothesis") == found["hypothesis"]
    assert probe().version("hypothesis") is None

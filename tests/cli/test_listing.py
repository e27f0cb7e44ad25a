"""``list``."""

from __future__ import annotations

import pytest

from moe_select.plugins import default_registry


def classes():
    return [(found, cls) for found in default_registry().backends for cls in found.backend.experts]


def test_every_class_is_listed_with_its_provider(run):
    text = run("list").stdout
    for found, cls in classes():
        assert f"{found.name}/{cls.__name__}" in text
        assert str(found.provider) in text


def test_json_declares_everything(run_json):
    listed = run_json("list")
    assert [item["name"] for item in listed] == [found.name for found in default_registry().backends]
    names = [(item["name"], experts["name"]) for item in listed for experts in item["experts"]]
    assert names == [(found.name, cls.__name__) for found, cls in classes()]
    for item in listed:
        assert set(item["provider"]) == {"plugin", "distribution", "version"}


def test_names_choose(run, run_json):
    assert [item["name"] for item in run_json("list", "reference")] == ["reference"]
    assert [item["name"] for item in run_json("list", "moe-select:cpu")] == ["cpu"]
    text = run("list", "cpu").stdout
    assert "cpu/" in text
    assert "reference/" not in text


@pytest.mark.parametrize("arguments", [("list", "cpuu"), ("list", "cpu", "cpuu")])
def test_unknown_name(run, arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'cpu'?" in result.stderr


def test_listing_says_last_resort(run):
    assert "last resort" in run("list", "reference").stdout
    assert "last resort" not in run("list", "cpu").stdout

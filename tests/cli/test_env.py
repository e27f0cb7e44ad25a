"""``env``, and the options that choose an environment."""

from __future__ import annotations

import json

import pytest

from moe_select.environment import Environment, preset, preset_names


@pytest.mark.parametrize("name", ["h200", "mi300x", "zen4"])
def test_preset(run, run_json, name):
    assert Environment(**run_json("env", "--preset", name)) == preset(name)
    text = run("env", "--preset", name).stdout
    assert preset(name).fingerprint in text
    assert preset(name).device.type.value in text


def test_here(run_json):
    found = Environment(**run_json("env"))
    assert found.preset is None
    assert found.version("pydantic")


def test_presets(run, run_json):
    assert run_json("env", "--presets") == list(preset_names())
    lines = run("env", "--presets").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(preset_names())


def test_an_environment_travels(run, run_json, tmp_path):
    """What one machine prints, another one decides for."""
    path = tmp_path / "there.json"
    path.write_text(run("env", "--preset", "h200", "--json").stdout)
    there = run_json("explain", "--environment", str(path), "--scheme", "int8")
    assert there == run_json("explain", "--preset", "h200", "--scheme", "int8")
    assert run_json("env", "--environment", "-", input=path.read_text()) == json.loads(path.read_text())


def test_libraries_are_added_and_replaced(run_json):
    found = run_json("env", "--preset", "h200", "--library", "Acme_Kernels=2.0", "--library", "acme-kernels=2.1")
    assert dict(map(tuple, found["libraries"])) == {**dict(preset("h200").libraries), "acme-kernels": "2.1"}


def test_a_library_changes_the_decision(run_json):
    words = ("explain", "--preset", "zen4", "--scheme", "int8")
    old = run_json(*words, "--library", "torch=1.0")
    codes = {refusal["code"] for candidate in old["candidates"] for refusal in candidate["refusals"]}
    assert "dependency_missing" in codes
    assert run_json(*words, "--library", "torch=2.13.0")["outcome"] == "selected"


@pytest.mark.parametrize(
    ("words", "input", "expected"),
    [
        (("--preset", "h20"), None, "h20"),
        (("--library", "torch"), None, "'torch' is not NAME=VALUE"),
        (("--environment", "/no/such/file"), None, "/no/such/file"),
        (("--environment", "-", "--preset", "h200"), "{}", "exclude each other"),
        (("--environment", "-"), "{}", "device"),
        (("--environment", "-"), "[]", "must be a JSON object"),
        (("--environment", "-"), "{", "is not JSON"),
        (("--environment", "-"), '{"device": {"type": "gpu"}}', "device.type"),
        (("--environment", "-"), '{"device": {"type": "cpu"}, "libraries": 3}', "invalid Environment"),
        (("--environment", "-"), '{"device": {"type": "cpu"}, "cpus": 3}', "did you mean 'cpu'?"),
    ],
)
def test_wrong_input(run, words, input, expected):
    for command in (("env",), ("explain", "--scheme", "int8")):
        result = run(*command, *words, input=input)
        assert (result.exit_code, result.stdout) == (2, "")
        assert expected in result.stderr

"""``lint``, ``schema`` and ``config``."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from moe_select.policy import load_policy, parse_policy

GOOD = "version: 1\nrules:\n  - name: only-here\n    when: {device: cpu}\n    prefer: [cpu]\n"
ONE_ERROR = "version: 1\nrules:\n  - name: r\n    when: {devise: cpu}\n    prefer: [cpu]\n"
TWO_ERRORS = "version: 1\nrules:\n  - name: r\n    when: {devise: cpu}\n    prefre: [cpu]\n"
ONE_WARNING = "version: 1\nrules:\n  - name: r\n    prefer: [cpu]\n    demote: [cpu]\n"


@pytest.mark.parametrize(
    ("text", "options", "code", "summary"),
    [
        (GOOD, (), 0, "ok"),
        (ONE_ERROR, (), 1, "1 error, 0 warnings"),
        (TWO_ERRORS, (), 1, "2 errors, 0 warnings"),
        (ONE_WARNING, (), 0, "0 errors, 1 warning"),
        (ONE_WARNING, ("--strict",), 1, "0 errors, 1 warning"),
        (GOOD, ("--strict",), 0, "ok"),
        ("", (), 1, "1 error, 0 warnings"),
        ("version: [", (), 1, "1 error, 0 warnings"),
    ],
)
def test_lint(run, tmp_path, text, options, code, summary):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    result = run("lint", str(path), *options)
    assert (result.exit_code, result.stderr) == (code, "")
    assert result.stdout.endswith(f"{path}: {summary}\n")
    piped = run("lint", "-", *options, input=text)
    assert (piped.exit_code, piped.stdout.splitlines()[-1]) == (code, f"stdin: {summary}")


def test_lint_shows_the_place(run):
    text = run("lint", "-", input=ONE_ERROR).stdout
    assert "<stdin>:4:12: error: " in text
    assert "    4 |     when: {devise: cpu}" in text
    assert "did you mean 'device'?" in text
    assert text.splitlines()[2].endswith("^")


def test_lint_as_json(run):
    result = run("lint", "-", "--json", input=ONE_ERROR)
    (problem,) = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (problem["file"], problem["line"], problem["column"], problem["severity"]) == ("<stdin>", 4, 12, "error")
    assert json.loads(run("lint", "-", "--json", input=GOOD).stdout) == []


def test_lint_of_bytes_that_are_not_text(run, run_process, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"version: 1\n# \xff\n")
    result = run("lint", str(path))
    assert result.exit_code == 1
    assert "not UTF-8" in result.stdout


def test_lint_knows_what_is_installed(run):
    text = "version: 1\nrules:\n  - {name: r, prefer: [cpuu]}\n"
    result = run("lint", "-", input=text)
    assert result.exit_code == 1
    assert "did you mean 'cpu'?" in result.stdout


def test_schema_accepts_what_lint_accepts(run):
    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(GOOD), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(ONE_ERROR), schema)
    assert "cpu" in json.dumps(schema["$defs"]["target"])


def test_config_reads_back_as_the_same_policy(run):
    printed = run("config").stdout
    assert parse_policy(printed).fingerprint == load_policy(environ={}).fingerprint


def test_config_has_every_layer(run, run_json, tmp_path, monkeypatch):
    named, argument = tmp_path / "named.yaml", tmp_path / "argument.yaml"
    named.write_text(GOOD)
    argument.write_text("version: 1\nbackend: auto\n")
    monkeypatch.setenv("MOE_SELECT_CONFIG", str(named))
    monkeypatch.setenv("MOE_SELECT_DENY", "reference")
    values = {item["path"]: item for item in run_json("config", "--policy", str(argument))["values"]}
    assert values["rules[only-here].prefer[0]"]["origin"] == {"source": str(named), "line": 5, "column": 14}
    assert values["rules[MOE_SELECT_DENY].deny[0]"]["origin"]["source"] == "MOE_SELECT_DENY"
    assert values["backend"] == {
        "path": "backend",
        "value": "auto",
        "origin": {"source": str(argument), "line": 2, "column": 10},
    }
    lines = run("config", "--policy", str(argument), "--origin").stdout.splitlines()
    assert lines[0].startswith("# layers, weakest first: ")
    for path, item in values.items():
        (line,) = [line for line in lines if line.split()[0] == path]
        origin = item["origin"]
        assert line.endswith(origin["source"] if origin["line"] is None else f"{origin['line']}:{origin['column']}")


def test_config_of_a_broken_policy(run, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(TWO_ERRORS)
    result = run("config", "--policy", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: 2 problems in the policy")
    assert f"{path}:4:12" in result.stderr

"""``matrix``."""

from __future__ import annotations

import pytest

from moe_select.environment import preset_names
from moe_select.policy import default_policy


def test_cells_are_what_explain_says(run_json):
    found = run_json("matrix", "--devices", "h200,zen4")
    for row in found["rows"]:
        for device, cell in row["devices"].items():
            words = ("--preset", device, "--weights", row["weight_key"], "--activations", row["activation_key"])
            winner = run_json("explain", *words)["winner"]
            assert cell["selected"] == (winner and winner["backend"])
            for name in cell["on_request"]:
                assert run_json("explain", *words, "--backend", name)["outcome"] == "selected"


def test_rows_are_the_pairs_of_the_policy(run_json):
    rows = run_json("matrix", "--devices", "zen4")["rows"]
    pairs = [(name, *map(str, pair)) for name, scheme in default_policy().schemes.items() for pair in scheme.match]
    listed = [(row["scheme"], row["weight_key"], row["activation_key"]) for row in rows]
    assert [tuple("None" if word == "none" else word for word in row) for row in listed] == pairs


def test_unlisted_pairs_come_after(run_json):
    listed = run_json("matrix", "--devices", "zen4")["rows"]
    everything = run_json("matrix", "--devices", "zen4", "--unlisted")["rows"]
    assert everything[: len(listed)] == listed
    more = everything[len(listed) :]
    assert more
    assert {row["scheme"] for row in more} == {None}
    assert any("reference" in row["devices"]["zen4"]["on_request"] for row in more)


def test_all_devices(run_json):
    assert run_json("matrix")["devices"] == list(preset_names())
    assert run_json("matrix", "--devices", "here,zen4")["devices"] == ["here", "zen4"]


def test_table(run):
    text = run("matrix", "--devices", "zen4,graviton4,power10").stdout
    assert "int8_static_channel_sym" in text
    assert "cpu (reference)" in text
    assert max(map(len, text.splitlines())) <= 120


def test_table_of_all_devices_names_each_once(run):
    words = run("matrix").stdout.replace(",", " ").split()
    for name in preset_names():
        assert words.count(name) == 1


def test_markdown(run, run_json):
    words = ("--devices", "zen4,h200", "--scheme", "int8")
    header, rule, *rows = run("matrix", *words, "--markdown").stdout.splitlines()
    assert header == "| scheme | weights | activations | zen4 | h200 |"
    assert rule == "|---|---|---|---|---|"
    assert len(rows) == len(run_json("matrix", *words)["rows"])
    assert rows[0].startswith("| int8 | `int8_static_channel_sym` | `int8_dynamic_token_sym` | cpu (reference) |")


def test_policy_changes_the_matrix(run_json, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nrules:\n  - {name: no-cpu, deny: [cpu]}\n")
    cells = [row["devices"]["zen4"] for row in run_json("matrix", "--devices", "zen4", "--policy", str(policy))["rows"]]
    assert {cell["selected"] for cell in cells} == {None}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--devices", "h20"), "h20"),
        (("--devices", ","), "names no device"),
        (("--scheme", "int9"), "did you mean 'int8'?"),
    ],
)
def test_wrong_input(run, words, expected):
    result = run("matrix", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr

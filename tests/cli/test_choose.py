"""``select`` and ``explain``."""

from __future__ import annotations

import json

import pytest

import moe_select

CAN = (
    "--preset",
    "zen4",
    "--scheme",
    "int8",
    "--experts",
    "8",
    "--topk",
    "2",
    "--hidden",
    "256",
    "--intermediate",
    "512",
)
CANNOT = ("--preset", "t4", *CAN[2:])


def test_select_prints_the_winner_and_nothing_else(run):
    result = run("select", *CAN)
    assert (result.exit_code, result.stderr) == (0, "")
    backend, _, experts = result.stdout.strip().partition("/")
    assert backend == "cpu"
    assert experts in {
        cls.__name__ for found in moe_select.default_registry().find("cpu") for cls in found.backend.experts
    }


def test_select_without_a_winner_explains_on_stderr(run):
    result = run("select", *CANNOT)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "device_unsupported" in result.stderr
    assert result.stderr.startswith("no backend can run this MoE layer")


@pytest.mark.parametrize("command", ["select", "explain"])
@pytest.mark.parametrize(("options", "code"), [(CAN, 0), (CANNOT, 1)])
def test_json_is_the_report(run, command, options, code):
    result = run(command, *options, "--json")
    assert result.exit_code == code
    report = json.loads(result.stdout)
    assert report["outcome"] == ("selected" if code == 0 else "refused")
    assert (report["winner"] is not None) == (code == 0)
    assert len(report["fingerprint"]) == 16


@pytest.mark.parametrize(("options", "code"), [(CAN, 0), (CANNOT, 1)])
def test_explain_shows_every_candidate_and_every_code(run, options, code):
    report = json.loads(run("explain", *options, "--json").stdout)
    result = run("explain", *options)
    assert result.exit_code == code
    for candidate in report["candidates"]:
        assert candidate["name"] in result.stdout
        for refusal in candidate["refusals"]:
            assert refusal["code"] in result.stdout
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120


def test_explain_and_select_agree(run):
    winner = run("select", *CAN).stdout.strip()
    line = next(line for line in run("explain", *CAN).stdout.splitlines() if "SELECTED" in line)
    assert line.split()[0] == winner


def test_text_is_what_exceptions_carry(run):
    request = moe_select.MoEConfig(
        num_experts=8,
        topk=2,
        hidden_dim=256,
        intermediate_size=512,
        weight_key="int8_static_channel_sym",
        activation_key="int8_dynamic_token_sym",
    )
    with pytest.raises(moe_select.SelectionError) as caught:
        moe_select.select(request, environment=moe_select.preset("t4"))
    assert run("explain", *CANNOT, "--text").stdout == f"{caught.value}\n"


def test_an_explicit_backend_names_the_option(run_json):
    report = run_json("explain", *CAN, "--backend", "reference")
    assert report["winner"]["backend"] == "reference"
    assert report["deciding"] == {"source": "--backend", "line": None, "column": None}


def test_auto_cancels_the_backend_of_the_request(run_json):
    forced = run_json("explain", *CAN, "--set", "moe_backend=reference")
    free = run_json("explain", *CAN, "--set", "moe_backend=reference", "--backend", "auto")
    assert (forced["winner"]["backend"], free["winner"]["backend"]) == ("reference", "cpu")


def test_an_explicit_backend_that_cannot_run_tells_what_would(run):
    result = run("explain", *CAN, "--backend", "cpuu")
    assert result.exit_code == 1
    assert "unknown_backend" in result.stdout
    assert "did you mean 'cpu'?" in result.stdout
    assert "notice: without the explicit backend 'cpuu', cpu/" in result.stdout


def test_policy_file_decides(run_json, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nrules:\n  - name: no-cpu\n    deny: [cpu]\n    reason: testing\n")
    report = run_json("explain", *CAN, "--policy", str(policy))
    codes = {refusal["code"] for candidate in report["candidates"] for refusal in candidate["refusals"]}
    assert report["outcome"] == "refused"
    assert "denied_by_policy" in codes


def test_environment_variables_count(run_json, monkeypatch):
    monkeypatch.setenv("MOE_SELECT_BACKEND", "reference")
    report = run_json("explain", *CAN)
    assert report["winner"]["backend"] == "reference"
    assert report["deciding"]["source"] == "MOE_SELECT_BACKEND"


def test_a_question_notifies_no_plugin_and_logs_nothing(run, caplog):
    caplog.set_level("DEBUG", logger="moe_select")
    run("explain", *CAN)
    assert not [record for record in caplog.records if record.name == "moe_select"]

"""``select`` and ``explain``: explicit backends from everywhere, the log, the cache."""

from __future__ import annotations

import copy
import logging
import pickle

import pytest

import moe_select
from moe_select import Code, SelectionError, explain, override, preset, select
from moe_select.testing import make_environment, make_request

ZEN4 = make_environment("zen4")


def codes(selection):
    return {refusal.code for candidate in selection.refused for refusal in candidate.refusals}


def test_explicit_by_argument():
    assert select(make_request(), environment=ZEN4, backend="reference").backend == "reference"


def test_explicit_by_request():
    selection = select(make_request(moe_backend="reference"), environment=ZEN4)
    assert (selection.backend, str(selection.deciding)) == ("reference", "MoEConfig.moe_backend")


def test_explicit_by_variable(monkeypatch):
    monkeypatch.setenv("MOE_SELECT_BACKEND", "reference")
    selection = select(make_request(), environment=ZEN4)
    assert (selection.backend, selection.deciding.source) == ("reference", "MOE_SELECT_BACKEND")


def test_explicit_by_file(tmp_path, monkeypatch):
    path = tmp_path / "backends.yaml"
    path.write_text("version: 1\nbackend: reference\n")
    monkeypatch.setenv("MOE_SELECT_CONFIG", str(path))
    selection = select(make_request(), environment=ZEN4)
    assert (selection.backend, str(selection.deciding)) == ("reference", f"{path}:2:10")


def test_explicit_by_context_manager():
    with override(backend="reference", environment=ZEN4):
        assert select(make_request()).backend == "reference"
        with override(backend="auto"):
            assert select(make_request(moe_backend="reference")).backend == "cpu"
    assert select(make_request(), environment=ZEN4).backend == "cpu"


def test_stronger_sources_win(monkeypatch):
    monkeypatch.setenv("MOE_SELECT_BACKEND", "nothing")
    assert select(make_request(moe_backend="reference"), environment=ZEN4).backend == "reference"
    assert select(make_request(moe_backend="reference"), environment=ZEN4, backend="cpu").backend == "cpu"
    assert select(make_request(), environment=ZEN4, backend="auto").backend == "cpu"


def test_an_explicit_backend_runs_or_fails_with_every_classs_reasons():
    with pytest.raises(SelectionError) as caught:
        select(make_request(lora=True), environment=preset("h200"), backend="cpu")
    selection = caught.value.selection
    assert [candidate.experts for candidate in selection.candidates] == [
        "CPUExpertsInt8",
        "CPUExpertsInt8WeightOnly",
        "CPUUnquantizedExperts",
    ]
    for candidate in selection.candidates:
        found = {refusal.code for refusal in candidate.refusals}
        assert {Code.DEVICE_UNSUPPORTED, Code.FEATURE_UNSUPPORTED} <= found
        assert candidate.name in str(caught.value)


def test_a_failed_explicit_backend_says_what_would_run():
    selection = explain(make_request(), environment=ZEN4, backend="nothing")
    assert Code.UNKNOWN_BACKEND in codes(selection)
    assert any("cpu/CPUExpertsInt8 would be selected" in notice for notice in selection.notices)


@pytest.mark.parametrize(
    ("backend", "code", "word"),
    [
        ("cpuu", Code.UNKNOWN_BACKEND, "did you mean 'cpu'?"),
        ("cpu/CPUExpertsInt9", Code.UNKNOWN_BACKEND, "did you mean 'CPUExpertsInt8'?"),
        ("other:cpu", Code.UNKNOWN_BACKEND, "other:cpu"),
    ],
)
def test_misspelt_backends(backend, code, word):
    selection = explain(make_request(), environment=ZEN4, backend=backend)
    assert codes(selection) == {code}
    assert word in selection.to_text()


def test_a_last_resort_warns(caplog):
    with caplog.at_level(logging.DEBUG, logger="moe_select"):
        select(make_request(), environment=ZEN4, backend="reference")
    assert [record.levelname for record in caplog.records if record.levelno >= logging.INFO] == ["WARNING"]


def test_logged_once_a_decision(caplog):
    with caplog.at_level(logging.DEBUG, logger="moe_select"):
        for layer in range(5):
            select(make_request(layer=f"layers.{layer}"), environment=ZEN4)
    chosen = [record for record in caplog.records if record.levelno == logging.INFO]
    refused = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert len(chosen) == 1
    assert "cpu/CPUExpertsInt8" in chosen[0].getMessage()
    assert {record.getMessage().split()[0] for record in refused} == {
        "cpu/CPUExpertsInt8WeightOnly",
        "cpu/CPUUnquantizedExperts",
        "triton/BatchedTritonExperts",
        "triton/TritonExperts",
    }


def test_equal_requests_share_a_decision():
    assert select(make_request(), environment=ZEN4) is select(make_request(), environment=ZEN4)
    moe_select.clear_caches()
    assert select(make_request(), environment=ZEN4) == select(make_request(), environment=ZEN4)


def test_the_second_call_decides_nothing(monkeypatch):
    select(make_request(), environment=ZEN4)
    monkeypatch.setattr("moe_select.selection.api.decide", None)
    assert select(make_request(), environment=ZEN4).backend == "cpu"


def test_policy_files_are_read_again_when_they_change(tmp_path):
    import os

    path = tmp_path / "p.yaml"
    path.write_text("version: 1\n")
    assert select(make_request(), environment=ZEN4, policy=path).backend == "cpu"
    path.write_text("version: 1\nrules: [{name: never, deny: [cpu]}]\n")
    os.utime(path, ns=(1, 1))
    assert not explain(make_request(), environment=ZEN4, policy=path).ok


def test_reports_travel_between_processes():
    selection = select(make_request(), environment=ZEN4)
    assert pickle.loads(pickle.dumps(selection)) == selection
    assert copy.deepcopy(selection) == selection
    with pytest.raises(SelectionError) as caught:
        select(make_request(), environment=preset("t4"))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_candidates_print_nearest_miss_first():
    rules = [{"name": "try", "prefer": ["reference"]}, {"name": "never", "deny": ["reference"]}]
    selection = explain(make_request(), environment=preset("t4"), policy={"version": 1, "rules": rules})
    assert [candidate.backend for candidate in selection.refused[:2]] == ["reference", "reference"]
    assert selection.refused[-1].backend == "cpu"

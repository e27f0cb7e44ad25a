"""What an operator reads: everything is there, in the right order, and nothing does anything to the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moe_select.errors import SelectionError
from moe_select.policy.model import ExplicitBackend, Origin
from moe_select.reporting.text import WIDTH, selection_to_line, selection_to_text, wrapped
from moe_select.support import Code, Refusal
from moe_select.vocabulary import MoEConfig

OUTCOMES = {
    "no candidates": (
        {"candidates": ()},
        "no backend for layer model.layers.3.mlp.experts: the policy has no candidates for it",
    ),
    "no layer name": ({"request": MoEConfig()}, "no backend can run this MoE layer: all 3 candidates refused"),
    "explicit": (
        {"explicit": ExplicitBackend("cpu", Origin("MOE_SELECT_BACKEND"))},
        "the explicit backend 'cpu' (MOE_SELECT_BACKEND) cannot run layer model.layers.3.mlp.experts",
    ),
    "auto": (
        {"explicit": ExplicitBackend("auto", Origin("MOE_SELECT_BACKEND"))},
        "no backend can run layer model.layers.3.mlp.experts: all 3 candidates refused",
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_first_line_is_the_outcome(build, name):
    changes, expected = OUTCOMES[name]
    assert selection_to_text(build["refused"](**changes)).splitlines()[0] == expected


def test_one_refused_candidate_is_not_all(build):
    selection = build["refused"](candidates=build["refused"]().candidates[:1])
    assert selection_to_text(selection).splitlines()[0].endswith("experts: 1 candidate refused")


def test_exception_text_is_the_report(build):
    selection = build["refused"]()
    assert str(SelectionError(selection)) == selection_to_text(selection)


def test_every_reason_and_remedy_is_there(report):
    _, selection = report
    text = " ".join(selection_to_text(selection).split())
    for candidate in selection.candidates:
        assert candidate.name in text
        assert str(candidate.origin) in text
        for refusal in candidate.refusals:
            assert f"{refusal.code.value}: {refusal.detail}" in text
            if refusal.remedy:
                assert f"→ {refusal.remedy}" in text
        for unproven in candidate.unproven:
            assert str(unproven) in text
    for notice in selection.notices:
        assert notice in text
    for fingerprint in (selection.fingerprint, selection.policy_fingerprint, selection.registry_fingerprint):
        assert fingerprint in text


def test_nearest_miss_comes_first(build):
    text = selection_to_text(build["refused"]())
    places = [text.index(f"\n  {name} ") for name in ("triton/TritonExperts", "acme", "cpu/CpuInt8Experts")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "rule 'small-layers' prefers it: prepacking pays off below 4096"),
        ({"deciding": Origin("/etc/moe_select/backends.yaml", 12, 27)}, "listed in scheme 'int8' first"),
        (
            {"explicit": ExplicitBackend("cpu", Origin("--backend")), "deciding": Origin("--backend")},
            "explicit backend 'cpu'",
        ),
    ],
)
def test_why_the_winner_is_the_winner(build, changes, expected):
    selection = build["selected"](**changes)
    line = next(line for line in selection_to_text(selection).splitlines() if line.startswith("decided by "))
    assert line == f"decided by {selection.deciding}: {expected}"


def test_a_winner_behind_refused_ones_says_so(build):
    first = build["selected"]()
    winner = replace(first.winner, effects=())
    candidates = (first.candidates[2], winner)
    text = selection_to_text(build["selected"](candidates=candidates, winner=winner, deciding=winner.origin))
    assert "listed in scheme 'int8', nothing before it can run" in text


HOSTILE = "\x1b[31mred\x1b[0m\nsecond line\r\x07 \u202e"


def hostile(build):
    refusal = Refusal(Code.PLUGIN_BROKEN, f"raised {HOSTILE}", f"ask {HOSTILE}")
    selection = build["refused"]()
    candidate = replace(selection.candidates[0], refusals=(refusal,), backend=HOSTILE)
    return build["refused"](
        request=MoEConfig(layer=HOSTILE, model=HOSTILE), candidates=(candidate,), notices=(HOSTILE,), scheme=HOSTILE
    )


def test_nothing_of_a_name_or_message_reaches_the_terminal(build):
    text = selection_to_text(hostile(build))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert not any(line.startswith("second line") for line in text.splitlines())


def test_the_log_line_is_one_line(build, report):
    for selection in (report[1], hostile(build)):
        line = selection_to_line(selection)
        assert line.isprintable()
        assert len(line.splitlines()) == 1


def test_the_log_line_names_what_matters(build):
    line = selection_to_line(build["refused"]())
    for words in ("int8_static_channel_sym", "E=128 topk=8 H=2048 I=768", "NVIDIA H200", "acme (not_installed)"):
        assert words in line
    assert "cpu/CpuInt8Experts (device_unsupported, feature_unsupported)" in line


def test_a_code_is_named_once_a_candidate(build):
    selection = build["refused"]()
    twice = replace(selection.candidates[0], refusals=selection.candidates[0].refusals[:1] * 2)
    assert "cpu/CpuInt8Experts (device_unsupported)" in selection_to_line(build["refused"](candidates=(twice,)))


def test_lines_fit(report):
    _, selection = report
    assert max(map(len, selection_to_text(selection).splitlines())) <= WIDTH


def test_long_details_wrap_under_themselves(build):
    selection = build["refused"]()
    detail = "supported weights: " + ", ".join(f"some_quant_key_{i}" for i in range(40))
    candidate = replace(selection.candidates[0], refusals=(Refusal(Code.QUANT_UNSUPPORTED, detail),))
    lines = selection_to_text(build["refused"](candidates=(candidate,))).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("    - quant_unsupported"))
    assert lines[start + 1].startswith("      some_quant_key_")
    assert max(map(len, lines)) <= WIDTH


def test_a_path_is_never_broken():
    path = "/" + "x" * 200
    assert path in "\n".join(wrapped(f"see {path} there", first="", rest="  "))

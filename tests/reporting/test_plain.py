"""The report as plain data."""

from __future__ import annotations

import json
from datetime import date

import pytest

from moe_select.environment import Environment
from moe_select.plugins.types import Provider
from moe_select.policy.model import Origin
from moe_select.reporting.plain import plain, provider_to_dict, request_to_dict, selection_to_dict
from moe_select.selection.report import Candidate
from moe_select.support import Verdict
from moe_select.vocabulary import MoEConfig


def test_survives_json(report):
    _, selection = report
    data = selection_to_dict(selection)
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_request_and_environment_read_back(report):
    _, selection = report
    data = selection_to_dict(selection)
    assert MoEConfig(**data["request"]) == selection.request
    assert Environment(**data["environment"]) == selection.environment


def test_every_field_of_the_request_is_there():
    assert set(request_to_dict(MoEConfig())) == set(MoEConfig.model_fields)


def test_quant_keys_are_spelled_canonically():
    request = MoEConfig(weight_key="kInt8StaticChannelSym")
    data = request_to_dict(request)
    assert (data["weight_key"], data["activation_key"]) == ("int8_static_channel_sym", "none")


def test_candidates_keep_their_order_and_all_they_say(report):
    _, selection = report
    data = selection_to_dict(selection)
    assert [candidate["name"] for candidate in data["candidates"]] == [c.name for c in selection.candidates]
    for found, candidate in zip(data["candidates"], selection.candidates, strict=True):
        assert [item["code"] for item in found["refusals"]] == [refusal.code.value for refusal in candidate.refusals]
        assert [item["remedy"] for item in found["refusals"]] == [refusal.remedy for refusal in candidate.refusals]
        assert [item["fact"] for item in found["unproven"]] == [unproven.fact for unproven in candidate.unproven]
        assert [item["rule"] for item in found["effects"]] == [effect.rule for effect in candidate.effects]
        assert found["verdict"] == candidate.verdict.value
        assert found["options"] == candidate.options


def test_winner_is_found_among_namesakes(build):
    """Two distributions may provide one name and one class name."""
    first, second = (
        Candidate(
            backend="cpu",
            experts="Experts",
            provider=Provider("cpu", name, "1.0"),
            verdict=Verdict.SUPPORTED,
            origin=Origin("f", 1, 1),
        )
        for name in ("a", "b")
    )
    data = selection_to_dict(build["selected"](candidates=(first, second), winner=second))
    assert data["winner"]["candidate"] == 1
    assert data["candidates"][1]["provider"] == provider_to_dict(second.provider)


def test_fingerprint_depends_on_the_reasons(build):
    one = build["refused"]()
    assert one.fingerprint == build["refused"]().fingerprint
    assert one.fingerprint != build["refused"](notices=()).fingerprint
    assert one.fingerprint != build["refused"](candidates=one.candidates[:2]).fingerprint
    assert one.fingerprint != build["refused"](policy_fingerprint="c" * 16).fingerprint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("text", "text"),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({1: {"x": {2}}}, {"1": {"x": [2]}}),
        (date(2020, 1, 2), "2020-01-02"),
    ],
)
def test_plain(value, expected):
    assert plain(value) == expected

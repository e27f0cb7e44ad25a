"""Merging layers, origins, round trips, the schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_select.errors import PolicyError
from moe_select.plugins import default_registry
from moe_select.policy import (
    FIELDS,
    default_policy,
    effective_values,
    facts,
    lint,
    load_policy,
    parse_policy,
    policy_to_yaml,
    schema,
)
from moe_select.testing import make_environment, make_request

ROOT = Path(__file__).parents[2]


def load(*layers, environ=None):
    return load_policy(environ=environ or {}, extra=layers, registry=default_registry())


def backends(policy, scheme="int8"):
    return [target.text for target in policy.schemes[scheme].backends]


def test_the_default_policy_is_the_file_at_the_top():
    assert (ROOT / "backends.yaml").read_text() == (ROOT / "moe_select" / "backends.yaml").read_text()
    assert list(default_policy().schemes) == ["unquantized", "int8"]
    assert not lint(ROOT / "backends.yaml", default_registry())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["reference"], ["reference"]),
        (["reference", "..."], ["reference", "triton", "cpu"]),
        (["...", "reference"], ["triton", "cpu", "reference"]),
        ([], []),
    ],
)
def test_lists_replace_and_splice(written, expected):
    assert backends(load({"version": 1, "schemes": {"int8": {"backends": written}}})) == expected


def test_rules_append_and_a_known_name_replaces():
    first = {"version": 1, "rules": [{"name": "a", "deny": ["cpu"]}, {"name": "b", "deny": ["cpu"]}]}
    second = {"version": 1, "rules": [{"name": "a", "prefer": ["cpu"]}, {"name": "c", "deny": ["cpu"]}]}
    policy = load(first, second)
    assert [(rule.name, bool(rule.deny)) for rule in policy.rules] == [("a", False), ("b", True), ("c", True)]
    switched_off = load(first, {"version": 1, "rules": [{"name": "a", "enabled": False}]})
    assert [rule.name for rule in switched_off.rules] == ["b"]


def test_layers_from_weakest_to_strongest(tmp_path):
    user, named = tmp_path / "moe_select" / "backends.yaml", tmp_path / "named.yaml"
    user.parent.mkdir()
    user.write_text("version: 1\nbackend: cpu\n")
    named.write_text("version: 1\nbackend: reference\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert load(environ=environ).backend.name == "cpu"
    environ["MOE_SELECT_CONFIG"] = str(named)
    assert load(environ=environ).backend.name == "reference"
    environ["MOE_SELECT_BACKEND"] = "auto"
    assert load(environ=environ).backend.is_auto
    assert load({"version": 1, "backend": "cpu"}, environ=environ).backend.name == "cpu"


def test_variables_make_rules():
    policy = load(environ={"MOE_SELECT_DENY": "cpu/*WeightOnly, reference", "MOE_SELECT_PREFER": "cpu"})
    found = {rule.name: rule for rule in policy.rules}
    assert [target.text for target in found["MOE_SELECT_DENY"].deny] == ["cpu/*WeightOnly", "reference"]
    assert [target.text for target in found["MOE_SELECT_PREFER"].prefer] == ["cpu"]


def test_a_working_directory_is_never_searched(tmp_path, monkeypatch):
    (tmp_path / "backends.yaml").write_text("this: is not a policy")
    monkeypatch.chdir(tmp_path)
    assert load().fingerprint == default_policy().fingerprint


def test_every_value_has_an_origin(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\nschemes:\n  int8:\n    backends: [reference, ...]\n")
    values = {item.path: str(item.origin) for item in effective_values(load(path))}
    assert values["schemes.int8.backends[0]"] == f"{path}:4:16"
    assert values["schemes.int8.backends[1]"].startswith("moe_select/backends.yaml:")


def test_declared_backends_that_are_absent_are_no_errors():
    policy = load(
        {
            "version": 1,
            "backends": {"acme": {"install": "pip install acme-moe"}},
            "schemes": {"int8": {"backends": ["acme", "..."]}},
        }
    )
    assert backends(policy) == ["acme", "triton", "cpu"]


def test_written_policies_read_back():
    text = """
version: 1
backend: auto
backends: {acme: {install: pip install acme-moe}}
schemes: {int8: {match: [[int8_static_channel_sym, none]], aliases: {a: cpu}, backends: [acme, cpu]}}
rules:
  - {name: r, when: {capability: "9.*", topk: [2, ">=8"], not: {layer: "model.*"}}, deny: ["c*"], reason: because}
  - {name: o, when: {libraries: {triton: none}}, options: {acme: {tile: 3}}}
"""
    policy = parse_policy(text)
    again = parse_policy(policy_to_yaml(policy))
    assert again.fingerprint == policy.fingerprint
    assert policy_to_yaml(again) == policy_to_yaml(policy)


WORDS = st.sampled_from(["cpu", "reference", "cpu/*", "*"])
RULES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcdef")},
        optional={
            "deny": st.lists(WORDS, min_size=1, max_size=2, unique=True),
            "prefer": st.lists(WORDS, min_size=1, max_size=2, unique=True),
            "when": st.fixed_dictionaries(
                {}, optional={"topk": st.sampled_from([1, "<=4", ["2", ">=8"]]), "lora": st.booleans()}
            ),
            "reason": st.text("abc:#'\" ", min_size=1, max_size=9),
        },
    ),
    max_size=4,
    unique_by=lambda rule: rule["name"],
)


@settings(max_examples=150, deadline=None)
@given(RULES)
def test_any_policy_round_trips_or_is_refused_with_places(rules):
    text = yaml.safe_dump({"version": 1, "rules": rules})
    try:
        policy = parse_policy(text, "p.yaml")
    except PolicyError as error:
        assert all(problem.line for problem in error.problems)
        return
    assert parse_policy(policy_to_yaml(policy)).fingerprint == policy.fingerprint


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_no_text_raises_anything_else(text):
    for problem in lint("p.yaml", default_registry(), text=text):
        assert problem.render()


def test_schema_accepts_what_we_read_and_refuses_misspellings():
    validator = jsonschema.Draft202012Validator(schema(default_registry()))
    validator.check_schema(validator.schema)
    validator.validate(yaml.safe_load((ROOT / "backends.yaml").read_text()))
    validator.validate(yaml.safe_load((ROOT / "examples" / "policy.yaml").read_text()))
    for wrong in ({"version": 1, "rulez": []}, {"version": 2}, {"version": 1, "rules": [{"name": "r"}]}):
        assert not validator.is_valid(wrong)
    assert "CPUExpertsInt8" in json.dumps(validator.schema)


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.unavailable is None])
def test_every_condition_has_a_fact(name):
    request = make_request(layer="l", model="m", max_tokens=4, swiglu_limit=1.0)
    assert name in facts(request, make_environment("h200"), "int8")


@pytest.mark.parametrize(
    ("condition", "environment", "holds"),
    [
        ({"capability": ">=8.0,<9"}, "a100", True),
        ({"capability": ">=8.0,<9"}, "h200", False),
        ({"capability": "9.*"}, "mi300x", False),
        ({"not": {"capability": "9.*"}}, "mi300x", False),
        ({"arch": "gfx94*"}, "mi300x", True),
        ({"memory_gib": "<24"}, "t4", True),
        ({"device": ["cuda", "rocm"]}, "zen4", False),
        ({"cpu_features": "avx512_vnni,amx_*"}, "sapphirerapids", True),
        ({"cpu_features": "avx512_vnni,amx_*"}, "zen4", False),
        ({"libraries": {"triton": ">=3"}}, "h200", True),
        ({"libraries": {"acme": "none"}}, "h200", True),
        ({"weight_key": "int8_static_channel_sym", "topk": "<=8"}, "zen4", True),
        ({"layer": "model.*"}, "zen4", False),
    ],
)
def test_conditions(condition, environment, holds):
    policy = parse_policy(yaml.safe_dump({"version": 1, "rules": [{"name": "r", "when": condition, "deny": ["cpu"]}]}))
    known = facts(make_request(), make_environment(environment), None)
    assert policy.rules[0].when.matches(known) is holds

"""Every kind of YAML error, as a user sees it: golden files, one a mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moe_select.errors import PolicyError
from moe_select.plugins import default_registry
from moe_select.policy import lint, load_policy, parse_policy

GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "empty": "",
    "not_a_map": "- version: 1\n",
    "version_missing": "rules: []\n",
    "version_wrong": "version: 2\n",
    "unknown_key": "version: 1\nrulez: []\n",
    "unknown_key_in_rule": "version: 1\nrules:\n  - {name: r, prefre: [cpu]}\n",
    "unknown_scheme_key": "version: 1\nschemes:\n  int8: {backend: [cpu]}\n",
    "duplicate_key": "version: 1\nrules: []\nrules: []\n",
    "duplicate_rule": "version: 1\nrules:\n  - {name: r, deny: [cpu]}\n  - {name: r, deny: [reference]}\n",
    "unknown_backend": "version: 1\nrules:\n  - {name: r, prefer: [cpuu]}\n",
    "unknown_class": "version: 1\nrules:\n  - {name: r, prefer: [cpu/CPUExpertsInt9]}\n",
    "unknown_quant_key": "version: 1\nschemes:\n  int8: {match: [[int8_static_chanel_sym, none]]}\n",
    "pair_of_one": "version: 1\nschemes:\n  int8: {match: [[none]]}\n",
    "pair_claimed_twice": "version: 1\nschemes:\n  mine: {match: [[none, none]], backends: [cpu]}\n",
    "unknown_condition": "version: 1\nrules:\n  - {name: r, when: {capabilty: '9.*'}, deny: [cpu]}\n",
    "condition_of_wrong_type": "version: 1\nrules:\n  - {name: r, when: {topk: many, lora: maybe}, deny: [cpu]}\n",
    "unknown_scheme_in_condition": "version: 1\nrules:\n  - {name: r, when: {scheme: int9}, deny: [cpu]}\n",
    "num_tokens": "version: 1\nrules:\n  - {name: decode, when: {num_tokens: '<=64'}, prefer: [cpu]}\n",
    "options_not_taken": "version: 1\nrules:\n  - {name: r, options: {cpu: {threads: 2}}}\n",
    "rule_without_verb": "version: 1\nrules:\n  - {name: r, when: {lora: true}}\n",
    "rule_without_name": "version: 1\nrules:\n  - {deny: [cpu]}\n",
    "unquoted_comparison": "version: 1\nrules:\n  - name: r\n    when:\n      capability: >=8.0\n    deny: [cpu]\n",
    "unquoted_star": "version: 1\nrules:\n  - name: r\n    deny: [*]\n",
    "anchor": "version: 1\nrules: &a []\n",
    "python_tag": "version: 1\nrules: !!python/object/apply:os.system ['true']\n",
    "tab": "version: 1\nrules:\n\t- {}\n",
    "unclosed": "version: 1\nrules: [{name: r\n",
    "two_documents": "version: 1\n---\nversion: 1\n",
    "auto_in_a_list": "version: 1\nschemes:\n  int8: {backends: [auto]}\n",
    "pattern_as_candidate": "version: 1\nschemes:\n  int8: {backends: ['*']}\n",
    "everything_at_once": "version: 1\nrulez: []\nschemes:\n  int8: {match: [[int9, none]], backends: [cpuu]}\nrules:\n"
    "  - {name: r, when: {topk: x}, deny: [cpuu]}\n",
}


@pytest.mark.parametrize("name", CASES)
def test_errors_as_they_are_printed(name):
    problems = lint("backends.yaml", default_registry(), text=CASES[name])
    assert any(problem.is_error for problem in problems)
    assert all(problem.source == "backends.yaml" for problem in problems)
    shown = "\n\n".join(problem.render() for problem in problems) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MOE_SELECT_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_all_problems_are_reported_at_once():
    with pytest.raises(PolicyError) as caught:
        load_policy(environ={}, extra=[], registry=default_registry()) and parse_policy(CASES["everything_at_once"])
    assert len(caught.value.problems) >= 3


def test_problems_of_all_layers_are_reported_together(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("version: 1\nrulez: []\n")
    second.write_text("version: 3\n")
    environ = {"MOE_SELECT_CONFIG": str(first), "MOE_SELECT_BACKND": "cpu"}
    with pytest.raises(PolicyError) as caught:
        load_policy(environ=environ, extra=[second], registry=default_registry())
    text = str(caught.value)
    for part in (f"{first}:2:1", f"{second}:1:10", "MOE_SELECT_BACKND", "did you mean 'MOE_SELECT_BACKEND'?"):
        assert part in text


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(PolicyError, match="named by MOE_SELECT_CONFIG"):
        load_policy(environ={"MOE_SELECT_CONFIG": str(tmp_path / "none.yaml")})

"""The decision: rules, verdicts, origins. Policies as text, answers as data."""

from __future__ import annotations

import pytest

from moe_select import Backend, Code, ModularExperts, Registry, Support, Verdict, hookimpl, preset
from moe_select.plugins import Provider
from moe_select.policy import ExplicitBackend, Origin, parse_policy
from moe_select.selection import decide
from moe_select.support import any_device, cuda
from moe_select.testing import make_request
from moe_select.vocabulary.quant_keys import kInt8DynamicTokenSym, kInt8StaticChannelSym


def experts(name, *, devices=(any_device(),), last_resort=False, raises=False):
    def refusals(cls, request, environment, options):
        if raises:
            raise KeyError("secret")
        return ()

    body = {
        "__doc__": name,
        "support": Support(
            devices=devices, quant={(kInt8StaticChannelSym, kInt8DynamicTokenSym)}, activations={"silu"}
        ),
        "last_resort": last_resort,
        "prepare_weights": lambda self, weights: weights,
        "apply": lambda self, out, inputs, prepared, workspace: None,
        "refusals": classmethod(refusals),
    }
    return type(name, (ModularExperts,), body)


def plugin(*backends):
    class Plugin:
        @hookimpl
        def moe_select_backends(self):
            return [Backend(name=name, experts=classes) for name, classes in backends]

    return Plugin()


REGISTRY = Registry.from_plugins(
    (
        plugin(
            ("fast", (experts("FastExperts", devices=(cuda(">=9.0"),)),)),
            ("plain", (experts("PlainExperts"), experts("PlainOtherExperts"))),
            ("slow", (experts("SlowExperts", last_resort=True),)),
            ("bug", (experts("BugExperts", raises=True),)),
        ),
        Provider("main", "main-dist", "1.0"),
    ),
    (plugin(("plain", (experts("ForeignExperts"),))), Provider("other", "other-dist", "2.0")),
)
HEAD = """\
version: 1
schemes:
  int8:
    match: [[int8_static_channel_sym, int8_dynamic_token_sym]]
    aliases: {engine-name: main-dist:plain}
    backends: [%s]
"""


def run(backends="fast, main-dist:plain", rules="", environment="h200", explicit=None, **request):
    text = HEAD % backends + ("rules:\n" + rules if rules else "")
    asked = ExplicitBackend(explicit, Origin("test")) if explicit else None
    return decide(make_request(**request), preset(environment), parse_policy(text, "p.yaml"), REGISTRY, asked)


@pytest.mark.parametrize(
    ("changes", "winner", "deciding"),
    [
        ({}, "fast/FastExperts", "p.yaml:6:16"),
        ({"environment": "a100"}, "plain/PlainExperts", "p.yaml:6:22"),
        ({"rules": "  - {name: r, demote: [fast]}\n"}, "plain/PlainExperts", "p.yaml:6:22"),
        ({"rules": "  - {name: r, prefer: ['main-dist:plain']}\n"}, "plain/PlainExperts", "p.yaml:8:12"),
        (
            {"rules": "  - {name: r, deny: ['*/FastExperts', '*/PlainExperts']}\n"},
            "plain/PlainOtherExperts",
            "p.yaml:6:22",
        ),
        ({"rules": "  - {name: r, require: ['other-dist:plain']}\n"}, "plain/ForeignExperts", "p.yaml:8:12"),
        ({"rules": "  - {name: r, when: {capability: '>=9'}, deny: [fast]}\n"}, "plain/PlainExperts", "p.yaml:6:22"),
        ({"rules": "  - {name: r, when: {role: draft}, deny: [fast]}\n"}, "fast/FastExperts", "p.yaml:6:16"),
        (
            {"rules": "  - {name: r, when: {role: draft}, deny: [fast]}\n", "role": "draft"},
            "plain/PlainExperts",
            "p.yaml:6:22",
        ),
        ({"rules": "  - {name: r, when: {not: {topk: '<=4'}}, deny: [fast]}\n"}, "fast/FastExperts", "p.yaml:6:16"),
        ({"backends": "slow, main-dist:plain"}, "plain/PlainExperts", "p.yaml:6:22"),
        ({"backends": "slow"}, "slow/SlowExperts", "p.yaml:6:16"),
        ({"explicit": "engine_name"}, "plain/PlainExperts", "test"),
        ({"explicit": "main-dist:plain/PlainOtherExperts"}, "plain/PlainOtherExperts", "test"),
        ({"backends": "bug, fast"}, "fast/FastExperts", "p.yaml:6:21"),
    ],
)
def test_winner(changes, winner, deciding):
    selection = run(**changes)
    assert (selection.winner.name, str(selection.deciding)) == (winner, deciding)


def codes_of(selection, name):
    candidate = next(c for c in selection.candidates if c.name == name)
    return [refusal.code for refusal in candidate.refusals]


@pytest.mark.parametrize(
    ("changes", "name", "codes"),
    [
        ({"rules": "  - {name: r, deny: [fast], reason: hangs}\n"}, "fast/FastExperts", [Code.DENIED_BY_POLICY]),
        ({"rules": "  - {name: r, require: ['main-dist:plain']}\n"}, "fast/FastExperts", [Code.EXCLUDED_BY_REQUIRE]),
        ({"backends": "bug, fast"}, "bug/BugExperts", [Code.PLUGIN_BROKEN]),
        ({"backends": "plain"}, "plain", [Code.AMBIGUOUS_BACKEND]),
        ({"backends": "absent"}, "absent", [Code.UNKNOWN_BACKEND]),
        ({"rules": "  - {name: r, options: {fast: {tile: 3}}}\n"}, "fast/FastExperts", [Code.OPTION_MISMATCH]),
        (
            {"lora": True, "activation": "gelu", "environment": "a100"},
            "fast/FastExperts",
            [Code.DEVICE_UNSUPPORTED, Code.ACTIVATION_UNSUPPORTED, Code.FEATURE_UNSUPPORTED],
        ),
    ],
)
def test_refusals(changes, name, codes):
    assert codes_of(run(**changes), name) == codes


def test_a_reason_of_a_rule_reaches_the_report():
    assert (
        "hangs with driver 570" in run(rules="  - {name: r, deny: [fast], reason: hangs with driver 570}\n").to_text()
    )


def test_a_pattern_never_brings_a_last_resort():
    selection = run(backends="fast", rules="  - {name: r, prefer: ['s*']}\n", environment="a100")
    assert not selection.ok
    assert any("matched no candidate" in notice for notice in selection.notices)


def test_a_raising_predicate_says_who_raised():
    text = run(backends="bug").to_text()
    assert "KeyError: 'secret'" in text
    assert "main-dist 1.0" in text


def test_unknown_facts_abstain():
    selection = run(hidden_dim=None, intermediate_size=None, num_experts=None, topk=None)
    assert selection.winner.verdict is Verdict.SUPPORTED


def test_a_pair_without_a_scheme_is_a_refusal():
    selection = run(weight_key="mxfp4_static", activation_key=None)
    assert not selection.ok
    assert "no scheme of the policy matches" in selection.to_text()

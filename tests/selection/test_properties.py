"""What holds for every request: an answer with reasons, never another exception; same inputs, same bytes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moe_select
from moe_select import Activation, ActivationFormat, MoEConfig, RoutingMethod, explain, preset, preset_names
from moe_select.errors import RequestError, SelectionError
from moe_select.plugins import Provider, default_registry
from moe_select.policy import default_policy, parse_policy
from moe_select.selection import decide
from moe_select.support import Verdict
from moe_select.vocabulary.quant_keys import NAMED_KEYS

KEYS = st.sampled_from([None, *NAMED_KEYS.values()])
SIZES = st.sampled_from([None, 1, 2, 8, 37, 64, 128, 2048])
FIELDS = {
    "num_experts": SIZES,
    "topk": st.sampled_from([None, 1, 2, 8]),
    "hidden_dim": SIZES,
    "intermediate_size": SIZES,
    "weight_key": KEYS,
    "activation_key": KEYS,
    "activation": st.sampled_from(Activation),
    "in_dtype": st.sampled_from(["bfloat16", "float16", "float32", "float64"]),
    "activation_format": st.sampled_from([None, *ActivationFormat]),
    "routing_method": st.sampled_from(RoutingMethod),
    "lora": st.booleans(),
    "bias": st.booleans(),
    "batch_invariant": st.booleans(),
    "deterministic": st.booleans(),
    "hash_routing": st.booleans(),
    "decomposed_routing": st.booleans(),
    "swiglu_limit": st.sampled_from([None, 7.0]),
    "layer": st.sampled_from([None, "model.layers.0.mlp"]),
}
BACKENDS = st.sampled_from(
    [None, "auto", "cpu", "reference", "cpu/CPUExpertsInt8", "nothing", "moe-select:cpu", "*", ""]
)


def build(fields):
    try:
        return MoEConfig(**fields)
    except RequestError:
        return None


REQUESTS = st.fixed_dictionaries({}, optional=FIELDS).map(build).filter(bool)


@settings(max_examples=300, deadline=None)
@given(REQUESTS, st.sampled_from(preset_names()), BACKENDS)
def test_every_request_is_answered(request, name, backend):
    selection = explain(request, environment=preset(name), policy=default_policy(), backend=backend)
    for candidate in selection.candidates:
        assert (candidate.verdict is Verdict.REFUSED) == bool(candidate.refusals)
    json.loads(selection.to_json())
    assert selection.to_text()
    assert selection.log_line()
    assert MoEConfig.model_validate(selection.to_dict()["request"]) == request
    if selection.winner is None:
        with pytest.raises(SelectionError):
            moe_select.select(request, environment=preset(name), policy=default_policy(), backend=backend)


@settings(max_examples=200, deadline=None)
@given(REQUESTS, st.sampled_from(preset_names()), st.sampled_from(["cpu", "reference"]))
def test_require_selects_it_or_refuses(request, name, backend):
    text = (
        f"version: 1\nschemes:\n  all:\n    match: [[none, none]]\n    backends: [cpu, reference]\n"
        f"rules:\n  - name: only\n    require: [{backend}]\n"
    )
    selection = explain(request, environment=preset(name), policy=parse_policy(text))
    assert selection.backend in (backend, None)
    assert selection.winner is not None or all(candidate.refusals for candidate in selection.candidates)


@settings(max_examples=100, deadline=None)
@given(REQUESTS)
def test_requests_round_trip(request):
    assert MoEConfig.model_validate_json(request.model_dump_json()) == request


@settings(max_examples=50, deadline=None)
@given(REQUESTS, st.sampled_from(preset_names()), st.randoms())
def test_plugin_order_does_not_show(request, name, rng):
    import moe_select_cpu
    import moe_select_reference

    plugins = [
        (moe_select_cpu, Provider("cpu", "a", "1")),
        (moe_select_reference, Provider("reference", "b", "1")),
    ]
    first = moe_select.Registry.from_plugins(*plugins)
    random.Random(rng.random()).shuffle(plugins)
    second = moe_select.Registry.from_plugins(*reversed(plugins))
    reports = [decide(request, preset(name), default_policy(), registry).to_json() for registry in (first, second)]
    assert reports[0] == reports[1]


def test_predicates_are_pure():
    """In a process where reading the environment, or importing torch, raises."""
    code = """
import sys
import moe_select
from moe_select.plugins import default_registry
from moe_select.policy import default_policy
from moe_select.selection import decide
registry, policy = default_registry(), default_policy()
presets = [moe_select.preset(name) for name in moe_select.preset_names()]
class Forbidden(dict):
    def __getitem__(self, name): raise AssertionError(name)
    get = __contains__ = __iter__ = __getitem__
import os
os.environ = Forbidden()
assert 'torch' not in sys.modules
sys.modules['torch'] = sys.modules['triton'] = None
count = 0
for environment in presets:
    for registered in registry.backends:
        for experts in registered.backend.experts:
            for weights, activations in sorted(experts.support.quant, key=str)[::7]:
                request = moe_select.MoEConfig(weight_key=weights, activation_key=activations, hidden_dim=64)
                report = decide(request, environment, policy, registry)
                list(experts.support.check(request, environment, monolithic=experts.monolithic))
                codes = {r.code.value for c in report.candidates for r in c.refusals}
                assert 'plugin_broken' not in codes, report.to_text()
                count += 1
assert count > 100
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_default_policy_never_picks_a_last_resort():
    for name in preset_names():
        for pair in ((None, None), ("int8_static_channel_sym", "int8_dynamic_token_sym")):
            selection = explain(MoEConfig(weight_key=pair[0], activation_key=pair[1]), environment=preset(name))
            assert selection.backend in ("cpu", "triton", None)
    assert default_registry().find("reference")

"""Plugins that break, in every way we could think of: none takes anything with it, and each is told by name."""

from __future__ import annotations

import sys
import textwrap

import pytest

from moe_select import Backend, Code, PluginError, PluginWarning, PolicyError, Registry, RegistryFrozenError, preset
from moe_select.plugins import default_registry, load_registry, register, reset_default_registry
from moe_select.policy import load_policy, parse_policy
from moe_select.selection import decide
from moe_select.testing import install, make_request

GOOD = """
    from moe_select import Backend, ModularExperts, Support, hookimpl
    from moe_select.support import any_device

    class GoodExperts(ModularExperts):
        support = Support(devices=(any_device(),), quant={(None, None)}, activations={"silu"})
        def prepare_weights(self, weights): return weights
        def apply(self, out, inputs, prepared, workspace): pass

    @hookimpl
    def moe_select_backends():
        yield Backend(name="good", experts=(GoodExperts,))
"""
BROKEN = {
    "import error": ("import no_such_module_xyz\n", "import", "No module named 'no_such_module_xyz'"),
    "syntax error": ("def (:\n", "import", "SyntaxError"),
    "exits at import": ("raise SystemExit(3)\n", "import", "SystemExit: 3"),
    "raising hook": (
        GOOD.replace('yield Backend(name="good", experts=(GoodExperts,))', "1 / 0"),
        "hook",
        "ZeroDivisionError",
    ),
    "raises half way": (GOOD + "        raise RuntimeError('later')\n", "hook", "RuntimeError: later"),
    "wrong type": (GOOD.replace("yield Backend(", "yield dict("), "declaration", "expected Backend"),
    "returns None": (
        GOOD.replace('yield Backend(name="good", experts=(GoodExperts,))', "pass"),
        "declaration",
        "returned None",
    ),
    "returns text": (
        GOOD.replace('yield Backend(name="good", experts=(GoodExperts,))', "return 'good'"),
        "declaration",
        "str",
    ),
    "name twice": (
        GOOD + "        yield Backend(name='good', experts=(GoodExperts,))\n",
        "declaration",
        "'good' twice",
    ),
    "bad name": (GOOD.replace('name="good"', 'name="Good Backend"'), "hook", "lower snake case"),
    "no experts": (GOOD.replace("(GoodExperts,)", "()"), "hook", "declares no experts"),
    "not a class": (GOOD.replace("(GoodExperts,)", "('GoodExperts',)"), "declaration", "expected an experts class"),
    "abstract class": (GOOD.replace("def apply", "def applies"), "declaration", "does not implement apply"),
    "no support": (GOOD.replace("        support =", "        supports ="), "declaration", "has no `support"),
    "misspelt hook": (
        GOOD.replace("moe_select_backends", "moe_select_backend"),
        "register",
        "did you mean 'moe_select_backends'?",
    ),
    "unmarked hook": (GOOD.replace("@hookimpl", ""), "register", "@moe_select.hookimpl"),
    "wrong arguments": (GOOD.replace("moe_select_backends()", "moe_select_backends(x)"), "register", "x"),
    "no hook": ("X = 1\n", "register", "implements no hook"),
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory that modules are imported from; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def both(site, source):
    """A broken plugin beside a good one."""
    return [
        *install(site, "bad-dist", {"bad": source}, version="2.1"),
        *install(site, "good-dist", {"good": GOOD}, version="3.2"),
    ]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_one_warning(site, name):
    source, stage, cause = BROKEN[name]
    with pytest.warns(PluginWarning) as caught:
        registry = load_registry({}, both(site, source))
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "'bad' of bad-dist 2.1" in message
    assert cause in message
    assert [broken.stage for broken in registry.broken] == [stage]
    assert [item.qualified_name for item in registry.backends] == ["good-dist:good"]


@pytest.mark.parametrize("name", BROKEN)
def test_strict_mode_raises(site, name):
    with pytest.raises(PluginError, match="bad-dist 2.1"):
        load_registry({"MOE_SELECT_STRICT_PLUGINS": "1"}, both(site, BROKEN[name][0]))


def test_a_broken_plugin_that_the_policy_names_is_an_error(site):
    with pytest.warns(PluginWarning):
        registry = load_registry({}, both(site, "import no_such_module_xyz\n"))
    path = site / "p.yaml"
    path.write_text("version: 1\nrules: [{name: r, prefer: [bad]}]\n")
    with pytest.raises(PolicyError, match=r"p\.yaml:2:\d+: error: backend 'bad' is unavailable.*no_such_module_xyz"):
        load_policy(environ={}, extra=[path], registry=registry)
    text = "version: 1\nschemes: {u: {match: [[none, none]], backends: [bad, good]}}\n"
    selection = decide(make_request(weight_key=None, activation_key=None), preset("h200"), parse_policy(text), registry)
    assert selection.backend == "good"
    assert [refusal.code for refusal in selection.refused[0].refusals] == [Code.PLUGIN_BROKEN]


@pytest.mark.parametrize("name", ["bad", "bad-dist", "BAD_dist", " bad ,"])
def test_blocked_plugins_are_not_imported(site, name):
    registry = load_registry({"MOE_SELECT_DISABLE_PLUGINS": name}, both(site, "raise SystemExit\n"))
    assert "bad" not in sys.modules
    assert [provider.distribution for provider in registry.blocked] == ["bad-dist"]
    assert not registry.broken


def test_blocking_a_name_that_is_not_there_warns(site):
    with pytest.warns(PluginWarning, match="no plugin 'goood' is installed.*did you mean"):
        load_registry({"MOE_SELECT_DISABLE_PLUGINS": "goood"}, install(site, "good-dist", {"good": GOOD}))


def test_a_variable_that_cannot_be_read_is_an_error():
    with pytest.raises(PluginError, match="MOE_SELECT_STRICT_PLUGINS=yse"):
        load_registry({"MOE_SELECT_STRICT_PLUGINS": "yse"}, [])


def test_one_name_from_two_distributions(site):
    points = [*install(site, "b-dist", {"b_mod": GOOD}), *install(site, "a-dist", {"a_mod": GOOD})]
    registry = load_registry({}, points)
    assert [item.qualified_name for item in registry.find("good")] == ["a-dist:good", "b-dist:good"]
    assert [item.provider.distribution for item in registry.find("B_dist:good")] == ["b-dist"]
    assert load_registry({}, reversed(points)).fingerprint == registry.fingerprint


def test_the_same_entry_point_twice_counts_once(site):
    points = install(site, "good-dist", {"good": GOOD})
    assert len(load_registry({}, points * 2).backends) == 1


def test_late_registration():
    class Late:
        pass

    reset_default_registry()
    default_registry()
    with pytest.raises(RegistryFrozenError, match="came too late"):
        register(Late())


def test_registration_before_the_first_use(site):
    (site / "good.py").write_text(textwrap.dedent(GOOD))
    import good

    reset_default_registry()
    try:
        register(good)
        assert default_registry().find("good")
        assert default_registry().find("cpu")
    finally:
        reset_default_registry()


def test_observers_see_and_decide_nothing(site):
    source = (
        GOOD
        + """
    SEEN = []

    @hookimpl
    def moe_select_selected(selection):
        SEEN.append(selection.backend)
        raise RuntimeError("observer")
"""
    )
    registry = load_registry({}, install(site, "good-dist", {"good": source}))
    import good

    from moe_select import select

    text = "version: 1\nschemes: {u: {match: [[none, none]], backends: [good]}}\n"
    request = make_request(weight_key=None, activation_key=None)
    arguments = {"environment": preset("h200"), "policy": parse_policy(text), "registry": registry}
    with pytest.warns(PluginWarning, match="observer") as caught:
        assert select(request, **arguments).backend == "good"
        select(request, **arguments)
        select(request.replace(topk=1), **arguments)
    assert good.SEEN == ["good", "good"]
    assert len(caught) == 1


def test_a_plugin_object_without_a_package(site):
    install(site, "good-dist", {"good": GOOD})
    import good

    registry = Registry.from_plugins(good)
    assert isinstance(registry.find("good")[0].backend, Backend)
    with pytest.raises(PluginError):
        Registry.from_plugins(object())

"""The environment as a value."""

from __future__ import annotations

import pickle

import pytest

from moe_select import Device, Environment, HostCPU, preset
from moe_select.errors import InvalidEnvironmentError


def make(**changes):
    fields = {"device": {"type": "cuda", "capability": "9.0"}, "libraries": {"Triton": "3.4.0", "a_b": "1"}}
    return Environment(**{**fields, **changes})


def test_the_order_of_facts_does_not_show():
    one = make(cpu=HostCPU(features=frozenset({"avx2", "fma"})), libraries={"a": "1", "b": "2"})
    two = make(libraries=[("b", "2"), ("a", "1")], cpu=HostCPU(features={"fma", "avx2"}))
    assert one == two
    assert (hash(one), one.fingerprint) == (hash(two), two.fingerprint)


@pytest.mark.parametrize(
    "changes",
    [
        {"libraries": {}},
        {"os": "darwin"},
        {"device": {"type": "cuda", "capability": "8.9"}},
        {"cpu": HostCPU(uarch="zen4")},
    ],
)
def test_every_fact_shows_in_the_fingerprint(changes):
    assert make(**changes).fingerprint != make().fingerprint


def test_round_trips():
    for environment in (make(), preset("mi300x"), preset("zen4")):
        assert Environment.model_validate_json(environment.model_dump_json()) == environment
        assert pickle.loads(pickle.dumps(environment)) == environment


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("triton", True),
        ("triton>=3.2", True),
        ("triton>=3.5", False),
        ("TRITON==3.4.*", True),
        ("a.b", True),
        ("absent", False),
    ],
)
def test_requirements(requirement, met):
    assert make().satisfies(requirement) is met


def test_local_and_odd_versions():
    assert make(libraries={"torch": "2.13.0+cpu"}).satisfies("torch>=2.13")
    assert make(libraries={"torch": "built-from-source"}).satisfies("torch")
    assert not make(libraries={"torch": "built-from-source"}).satisfies("torch>=2")


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: Environment(), "device"),
        (lambda: Device(type="gpu"), "type"),
        (lambda: Device(type="cuda", capability="nine"), "MAJOR.MINOR"),
        (lambda: Device(type="cuda", memory_gib=-1), "memory_gib"),
        (lambda: make(cpus=1), "did you mean 'cpu'?"),
    ],
)
def test_wrong_values(build, word):
    with pytest.raises(InvalidEnvironmentError) as caught:
        build()
    assert word in str(caught.value)

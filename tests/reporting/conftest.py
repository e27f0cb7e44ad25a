"""Hand-built reports, and files with their expected renderings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from moe_select.environment import Device, DeviceType, Environment, HostCPU
from moe_select.plugins.types import Provider
from moe_select.policy.model import ExplicitBackend, Origin
from moe_select.selection.report import Candidate, Effect, Selection
from moe_select.support import Code, Refusal, Unproven, Verdict
from moe_select.vocabulary import MoEConfig, ParallelConfig

GOLDEN = Path(__file__).parent / "golden"

REQUEST = MoEConfig(
    num_experts=128,
    topk=8,
    hidden_dim=2048,
    intermediate_size=768,
    weight_key="int8_static_channel_sym",
    activation_key="int8_dynamic_token_sym",
    parallel=ParallelConfig(tp_size=2),
    lora=True,
    swiglu_limit=7.0,
    layer="model.layers.3.mlp.experts",
)
H200 = Environment(
    device=Device(type=DeviceType.CUDA, name="NVIDIA H200", capability=(9, 0), memory_gib=141),
    cpu=HostCPU(vendor="Intel", uarch="sapphirerapids", features={"avx512f", "amx_int8"}),
    libraries={"triton": "3.4.0"},
    preset="h200",
)
ZEN4 = Environment(device=Device(type=DeviceType.CPU), cpu=HostCPU(vendor="AMD", uarch="zen4"))
FILE = "/etc/moe_select/backends.yaml"
TRITON = Provider("triton", "moe-triton", "2.1.0")
CPU = Provider("cpu", "moe-select", "0.1.0")


def refused(**changes) -> Selection:
    """Three refused candidates, out of nearest-miss order, one of them not installed."""
    deny = Effect("deny", "no-triton", Origin(FILE, 40, 5), "hangs with driver 570")
    fields = {
        "request": REQUEST,
        "environment": H200,
        "scheme": "int8",
        "explicit": None,
        "candidates": (
            Candidate(
                backend="cpu",
                experts="CpuInt8Experts",
                provider=CPU,
                verdict=Verdict.REFUSED,
                origin=Origin(FILE, 12, 16),
                refusals=(
                    Refusal(Code.DEVICE_UNSUPPORTED, "device is cuda; supported: cpu"),
                    Refusal(Code.FEATURE_UNSUPPORTED, "lora requested, unsupported here: LoRA adapters on the experts"),
                ),
                unproven=(Unproven("max_tokens", "must be at most 4096"),),
            ),
            Candidate(
                backend="acme",
                experts="",
                provider=None,
                verdict=Verdict.REFUSED,
                origin=Origin(FILE, 12, 21),
                refusals=(
                    Refusal(
                        Code.NOT_INSTALLED,
                        f"backend 'acme' is declared at {FILE}:30:3 but not installed",
                        "pip install 'acme-moe[cuda]'",
                    ),
                ),
            ),
            Candidate(
                backend="triton",
                experts="TritonExperts",
                provider=TRITON,
                verdict=Verdict.REFUSED,
                origin=Origin(FILE, 12, 27),
                refusals=(
                    Refusal(
                        Code.DENIED_BY_POLICY,
                        f"denied by rule 'no-triton' ({FILE}:40:5): hangs with driver 570",
                        "change the rule to allow it",
                    ),
                ),
                effects=(deny,),
                options={"num_warps": 8, "split": "k"},
            ),
        ),
        "winner": None,
        "deciding": None,
        "notices": ("rule 'old' (/home/me/.config/moe_select/backends.yaml:7:5): prefer humming matched no candidate",),
        "policy_fingerprint": "aaaaaaaaaaaaaaaa",
        "registry_fingerprint": "bbbbbbbbbbbbbbbb",
    }
    return Selection(**{**fields, **changes})


def selected(**changes) -> Selection:
    """A winner that a rule moved to the front, an outranked last resort and a refused candidate."""
    rule = Origin("/home/me/.config/moe_select/backends.yaml", 7, 5)
    winner = Candidate(
        backend="cpu",
        experts="CpuInt8Experts",
        provider=CPU,
        verdict=Verdict.SUPPORTED,
        origin=Origin(FILE, 12, 27),
        effects=(Effect("prefer", "small-layers", rule, "prepacking pays off below 4096"),),
        options={"threads": 2},
        unproven=(Unproven("max_tokens", "must be at most 4096"),),
    )
    behind = Candidate(
        backend="reference",
        experts="ReferenceExperts",
        provider=CPU,
        verdict=Verdict.LAST_RESORT,
        origin=Origin(FILE, 12, 40),
        effects=(Effect("demote", "emulation-last", Origin(FILE, 44, 5)),),
    )
    fields = {
        "environment": ZEN4,
        "candidates": (winner, behind, refused().candidates[2]),
        "winner": winner,
        "deciding": rule,
        "notices": (),
    }
    return refused(**{**fields, **changes})


def last_resort(**changes) -> Selection:
    """Emulation that was asked for by name."""
    asked = Origin("MOE_SELECT_BACKEND")
    winner = Candidate(
        backend="reference",
        experts="ReferenceExperts",
        provider=CPU,
        verdict=Verdict.LAST_RESORT,
        origin=asked,
    )
    fields = {
        "request": MoEConfig(),
        "environment": ZEN4,
        "scheme": "unquantized",
        "explicit": ExplicitBackend("reference", asked),
        "candidates": (winner,),
        "winner": winner,
        "deciding": asked,
        "notices": ("reference/ReferenceExperts is a last resort (emulation): correct but slow",),
    }
    return refused(**{**fields, **changes})


REPORTS: dict[str, Callable[..., Selection]] = {"refused": refused, "selected": selected, "last_resort": last_resort}


@pytest.fixture(params=sorted(REPORTS))
def report(request: pytest.FixtureRequest) -> tuple[str, Selection]:
    """Each report with its name."""
    return request.param, REPORTS[request.param]()


@pytest.fixture
def build() -> dict[str, Callable[..., Selection]]:
    """The builders, for tests that change a report."""
    return REPORTS


@pytest.fixture
def check_golden() -> Callable[[str, str], None]:
    """Compare with a file; ``MOE_SELECT_UPDATE_GOLDEN=1`` writes it, a missing file fails."""

    def check(name: str, actual: str) -> None:
        path = GOLDEN / name
        if os.environ.get("MOE_SELECT_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        assert path.exists(), f"no golden file {path}; run with MOE_SELECT_UPDATE_GOLDEN=1 and read what it wrote"
        assert actual == path.read_text(encoding="utf-8")

    return check

"""Files of launch configurations: which one counts, and what happens to one that does not."""

from __future__ import annotations

import json
import warnings

import pytest

pytest.importorskip("triton")

from moe_select_triton import tuned
from moe_select_triton.config import Few, Gemm, Plan
from moe_select_triton.tuned import Shape, TunedFileWarning, load, nearest, save

SHAPE = Shape("NVIDIA H200", "w8a8", "bfloat16", 128, 8, 2048, 768, True)
PLANS = {
    1: Plan(Few(16, 512, 4, 4), Few(16, 256, 4, 4), pdl=1),
    8: Plan(Gemm(16, 64, 128, 4, 4, swap=True), Gemm(16, 128, 128, 4, 4), lookup=True),
    512: Plan(Gemm(32, 64, 128, 4, 4, bm2=16, swap=True, tma=True), Gemm(64, 128, 256, 4, 2, strip=4, tma=True)),
}
FACTS = {"triton": "3.6.0", "torch": "2.11.0", "driver": "580.159.04", "date": "2026-12-07"}


@pytest.fixture(autouse=True)
def _forget_warnings(monkeypatch):
    monkeypatch.setattr(tuned, "_WARNED", set())


def test_what_is_written_is_read(tmp_path):
    path = save(tmp_path, SHAPE, FACTS, PLANS)
    assert load(tmp_path, SHAPE, "3.6.1") == PLANS
    assert json.loads(path.read_text())["date"] == "2026-12-07"


def test_no_file_is_no_plan(tmp_path):
    assert load(tmp_path, SHAPE, "3.6.0") == {}
    assert load(None, SHAPE, "3.6.0") == {} or tuned.PACKAGED.joinpath(SHAPE.filename).is_file()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("triton", "3.9.0", "tuned with Triton 3.9, here it is 3.6"),
        ("device", "NVIDIA A100-SXM4-80GB", "device is 'NVIDIA A100-SXM4-80GB', here it is 'NVIDIA H200'"),
        ("hidden_size", 4096, "hidden_size is 4096, here it is 2048"),
    ],
)
def test_a_file_of_another_device_or_version_is_ignored_as_a_whole_with_one_warning(
    tmp_path, monkeypatch, field, value, says
):
    monkeypatch.setattr(tuned, "PACKAGED", tmp_path / "nothing")
    path = save(tmp_path, SHAPE, FACTS, PLANS)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.warns(TunedFileWarning) as caught:
        assert load(tmp_path, SHAPE, "3.6.0") == {}
    assert len(caught) == 1
    assert says in str(caught[0].message)
    assert "moe-select tune triton" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path, SHAPE, "3.6.0") == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"plans": {"1": {}}}', "not json"])
def test_a_file_that_is_none_is_a_warning(tmp_path, monkeypatch, text):
    monkeypatch.setattr(tuned, "PACKAGED", tmp_path / "nothing")
    path = save(tmp_path, SHAPE, FACTS, PLANS)
    path.write_text(text)
    with pytest.warns(TunedFileWarning, match="ignored"):
        assert load(tmp_path, SHAPE, "3.6.0") == {}


def test_packaged_files_are_read():
    for path in tuned.PACKAGED.rglob("*.json"):
        data = json.loads(path.read_text())
        shape = Shape(**{name: data[name] for name in Shape.__dataclass_fields__})
        assert path == tuned.PACKAGED / shape.filename
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load(None, shape, data["triton"])


@pytest.mark.parametrize(
    ("tokens", "plan"), [(1, 1), (2, 8), (8, 8), (20, 8), (63, 8), (64, 512), (65, 512), (10000, 512)]
)
def test_the_nearest_number_of_tokens_counts(tokens, plan):
    assert nearest(PLANS, tokens) == PLANS[plan]

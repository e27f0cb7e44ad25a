"""The reference backend: every quantization pair that has a defined dequantization, in every form."""

from __future__ import annotations

import pytest

from moe_select.kernels.storage import STORAGE
from moe_select.plugins import default_registry
from moe_select.testing import ExpertsConformance
from moe_select.vocabulary.quant_keys import NAMED_KEYS


class TestStandard(ExpertsConformance):
    backend = "reference/ReferenceExperts"


class TestBatched(ExpertsConformance):
    backend = "reference/ReferenceBatchedExperts"


class TestMonolithic(ExpertsConformance):
    backend = "reference/ReferenceMonolithicExperts"


@pytest.mark.parametrize("experts_class", default_registry().find("reference")[0].backend.experts)
def test_every_defined_weight_key_is_there(experts_class):
    """A key that gets a storage layout must get an emulation."""
    declared = {weights for weights, _ in experts_class.support.quant}
    defined = {key for key in NAMED_KEYS.values() if key.static and key.dtype in STORAGE}
    assert declared == {None, *defined}


def test_it_is_never_chosen_unless_named():
    assert all(experts_class.last_resort for experts_class in default_registry().find("reference")[0].backend.experts)

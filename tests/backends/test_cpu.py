"""The cpu backend passes the suite that a third party's would."""

from __future__ import annotations

from moe_select.testing import ExpertsConformance


class TestInt8(ExpertsConformance):
    backend = "cpu/CPUExpertsInt8"


class TestInt8OddSizes(ExpertsConformance):
    """No alignment is asked for, so none may be needed."""

    backend = "cpu/CPUExpertsInt8"
    sizes = {"num_experts": 5, "topk": 3, "hidden_dim": 37, "intermediate_size": 51}
    tokens = (2, 300)


class TestInt8WeightOnly(ExpertsConformance):
    backend = "cpu/CPUExpertsInt8WeightOnly"


class TestInt8WeightOnlyOddSizes(ExpertsConformance):
    backend = "cpu/CPUExpertsInt8WeightOnly"
    sizes = {"num_experts": 5, "topk": 3, "hidden_dim": 37, "intermediate_size": 51}
    tokens = (2, 300)


class TestUnquantized(ExpertsConformance):
    backend = "cpu/CPUUnquantizedExperts"


class TestUnquantizedOddSizes(ExpertsConformance):
    backend = "cpu/CPUUnquantizedExperts"
    sizes = {"num_experts": 5, "topk": 3, "hidden_dim": 37, "intermediate_size": 51}
    tokens = (2, 300)

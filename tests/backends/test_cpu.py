"""The cpu backend passes the suite that a third party's would."""

from __future__ import annotations

import pytest

from moe_select.testing import ExpertsConformance
from moe_select_cpu.int8 import rounded_rows, window_of


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


@pytest.mark.parametrize("length", [1, 5, 8, 9, 31, 33, 48, 128])
def test_windows_hold_their_span_and_few_sizes(length: int) -> None:
    """Every span lies in its window; a window starts in the block and has one of a few numbers of rows."""
    sizes = set()
    for start in range(length):
        for stop in range(start + 1, length + 1):
            window, inside = window_of(slice(start, stop), length)
            assert (window.start + inside.start, window.start + inside.stop) == (start, stop)
            assert window.start >= 0
            assert inside.stop <= window.stop - window.start
            assert window.stop <= max(length, rounded_rows(stop - start))
            sizes.add(window.stop - window.start)
    assert sizes <= {*range(1, 9), 16, 24, 32, *range(48, 129, 16)}

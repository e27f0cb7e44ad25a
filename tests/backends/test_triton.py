"""The triton backend passes the suite that a third party's would: on a GPU where there is one, interpreted elsewhere."""

from __future__ import annotations

import pytest

from moe_select.testing import ExpertsConformance, gpu_or_interpreter

pytest.importorskip("triton")

ENVIRONMENT, DEVICE = gpu_or_interpreter(torch="2.11", triton="3.6")


class TritonConformance(ExpertsConformance):
    environment = ENVIRONMENT
    device = DEVICE


class TestTriton(TritonConformance):
    backend = "triton/TritonExperts"


class TestTritonOddSizes(TritonConformance):
    """No alignment is asked for, so none may be needed."""

    backend = "triton/TritonExperts"
    sizes = {"num_experts": 5, "topk": 3, "hidden_dim": 37, "intermediate_size": 51}
    tokens = (2, 300)


class TestBatched(TritonConformance):
    backend = "triton/BatchedTritonExperts"


class TestBatchedOddSizes(TritonConformance):
    backend = "triton/BatchedTritonExperts"
    sizes = {"num_experts": 5, "topk": 3, "hidden_dim": 37, "intermediate_size": 51}
    tokens = (2, 100)

"""The triton backend passes the suite that a third party's would: on a GPU where there is one, interpreted elsewhere."""

from __future__ import annotations

import pytest
import torch

import moe_select
from moe_select.environment import Environment
from moe_select.testing import ExpertsConformance

pytest.importorskip("triton")

ON_GPU = torch.cuda.is_available()


def environment() -> Environment:
    """This machine, or an H200 whose tensors lie on the host."""
    if ON_GPU:
        return moe_select.probe()
    return moe_select.preset("h200").with_libraries(torch="2.11", triton="3.6").replace(tensors_on="cpu")


class TritonConformance(ExpertsConformance):
    environment = environment()
    device = "cuda" if ON_GPU else "cpu"


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

"""Routing methods, by hand and by their defining properties."""

from __future__ import annotations

import math

import pytest
import torch

from moe_select.errors import BuildError
from moe_select.kernels.routing import Router
from moe_select.vocabulary import RoutingMethod

LOGITS = torch.tensor([[0.0, 1.0, 2.0, -1.0]])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(i):
    return math.exp(LOGITS[0, i]) / sum(math.exp(v) for v in LOGITS[0])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("default", [softmax(2), softmax(1)]),
        ("renormalize", [sigmoid(1), sigmoid(-1)]),
        ("renormalize_naive", [sigmoid(1), sigmoid(-1)]),
        ("topk", [2.0, 1.0]),
        ("sigmoid", [sigmoid(2), sigmoid(1)]),
        ("sigmoid_renorm", [sigmoid(2) / (sigmoid(2) + sigmoid(1)), sigmoid(1) / (sigmoid(2) + sigmoid(1))]),
        ("llama4", [sigmoid(2), sigmoid(1)]),
    ],
)
def test_weights_by_hand(method, expected):
    weights, ids = Router(method=method, topk=2).route(LOGITS)
    assert ids.tolist() == [[2, 1]]
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    assert weights[0].tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", ["deepseek_v3", "deepseek_v4", "minimax2"])
def test_a_bias_changes_the_choice_and_not_the_weight(method):
    router = Router(method=method, topk=2, bias_G=torch.tensor([0.0, 0.0, 0.0, 9.0]), scaling=2.5)
    weights, ids = router.route(LOGITS)
    assert ids.tolist() == [[3, 2]]
    assert weights.sum().item() == pytest.approx(2.5)
    assert weights[0, 0] < weights[0, 1]


def test_groups_limit_the_choice():
    logits = torch.tensor([[9.0, -9.0, 3.0, 3.0, 2.0, 2.0, -5.0, -5.0]])
    _, ids = Router(method="deepseek_v3", topk=2, num_groups=4, topk_groups=1).route(logits)
    assert sorted(ids[0].tolist()) == [2, 3]


def test_custom_and_simulated():
    router = Router(method="custom", topk=1, custom=lambda logits, k: (logits[:, :k].double(), logits[:, :k].long()))
    assert router.route(LOGITS)[1].tolist() == [[0]]
    weights, ids = Router(method="simulated", topk=2).route(torch.zeros(6, 4))
    assert torch.bincount(ids.flatten().long()).tolist() == [3, 3, 3, 3]
    assert weights.unique().tolist() == [0.5]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"method": "unspecified"}, "say one of"),
        ({"method": "custom"}, "custom="),
        ({"method": "default", "bias_G": torch.zeros(4)}, "takes no bias"),
        ({"method": "default", "num_groups": 2}, "knows no groups"),
        ({"method": "deepseek_v3", "num_groups": 2, "topk_groups": 3}, "legal: 1 to"),
        ({"method": "default", "topk": 0}, "at least 1"),
    ],
)
def test_contradictions(fields, word):
    with pytest.raises(BuildError, match=word):
        Router(**{"topk": 2, **fields})


def test_every_method_can_be_made():
    for method in RoutingMethod:
        if method not in (RoutingMethod.UNSPECIFIED, RoutingMethod.CUSTOM):
            weights, ids = Router(method=method, topk=2).route(torch.randn(5, 4))
            assert weights.shape == ids.shape == (5, 2)

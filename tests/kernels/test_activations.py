"""Activations against their formulas, element by element."""

from __future__ import annotations

import math

import pytest
import torch

from moe_select.kernels.activations import activate
from moe_select.testing import make_request


def sig(x):
    return 1 / (1 + math.exp(-x))


def silu(x):
    return x * sig(x)


def gelu(x):
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def relu2(x):
    return max(x, 0.0) ** 2


def oai(gate, up, alpha=1.702, beta=1.0, limit=7.0):
    gate, up = min(gate, limit), max(-limit, min(up, limit))
    return (up + beta) * gate * sig(alpha * gate)


GATED = {
    "silu": lambda g, u: silu(g) * u,
    "gelu": lambda g, u: gelu(g) * u,
    "gelu_tanh": lambda g, u: gelu_tanh(g) * u,
    "relu2": lambda g, u: relu2(g) * u,
    "swigluoai_uninterleave": oai,
    "swiglustep": lambda g, u: min(silu(g), 7.0) * max(-7.0, min(u, 7.0)),
    "situ": lambda g, u: 4 * math.tanh(g / 4) * sig(g) * u,
}
POINTS = [(-9.0, 2.0), (-1.0, -0.5), (0.0, 3.0), (0.5, 8.0), (3.0, -9.0), (12.0, 1.5)]


@pytest.mark.parametrize("name", GATED)
def test_gated(name):
    gate, up = (torch.tensor(column, dtype=torch.float64) for column in zip(*POINTS, strict=True))
    found = activate(torch.cat([gate, up]), make_request(activation=name))
    assert found.tolist() == pytest.approx([GATED[name](*point) for point in POINTS], abs=1e-12)


def test_interleaved():
    flat = torch.tensor([value for point in POINTS for value in point], dtype=torch.float64)
    assert activate(flat, make_request(activation="swigluoai")).tolist() == pytest.approx([oai(*p) for p in POINTS])


@pytest.mark.parametrize(
    ("name", "function"), [("silu", silu), ("gelu", gelu), ("gelu_tanh", gelu_tanh), ("relu2", relu2)]
)
def test_without_a_gate(name, function):
    values = [point[0] for point in POINTS]
    found = activate(torch.tensor(values, dtype=torch.float64), make_request(activation=f"{name}_no_mul"))
    assert found.tolist() == pytest.approx([function(value) for value in values], abs=1e-12)


def test_constants_of_the_request():
    request = make_request(activation="silu", swiglu_limit=2.0, swiglu_alpha=1.5, swiglu_beta=0.5)
    gate, up = (torch.tensor(column, dtype=torch.float64) for column in zip(*POINTS, strict=True))
    expected = [oai(*point, alpha=1.5, beta=0.5, limit=2.0) for point in POINTS]
    assert activate(torch.cat([gate, up]), request).tolist() == pytest.approx(expected)
    request = make_request(activation="situ", situ_beta=2.0, situ_linear_beta=3.0)
    expected = [2 * math.tanh(g / 2) * sig(g) * 3 * math.tanh(u / 3) for g, u in POINTS]
    assert activate(torch.cat([gate, up]), request).tolist() == pytest.approx(expected)

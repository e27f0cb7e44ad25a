"""Activations of the vocabulary on tiles in float32; their definitions are those of ``moe_select.kernels.activations``.

Legend: gate and up are tiles of one shape; A, B and LIMIT are the constants of the request, or None where it has none.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    # Exact at both ends: exp(-inf) is 0 and exp(inf) is inf, never inf/inf.
    return 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _at_most(x, limit):
    # tl.minimum may drop a NaN, which has to stay in its row.
    return tl.where(x > limit, limit, x)


@triton.jit
def _within(x, limit):
    return tl.where(x < -limit, -limit, _at_most(x, limit))


@triton.jit
def plain(x, NAME: tl.constexpr):
    """silu, gelu, gelu_tanh or relu2."""
    if NAME == "silu":
        y = x * _sigmoid(x)
    elif NAME == "gelu":
        y = 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))
    elif NAME == "gelu_tanh":
        y = 0.5 * x * (1.0 + _tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    else:
        tl.static_assert(NAME == "relu2")
        positive = tl.where(x < 0.0, 0.0, x)
        y = positive * positive
    return y


@triton.jit
def gated(gate, up, NAME: tl.constexpr, A: tl.constexpr, B: tl.constexpr, LIMIT: tl.constexpr):
    """Of swiglu (with A = alpha, B = beta), swiglustep, situ (with A = beta, B = linear beta) or a plain activation times up."""
    if NAME == "swiglu":
        if LIMIT is not None:
            gate = _at_most(gate, LIMIT)
            up = _within(up, LIMIT)
        y = (up + B) * gate * _sigmoid(A * gate)
    elif NAME == "swiglustep":
        y = _at_most(gate * _sigmoid(gate), LIMIT) * _within(up, LIMIT)
    elif NAME == "situ":
        if B is not None:
            up = B * _tanh(up / B)
        y = A * _tanh(gate / A) * _sigmoid(gate) * up
    else:
        y = plain(gate, NAME) * up
    return y

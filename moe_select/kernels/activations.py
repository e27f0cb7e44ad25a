"""The function between the two GEMMs, in plain torch, for every activation of the vocabulary.

Legend: F columns of gemm1 (2I gated, I not), I intermediate size of this rank.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from moe_select.vocabulary import Activation, MoEConfig

OAI_ALPHA: Final = 1.702
OAI_BETA: Final = 1.0
OAI_LIMIT: Final = 7.0
"""Constants of GPT-OSS where the request gives none."""
STEP_LIMIT: Final = 7.0
"""Clamp of Step-3's activation where the request gives none."""
SITU_BETA: Final = 4.0
"""Beta of SiTU where the request gives none."""

_gelu_tanh: Final = partial(functional.gelu, approximate="tanh")


def _relu2(x: Tensor) -> Tensor:
    return functional.relu(x).square()


_PLAIN: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu2": _relu2,
}


def activate(h: Tensor, request: MoEConfig) -> Tensor:
    """Apply the request's activation in the dtype of ``h``.

    Args:
        h: ``[..., F]``, gate half then up half where gated (alternating columns for ``swigluoai``).
        request: the activation and its constants.

    Returns:
        ``[..., I]``. NaN and Inf stay where they are.

    """
    activation = request.activation
    if not activation.is_gated:
        return _PLAIN[activation.value.removesuffix("_no_mul")](h)
    if activation is Activation.SWIGLUOAI:
        return _swiglu(h[..., ::2], h[..., 1::2], request, OAI_ALPHA, OAI_BETA, OAI_LIMIT)
    gate, up = h.chunk(2, dim=-1)
    if activation is Activation.SWIGLUOAI_UNINTERLEAVE:
        return _swiglu(gate, up, request, OAI_ALPHA, OAI_BETA, OAI_LIMIT)
    if activation is Activation.SILU and has_constants(request):
        return _swiglu(gate, up, request, 1.0, 0.0, None)
    if activation is Activation.SWIGLUSTEP:
        limit = STEP_LIMIT if request.swiglu_limit is None else request.swiglu_limit
        return functional.silu(gate).clamp(max=limit) * up.clamp(-limit, limit)
    if activation is Activation.SITU:
        return _situ(gate, up, request)
    return _PLAIN[activation.value](gate).mul_(up)


def has_constants(request: MoEConfig) -> bool:
    """Whether the request gives constants of SwiGLU."""
    return any(value is not None for value in (request.swiglu_limit, request.swiglu_alpha, request.swiglu_beta))


def _swiglu(gate: Tensor, up: Tensor, request: MoEConfig, alpha: float, beta: float, limit: float | None) -> Tensor:
    """``(up + beta) * gate * sigmoid(alpha * gate)`` with both clamped; the request's constants, else the defaults."""
    alpha = alpha if request.swiglu_alpha is None else request.swiglu_alpha
    beta = beta if request.swiglu_beta is None else request.swiglu_beta
    limit = limit if request.swiglu_limit is None else request.swiglu_limit
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return (up + beta) * gate * torch.sigmoid(alpha * gate)


def _situ(gate: Tensor, up: Tensor, request: MoEConfig) -> Tensor:
    beta = SITU_BETA if request.situ_beta is None else request.situ_beta
    linear = request.situ_linear_beta
    bounded = up if linear is None else linear * torch.tanh(up / linear)
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * bounded

"""Helpers of the conformance suite: names of its cases, and inputs that a kernel is given.

Legend: T tokens, K top-k slots, G experts over all ranks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from moe_select.kernels.routing import Router
from moe_select.testing.layers import Tokens
from moe_select.vocabulary import MoEConfig


def logits_of(tokens: Tokens, request: MoEConfig, router: Router) -> Tensor:
    """Router logits that put a token's own experts first."""
    logits_TG = torch.randn(len(tokens.x_TH), request.num_experts or 0, generator=torch.Generator().manual_seed(7))
    logits_TG = logits_TG.to(tokens.x_TH.device)
    order_TK = torch.arange(router.topk, 0, -1, device=logits_TG.device).expand(tokens.topk_ids_TK.shape) + 4.0
    logits_TG.scatter_(1, tokens.topk_ids_TK.long(), order_TK)
    return logits_TG.to(getattr(torch, request.resolved_router_logits_dtype))


def is_row_wise(request: MoEConfig) -> bool:
    """True when a row's activations are quantized, if at all, with scales of that row alone."""
    key = request.activation_key
    if key is None:
        return True
    second = key.scale2 is None or not key.scale2.static
    return not key.static and key.group.row == 1 and second


def label(request: MoEConfig) -> str:
    """A test's name for a request."""
    keys = f"{request.weight_key or 'none'}-{request.activation_key or 'none'}"
    return f"{keys}-{request.activation.value}-{request.in_dtype}"


def bits(tensor: Tensor) -> Tensor:
    """The tensor's bytes, in which NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)

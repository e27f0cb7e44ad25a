"""Inputs of a layer, and how far an output is off.

Legend: T tokens, K top-k slots, H hidden size, G experts over all ranks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from moe_select.vocabulary import MoEConfig


class Tokens(NamedTuple):
    """One call's input."""

    x_TH: Tensor
    topk_weights_TK: Tensor
    topk_ids_TK: Tensor


def random_tokens(request: MoEConfig, count: int, seed: int = 0, device: torch.device | str = "cpu") -> Tokens:
    """Normal hidden states, routed by a renormalized softmax over random logits.

    Raises:
        ValueError: the request states no experts, topk or hidden size.

    """
    if request.num_experts is None or request.topk is None or request.hidden_dim is None:
        raise ValueError("random tokens need num_experts, topk and hidden_dim")
    generator = torch.Generator().manual_seed(seed)
    x_TH = torch.randn(count, request.hidden_dim, generator=generator).to(getattr(torch, request.in_dtype))
    logits_TG = torch.randn(count, request.num_experts, generator=generator)
    weights_TK, ids_TK = logits_TG.softmax(-1).topk(request.topk)
    weights_TK = weights_TK / weights_TK.sum(-1, keepdim=True)
    return Tokens(*(part.to(device) for part in (x_TH, weights_TK, ids_TK.to(torch.int32))))


def relative_error(out: Tensor, ref: Tensor) -> float:
    """``||out - ref|| / ||ref||``; 0 where both are zero."""
    difference = torch.linalg.vector_norm(out.double() - ref.double())
    norm = torch.linalg.vector_norm(ref.double())
    return float(difference / norm) if norm > 0 else float(difference)

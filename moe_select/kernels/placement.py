"""Which rows go to which expert of this rank, and back.

Legend: T tokens, K top-k slots, R = T * K routed rows, H hidden size, E experts of this rank, G experts over all ranks, M rows
per expert.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def local_ids(topk_ids_TK: Tensor, expert_map_G: Tensor | None) -> Tensor:
    """Ids on this rank as int64; -1 for padding and for experts of other ranks."""
    ids_TK = topk_ids_TK.long()
    if expert_map_G is None:
        return ids_TK
    mapped_TK = expert_map_G.long()[ids_TK.clamp(min=0)]
    return mapped_TK.where(ids_TK >= 0, -1)


def combine(out_TH: Tensor, rows: Callable[[int], Tensor], here_TK: Tensor, topk_weights_TK: Tensor) -> None:
    """Weighted sum over slots in float32. A slot that is not here counts nothing, whatever its row holds.

    Args:
        out_TH: result.
        rows: slot to ``[T, H]``.
        here_TK: which slots this rank computed.
        topk_weights_TK: weights.

    """
    dtype = torch.promote_types(out_TH.dtype, torch.float32)
    total_TH = torch.zeros(out_TH.shape, dtype=dtype, device=out_TH.device)
    for slot in range(here_TK.shape[1]):
        weighted_TH = rows(slot).to(dtype) * topk_weights_TK[:, slot, None]
        total_TH += weighted_TH.where(here_TK[:, slot, None], 0.0)
    out_TH.copy_(total_TH)


class Placement(NamedTuple):
    """Where each slot's row lies in ``[E, M, H]``."""

    row_TK: Tensor
    """``expert * M + position``; ``E * M`` for slots of other ranks."""
    here_TK: Tensor


def place(ids_TK: Tensor, experts: int) -> tuple[Placement, Tensor, int]:
    """Positions without a host synchronization on GPUs: there every expert gets room for all tokens."""
    flat_R = ids_TK.flatten()
    here_R = flat_R >= 0
    counts_E = torch.zeros(experts + 1, dtype=torch.int64, device=flat_R.device)
    bucket_R = flat_R.where(here_R, experts)
    counts_E.scatter_add_(0, bucket_R, torch.ones_like(bucket_R))
    order_R = bucket_R.argsort(stable=True)
    starts_E = counts_E.cumsum(0) - counts_E
    rank_R = torch.empty_like(order_R)
    rank_R[order_R] = torch.arange(len(order_R), device=flat_R.device)
    position_R = rank_R - starts_E[bucket_R]
    counts_E = counts_E[:-1].to(torch.int32)
    on_cpu = flat_R.device.type == "cpu"
    width = int(counts_E.max()) if on_cpu and experts else ids_TK.shape[0]
    row_R = (flat_R * width + position_R).where(here_R, experts * width)
    return Placement(row_R.view(ids_TK.shape), here_R.view(ids_TK.shape)), counts_E, width


def scatter(rows: Tensor, placement: Placement, experts: int, width: int) -> Tensor:
    """Copies of ``[T, ...]`` rows as ``[E, M, ...]``; one row more takes what belongs to other ranks."""
    dtype = rows.dtype
    if dtype.itemsize == 1:
        rows = rows.view(torch.uint8)  # 8-bit floats cannot be indexed
    batched = rows.new_empty(experts * width + 1, *rows.shape[1:])
    slots = placement.row_TK.shape[1]
    batched[placement.row_TK.flatten()] = rows.repeat_interleave(slots, 0)
    return batched[:-1].view(experts, width, *rows.shape[1:]).view(dtype)

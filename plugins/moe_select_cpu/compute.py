"""The one loop that all classes of this backend share: from routed tokens to their weighted sum.

Legend: T tokens, K top-k slots, R rows routed to this rank sorted by expert, B rows of one block, H hidden size, I intermediate
size of this rank, F rows of w13, E experts of this rank, N and K rows and columns of one GEMM's weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import torch
from torch import Tensor

from moe_select.kernels.activations import activate
from moe_select.kernels.experts import ExpertInputs
from moe_select.kernels.placement import local_ids
from moe_select.kernels.weights import MoEWeights
from moe_select.vocabulary import MoEConfig

BLOCK: Final = 128
"""Rows after which a block is full: enough for one pass of the element-wise work, and few enough to stay in cache."""
PIECE: Final = 128
"""Most rows of one GEMM call. Measured on Zen 4 beside 64, 192 and 256, as is BLOCK."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A GEMM's left operand and what its output is multiplied with."""

    values: Tensor
    """``[rows, K]``."""
    scale: Tensor | None = None
    """float32 ``[rows, 1]`` or ``[1, 1]``."""

    def __getitem__(self, index: slice | Tensor) -> Rows:
        scale = self.scale
        return Rows(self.values[index], scale if scale is None or scale.shape[0] == 1 else scale[index])

    def __len__(self) -> int:
        return self.values.shape[0]


class Linear(Protocol):
    """One GEMM of one expert: ``(rows) -> [rows, N]`` in float32, without the rows' scale and without bias."""

    def __init__(self, w_NK: Tensor, scale: Tensor | None) -> None: ...

    def __call__(self, values: Tensor) -> Tensor:
        """Multiply."""


Quantizer = Callable[[Tensor], Rows]


class Operand(NamedTuple):
    """One GEMM of all experts."""

    experts: list[Linear]
    bias_EN: Tensor | None
    quantizer: Quantizer
    shared_scale: bool
    """One dynamic scale for all rows of a call, so that all rows must be known first."""


class Layer(NamedTuple):
    """What ``prepare_weights`` returns."""

    gemm1: Operand
    gemm2: Operand


class Piece(NamedTuple):
    """Consecutive rows of one expert."""

    expert: int
    rows: slice


def as_dtype(name: str) -> Quantizer:
    """No quantization: rows in a floating-point dtype."""
    dtype = getattr(torch, name)
    return lambda rows: Rows(rows.to(dtype))


def make_layer(weights: MoEWeights, linear: type[Linear], quantizers: Sequence[Quantizer]) -> Layer:
    """Both GEMMs from canonical weights; one quantizer each."""
    operands = []
    for name, quantizer in zip(("w13", "w2"), quantizers, strict=True):
        scale = getattr(weights, f"{name}_scale")
        experts = [linear(w_NK, None if scale is None else scale[e]) for e, w_NK in enumerate(getattr(weights, name))]
        bias = getattr(weights, f"{name}_bias")
        shared = bool(getattr(quantizer, "shared_scale", False))
        operands.append(Operand(experts, None if bias is None else bias.float(), quantizer, shared))
    return Layer(*operands)


def run(out_TH: Tensor, inputs: ExpertInputs, layer: Layer, request: MoEConfig) -> None:
    """Write the weighted sum over the slots of this rank."""
    ids_TK = local_ids(inputs.topk_ids_TK, inputs.expert_map_G)
    slots, flat_R = ids_TK.shape[1], ids_TK.flatten()
    order_R = flat_R.argsort(stable=True)[int((flat_R < 0).sum()) :]
    token_R = order_R // slots
    weight_R1 = inputs.topk_weights_TK.flatten()[order_R].unsqueeze(1)
    counts_E = torch.bincount(flat_R[order_R], minlength=len(layer.gemm1.experts)).tolist()
    x = layer.gemm1.quantizer(inputs.x)
    total_TH = torch.zeros(out_TH.shape, dtype=torch.float32)
    blocks = list(_blocks(counts_E))
    hidden = (activate(_gemm(layer.gemm1, x[token_R[_span(block)]], block), request) for block in blocks)
    if layer.gemm2.shared_scale and blocks:
        # The scale is that of all rows, so they are quantized together and handed on block by block.
        whole = layer.gemm2.quantizer(torch.cat(list(hidden)))
        quantized: Iterator[Rows] = (whole[_span(block)] for block in blocks)
    else:
        quantized = map(layer.gemm2.quantizer, hidden)
    for block, rows in zip(blocks, quantized, strict=True):
        span = _span(block)
        total_TH.index_add_(0, token_R[span], _gemm(layer.gemm2, rows, block).mul_(weight_R1[span]))
    out_TH.copy_(total_TH)


def _blocks(counts_E: list[int]) -> Iterator[list[Piece]]:
    """Pieces of experts that got rows, gathered until there are enough rows for the element-wise work."""
    block: list[Piece] = []
    start = 0
    for expert, count in enumerate(counts_E):
        for first in range(start, start + count, PIECE):
            piece = slice(first, min(first + PIECE, start + count))
            block.append(Piece(expert, piece))
            if piece.stop - block[0].rows.start >= BLOCK:
                yield block
                block = []
        start += count
    if block:
        yield block


def _span(block: list[Piece]) -> slice:
    return slice(block[0].rows.start, block[-1].rows.stop)


def _gemm(operand: Operand, rows: Rows, block: list[Piece]) -> Tensor:
    """``[B, N]`` in float32 with scales and biases; ``rows`` are those of the block."""
    first, experts = block[0].rows.start, operand.experts
    if len(block) == 1:
        out_BN = experts[block[0].expert](rows.values)
    else:
        # One split is cheaper than a slice for every expert.
        values = rows.values.split([span.stop - span.start for _, span in block])
        out_BN = torch.cat([experts[expert](part) for (expert, _), part in zip(block, values, strict=True)])
    if rows.scale is not None:
        out_BN = out_BN.mul_(rows.scale)
    if operand.bias_EN is not None:
        for expert, span in block:
            out_BN[span.start - first : span.stop - first] += operand.bias_EN[expert]
    return out_BN

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
"""Most rows of one GEMM call: more leave the cache, and far fewer read the weights again for little work."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A GEMM's left operand and what its output is multiplied with."""

    values: Tensor
    """``[rows, K]``."""
    scale: Tensor | None = None
    """float32 ``[rows, 1]`` or ``[1, 1]``."""

    def __getitem__(self, index: slice | Tensor) -> Rows:
        scale = self.scale
        if scale is not None and scale.shape[0] > 1:
            scale = _take(scale, index)
        return Rows(_take(self.values, index), scale)


class Linear(Protocol):
    """One GEMM of one expert: ``(values, span) -> [span, N]`` in float32, without the rows' scale and without bias."""

    def __init__(self, w_NK: Tensor, scale: Tensor | None) -> None: ...

    def __call__(self, values: Tensor, span: slice) -> Tensor:
        """Multiply the rows of a span. The rest of ``values`` is there to be read past the span, not to be changed."""


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
        # Not a generator expression: its variable would keep one block's activations while the next are computed.
        quantized = map(layer.gemm2.quantizer, hidden)
    for block, rows in zip(blocks, quantized, strict=True):
        span = _span(block)
        total_TH.index_add_(0, token_R[span], _gemm(layer.gemm2, rows, block, weight_R1[span]))
    out_TH.copy_(total_TH)


def _take(tensor: Tensor, index: slice | Tensor) -> Tensor:
    return tensor[index] if isinstance(index, slice) else tensor.index_select(0, index)


def _blocks(counts_E: list[int]) -> Iterator[list[Piece]]:
    """Pieces of experts that got rows, gathered until there are enough rows for the element-wise work."""
    block: list[Piece] = []
    stop = 0
    for expert, count in enumerate(counts_E):
        start, stop = stop, stop + count
        # Pieces of one expert are of one size, so that none is a remainder for which its weights are read again.
        size = -(-count // -(-count // PIECE)) if count else 1
        for first in range(start, stop, size):
            block.append(Piece(expert, slice(first, min(first + size, stop))))
            if block[-1].rows.stop - block[0].rows.start >= BLOCK:
                yield block
                block = []
    if block:
        yield block


def _span(block: list[Piece]) -> slice:
    return slice(block[0].rows.start, block[-1].rows.stop)


def _gemm(operand: Operand, rows: Rows, block: list[Piece], weight_B1: Tensor | None = None) -> Tensor:
    """``[B, N]`` in float32 with scales, biases and, last, routing weights; ``rows`` are those of the block."""
    first = block[0].rows.start
    spans = [(expert, slice(span.start - first, span.stop - first)) for expert, span in block]
    parts = [operand.experts[expert](rows.values, span) for expert, span in spans]
    out_BN = parts[0] if len(parts) == 1 else torch.cat(parts)
    scale = rows.scale
    if operand.bias_EN is not None:
        out_BN = out_BN if scale is None else out_BN.mul_(scale)
        for expert, span in spans:
            out_BN[span] += operand.bias_EN[expert]
        scale = None
    factor = weight_B1 if scale is None else scale if weight_B1 is None else scale * weight_B1
    return out_BN if factor is None else out_BN.mul_(factor)

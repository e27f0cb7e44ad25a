"""What the reference experts compute, in float32.

Legend: T tokens, K top-k slots, R rows routed to this rank sorted by expert, H hidden size, I intermediate size of this rank,
F rows of w13, E experts of this rank, M rows per expert of the batched format.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from moe_select.kernels.activations import activate
from moe_select.kernels.experts import ExpertInputs
from moe_select.kernels.placement import combine, local_ids
from moe_select.kernels.quant_config import QuantConfig
from moe_select.kernels.quantize import Quantized, dequantize, quantize
from moe_select.kernels.weights import MoEWeights, Operand
from moe_select.vocabulary import MoEConfig


class Rows(NamedTuple):
    """Routed rows, sorted by expert."""

    token_R: Tensor
    slot_R: Tensor
    counts_E: list[int]


def run_standard(
    out_TKH: Tensor, inputs: ExpertInputs, weights: MoEWeights, request: MoEConfig, config: QuantConfig
) -> None:
    """Write the output of every slot that is here."""
    rows = _sorted_rows(local_ids(inputs.topk_ids_TK, inputs.expert_map_G), weights.num_experts)
    x_TH = _dequantized(inputs, config)
    out_TKH[rows.token_R, rows.slot_R] = _layer(x_TH[rows.token_R], rows.counts_E, weights, request, config).to(
        out_TKH.dtype
    )


def run_batched(
    out_EMH: Tensor, inputs: ExpertInputs, weights: MoEWeights, request: MoEConfig, config: QuantConfig
) -> None:
    """Write the real rows of every expert."""
    assert inputs.expert_num_tokens_E is not None
    counts_E = inputs.expert_num_tokens_E.tolist()
    x_EMH = _dequantized(inputs, config)
    x_RH = torch.cat([x_MH[:count] for x_MH, count in zip(x_EMH, counts_E, strict=True)])
    y_RH = _layer(x_RH, counts_E, weights, request, config).to(out_EMH.dtype)
    for out_MH, y_MH in zip(out_EMH, y_RH.split(counts_E), strict=True):
        out_MH[: len(y_MH)] = y_MH


def run_monolithic(
    out_TH: Tensor,
    inputs: ExpertInputs,
    weights_on_input: bool,
    weights: MoEWeights,
    request: MoEConfig,
    config: QuantConfig,
) -> None:
    """Write the weighted sum over slots."""
    ids_TK = local_ids(inputs.topk_ids_TK, inputs.expert_map_G)
    rows = _sorted_rows(ids_TK, weights.num_experts)
    x_TH, weights_TK = inputs.x.float(), inputs.topk_weights_TK
    if weights_on_input:
        scaled_RH = x_TH[rows.token_R] * weights_TK[rows.token_R, rows.slot_R, None]
        # The scaled token is an activation of the layer, so it is rounded to the layer's dtype.
        x_RH = _rounded(scaled_RH.to(inputs.x.dtype).float(), "a1", config)
        weights_TK = torch.ones_like(weights_TK)
    else:
        x_RH = _rounded(x_TH, "a1", config)[rows.token_R]
    y_TKH = torch.empty(*ids_TK.shape, out_TH.shape[1], device=out_TH.device)
    y_TKH[rows.token_R, rows.slot_R] = _layer(x_RH, rows.counts_E, weights, request, config)
    combine(out_TH, lambda slot: y_TKH[:, slot], ids_TK >= 0, weights_TK)


def _sorted_rows(ids_TK: Tensor, experts: int) -> Rows:
    flat_R = ids_TK.flatten()
    order_R = flat_R.argsort(stable=True)[int((flat_R < 0).sum()) :]
    counts_E = torch.bincount(flat_R[order_R], minlength=experts).tolist()
    slots = ids_TK.shape[1]
    return Rows(order_R // slots, order_R % slots, counts_E)


def _dequantized(inputs: ExpertInputs, config: QuantConfig) -> Tensor:
    """Tokens in float32."""
    key = config.activation_key
    if key is None or inputs.x_scale is None:
        return inputs.x.float()
    return dequantize(Quantized(inputs.x, inputs.x_scale, inputs.x_zero_point, inputs.x_scale_2), key)


def _rounded(rows: Tensor, gemm: str, config: QuantConfig) -> Tensor:
    """Floats after a round trip through the activation key; ``gemm`` is ``a1`` or ``a2``."""
    key = config.activation_key
    if key is None or not len(rows):
        return rows
    static = {name: getattr(config, f"{gemm}_{name}") for name in ("scale", "zero_point", "scale_2")}
    return dequantize(quantize(rows, key, **static), key)


def _layer(x_RH: Tensor, counts_E: list[int], weights: MoEWeights, request: MoEConfig, config: QuantConfig) -> Tensor:
    """Both GEMMs over rows sorted by expert."""
    h_RF = _gemm(x_RH, counts_E, weights, "w13")
    h_RI = _rounded(activate(h_RF, request), "a2", config)
    return _gemm(h_RI, counts_E, weights, "w2")


def _gemm(rows: Tensor, counts_E: list[int], weights: MoEWeights, operand: Operand) -> Tensor:
    bias = getattr(weights, f"{operand}_bias")
    outputs = []
    for expert, part in enumerate(rows.split(counts_E)):
        if len(part):
            w_NK = _expert(weights, operand, expert)
            outputs.append(linear(part, w_NK, None if bias is None else bias[expert].float()))
    return torch.cat(outputs) if outputs else rows.new_empty(0, getattr(weights, operand).shape[1])


def _expert(weights: MoEWeights, operand: Operand, expert: int) -> Tensor:
    """One expert in float32."""
    if weights.key is None:
        return getattr(weights, operand)[expert].float()
    return dequantize(weights.operand(operand, slice(expert, expert + 1)), weights.key)[0]

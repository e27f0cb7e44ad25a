"""The layer in float64 on the same quantized weights: what every kernel is compared with.

Written to be read, not to be fast, and independent of every kernel: one expert at a time.

Legend: T tokens, K top-k slots, R rows routed to this rank, H hidden size, I intermediate size, F rows of w13.
"""

from __future__ import annotations

import torch
from torch import Tensor

from moe_select.kernels.activations import activate
from moe_select.kernels.quant_config import QuantConfig, make_quant_config
from moe_select.kernels.quantize import dequantize, quantize
from moe_select.kernels.weights import MoEWeights, Operand
from moe_select.vocabulary import MoEConfig


def oracle(
    request: MoEConfig,
    weights: MoEWeights,
    x_TH: Tensor,
    topk_weights_TK: Tensor,
    topk_ids_TK: Tensor,
    expert_map: Tensor | None = None,
    apply_router_weight_on_input: bool = False,
) -> Tensor:
    """The output ``[T, H]`` in float64.

    Activations are quantized where the request says so: before gemm1 (all tokens of the call, a token's scale its own) and
    before gemm2 (all routed rows of the call, where one scale is shared).

    Args:
        request: the layer.
        weights: quantized as the request says.
        x_TH: tokens.
        topk_weights_TK: floats.
        topk_ids_TK: global ids; -1 is padding.
        expert_map: global id to local id or -1.
        apply_router_weight_on_input: scale the tokens instead of the output.

    """
    config = make_quant_config(request, weights)
    x, slot_weights = x_TH.double(), topk_weights_TK.double()
    if apply_router_weight_on_input:
        # The scaled token is an activation of the layer, so it is rounded to the layer's dtype.
        x = (x * slot_weights).to(x_TH.dtype).double()
        slot_weights = torch.ones_like(slot_weights)
    x = _rounded(x, "a1", config)
    ids = topk_ids_TK.long()
    local = ids if expert_map is None else torch.where(ids >= 0, expert_map.long()[ids.clamp(min=0)], -1)
    token, slot = torch.where(local >= 0)
    expert = local[token, slot]
    hidden = torch.zeros(
        len(token), request.intermediate_size_per_partition or weights.w2.shape[2], dtype=torch.float64, device=x.device
    )
    used = expert.unique().tolist()
    for number in used:
        rows = expert == number
        hidden[rows] = activate(_gemm(x[token[rows]], weights, "w13", number), request)
    hidden = _rounded(hidden, "a2", config)
    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for number in used:
        rows = expert == number
        y = _gemm(hidden[rows], weights, "w2", number)
        out.index_add_(0, token[rows], y * slot_weights[token[rows], slot[rows], None])
    return out


def _rounded(rows: Tensor, gemm: str, config: QuantConfig) -> Tensor:
    key = config.activation_key
    if key is None or not len(rows):
        return rows
    static = {name: getattr(config, f"{gemm}_{name}") for name in ("scale", "zero_point", "scale_2")}
    return dequantize(quantize(rows, key, **static), key, torch.float64)


def _gemm(rows: Tensor, weights: MoEWeights, operand: Operand, expert: int) -> Tensor:
    stored, bias = getattr(weights, operand)[expert], getattr(weights, f"{operand}_bias")
    if weights.key is None:
        w_NK = stored.double()
    else:
        one = slice(expert, expert + 1)
        w_NK = dequantize(weights.operand(operand, one), weights.key, torch.float64)[0]
    y = rows @ w_NK.T
    return y if bias is None else y + bias[expert].double()

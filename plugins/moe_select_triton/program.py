"""From a plan to the launches of one call.

Legend: as in :mod:`moe_select_triton.builder`; M rows per expert of the batched format.
"""

from __future__ import annotations

import torch
from triton import cdiv, next_power_of_2

from moe_select_triton import builder as make
from moe_select_triton import steps
from moe_select_triton.builder import COUNTS, IDS, OUT, WEIGHTS, X_SCALE, Builder, X
from moe_select_triton.config import Few, Gemm, Plan
from moe_select_triton.kernels import one_token
from moe_select_triton.layer import Layer, Program, Weights


def make_program(
    layer: Layer, plan: Plan, tokens: int, topk: int, has_map: bool, ids: torch.dtype, batched: int = 0
) -> Program:
    """The launches of one call.

    Args:
        layer: the layer.
        plan: how its GEMMs are cut.
        tokens: T.
        topk: K.
        has_map: whether the call brings an expert map.
        ids: dtype of the expert ids.
        batched: M where the format is batched, else 0.

    """
    builder = Builder(layer, plan, tokens, topk, has_map, ids)
    gemm1, gemm2 = plan.gemm1, plan.gemm2
    if isinstance(gemm1, Few) or isinstance(gemm2, Few):
        assert isinstance(gemm1, Few)
        assert isinstance(gemm2, Few)
        _one_token(builder, gemm1, gemm2)
    elif batched:
        _batched(builder, gemm1._replace(bm2=0), gemm2._replace(bm2=0), batched)
    elif plan.lookup:
        _few_slots(builder, gemm1._replace(bm2=0), gemm2._replace(bm2=0))
    else:
        _sorted(builder, gemm1, gemm2)
    return builder.program()


def _one_token(builder: Builder, gemm1: Few, gemm2: Few) -> None:
    """Two launches."""
    layer, w13, w2 = builder.layer, builder.layer.w13, builder.layer.w2
    H, I, topk = builder.hidden_size, builder.size, builder.topk  # noqa: E741
    count = cdiv(I, gemm1.bn)
    hidden = builder.scratch(builder.hidden_dtype, topk, I)
    parts = builder.scratch(torch.float32, topk, count)
    shared = {
        "H": H, "I": I, "QUANTIZE": builder.quantized, "MODE": layer.mode, "ACC": make.accumulator(builder),
        "HAS_MAP": builder.has_map, "PARTS": count,
    }  # fmt: skip
    constants = shared | make.activation(layer) | {"H_PAD": next_power_of_2(H), **_cut(gemm1), **_extras(w13)}
    arguments = [X, make.either(w13.a_scale, w13.w), w13.w, make.either(w13.scale, w13.w), make.either(w13.bias, w13.w)]
    arguments += [hidden, parts, IDS, builder.map]
    options = {"num_warps": gemm1.warps, "num_stages": gemm1.stages}
    builder.add(one_token.token_gemm1, (count, topk), arguments, constants, **options)
    padded = {"TOPK": topk, "SLOTS": next_power_of_2(topk), "PARTS_PAD": next_power_of_2(count)}
    constants = shared | padded | _cut(gemm2) | _extras(w2)
    arguments = [hidden, make.either(w2.a_scale, w2.w), parts, w2.w, make.either(w2.scale, w2.w)]
    arguments += [make.either(w2.bias, w2.w), WEIGHTS, OUT, IDS, builder.map]
    options = {"num_warps": gemm2.warps, "num_stages": gemm2.stages}
    builder.add(one_token.token_gemm2, (cdiv(H, gemm2.bn),), arguments, constants, **options)


def _cut(few: Few) -> dict[str, int]:
    return {"BN": few.bn, "BK": few.bk}


def _extras(operand: Weights) -> dict[str, int]:
    return {"W_SCALE": operand.scales, "BIAS": operand.bias is not None}


def _few_slots(builder: Builder, gemm1: Gemm, gemm2: Gemm) -> None:
    """Nothing is sorted: each program looks for the rows of its expert."""
    R = builder.slots
    mode, units = (steps.BY_SLOT, R) if builder.experts >= R else (steps.BY_EXPERT, builder.experts)
    routing = steps.Routing(mode, IDS, R, units, slots=next_power_of_2(R))
    _two_gemms(builder, (gemm1, gemm2), (routing, routing), None)


def _sorted(builder: Builder, gemm1: Gemm, gemm2: Gemm) -> None:
    """Slots are sorted by expert, so that blocks of rows share their weights."""
    sort = steps.sorting(builder, gemm1, gemm2)
    routing1, routing2 = (
        steps.Routing(steps.SORTED, table, builder.slots, bound, sort.slot_of)
        for table, bound in zip(sort.blocks, sort.bounds, strict=True)
    )
    _two_gemms(builder, (gemm1, gemm2), (routing1, routing2), sort)


def _two_gemms(
    builder: Builder,
    configs: tuple[Gemm, Gemm],
    routings: tuple[steps.Routing, steps.Routing],
    sort: steps.Sorting | None,
) -> None:
    """Quantize, multiply and activate, quantize, multiply, sum."""
    layer, R = builder.layer, builder.slots
    a = steps.quantize_tokens(builder, X, layer.w13.a_scale, sort)
    hidden = builder.scratch(builder.hidden_dtype, R, builder.size)
    y = builder.scratch(layer.dtype, R, builder.hidden_size)
    if sort is not None:
        steps.sort_slots(builder, sort)
    steps.multiply(builder, configs[0], layer.w13, a, hidden, routings[0], make.activation(layer), gather=True)
    b = steps.quantize_hidden(builder, hidden, layer.w2.a_scale, sort)
    steps.multiply(builder, configs[1], layer.w2, b, y, routings[1], make.NO_ACTIVATION, gather=False)
    steps.sum_slots(builder, y, sort)


def _batched(builder: Builder, gemm1: Gemm, gemm2: Gemm, width: int) -> None:
    """``[E, M, H]`` in and out; ``width`` is M, and tokens come quantized where the layer is."""
    layer = builder.layer
    if builder.quantized:
        builder.dtypes["x"] = torch.int8
    hidden = builder.scratch(builder.hidden_dtype, builder.experts * width, builder.size)
    routing1, routing2 = (
        steps.Routing(steps.BATCHED, COUNTS, width, builder.experts * cdiv(width, config.bm))
        for config in (gemm1, gemm2)
    )
    a = steps.Rows(X, X_SCALE if builder.quantized else IDS)
    steps.multiply(builder, gemm1, layer.w13, a, hidden, routing1, make.activation(layer), gather=False)
    b = steps.quantize_batched(builder, hidden, layer.w2.a_scale, COUNTS, width)
    steps.multiply(builder, gemm2, layer.w2, b, OUT, routing2, make.NO_ACTIVATION, gather=False)

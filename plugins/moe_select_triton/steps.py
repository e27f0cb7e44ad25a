"""The launches that programs are made of: quantize rows, sort slots, multiply, sum.

Legend: as in :mod:`moe_select_triton.builder`; M rows per expert of the batched format, N columns and K reduction of one GEMM.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from triton import cdiv, next_power_of_2
from triton.tools.tensor_descriptor import TensorDescriptor

from moe_select_triton.builder import IDS, OUT, WEIGHTS, Builder, accumulator, either, row_warps
from moe_select_triton.config import Gemm
from moe_select_triton.kernels import gemm, quantize, reduce, route
from moe_select_triton.launch import Buffer
from moe_select_triton.layer import Weights

SORTED, BY_SLOT, BY_EXPERT, BATCHED = 0, 1, 2, 3
"""Modes of :mod:`moe_select_triton.kernels.gemm`."""
_ALL, _FIRST, _BY_SLOT, _PER_EXPERT = 0, 1, 2, 3
"""Which rows hold anything, in :mod:`moe_select_triton.kernels.quantize`."""
_TOKEN, _TENSOR = 0, 1

_PARTS: Final = 128
"""Programs that look for the largest magnitude of all rows."""
_CHUNK: Final = 1024
"""Fewest slots that one program sorts."""
_COUNTERS: Final = 16384
"""Most counters (chunks times experts) that one program adds up."""
_TRITON_ROWS: Final = 2048
"""Elements from which a row keeps a program busy."""


class Sorting(NamedTuple):
    """Slots sorted by expert, and the blocks of rows of both GEMMs."""

    chunk: int
    chunks: int
    bins: int
    rows: tuple[int, int]
    """Rows of a block."""
    bounds: tuple[int, int]
    """Most blocks there can be."""
    counts: Buffer
    base: Buffer
    slot_of: Buffer
    row_of: Buffer
    valid: Buffer
    blocks: tuple[Buffer, Buffer]


class Routing(NamedTuple):
    """How the rows of one GEMM are found."""

    mode: int
    table: Any
    """Blocks, or rows of each expert in the batched format."""
    rows: int
    """R, or M in the batched format."""
    units: int
    """Blocks, slots or experts that have programs."""
    slot_of: Any = IDS
    slots: int = 16
    """R rounded up, where programs look for their rows themselves."""


class Rows(NamedTuple):
    """A GEMM's left operand."""

    values: Any
    scale: Any


def sorting(builder: Builder, gemm1: Gemm, gemm2: Gemm) -> Sorting:
    """Sizes and memory; nothing is launched."""
    R, E, scratch = builder.slots, builder.experts, builder.scratch
    bins = next_power_of_2(E)
    most = max(1, min(64, _COUNTERS // bins))
    chunk = cdiv(cdiv(R, most), _CHUNK) * _CHUNK
    chunks = cdiv(R, chunk)
    # Blocks that are full, and one more for each further expert that got a row.
    bounds = (cdiv(R, gemm1.rows) + min(E, R) - 1, cdiv(R, gemm2.rows) + min(E, R) - 1)
    blocks1 = scratch(torch.int32, bounds[0], 4)
    return Sorting(
        chunk,
        chunks,
        bins,
        (gemm1.rows, gemm2.rows),
        bounds,
        counts=scratch(torch.int32, chunks, bins),
        base=scratch(torch.int32, chunks, bins),
        slot_of=scratch(torch.int32, R),
        row_of=scratch(torch.int32, R),
        valid=scratch(torch.int32, 1),
        blocks=(blocks1, blocks1 if gemm1.rows == gemm2.rows else scratch(torch.int32, bounds[1], 4)),
    )


def quantize_tokens(builder: Builder, x: Any, given: Any, sort: Sorting | None) -> Rows:
    """Tokens as the first GEMM takes them; counts the slots of each expert on the way where they are to be sorted."""
    return _quantize(builder, x, given, builder.tokens, builder.hidden_size, (_ALL, builder.map), builder.slots, sort)


def quantize_hidden(builder: Builder, hidden: Any, given: Any, sort: Sorting | None) -> Rows:
    """Activations as the second GEMM takes them."""
    valid = (_BY_SLOT, builder.map) if sort is None else (_FIRST, sort.valid)
    return _quantize(builder, hidden, given, builder.slots, builder.size, valid, builder.slots, None)


def quantize_batched(builder: Builder, hidden: Any, given: Any, counts: Any, width: int) -> Rows:
    """The same in the batched format; ``width`` is M."""
    rows = builder.experts * width
    return _quantize(builder, hidden, given, rows, builder.size, (_PER_EXPERT, counts), width, None)


def _quantize(
    builder: Builder,
    x: Any,
    given: Any,
    rows: int,
    width: int,
    valid: tuple[int, Any],
    slots: int,
    sort: Sorting | None,
) -> Rows:
    chunks = sort.chunks if sort else 0
    if not builder.quantized and not chunks:
        return Rows(x, IDS)
    mode, pad = builder.layer.mode, next_power_of_2(width)
    made = Rows(x, IDS)
    together = max(1, min(8, _TRITON_ROWS // pad)) if rows > 1024 else 1
    shared = {"K": width, "K_PAD": pad, "PARTS": _PARTS, "VALID": valid[0], "HAS_MAP": builder.has_map}
    if builder.quantized:
        made = Rows(builder.scratch(torch.int8, rows, width), builder.scratch(torch.float32, 1 if mode else rows))
        if mode == _TENSOR:
            given = builder.scratch(torch.float32, _PARTS)
            arguments = [x, given, valid[1], IDS, builder.map, rows, slots]
            builder.add(quantize.largest_parts, (_PARTS,), arguments, shared, num_warps=row_warps(pad))
    constants = shared | {
        "ROWS": together,
        "MODE": mode,
        "QUANTIZE": builder.quantized,
        "CHUNK": sort.chunk if sort else _CHUNK,
        "BINS": sort.bins if sort else 16,
    }
    counts = sort.counts if sort else IDS
    given = IDS if given is None else given
    arguments = [x, *made, given, valid[1], IDS, builder.map, counts, rows, slots, chunks]
    programs = chunks + (cdiv(rows, together) if builder.quantized else 0)
    builder.add(quantize.quantize_rows, (programs,), arguments, constants, num_warps=row_warps(pad * together))
    return made


def sort_slots(builder: Builder, sort: Sorting) -> None:
    """Sort, once the slots of each expert are counted."""
    constants = {
        "HAS_MAP": builder.has_map,
        "CHUNK": sort.chunk,
        "CHUNKS": next_power_of_2(sort.chunks),
        "BINS": sort.bins,
        "BLOCK1": sort.rows[0],
        "BLOCK2": sort.rows[1],
        "STEP": max(1, min(32, 8192 // sort.bins)),
    }
    buffers = [sort.counts, sort.base, sort.slot_of, sort.row_of, sort.valid, *sort.blocks]
    arguments = [IDS, builder.map, *buffers, builder.slots, sort.chunks, *sort.bounds]
    builder.add(route.sort_slots, (sort.chunks,), arguments, constants, num_warps=8)


def multiply(
    builder: Builder,
    config: Gemm,
    operand: Weights,
    a: Rows,
    out: Any,
    routing: Routing,
    act: dict[str, Any],
    gather: bool,
) -> None:
    """One GEMM. ``gather`` says that rows of ``a`` are tokens, not slots."""
    _, f, k = operand.w.shape
    n = f // 2 if act["GATED"] else f
    described = (config.tma or config.overlap) and _describable(operand)
    shared = act | {
        "K": k,
        "N": n,
        "A_SCALE": 0 if not builder.quantized else 1 if builder.layer.mode else 2,
        "W_SCALE": operand.scales,
        "BIAS": operand.bias is not None,
        "GATHER": gather,
        "TOPK": builder.topk,
        "BM": config.bm,
        "BM2": config.bm2,
        "BN": config.bn,
        "BK": config.bk,
        "GROUP": config.group,
    }
    head = [a.values, a.scale]
    tail = [either(operand.scale, operand.w), either(operand.bias, operand.w), out]
    if config.overlap and described and routing.mode == SORTED and builder.quantized:
        _overlapped(builder, config, operand, (head, tail), shared, routing)
        return
    w = TensorDescriptor(operand.w, *_view(operand, act), [config.bn, config.bk]) if described else operand.w
    constants = shared | {
        "ACC": accumulator(builder),
        "MODE": routing.mode,
        "HAS_MAP": builder.has_map,
        "SLOTS": routing.slots,
        "SWAP": config.swap,
        "TMA": described,
        "STRIP": config.strip,
    }
    arguments = [*head, w, *tail, IDS, builder.map, routing.slot_of, routing.table, routing.rows, routing.units]
    programs = routing.units * cdiv(n, config.bn * config.strip)
    options = {"num_warps": config.warps, "num_stages": config.stages}
    builder.add(gemm.grouped_gemm, (programs,), arguments, constants, **options)


def _overlapped(
    builder: Builder,
    config: Gemm,
    operand: Weights,
    ends: tuple[list[Any], list[Any]],
    shared: dict[str, Any],
    routing: Routing,
) -> None:
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as HopperDescriptor

    from moe_select_triton.kernels.hopper import hopper_gemm

    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
    w = HopperDescriptor(operand.w, *_view(operand, shared), [config.bn, config.bk], layout)
    head, tail = ends
    arguments = [*head, w, *tail, routing.slot_of, routing.table, routing.units]
    constants = shared | {"S": config.stages, "WARPS": config.warps}
    programs = routing.units * cdiv(shared["N"], config.bn)
    builder.add(hopper_gemm, (programs,), arguments, constants, num_warps=config.warps)


def sum_slots(builder: Builder, y: Any, sort: Sorting | None) -> None:
    """The weighted sum of each token's slots."""
    width = min(next_power_of_2(builder.hidden_size), 1024 if builder.slots > 512 else 256)
    constants = {
        "TOPK": builder.topk,
        "H": builder.hidden_size,
        "BH": width,
        "SORTED": sort is not None,
        "HAS_MAP": builder.has_map,
    }
    arguments = [y, WEIGHTS, sort.row_of if sort else IDS, IDS, builder.map, OUT]
    grid = (builder.tokens, cdiv(builder.hidden_size, width))
    builder.add(reduce.sum_slots, grid, arguments, constants, num_warps=max(1, width // 256))


def _view(operand: Weights, act: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Shape and strides of the weights as rows; where gate and up alternate, one row holds both."""
    experts, rows, k = operand.w.shape
    shape = [experts * rows // 2, 2 * k] if act["GATED"] and act["INTERLEAVED"] else [experts * rows, k]
    return shape, [shape[1], 1]


def _describable(operand: Weights) -> bool:
    """Whether a tensor-memory descriptor can hold the weights."""
    return operand.w.shape[2] * operand.w.dtype.itemsize % 16 == 0 and operand.w.data_ptr() % 16 == 0

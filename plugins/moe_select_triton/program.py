"""From a plan to the launches of one call.

Legend: T tokens, K top-k slots, R = T * K routed slots, H hidden size, I intermediate size, E experts of this rank.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from triton import cdiv, next_power_of_2
from triton.tools.tensor_descriptor import TensorDescriptor

from moe_select_triton.config import Few, Gemm, Plan
from moe_select_triton.kernels import gemm, one_token, quantize, reduce, route
from moe_select_triton.launch import ALIGNMENT, Buffer, Given, Kernel, Step
from moe_select_triton.layer import Layer, Program, Weights

_ALIGN: Final = 256
"""Bytes; parts of the scratch memory start at multiples of it."""
_PARTS: Final = 128
"""Programs that look for the largest magnitude of all rows."""
_CHUNK: Final = 1024
"""Fewest slots that one program sorts."""
_COUNTERS: Final = 16384
"""Most counters (chunks times experts) that one program adds up."""

_X, _OUT, _IDS = Given("x"), Given("out"), Given("ids")
_WEIGHTS, _MAP, _X_SCALE, _COUNTS = Given("weights"), Given("map"), Given("x_scale"), Given("counts")

_kernels: dict[tuple[Any, ...], Kernel] = {}


def _kernel(function: Any, types: tuple[Any, ...], constants: dict[str, Any], **options: Any) -> Kernel:
    """Equal kernels of all layers are one, and are compiled once."""
    if not options.get("launch_pdl"):
        options.pop("launch_pdl", None)
    key = (function, types, *constants.items(), *options.items())
    return _kernels.setdefault(key, Kernel(function, constants, options))


class _Scratch:
    """Lays out scratch memory."""

    def __init__(self) -> None:
        self.nbytes = 0

    def __call__(self, dtype: torch.dtype, *shape: int) -> Buffer:
        buffer = Buffer(self.nbytes, shape, dtype)
        self.nbytes += cdiv(math.prod(shape) * dtype.itemsize, _ALIGN) * _ALIGN
        return buffer


class _Builder:
    """Makes the launches of one number of tokens."""

    def __init__(self, layer: Layer, plan: Plan, tokens: int, topk: int, has_map: bool, ids: torch.dtype) -> None:
        self.dtypes = {"x": layer.dtype, "out": layer.dtype, "ids": ids}
        self.dtypes |= dict.fromkeys(("map", "counts"), torch.int32) | dict.fromkeys(("weights", "x_scale"), torch.float32)
        self.layer, self.plan, self.tokens, self.topk, self.has_map = layer, plan, tokens, topk, has_map
        self.experts, self.hidden_size, self.size = layer.sizes
        self.slots = tokens * topk
        self.scratch = _Scratch()
        self.steps: list[Step] = []
        self.quantized = layer.scheme == "w8a8"
        # One scale for all rows leaves small rows few steps, in which the rounding of bfloat16 would show.
        self.hidden_dtype = torch.float32 if layer.mode else layer.dtype
        self.map = _MAP if has_map else _IDS  # what is not there is not read
        self.pdl = {"PDL": plan.pdl}

    def add(self, function: Any, grid: tuple[int, ...], arguments: list[Any], constants: dict[str, Any], **options: Any) -> None:
        """Append a launch."""
        types = tuple(self._type(item) for item in arguments)
        kernel = _kernel(function, types, constants | self.pdl, launch_pdl=self.plan.pdl > 0, **options)
        self.steps.append(Step(kernel, (*grid, *(1,) * (3 - len(grid))), arguments))

    def _type(self, item: Any) -> Any:
        """What Triton compiles for: the dtype, and whether the address is aligned."""
        if isinstance(item, Given):
            return self.dtypes.get(item.name)
        if isinstance(item, Tensor):
            return item.dtype, item.data_ptr() % ALIGNMENT == 0
        return item.dtype if isinstance(item, Buffer) else type(item)

    def quantize(
        self, x: Any, given: Any, rows: int, width: int, valid: tuple[int, Any] = (0, None), sort: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Rows as int8 with their scales; counts the slots of each expert on the way where they are to be sorted."""
        layer, sort = self.layer, sort or {"chunks": 0, "counts": _IDS, "CHUNK": _CHUNK, "BINS": 16}
        holds, holder = valid
        holder = self.map if holder is None else holder
        slots = sort.get("M", self.slots)
        out, scale = _IDS, _IDS
        width_pad, few = next_power_of_2(width), 1
        if self.quantized:
            shared = layer.mode != 0
            out = self.scratch(torch.int8, rows, width)
            scale = self.scratch(torch.float32, 1 if shared else rows)
            few = max(1, min(8, 2048 // width_pad)) if rows > 1024 else 1
            if layer.mode == 1:
                parts = self.scratch(torch.float32, _PARTS)
                constants = {"K": width, "K_PAD": width_pad, "PARTS": _PARTS, "VALID": holds, "HAS_MAP": self.has_map}
                self.add(quantize.largest_parts, (_PARTS,), [x, parts, holder, _IDS, self.map, rows, slots], constants,
                         num_warps=_row_warps(width_pad))  # fmt: skip
                given = parts
        given = _IDS if given is None else given
        constants = {
            "K": width, "K_PAD": width_pad, "ROWS": few, "MODE": layer.mode, "PARTS": _PARTS, "VALID": holds,
            "QUANTIZE": self.quantized, "HAS_MAP": self.has_map, "CHUNK": sort["CHUNK"], "BINS": sort["BINS"],
        }  # fmt: skip
        chunks = sort["chunks"]
        if self.quantized or chunks:
            arguments = [x, out, scale, given, holder, _IDS, self.map, sort["counts"], rows, slots, chunks]
            programs = chunks + (cdiv(rows, few) if self.quantized else 0)
            self.add(quantize.quantize_rows, (programs,), arguments, constants, num_warps=_row_warps(width_pad * few))
        return (out, scale) if self.quantized else (x, _IDS)

    def gemm(
        self, config: Gemm, operand: Weights, a: tuple[Any, Any], out: Any, constants: dict[str, Any], routing: list[Any], blocks: int
    ) -> None:
        """One GEMM."""
        layer = self.layer
        experts, rows, k = operand.w.shape
        gated = constants["GATED"]
        n = rows // 2 if gated else rows
        tiles = cdiv(n, config.bn * config.strip)
        tma = (config.tma or config.overlap) and _describable(operand.w)
        shape = (experts * n, 2 * k) if gated and layer.interleaved else (experts * rows, k)
        if config.overlap and tma and constants["MODE"] == 0 and self.quantized:
            self.overlapped(config, operand, a, out, constants, routing, shape, n, blocks * tiles)
            return
        w: Any = operand.w
        if tma:
            w = TensorDescriptor(operand.w, list(shape), [shape[1], 1], [config.bn, config.bk])
        integer = self.quantized
        a_scale = 0 if not integer else 2 if layer.mode == 0 else 1
        constants = {
            "K": k, "N": n, "GATED": gated, "INTERLEAVED": gated and layer.interleaved, "ACT": constants["ACT"],
            "C0": constants.get("C0"), "C1": constants.get("C1"), "C2": constants.get("C2"), "A_SCALE": a_scale,
            "W_SCALE": operand.scales, "BIAS": operand.bias is not None, "ACC": _accumulator(integer),
            "MODE": constants["MODE"], "GATHER": constants["GATHER"], "TOPK": self.topk, "HAS_MAP": self.has_map,
            "SLOTS": constants["SLOTS"], "BM": config.bm, "BM2": config.bm2, "BN": config.bn, "BK": config.bk,
            "GROUP": config.group, "SWAP": config.swap, "TMA": tma, "STRIP": config.strip,
        }  # fmt: skip
        arguments = [a[0], a[1], w, _or(operand.scale, operand.w), _or(operand.bias, operand.w), out, _IDS, self.map, *routing]
        self.add(gemm.grouped_gemm, (blocks * tiles,), arguments, constants, num_warps=config.warps, num_stages=config.stages)

    def overlapped(
        self, config: Gemm, operand: Weights, a: tuple[Any, Any], out: Any, constants: dict[str, Any], routing: list[Any],
        shape: tuple[int, int], n: int, programs: int,
    ) -> None:  # fmt: skip
        """One GEMM whose products overlap."""
        from triton.experimental.gluon.language import NVMMASharedLayout
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as HopperDescriptor

        from moe_select_triton.kernels.hopper import hopper_gemm

        layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8, rank=2)
        w = HopperDescriptor(operand.w, list(shape), [shape[1], 1], [config.bn, config.bk], layout)
        gated = constants["GATED"]
        made = {
            "K": operand.w.shape[2], "N": n, "GATED": gated, "INTERLEAVED": gated and self.layer.interleaved,
            "ACT": constants["ACT"], "C0": constants.get("C0"), "C1": constants.get("C1"), "C2": constants.get("C2"),
            "A_SCALE": 2 if self.layer.mode == 0 else 1, "W_SCALE": operand.scales, "BIAS": operand.bias is not None,
            "GATHER": constants["GATHER"], "TOPK": self.topk, "BM": config.bm, "BM2": config.bm2, "BN": config.bn,
            "BK": config.bk, "GROUP": config.group, "S": config.stages, "WARPS": config.warps,
        }  # fmt: skip
        slot_of, table, _, bound = routing
        arguments = [a[0], a[1], w, _or(operand.scale, operand.w), _or(operand.bias, operand.w), out, slot_of, table, bound]
        self.add(hopper_gemm, (programs,), arguments, made, num_warps=config.warps)

    def act(self) -> dict[str, Any]:
        """What gemm1 does besides multiplying."""
        name, *numbers = self.layer.act
        return {"GATED": self.layer.gated, "ACT": name, **dict(zip(("C0", "C1", "C2"), numbers, strict=True))}

    def one_token(self, gemm1: Few, gemm2: Few) -> None:
        """Two launches."""
        layer, w13, w2 = self.layer, self.layer.w13, self.layer.w2
        parts_count = cdiv(self.size, gemm1.bn)
        hidden = self.scratch(self.hidden_dtype, self.topk, self.size)
        parts = self.scratch(torch.float32, self.topk, parts_count)
        shared = {"QUANTIZE": self.quantized, "MODE": layer.mode, "ACC": _accumulator(self.quantized), "HAS_MAP": self.has_map}
        act = self.act()
        constants = {
            "H": self.hidden_size, "H_PAD": next_power_of_2(self.hidden_size), "I": self.size, "GATED": act["GATED"],
            "INTERLEAVED": layer.interleaved, "ACT": act["ACT"], "C0": act["C0"], "C1": act["C1"], "C2": act["C2"],
            "QUANTIZE": self.quantized, "MODE": layer.mode, "W_SCALE": w13.scales, "BIAS": w13.bias is not None,
            "ACC": shared["ACC"], "HAS_MAP": self.has_map, "PARTS": parts_count, "BN": gemm1.bn, "BK": gemm1.bk,
        }  # fmt: skip
        arguments = [_X, _or(w13.a_scale, w13.w), w13.w, _or(w13.scale, w13.w), _or(w13.bias, w13.w), hidden, parts, _IDS, self.map]
        self.add(one_token.token_gemm1, (parts_count, self.topk), arguments, constants, num_warps=gemm1.warps, num_stages=gemm1.stages)
        constants = {
            "TOPK": self.topk, "SLOTS": next_power_of_2(self.topk), "H": self.hidden_size, "I": self.size,
            "QUANTIZE": self.quantized, "MODE": layer.mode, "W_SCALE": w2.scales, "BIAS": w2.bias is not None,
            "ACC": shared["ACC"], "HAS_MAP": self.has_map, "PARTS": parts_count, "PARTS_PAD": next_power_of_2(parts_count),
            "BN": gemm2.bn, "BK": gemm2.bk,
        }  # fmt: skip
        arguments = [hidden, _or(w2.a_scale, w2.w), parts, w2.w, _or(w2.scale, w2.w), _or(w2.bias, w2.w), _WEIGHTS, _OUT, _IDS, self.map]
        self.add(one_token.token_gemm2, (cdiv(self.hidden_size, gemm2.bn),), arguments, constants, num_warps=gemm2.warps, num_stages=gemm2.stages)

    def standard(self, gemm1: Gemm, gemm2: Gemm) -> None:
        """Quantize, sort where there are many slots, gemm1 with the activation, quantize, gemm2, sum."""
        layer, R = self.layer, self.slots
        few = self.plan.lookup
        sort = None if few else self.sort_buffers(gemm1, gemm2)
        a = self.quantize(_X, layer.w13.a_scale, self.tokens, self.hidden_size, sort=sort)
        hidden = self.scratch(self.hidden_dtype, R, self.size)
        y = self.scratch(layer.dtype, R, self.hidden_size)
        if sort is None:
            mode, units = (1, R) if self.experts >= R else (2, self.experts)
            routing, blocks = ([_IDS, _IDS, R, units],) * 2, (units, units)
            valid: tuple[int, Any] = (2, None)
            slots = next_power_of_2(R)
        else:
            mode, slots, valid = 0, 16, (1, sort["valid"])
            self.sort(sort)
            blocks = sort["bounds"]
            routing = tuple([sort["slot_of"], table, R, bound] for table, bound in zip(sort["blocks"], blocks, strict=True))
        shared = {"MODE": mode, "SLOTS": slots}
        self.gemm(gemm1, layer.w13, a, hidden, shared | {"GATHER": True} | self.act(), routing[0], blocks[0])
        b = self.quantize(hidden, layer.w2.a_scale, R, self.size, valid)
        self.gemm(gemm2, layer.w2, b, y, shared | {"GATHER": False, "GATED": False, "ACT": None}, routing[1], blocks[1])
        width = min(next_power_of_2(self.hidden_size), 1024 if R > 512 else 256)
        row_of = _IDS if sort is None else sort["row_of"]
        constants = {"TOPK": self.topk, "H": self.hidden_size, "BH": width, "SORTED": not few, "HAS_MAP": self.has_map}
        self.add(reduce.sum_slots, (self.tokens, cdiv(self.hidden_size, width)), [y, _WEIGHTS, row_of, _IDS, self.map, _OUT], constants,
                 num_warps=max(1, width // 256))  # fmt: skip

    def sort_buffers(self, gemm1: Gemm, gemm2: Gemm) -> dict[str, Any]:
        """Memory and sizes of sorting."""
        R, E = self.slots, self.experts
        bins = next_power_of_2(E)
        most = max(1, min(64, _COUNTERS // bins))
        chunk = cdiv(cdiv(R, most), _CHUNK) * _CHUNK
        chunks = cdiv(R, chunk)
        # Blocks that are full, and one more for each expert that got a row.
        bounds = tuple(cdiv(R, config.rows) + min(E, R) - 1 for config in (gemm1, gemm2))
        blocks1 = self.scratch(torch.int32, bounds[0], 4)
        blocks2 = blocks1 if gemm1.rows == gemm2.rows else self.scratch(torch.int32, bounds[1], 4)
        return {
            "CHUNK": chunk, "BINS": bins, "chunks": chunks, "counts": self.scratch(torch.int32, chunks, bins),
            "base": self.scratch(torch.int32, chunks, bins), "slot_of": self.scratch(torch.int32, R),
            "row_of": self.scratch(torch.int32, R), "valid": self.scratch(torch.int32, 1), "bounds": bounds,
            "blocks": (blocks1, blocks2), "rows": (gemm1.rows, gemm2.rows),
        }  # fmt: skip

    def sort(self, sort: dict[str, Any]) -> None:
        """Rows sorted by expert, and the blocks of both GEMMs."""
        constants = {
            "HAS_MAP": self.has_map, "CHUNK": sort["CHUNK"], "CHUNKS": next_power_of_2(sort["chunks"]), "BINS": sort["BINS"],
            "BLOCK1": sort["rows"][0], "BLOCK2": sort["rows"][1], "STEP": max(1, min(32, 8192 // sort["BINS"])),
        }  # fmt: skip
        arguments = [_IDS, self.map, sort["counts"], sort["base"], sort["slot_of"], sort["row_of"], sort["valid"], *sort["blocks"],
                     self.slots, sort["chunks"], *sort["bounds"]]  # fmt: skip
        self.add(route.sort_slots, (sort["chunks"],), arguments, constants, num_warps=8)

    def batched(self, gemm1: Gemm, gemm2: Gemm, width: int) -> None:
        """``[E, M, H]`` in and out; ``width`` is M."""
        layer, rows = self.layer, self.experts * width
        hidden = self.scratch(self.hidden_dtype, rows, self.size)
        shared = {"MODE": 3, "SLOTS": 16, "GATHER": False}
        blocks = [self.experts * cdiv(width, config.bm) for config in (gemm1, gemm2)]
        routing = [[_IDS, _COUNTS, width, bound] for bound in blocks]
        self.gemm(gemm1, layer.w13, (_X, _X_SCALE if self.quantized else _IDS), hidden, shared | self.act(), routing[0], blocks[0])
        sort = {"chunks": 0, "counts": _IDS, "CHUNK": _CHUNK, "BINS": 16, "M": width}
        b = self.quantize(hidden, layer.w2.a_scale, rows, self.size, (3, _COUNTS), sort)
        self.gemm(gemm2, layer.w2, b, _OUT, shared | {"GATED": False, "ACT": None}, routing[1], blocks[1])


def make_program(
    layer: Layer, plan: Plan, tokens: int, topk: int, has_map: bool, ids: torch.dtype, batched: int = 0
) -> Program:
    """The launches of one call. ``batched`` is M where the format is batched, else 0."""
    builder = _Builder(layer, plan, tokens, topk, has_map, ids)
    if batched:
        assert isinstance(plan.gemm1, Gemm)
        assert isinstance(plan.gemm2, Gemm)
        if builder.quantized:
            builder.dtypes["x"] = torch.int8
        builder.batched(plan.gemm1._replace(bm2=0), plan.gemm2._replace(bm2=0), batched)
    elif isinstance(plan.gemm1, Few):
        assert isinstance(plan.gemm2, Few)
        builder.one_token(plan.gemm1, plan.gemm2)
    else:
        assert isinstance(plan.gemm2, Gemm)
        configs = [config._replace(bm2=0) if plan.lookup else config for config in (plan.gemm1, plan.gemm2)]
        builder.standard(*configs)
    return Program(builder.steps, max(builder.scratch.nbytes, 1), builder.dtypes)


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """What is not there is not read; any pointer will do."""
    return other if tensor is None else tensor


def _accumulator(integer: bool) -> Any:
    from triton import language as tl

    return tl.int32 if integer else tl.float32


def _row_warps(elements: int) -> int:
    return max(1, min(8, elements // 512))


def _describable(w: Tensor) -> bool:
    """Whether a tensor-memory descriptor can hold the weights."""
    return w.shape[2] * w.dtype.itemsize % 16 == 0 and w.data_ptr() % 16 == 0

"""Collecting the launches of one call: compiled kernels are shared, scratch memory is laid out.

Legend: T tokens, K top-k slots, R = T * K routed slots, H hidden size, I intermediate size, E experts of this rank.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from triton import cdiv

from moe_select_triton.config import Plan
from moe_select_triton.launch import ALIGNMENT, Buffer, Given, Kernel, Step
from moe_select_triton.layer import Layer, Program

_ALIGN: Final = 256
"""Bytes; parts of the scratch memory start at multiples of it."""

X, OUT, IDS, WEIGHTS = Given("x"), Given("out"), Given("ids"), Given("weights")
MAP, X_SCALE, COUNTS = Given("map"), Given("x_scale"), Given("counts")

_kernels: dict[tuple[Any, ...], Kernel] = {}


class Builder:
    """The launches of one number of tokens.

    Attributes:
        map: the expert map; where there is none, something that is not read.
        hidden_dtype: of what lies between the GEMMs.
        quantized: activations are int8.

    """

    def __init__(self, layer: Layer, plan: Plan, tokens: int, topk: int, has_map: bool, ids: torch.dtype) -> None:
        self.layer, self.plan, self.tokens, self.topk, self.has_map = layer, plan, tokens, topk, has_map
        self.experts, self.hidden_size, self.size = layer.sizes
        self.slots = tokens * topk
        self.quantized = layer.scheme == "w8a8"
        # One scale for all rows leaves small rows few steps, in which the rounding of bfloat16 would show.
        self.hidden_dtype = torch.float32 if layer.mode else layer.dtype
        self.map = MAP if has_map else IDS
        self.dtypes = {"x": layer.dtype, "out": layer.dtype, "ids": ids, "map": torch.int32, "counts": torch.int32}
        self.dtypes |= {"weights": torch.float32, "x_scale": torch.float32}
        self._steps: list[Step] = []
        self._nbytes = 0

    def scratch(self, dtype: torch.dtype, *shape: int) -> Buffer:
        """A part of the scratch memory."""
        buffer = Buffer(self._nbytes, shape, dtype)
        self._nbytes += cdiv(math.prod(shape) * dtype.itemsize, _ALIGN) * _ALIGN
        return buffer

    def add(
        self, function: Any, grid: tuple[int, ...], arguments: list[Any], constants: dict[str, Any], **options: int
    ) -> None:
        """Append a launch. Equal kernels of all layers are one, and are compiled once."""
        constants = constants | {"PDL": self.plan.pdl}
        if self.plan.pdl:
            options["launch_pdl"] = True
        types = tuple(self._type(item) for item in arguments)
        key = (function, types, *constants.items(), *options.items())
        kernel = _kernels.setdefault(key, Kernel(function, constants, options))
        x, y, z = (*grid, *(1,) * (3 - len(grid)))
        self._steps.append(Step(kernel, (x, y, z), arguments))

    def _type(self, item: Any) -> Any:
        """What Triton compiles for: the dtype, and whether the address is aligned."""
        if isinstance(item, Given):
            return self.dtypes[item.name]
        if isinstance(item, Tensor):
            return item.dtype, item.data_ptr() % ALIGNMENT == 0
        return item.dtype if isinstance(item, Buffer) else type(item)

    def program(self) -> Program:
        """Everything that was added."""
        return Program(self._steps, max(self._nbytes, 1), self.dtypes)


def either(tensor: Tensor | None, other: Tensor) -> Tensor:
    """What is not there is not read; any pointer will do."""
    return other if tensor is None else tensor


def accumulator(builder: Builder) -> Any:
    """What products are summed in."""
    from triton import language as tl

    return tl.int32 if builder.quantized else tl.float32


def row_warps(elements: int) -> int:
    """Warps of a program that works on so many elements."""
    return max(1, min(8, elements // 512))


def activation(layer: Layer) -> dict[str, Any]:
    """What the first GEMM does besides multiplying."""
    name, *numbers = layer.act
    constants = dict(zip(("C0", "C1", "C2"), numbers, strict=True))
    return {"GATED": layer.gated, "INTERLEAVED": layer.interleaved, "ACT": name, **constants}


NO_ACTIVATION: Final[dict[str, Any]] = {
    "GATED": False, "INTERLEAVED": False, "ACT": None, "C0": None, "C1": None, "C2": None,
}  # fmt: skip

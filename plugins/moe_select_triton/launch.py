"""Launching compiled kernels without the work that Triton does on each call to find the right one.

A layer's kernels differ in nothing from call to call but addresses and a few counts, so the compiled kernel is kept and handed
its arguments. The first call, Triton's interpreter and addresses that are not multiples of 16 bytes take Triton's own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from triton import knobs

ALIGNMENT: Final = 16
"""Bytes that Triton's compiled kernels may rely on where the first addresses they saw were multiples of it."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A part of the scratch memory of one call."""

    offset: int
    """Bytes."""
    shape: tuple[int, ...]
    dtype: torch.dtype

    def view(self, scratch: Tensor) -> Tensor:
        """The part as a tensor."""
        size = self.dtype.itemsize
        for extent in self.shape:
            size *= extent
        return scratch[self.offset : self.offset + size].view(self.dtype).view(self.shape)


@dataclass(slots=True)
class Given:
    """A tensor of the call: x, topk_weights, topk_ids, expert_map, out and so on."""

    name: str


@dataclass(slots=True)
class Kernel:
    """A Triton function with all its compile-time arguments."""

    function: Any
    constants: dict[str, Any]
    options: dict[str, Any]
    compiled: dict[int, Any] = field(default_factory=dict)
    """By device."""


@dataclass(slots=True)
class Step:
    """One launch."""

    kernel: Kernel
    grid: tuple[int, int, int]
    arguments: Sequence[Any]
    """Tensors, descriptors and numbers as they are; :class:`Buffer` and :class:`Given` are filled in at the call."""

    def run(self, given: dict[str, Tensor], scratch: Tensor, fast: bool) -> None:
        """Launch. ``fast`` says that the addresses of what is given are aligned."""
        kernel = self.kernel
        compiled = kernel.compiled.get(scratch.device.index) if fast else None
        if compiled is None:
            arguments = [_tensor(item, given, scratch) for item in self.arguments]
            made = kernel.function[self.grid](*arguments, **kernel.constants, **kernel.options)
            if fast:
                kernel.compiled[scratch.device.index] = made
            return
        base = scratch.data_ptr()
        arguments = [
            base + item.offset if type(item) is Buffer else given[item.name] if type(item) is Given else item
            for item in self.arguments
        ]
        compiled[self.grid](*arguments, *kernel.constants.values())

    def compile(self, dtypes: dict[str, torch.dtype], scratch: Tensor) -> None:
        """Compile without launching. Nothing is read, so tensors may be of torch's ``meta`` device."""
        given = {name: torch.empty(1, dtype=dtype, device="meta") for name, dtype in dtypes.items()}
        arguments = [_tensor(item, given, scratch) for item in self.arguments]
        self.kernel.function.warmup(*arguments, grid=self.grid, **self.kernel.constants, **self.kernel.options)


def _tensor(item: Any, given: dict[str, Tensor], scratch: Tensor) -> Any:
    if isinstance(item, Buffer):
        return item.view(scratch)
    return given[item.name] if isinstance(item, Given) else item


def may_be_fast(given: dict[str, Tensor]) -> bool:
    """Whether compiled kernels can be handed these tensors."""
    return not interpreting() and all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in given.values())


def interpreting() -> bool:
    """Whether Triton runs its kernels by its interpreter."""
    return bool(knobs.runtime.interpret)

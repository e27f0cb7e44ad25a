"""Buffers for one call of a kernel.

On GPUs torch's caching allocator hands out blocks, and CUDA graphs keep theirs. On CPUs a fresh allocation is page faults, so
buffers are kept per thread and grow only: all layers that a thread runs share them, one after another.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

import torch
from torch import Tensor

from moe_select.kernels.experts import BufferSpec


class _Pool(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        size, held = math.prod(shape), self.buffers.get((name, dtype))
        if held is None or held.numel() < size:
            held = self.buffers[name, dtype] = torch.empty(size, dtype=dtype)
        return held[:size].view(shape)


_pool = _Pool()


def acquire(specs: Mapping[str, BufferSpec], device: torch.device) -> dict[str, Tensor]:
    """Uninitialized buffers; on CPUs valid until this thread's next call."""
    if device.type != "cpu":
        return {name: torch.empty(s.shape, dtype=getattr(torch, s.dtype), device=device) for name, s in specs.items()}
    return {name: _pool.take(name, spec.shape, getattr(torch, spec.dtype)) for name, spec in specs.items()}


def release() -> None:
    """Give the buffers of this thread back."""
    _pool.buffers.clear()

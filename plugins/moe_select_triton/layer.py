"""One layer as a sequence of launches: made once for each number of tokens, then only filled in.

Legend: T tokens, K top-k slots, R = T * K routed slots, H hidden size, I intermediate size, E experts of this rank, F rows of
w13, M rows per expert of the batched format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from moe_select_triton.config import Plan
from moe_select_triton.launch import Step, may_be_fast

MOST_PLANS: Final = 4096
"""Numbers of tokens whose launches are kept; past that they are made anew."""


@dataclass(slots=True)
class Weights:
    """One GEMM's operand."""

    w: Tensor
    """``[E, F, K]``, contiguous."""
    scale: Tensor | None
    """``[E, F]`` or ``[E]``."""
    bias: Tensor | None
    a_scale: Tensor | None
    """Static activation scale, ``[1]``."""

    @property
    def scales(self) -> int:
        """2 for one a channel, 1 for one an expert, 0 for none."""
        return 0 if self.scale is None else self.scale.dim()


@dataclass(slots=True)
class Layer:
    """What ``prepare_weights`` returns."""

    w13: Weights
    w2: Weights
    dtype: torch.dtype
    scheme: str
    """``w8a8``, ``w8a16`` or ``unquantized``."""
    mode: int
    """How activations are quantized: see :mod:`moe_select_triton.kernels.quantize`."""
    gated: bool
    interleaved: bool
    act: tuple[str, float | None, float | None, float | None]
    planner: Callable[[int, int], Plan] | None = None
    """``(tokens, topk)`` to a plan; None for layers that are only compiled."""
    programs: dict[tuple[Any, ...], Program] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """E, H and I."""
        E, H, I = self.w2.w.shape  # noqa: E741
        return E, H, I

    def nbytes(self, tokens: int, topk: int, batched: bool) -> int:
        """Scratch memory of a call; ``tokens`` are rows per expert where ``batched``."""
        return self.program(tokens, topk, False, torch.int32, tokens if batched else 0).nbytes

    def program(self, tokens: int, topk: int, has_map: bool, ids: torch.dtype, batched: int = 0) -> Program:
        """The launches for a number of tokens (rows per expert where ``batched``)."""
        key = (tokens, topk, has_map, ids, batched)
        found = self.programs.get(key)
        if found is None:
            from moe_select_triton.program import make_program

            if len(self.programs) >= MOST_PLANS:
                self.programs.clear()
            assert self.planner is not None
            found = self.programs[key] = make_program(
                self, self.planner(tokens, topk), tokens, topk, has_map, ids, batched
            )
        return found


@dataclass(slots=True)
class Program:
    """The launches of one call and the scratch memory they share."""

    steps: list[Step]
    nbytes: int
    dtypes: dict[str, torch.dtype]
    """Of the tensors that a call brings."""

    def run(self, given: dict[str, Tensor], scratch: Tensor) -> None:
        """Launch everything, on the device that holds the scratch memory."""
        device = scratch.device
        if device.type == "cuda" and device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                self._launch(given, scratch)
        else:
            self._launch(given, scratch)

    def _launch(self, given: dict[str, Tensor], scratch: Tensor) -> None:
        fast = may_be_fast(given)
        for step in self.steps:
            step.run(given, scratch, fast)

    def compile(self) -> None:
        """Compile everything without launching it."""
        scratch = torch.empty(self.nbytes, dtype=torch.uint8, device="meta")
        for step in self.steps:
            step.compile(self.dtypes, scratch)

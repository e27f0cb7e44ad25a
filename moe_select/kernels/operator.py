"""Kernels as torch operators, so that ``torch.compile`` takes a call as one node of its graph and looks no further.

A kernel is named in the graph by a number; :func:`number_of` gives it and keeps the kernel findable as long as it lives.

Legend: T tokens, K top-k slots, H hidden size, G experts over all ranks.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Final

import torch
from torch import Tensor

from moe_select.errors import KernelCallError

_numbers: Final = itertools.count()
_kernels: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()


def number_of(kernel: Any) -> int:
    """A number that no other kernel of the process has had."""
    number = next(_numbers)
    _kernels[number] = kernel
    return number


def _kernel(number: int) -> Any:
    found = _kernels.get(number)
    if found is None:
        raise KernelCallError(
            f"kernel {number} of a compiled graph is gone; keep the kernel alive as long as the compiled function"
        )
    return found


@torch.library.custom_op("moe_select::modular", mutates_args=())
def modular(
    x_TH: Tensor,
    topk_weights_TK: Tensor,
    topk_ids_TK: Tensor,
    expert_map_G: Tensor | None,
    on_input: bool,
    number: int,
) -> Tensor:
    """:meth:`moe_select.kernels.MoEKernel.__call__` of the kernel with this number."""
    result: Tensor = _kernel(number).run(x_TH, topk_weights_TK, topk_ids_TK, expert_map_G, on_input)
    return result


@torch.library.custom_op("moe_select::monolithic", mutates_args=())
def monolithic(x_TH: Tensor, router_logits_TG: Tensor, expert_map_G: Tensor | None, number: int) -> Tensor:
    """:meth:`moe_select.kernels.MonolithicMoEKernel.__call__` of the kernel with this number."""
    result: Tensor = _kernel(number).run(x_TH, router_logits_TG, expert_map_G)
    return result


@modular.register_fake
def _(
    x_TH: Tensor,
    topk_weights_TK: Tensor,  # noqa: ARG001
    topk_ids_TK: Tensor,  # noqa: ARG001
    expert_map_G: Tensor | None,  # noqa: ARG001
    on_input: bool,  # noqa: ARG001
    number: int,  # noqa: ARG001
) -> Tensor:
    return x_TH.new_empty(x_TH.shape)


@monolithic.register_fake
def _(x_TH: Tensor, router_logits_TG: Tensor, expert_map_G: Tensor | None, number: int) -> Tensor:  # noqa: ARG001
    return x_TH.new_empty(x_TH.shape)

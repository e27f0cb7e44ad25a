"""Checking a call's tensors: everything that is wrong at once. Values are looked at on CPUs only; a GPU would have to wait.

Legend: T tokens, K top-k slots, H hidden size, E experts of this rank, G experts over all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from moe_select.errors import KernelCallError

if TYPE_CHECKING:
    from moe_select.kernels.kernel import MoEKernel, MonolithicMoEKernel, _Kernel

_INTEGERS = (torch.int32, torch.int64)


def check_modular(
    kernel: MoEKernel,
    x_TH: Tensor,
    topk_weights_TK: Tensor,
    topk_ids_TK: Tensor,
    expert_map: Tensor | None,
    on_input: bool,
    out: Tensor | None,
) -> None:
    """Check the arguments of :meth:`MoEKernel.__call__`."""
    problems = list(_tokens(kernel, x_TH, out))
    T, K = x_TH.shape[:1], kernel.request.topk
    if topk_ids_TK.dim() != 2 or topk_ids_TK.shape[:1] != T or topk_ids_TK.shape[1] != (K or topk_ids_TK.shape[1]):
        problems.append(f"topk_ids is {_shape(topk_ids_TK)}; expected [T, K] = [{_count(x_TH)}, {K or 'K'}]")
    elif topk_ids_TK.dtype not in _INTEGERS:
        problems.append(f"topk_ids is {topk_ids_TK.dtype}; expected int32 or int64")
    if topk_weights_TK.shape != topk_ids_TK.shape or not topk_weights_TK.is_floating_point():
        given = f"{_shape(topk_weights_TK)} of {topk_weights_TK.dtype}"
        problems.append(f"topk_weights is {given}; expected floats shaped like topk_ids, {_shape(topk_ids_TK)}")
    if on_input and topk_ids_TK.dim() == 2 and topk_ids_TK.shape[1] != 1:
        problems.append(
            f"apply_router_weight_on_input needs one slot, topk is {topk_ids_TK.shape[1]}: "
            "each expert would need its own copy of the token"
        )
    problems += _map(kernel, expert_map)
    problems += _devices(kernel, {"topk_weights": topk_weights_TK, "topk_ids": topk_ids_TK})
    if not problems:
        problems += _ids(kernel, topk_ids_TK, expert_map)
    _raise(kernel, problems)


def check_monolithic(
    kernel: MonolithicMoEKernel, x_TH: Tensor, router_logits_TG: Tensor, expert_map: Tensor | None, out: Tensor | None
) -> None:
    """Check the arguments of :meth:`MonolithicMoEKernel.__call__`."""
    problems = list(_tokens(kernel, x_TH, out))
    G = kernel.request.num_experts
    if router_logits_TG.dim() != 2 or list(router_logits_TG.shape) != [*x_TH.shape[:1], G]:
        problems.append(f"router_logits is {_shape(router_logits_TG)}; expected [T, G] = [{_count(x_TH)}, {G}]")
    wanted = getattr(torch, kernel.request.resolved_router_logits_dtype)
    if router_logits_TG.dtype is not wanted:
        problems.append(f"router_logits is {router_logits_TG.dtype}; the request says {wanted}")
    problems += _map(kernel, expert_map)
    problems += _devices(kernel, {"router_logits": router_logits_TG})
    _raise(kernel, problems)


def _tokens(kernel: _Kernel, x_TH: Tensor, out: Tensor | None) -> Iterator[str]:
    request = kernel.request
    if x_TH.dim() != 2 or x_TH.shape[1] != request.hidden_dim:
        yield f"x is {_shape(x_TH)}; expected [T, H] with H = {request.hidden_dim}"
    elif request.max_tokens is not None and x_TH.shape[0] > request.max_tokens:
        yield f"{x_TH.shape[0]} tokens; the request said at most {request.max_tokens} (max_tokens)"
    wanted = getattr(torch, request.in_dtype)
    if x_TH.dtype is not wanted:
        yield f"x is {x_TH.dtype}; the kernel was built for {wanted} (in_dtype)"
    yield from _devices(kernel, {"x": x_TH})
    if out is not None:
        if out.shape != x_TH.shape or out.dtype is not wanted:
            yield f"out is {_shape(out)} of {out.dtype}; expected {_shape(x_TH)} of {wanted}"
        yield from _devices(kernel, {"out": out})


def _map(kernel: _Kernel, expert_map: Tensor | None) -> Iterator[str]:
    if expert_map is None:
        return
    E, G = kernel.request.local_experts, kernel.request.num_experts
    if expert_map.dim() != 1 or expert_map.dtype not in _INTEGERS:
        yield f"expert_map is {_shape(expert_map)} of {expert_map.dtype}; expected [G] of int32 or int64"
    elif kernel.request.parallel.use_ep and expert_map.shape[0] != G:
        yield f"expert_map has {expert_map.shape[0]} entries; the request has {G} experts over all ranks"
    elif kernel.device.type == "cpu" and expert_map.numel():
        low, high = (int(value) for value in expert_map.aminmax())
        if low < -1 or high >= (E or 0):
            yield f"expert_map holds {low} to {high}; legal: -1 (elsewhere) to {(E or 0) - 1}"
    yield from _devices(kernel, {"expert_map": expert_map})


def _ids(kernel: _Kernel, topk_ids_TK: Tensor, expert_map: Tensor | None) -> Iterator[str]:
    if kernel.device.type != "cpu" or not topk_ids_TK.numel():
        return
    count = kernel.request.local_experts if expert_map is None else expert_map.shape[0]
    low, high = (int(value) for value in topk_ids_TK.aminmax())
    if low < -1 or high >= (count or 0):
        hint = "" if expert_map is not None else "; ids of experts on other ranks need expert_map"
        yield f"topk_ids holds {low} to {high}; legal: -1 (padding) to {(count or 0) - 1}{hint}"


def _devices(kernel: _Kernel, tensors: dict[str, Tensor]) -> list[str]:
    return [
        f"{name} is on {tensor.device}; the kernel was built on {kernel.device}"
        for name, tensor in tensors.items()
        if tensor.device != kernel.device
    ]


def _raise(kernel: _Kernel, problems: list[str]) -> None:
    if problems:
        raise KernelCallError("\n".join([f"wrong call of {kernel!r}:", *(f"  - {problem}" for problem in problems)]))


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


def _count(x_TH: Tensor) -> str:
    return str(x_TH.shape[0]) if x_TH.dim() else "T"

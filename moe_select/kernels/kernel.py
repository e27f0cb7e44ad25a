"""The built kernels: one straight path from a call's tensors to the output.

Legend: T tokens, K top-k slots, H hidden size, E experts of this rank, G experts over all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moe_select.kernels import call_checks, operator
from moe_select.kernels.workspace import acquire

if TYPE_CHECKING:
    from moe_select.kernels.experts import Experts, ModularExperts, MonolithicExperts
    from moe_select.kernels.prepare_finalize import PrepareFinalize
    from moe_select.kernels.routing import Router
    from moe_select.selection.report import Selection
    from moe_select.vocabulary import MoEConfig


class _Kernel:
    """What both kinds share.

    Attributes:
        selection: the decision this was built from.
        request: the layer, with sizes filled in from the weights.
        experts: the experts instance.
        prepare_finalize: the prepare/finalize instance.

    """

    experts: Experts

    def __init__(
        self,
        *,
        selection: Selection,
        request: MoEConfig,
        experts: Experts,
        prepare_finalize: PrepareFinalize,
        prepared: Any,
        device: torch.device,
    ) -> None:
        self.selection, self.request, self.device = selection, request, device
        self.experts, self.prepare_finalize, self._prepared = experts, prepare_finalize, prepared
        self._dtype = getattr(torch, request.in_dtype)
        self._number = operator.number_of(self)

    def __repr__(self) -> str:
        name = f"{self.selection.backend}/{type(self.experts).__name__}"
        return f"<{type(self).__name__} {name}, {self.prepare_finalize.name}, on {self.device}>"

    def _workspace(self, tokens: int, topk: int) -> dict[str, Tensor]:
        return acquire(self.experts.workspace(tokens, topk), self.device)

    def _target(self, out_TH: Tensor | None, x_TH: Tensor) -> Tensor:
        """Where the experts may write: ``out`` itself where nothing is read from its memory and its rows are packed."""
        if out_TH is None:
            return torch.empty(x_TH.shape, dtype=self._dtype, device=self.device)
        shared = out_TH.untyped_storage().data_ptr() == x_TH.untyped_storage().data_ptr()
        return (
            torch.empty_like(out_TH, memory_format=torch.contiguous_format)
            if shared or not out_TH.is_contiguous()
            else out_TH
        )


class MoEKernel(_Kernel):
    """A layer that takes routing decisions. Made by :meth:`Selection.build`."""

    experts: ModularExperts

    @torch.no_grad()
    def __call__(
        self,
        x_TH: Tensor,
        topk_weights_TK: Tensor,
        topk_ids_TK: Tensor,
        expert_map: Tensor | None = None,
        apply_router_weight_on_input: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run the layer.

        Args:
            x_TH: ``[T, H]`` in the request's ``in_dtype``, any strides.
            topk_weights_TK: ``[T, K]``, floats.
            topk_ids_TK: ``[T, K]``, int32 or int64, global ids (local ids without ``expert_map``); -1 is padding.
            expert_map: ``[G]``, int32 or int64, global id to local id, or -1 for experts of other ranks.
            apply_router_weight_on_input: scale the tokens before the experts instead of their output; one slot only.
            out: ``[T, H]``, written and returned; may be ``x_TH`` itself.

        Returns:
            ``[T, H]``: the sum over the slots whose expert is on this rank.

        Raises:
            KernelCallError: the tensors do not fit; lists everything that is wrong.

        """
        if torch.compiler.is_compiling():
            on_input = apply_router_weight_on_input
            made = operator.modular(x_TH, topk_weights_TK, topk_ids_TK, expert_map, on_input, self._number)
            return made if out is None else out.copy_(made)
        return self.run(x_TH, topk_weights_TK, topk_ids_TK, expert_map, apply_router_weight_on_input, out)

    def run(
        self,
        x_TH: Tensor,
        topk_weights_TK: Tensor,
        topk_ids_TK: Tensor,
        expert_map: Tensor | None = None,
        apply_router_weight_on_input: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        """What :meth:`__call__` does where nothing is being compiled."""
        call_checks.check_modular(
            self, x_TH, topk_weights_TK, topk_ids_TK, expert_map, apply_router_weight_on_input, out
        )
        target_TH = self._target(out, x_TH)
        if x_TH.shape[0]:
            self._run(
                target_TH,
                x_TH.contiguous(),
                topk_weights_TK.float().contiguous(),
                topk_ids_TK.contiguous(),
                None if expert_map is None else expert_map.to(torch.int32).contiguous(),
                apply_router_weight_on_input,
            )
        return target_TH if out is None or out is target_TH else out.copy_(target_TH)

    def _run(
        self,
        out_TH: Tensor,
        x_TH: Tensor,
        topk_weights_TK: Tensor,
        topk_ids_TK: Tensor,
        expert_map_G: Tensor | None,
        on_input: bool,
    ) -> None:
        inputs, state = self.prepare_finalize.prepare(x_TH, topk_weights_TK, topk_ids_TK, expert_map_G, on_input)
        batched = inputs.expert_num_tokens_E is not None
        tokens, topk = inputs.x.shape[-2], inputs.topk_ids_TK.shape[1]
        if self.experts.reduces and not self.prepare_finalize.travels:
            expert_out = out_TH
        else:
            lead = inputs.x.shape[:2] if batched else (tokens, *([] if self.experts.reduces else [topk]))
            expert_out = torch.empty(*lead, x_TH.shape[1], dtype=self._dtype, device=self.device)
        self.experts.apply(expert_out, inputs, self._prepared, self._workspace(tokens, topk))
        self.prepare_finalize.finalize(out_TH, expert_out, inputs, state, self.experts.reduces)


class MonolithicMoEKernel(_Kernel):
    """A layer that routes by itself. Made by :meth:`Selection.build`."""

    experts: MonolithicExperts

    def __init__(self, *, router: Router, **parts: Any) -> None:
        super().__init__(**parts)
        self.router = router

    @torch.no_grad()
    def __call__(
        self,
        x_TH: Tensor,
        router_logits_TG: Tensor,
        expert_map: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Route and run the layer.

        Args:
            x_TH: ``[T, H]`` in the request's ``in_dtype``, any strides.
            router_logits_TG: ``[T, G]`` in the request's router-logits dtype.
            expert_map: as in :meth:`MoEKernel.__call__`.
            out: as there.

        Returns:
            ``[T, H]``.

        Raises:
            KernelCallError: the tensors do not fit; lists everything that is wrong.

        """
        if torch.compiler.is_compiling():
            made = operator.monolithic(x_TH, router_logits_TG, expert_map, self._number)
            return made if out is None else out.copy_(made)
        return self.run(x_TH, router_logits_TG, expert_map, out)

    def run(
        self, x_TH: Tensor, router_logits_TG: Tensor, expert_map: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """What :meth:`__call__` does where nothing is being compiled."""
        call_checks.check_monolithic(self, x_TH, router_logits_TG, expert_map, out)
        target_TH = self._target(out, x_TH)
        tokens = x_TH.shape[0]
        if tokens:
            self.experts.apply(
                target_TH,
                self.prepare_finalize.prepare_monolithic(x_TH.contiguous()),
                router_logits_TG.contiguous(),
                self.router,
                None if expert_map is None else expert_map.to(torch.int32).contiguous(),
                self._prepared,
                self._workspace(tokens, self.router.topk),
            )
        return target_TH if out is None or out is target_TH else out.copy_(target_TH)

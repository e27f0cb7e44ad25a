"""Prepare/finalize of one rank: tokens stay where they are.

Legend: T tokens, K top-k slots, H hidden size, E experts of this rank, G experts over all ranks, M rows per expert.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moe_select.kernels.experts import ExpertInputs
from moe_select.kernels.prepare_finalize import PrepareFinalize, QuantizedActivations
from moe_select.support import Code, Refusal
from moe_select.vocabulary import PER_TENSOR, ActivationFormat, All2AllBackend, MoEConfig, QuantKey

if TYPE_CHECKING:
    from torch import Tensor

    from moe_select.environment import Environment


class _Local(PrepareFinalize):
    """What both formats share: nothing travels, activations are quantized here."""

    @classmethod
    def refusals(cls, request: MoEConfig, environment: Environment) -> Iterator[Refusal]:  # noqa: ARG003
        """Refuses layouts in which tokens must reach other ranks."""
        parallel = request.parallel
        if parallel.use_all2all and parallel.all2all_backend is not All2AllBackend.PASSTHROUGH:
            detail = f"{cls.name} moves no tokens; this layout needs {parallel.all2all_backend.value}"
            yield Refusal(Code.ALL2ALL_UNSUPPORTED, detail)

    def prepare_monolithic(self, x_TH: Tensor) -> QuantizedActivations:
        """Quantize."""
        return self._quantized(x_TH)

    def _quantized(self, x_TH: Tensor) -> QuantizedActivations:
        config, key = self.quant_config, self.quant_config.activation_key
        if key is None or not self.quantize_inputs:
            return QuantizedActivations(x_TH)
        from moe_select.kernels.quantize import quantize

        static = {"scale": config.a1_scale, "zero_point": config.a1_zero_point, "scale_2": config.a1_scale_2}
        return QuantizedActivations(*quantize(x_TH, key, **static))


def _weighted(x_TH: Tensor, topk_weights_TK: Tensor, on_input: bool) -> tuple[Tensor, Tensor]:
    """Tokens and the weights that are left to apply. One slot only: with more, each expert would need its own copy."""
    if not on_input:
        return x_TH, topk_weights_TK
    return (x_TH.float() * topk_weights_TK).to(x_TH.dtype), topk_weights_TK.new_ones(topk_weights_TK.shape)


class LocalStandard(_Local):
    """``[T, H]`` as it is."""

    name = "local_standard"
    activation_format = ActivationFormat.STANDARD

    def prepare(
        self,
        x_TH: Tensor,
        topk_weights_TK: Tensor,
        topk_ids_TK: Tensor,
        expert_map_G: Tensor | None,
        apply_router_weight_on_input: bool,
    ) -> tuple[ExpertInputs, Any]:
        """Quantize."""
        x_TH, topk_weights_TK = _weighted(x_TH, topk_weights_TK, apply_router_weight_on_input)
        inputs = ExpertInputs(
            topk_weights_TK=topk_weights_TK,
            topk_ids_TK=topk_ids_TK,
            expert_map_G=expert_map_G,
            **self._quantized(x_TH)._asdict(),
        )
        return inputs, None

    def finalize(self, out_TH: Tensor, expert_out: Tensor, inputs: ExpertInputs, state: Any, reduced: bool) -> None:  # noqa: ARG002
        """Sum the slots, unless the experts did."""
        if reduced:
            if expert_out is not out_TH:
                out_TH.copy_(expert_out)
            return
        from moe_select.kernels.placement import combine, local_ids

        here_TK = local_ids(inputs.topk_ids_TK, inputs.expert_map_G) >= 0
        combine(out_TH, lambda slot: expert_out[:, slot], here_TK, inputs.topk_weights_TK)


class LocalBatched(_Local):
    """``[E, M, H]`` built on this rank. The ids of one token must differ."""

    name = "local_batched"
    activation_format = ActivationFormat.BATCHED_EXPERTS

    def prepare(
        self,
        x_TH: Tensor,
        topk_weights_TK: Tensor,
        topk_ids_TK: Tensor,
        expert_map_G: Tensor | None,
        apply_router_weight_on_input: bool,
    ) -> tuple[ExpertInputs, Any]:
        """Quantize, then copy each row to its experts."""
        from moe_select.kernels.placement import local_ids, place, scatter

        x_TH, topk_weights_TK = _weighted(x_TH, topk_weights_TK, apply_router_weight_on_input)
        experts = self.request.local_experts
        assert experts is not None  # filled in from the weights
        placement, counts_E, width = place(local_ids(topk_ids_TK, expert_map_G), experts)

        tokens = x_TH.shape[0]
        parts = self._quantized(x_TH)._asdict()
        shared = _shared_parts(self.quant_config.activation_key)
        for name, rows in parts.items():
            if rows is not None and name not in shared and rows.shape[0] == tokens:
                parts[name] = scatter(rows, placement, experts, width)
        inputs = ExpertInputs(
            topk_weights_TK=topk_weights_TK,
            topk_ids_TK=topk_ids_TK,
            expert_map_G=expert_map_G,
            expert_num_tokens_E=counts_E,
            **parts,
        )
        return inputs, placement

    def finalize(self, out_TH: Tensor, expert_out: Tensor, inputs: ExpertInputs, state: Any, reduced: bool) -> None:  # noqa: ARG002
        """Gather each slot's row and sum."""
        from moe_select.kernels.placement import combine

        flat_RH = expert_out.flatten(0, 1)
        last = max(flat_RH.shape[0] - 1, 0)

        def rows(slot: int) -> Tensor:
            return flat_RH[state.row_TK[:, slot].clamp(max=last)]

        if flat_RH.shape[0] == 0:
            out_TH.zero_()
        else:
            combine(out_TH, rows, state.here_TK, inputs.topk_weights_TK)


def _shared_parts(key: QuantKey | None) -> set[str]:
    """Parts of quantized activations that hold one value for all tokens."""
    shared = {"x_scale", "x_zero_point"} if key is not None and (key.static or key.group == PER_TENSOR) else set()
    return shared | ({"x_scale_2"} if key is not None and key.scale2 is not None and key.scale2.static else set())

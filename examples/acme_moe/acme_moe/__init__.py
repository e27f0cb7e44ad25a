"""A complete plugin: unquantized experts in plain torch, one dense pass per expert.

Legend: T tokens, K top-k slots, H hidden size, I intermediate size, F = 2I, E experts, G global experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moe_select import Activation, Backend, ModularExperts, MoEWeights, Support, hookimpl
from moe_select.kernels.experts import ExpertInputs, Workspace
from moe_select.support import any_device


class AcmeExperts(ModularExperts):
    """SwiGLU experts; every expert sees the rows routed to it."""

    support = Support(
        devices=(any_device(),),
        quant=frozenset({(None, None)}),
        activations=frozenset({Activation.SILU}),
        features={"deterministic": True},
        requires=("torch>=2.11",),
    )

    def prepare_weights(self, weights: MoEWeights) -> Any:
        """Nothing to convert: the canonical layout is used as it is."""
        return weights.w13, weights.w2

    def apply(self, out: Any, inputs: ExpertInputs, prepared: Any, workspace: Workspace) -> None:
        """Write the weighted sum of the chosen experts to ``out`` ``[T, H]``."""
        import torch
        from torch.nn.functional import linear, silu

        w13_EFH, w2_EHI = prepared
        ids_TK = inputs.topk_ids_TK.long()
        if inputs.expert_map_G is not None:
            ids_TK = torch.where(ids_TK >= 0, inputs.expert_map_G.long()[ids_TK.clamp(min=0)], -1)
        total_TH = torch.zeros(out.shape, dtype=torch.float32, device=out.device)
        for expert in range(w13_EFH.shape[0]):
            token, slot = torch.where(ids_TK == expert)
            if token.numel():
                gate, up = linear(inputs.x[token], w13_EFH[expert]).chunk(2, dim=-1)
                y = linear(silu(gate) * up, w2_EHI[expert]).float()
                total_TH.index_add_(0, token, y * inputs.topk_weights_TK[token, slot, None])
        out.copy_(total_TH)


@hookimpl
def moe_select_backends() -> Iterator[Backend]:
    """Declare the backend; a policy must name it before it is ever used."""
    yield Backend(name="acme", experts=(AcmeExperts,), description="dense pass per expert in plain torch")

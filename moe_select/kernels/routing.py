"""From router logits to top-k weights and ids, in plain torch: what monolithic experts do inside.

Legend: T tokens, G experts over all ranks, K top-k slots, N groups of experts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from moe_select.errors import BuildError
from moe_select.vocabulary import RoutingMethod

Route = tuple[Tensor, Tensor]
"""``topk_weights_TK`` in float32 and ``topk_ids_TK`` in int32."""

_SIGMOID: Final = (
    RoutingMethod.DEEPSEEK_V3,
    RoutingMethod.SIGMOID,
    RoutingMethod.SIGMOID_RENORM,
    RoutingMethod.MINIMAX2,
)
_BIASED: Final = (RoutingMethod.DEEPSEEK_V3, RoutingMethod.DEEPSEEK_V4, RoutingMethod.MINIMAX2)
_RENORMALIZED: Final = (*_BIASED, RoutingMethod.RENORMALIZE_NAIVE, RoutingMethod.SIGMOID_RENORM)


@dataclass(frozen=True, eq=False, kw_only=True)
class Router:
    """A routing method with its parameters.

    Raises:
        BuildError: parameters that the method does not take, or that contradict each other.

    """

    method: RoutingMethod
    topk: int
    num_groups: int = 1
    """Groups that experts are divided into (``deepseek_v3``)."""
    topk_groups: int = 1
    """Groups that a token may choose from."""
    bias_G: Tensor | None = None
    """Added to the scores for the choice only."""
    scaling: float = 1.0
    """Multiplies the weights."""
    custom: Callable[[Tensor, int], Route] | None = None
    """For ``custom``: ``(router_logits_TG, topk)`` to weights and ids."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", RoutingMethod(self.method))
        problems = self._problems()
        if problems:
            raise BuildError("\n".join(["invalid router:", *(f"  - {problem}" for problem in problems)]))

    def _problems(self) -> list[str]:
        method, problems = self.method.value, []
        if self.method is RoutingMethod.UNSPECIFIED:
            known = ", ".join(name.value for name in RoutingMethod if name is not RoutingMethod.UNSPECIFIED)
            problems.append(f"routing_method is unspecified; say one of {known}")
        if (self.method is RoutingMethod.CUSTOM) != (self.custom is not None):
            problems.append(f"custom= is for the method custom and required there; method is {method}")
        if self.bias_G is not None and self.method not in _BIASED:
            problems.append(f"{method} takes no bias; methods that do: {', '.join(_BIASED)}")
        if self.num_groups > 1 and self.method is not RoutingMethod.DEEPSEEK_V3:
            problems.append(f"{method} knows no groups; num_groups {self.num_groups} given")
        if self.topk < 1:
            problems.append(f"topk is {self.topk}; expected at least 1")
        if not 1 <= self.topk_groups <= self.num_groups:
            problems.append(f"topk_groups is {self.topk_groups}; legal: 1 to num_groups = {self.num_groups}")
        return problems

    @property
    def weights_on_input(self) -> bool:
        """True where the method scales a token before the experts and not their output (Llama 4)."""
        return self.method is RoutingMethod.LLAMA4

    def route(self, router_logits_TG: Tensor) -> Route:
        """Weights and ids of the chosen experts, best first. Works in float32."""
        if self.custom is not None:
            weights_TK, ids_TK = self.custom(router_logits_TG, self.topk)
            return weights_TK.float(), ids_TK.to(torch.int32)
        logits_TG = router_logits_TG.float()
        if self.method is RoutingMethod.SIMULATED:
            return self._simulated(logits_TG)
        scores_TG = self._scores(logits_TG)
        ids_TK = self._choice(scores_TG).topk(self.topk, dim=-1).indices
        weights_TK = scores_TG.gather(1, ids_TK)
        if self.method is RoutingMethod.RENORMALIZE:
            weights_TK = weights_TK.softmax(-1)
        elif self.method is RoutingMethod.LLAMA4:
            weights_TK = weights_TK.sigmoid()
        elif self.method in _RENORMALIZED:
            weights_TK = weights_TK / weights_TK.sum(-1, keepdim=True)
        return weights_TK * self.scaling, ids_TK.to(torch.int32)

    def _scores(self, logits_TG: Tensor) -> Tensor:
        if self.method in _SIGMOID:
            return logits_TG.sigmoid()
        if self.method is RoutingMethod.DEEPSEEK_V4:
            return torch.nn.functional.softplus(logits_TG).sqrt()
        if self.method in (RoutingMethod.DEFAULT, RoutingMethod.RENORMALIZE_NAIVE):
            return logits_TG.softmax(-1)
        return logits_TG

    def _choice(self, scores_TG: Tensor) -> Tensor:
        """What top-k is taken of: scores with the bias, experts outside of the best groups left out.

        A group's score is the sum of its two best (DeepSeek-V3 technical report, section 2.1.2, and its model code).
        """
        choice_TG = scores_TG if self.bias_G is None else scores_TG + self.bias_G.float()
        if self.num_groups == 1:
            return choice_TG
        T, G = choice_TG.shape
        if G % self.num_groups:
            raise BuildError(f"{G} experts do not divide into {self.num_groups} groups")
        grouped_TNE = choice_TG.view(T, self.num_groups, -1)
        best_TN = grouped_TNE.topk(min(2, grouped_TNE.shape[-1]), dim=-1).values.sum(-1)
        keep = torch.zeros_like(best_TN, dtype=torch.bool)
        keep.scatter_(1, best_TN.topk(self.topk_groups, dim=-1).indices, True)
        return grouped_TNE.masked_fill(~keep.unsqueeze(-1), -torch.inf).view(T, G)

    def _simulated(self, logits_TG: Tensor) -> Route:
        """Equal load on all experts, equal weights."""
        T, G = logits_TG.shape
        ids_TK = torch.arange(T * self.topk, device=logits_TG.device).view(T, self.topk) % G
        weights_TK = torch.full((T, self.topk), self.scaling / self.topk, device=logits_TG.device)
        return weights_TK, ids_TK.to(torch.int32)

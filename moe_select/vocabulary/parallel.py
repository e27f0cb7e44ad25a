"""How one MoE layer is spread over ranks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from moe_select.vocabulary.frozen import FrozenModel
from moe_select.vocabulary.terms import All2AllBackend

Size = Annotated[int, Field(ge=1)]


class ParallelConfig(FrozenModel):
    """Sizes of the parallel groups *as the MoE layer sees them*.

    With expert parallelism an engine spends all of its tensor-, data- and prefill-context-parallel ranks on experts; then
    ``ep_size`` is their product and ``tp_size`` is 1. Without it, ``tp_size`` is what splits the intermediate size.

    Raises:
        RequestError: the sizes contradict each other; the message says which values would not.

    """

    _label: ClassVar[str] = "parallel config"

    tp_size: Size = 1
    pcp_size: Size = 1
    dp_size: Size = 1
    ep_size: Size = 1
    sp_size: Size = 1
    all2all_backend: All2AllBackend = All2AllBackend.ALLGATHER_REDUCESCATTER
    enable_eplb: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.ep_size == 1 and self.all2all_backend.needs_expert_parallel:
            problems.append(
                f"all2all_backend {self.all2all_backend.value} moves tokens between expert-parallel ranks but ep_size is 1; "
                "set ep_size to at least 2, or use allgather_reducescatter or passthrough"
            )
        if self.enable_eplb and self.ep_size == 1:
            problems.append("enable_eplb balances experts over ranks but ep_size is 1; set ep_size to at least 2")
        if self.ep_size > 1 and self.ep_size % (self.dp_size * self.pcp_size):
            spread = self.dp_size * self.pcp_size
            problems.append(
                f"ep_size {self.ep_size} must be a multiple of dp_size * pcp_size = {spread}; "
                f"legal: {spread}, {2 * spread}, {3 * spread}, ..."
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def use_ep(self) -> bool:
        """Experts are spread over ranks."""
        return self.ep_size > 1

    @property
    def use_all2all(self) -> bool:
        """Tokens must travel: experts are spread and so are the tokens."""
        return self.use_ep and (self.dp_size > 1 or self.pcp_size > 1 or self.sp_size > 1)

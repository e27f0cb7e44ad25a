"""Random weights for demos, benchmarks and tests.

Legend: E experts of this rank, H hidden size, I intermediate size of this rank, F rows of w13.
"""

from __future__ import annotations

import torch
from torch import Tensor

from moe_select.errors import WeightError
from moe_select.kernels.storage import storage_of
from moe_select.vocabulary import MoEConfig

_LARGEST = 4.0
"""Standard deviations that static activation scales cover."""


def random_weights(request: MoEConfig, seed: int, device: torch.device | str) -> dict[str, Tensor]:
    """Float fields of :class:`MoEWeights` for a request, with biases and static activation scales where it asks."""
    E, F, H, I = _sizes(request)  # noqa: E741
    generator = torch.Generator(device).manual_seed(seed)
    dtype = getattr(torch, request.in_dtype)

    def normal(*shape: int, std: float) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(std=std, generator=generator)

    found = {"w13": normal(E, F, H, std=H**-0.5), "w2": normal(E, H, I, std=I**-0.5)}
    if request.bias:
        found |= {"w13_bias": normal(E, F, std=0.2), "w2_bias": normal(E, H, std=0.2)}
    return found | _static_scales(request, device)


def _sizes(request: MoEConfig) -> tuple[int, int, int, int]:
    sizes = {
        "num_experts": request.local_experts,
        "intermediate_size": request.w13_rows,
        "hidden_dim": request.hidden_dim,
        "intermediate_size ": request.intermediate_size_per_partition,
    }
    missing = sorted({name.strip() for name, size in sizes.items() if size is None})
    if missing:
        raise WeightError(f"random weights need sizes that the request does not state: {', '.join(missing)}")
    E, F, H, I = (int(size or 0) for size in sizes.values())  # noqa: E741
    return E, F, H, I


def _static_scales(request: MoEConfig, device: torch.device | str) -> dict[str, Tensor]:
    key = request.activation_key
    if key is None:
        return {}
    storage = storage_of(key)
    found: dict[str, Tensor] = {}
    for name in ("a1", "a2"):
        if key.static:
            span = storage.highest if key.symmetric else (storage.highest - storage.lowest) / 2
            found[f"{name}_scale"] = torch.tensor(_LARGEST / span, device=device)
            if not key.symmetric:
                middle = round((storage.highest + storage.lowest) / 2)
                found[f"{name}_zero_point"] = torch.tensor(middle, dtype=torch.int32, device=device)
        if key.scale2 is not None and key.scale2.static:
            found[f"{name}_scale_2"] = torch.tensor(_LARGEST / (storage.highest * 448.0), device=device)
    return found

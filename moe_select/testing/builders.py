"""Requests and environments for tests, with the fields that do not matter filled in."""

from __future__ import annotations

from typing import Any

from moe_select.environment import Environment, preset
from moe_select.vocabulary import MoEConfig, ParallelConfig


def make_request(**changes: Any) -> MoEConfig:
    """A small int8 W8A8 layer (E=8, topk=2, H=64, I=96), with some fields changed.

    ``parallel`` may be a mapping. Fields that are set to None become unknown.

    >>> make_request(topk=4).topk
    4
    """
    fields: dict[str, Any] = {
        "num_experts": 8,
        "topk": 2,
        "hidden_dim": 64,
        "intermediate_size": 96,
        "weight_key": "int8_static_channel_sym",
        "activation_key": "int8_dynamic_token_sym",
    }
    if isinstance(changes.get("parallel"), dict):
        changes["parallel"] = ParallelConfig(**changes["parallel"])
    return MoEConfig(**fields | changes)


def make_environment(name: str = "zen4", **libraries: str | None) -> Environment:
    """A preset with libraries added, changed or (None) removed; underscores in names read as hyphens.

    >>> make_environment("h200", acme_kernels="2.0").version("acme-kernels")
    '2.0'
    """
    found = preset(name)
    named = {library.replace("_", "-"): version for library, version in libraries.items()}
    merged: dict[str, str | None] = {**dict(found.libraries), **named}
    return found.replace(libraries={library: version for library, version in merged.items() if version is not None})


def gpu_or_interpreter(name: str = "h200", **libraries: str) -> tuple[Environment, str]:
    """Where tests of GPU kernels run: this machine's GPU and ``cuda``; without one, a preset whose tensors lie on the host, and
    ``cpu``, for kernels that an interpreter runs there.

    Args:
        name: the preset that is pretended.
        libraries: versions that it has installed.

    """
    import torch

    from moe_select.environment import current

    if torch.cuda.is_available():
        return current(), "cuda"
    return preset(name).with_libraries(**libraries).replace(tensors_on="cpu"), "cpu"

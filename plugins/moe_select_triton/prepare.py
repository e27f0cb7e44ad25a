"""From canonical weights to a layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
import triton
from torch import Tensor

from moe_select.kernels.activations import OAI_ALPHA, OAI_BETA, OAI_LIMIT, SITU_BETA, STEP_LIMIT, has_constants
from moe_select.vocabulary import Activation, ActivationFormat, MoEConfig
from moe_select_triton.config import LOOKUP_SLOTS, Plan, choose
from moe_select_triton.layer import Layer, Weights
from moe_select_triton.tuned import Shape, load, nearest

if TYPE_CHECKING:
    from moe_select.kernels.quant_config import QuantConfig
    from moe_select.kernels.weights import MoEWeights

_TOKEN, _TENSOR, _STATIC = 0, 1, 2
_USUAL_ROWS: Final = 32
"""Rows an expert gets, for which the one configuration of a batch-invariant layer is chosen."""

Act = tuple[str, float | None, float | None, float | None]


def make_layer(weights: MoEWeights, request: MoEConfig, config: QuantConfig, directory: Path | None = None) -> Layer:
    """References to the weights, scales flattened, and what the kernels are compiled for.

    Args:
        weights: canonical.
        request: the layer.
        config: scales of activations.
        directory: tuned launch configurations, looked through before those of the package.

    """
    key = config.activation_key
    scheme = "unquantized" if weights.key is None else "w8a16" if key is None else "w8a8"
    mode = _TOKEN if key is None or config.per_token else _STATIC if key.static else _TENSOR
    w13, w2 = (
        Weights(
            getattr(weights, name).contiguous(),
            _scale(getattr(weights, f"{name}_scale")),
            _contiguous(getattr(weights, f"{name}_bias")),
            _scalar(static),
        )
        for name, static in (("w13", config.a1_scale), ("w2", config.a2_scale))
    )
    layer = Layer(
        w13=w13,
        w2=w2,
        dtype=getattr(torch, request.in_dtype),
        scheme=scheme,
        mode=mode,
        gated=request.activation.is_gated,
        interleaved=request.activation is Activation.SWIGLUOAI,
        act=activation_of(request),
    )
    layer.planner = _planner(layer, request, directory)
    return layer


def shape_of(layer: Layer, topk: int) -> Shape:
    """What a file of launch configurations is about, for this layer."""
    device = layer.w13.w.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    E, H, I = layer.sizes  # noqa: E741
    return Shape(name, layer.scheme, str(layer.dtype).removeprefix("torch."), E, topk, H, I, layer.gated)


def _planner(layer: Layer, request: MoEConfig, directory: Path | None) -> Callable[[int, int], Plan]:
    """Tuned configurations where there are any, else the heuristic."""
    experts, device = layer.sizes[0], layer.w13.w.device
    hopper = device.type == "cuda" and torch.version.cuda is not None
    pdl = int(hopper and torch.cuda.get_device_capability(device) >= (9, 0))
    if request.batch_invariant:
        # One way for any number of tokens: sums are taken in the same order, and rounded at the same places.
        return lambda _tokens, _topk: choose(layer.scheme, _USUAL_ROWS * experts, 1, experts, pdl)
    if request.resolved_activation_format is not ActivationFormat.STANDARD:
        return lambda tokens, topk: choose(layer.scheme, tokens, topk, experts, pdl, one_token=False)
    tuned: dict[int, dict[int, Plan]] = {}

    def plan(tokens: int, topk: int) -> Plan:
        if topk not in tuned:
            tuned[topk] = load(directory, shape_of(layer, topk), triton.__version__)
        if not tuned[topk]:
            return choose(layer.scheme, tokens, topk, experts, pdl)
        found = nearest(tuned[topk], tokens)
        return found if tokens * topk <= LOOKUP_SLOTS else found._replace(lookup=False)

    return plan


def _scale(scale: Tensor | None) -> Tensor | None:
    """``[E, F]`` for one a channel, ``[E]`` for one an expert."""
    if scale is None:
        return None
    return scale.reshape(scale.shape[0], -1).squeeze(1).contiguous()


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _scalar(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float().reshape(1)


_CONSTANT_FREE: Final = {"silu", "gelu", "gelu_tanh", "relu2"}


def activation_of(request: MoEConfig) -> Act:
    """Name and constants of :mod:`moe_select_triton.kernels.activation`."""
    activation = request.activation
    name = activation.value.removesuffix("_no_mul")
    if activation in (Activation.SWIGLUOAI, Activation.SWIGLUOAI_UNINTERLEAVE):
        return _swiglu(request, OAI_ALPHA, OAI_BETA, OAI_LIMIT)
    if activation is Activation.SILU and has_constants(request):
        return _swiglu(request, 1.0, 0.0, None)
    if activation is Activation.SWIGLUSTEP:
        return "swiglustep", None, None, STEP_LIMIT if request.swiglu_limit is None else request.swiglu_limit
    if activation is Activation.SITU:
        return "situ", SITU_BETA if request.situ_beta is None else request.situ_beta, request.situ_linear_beta, None
    assert name in _CONSTANT_FREE
    return name, None, None, None


def _swiglu(request: MoEConfig, alpha: float, beta: float, limit: float | None) -> Act:
    given = (request.swiglu_alpha, request.swiglu_beta, request.swiglu_limit)
    values = tuple(
        default if value is None else value for value, default in zip(given, (alpha, beta, limit), strict=True)
    )
    return "swiglu", values[0], values[1], values[2]

"""Checking weights against a request: every problem at once, each with the shape that was expected.

Legend: as in :mod:`moe_select.kernels.weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moe_select.errors import RequestError, WeightError
from moe_select.kernels.storage import scale_shape, scale_torch_dtype, storage_of
from moe_select.vocabulary import MoEConfig, format_optional_key

if TYPE_CHECKING:
    from moe_select.kernels.weights import MoEWeights


def validate(weights: MoEWeights, request: MoEConfig) -> MoEConfig:
    """See :meth:`MoEWeights.validate`."""
    if weights.key != request.weight_key:
        raise WeightError(_wrong_key(weights, request))
    if weights.w13.dim() != 3 or weights.w2.dim() != 3:
        raise WeightError(
            f"w13 must be [E, F, H] and w2 [E, H, I]; given: w13 {_shape(weights.w13)}, w2 {_shape(weights.w2)}"
        )
    problems = [*_operand_problems(weights), *_size_problems(weights, request)]
    if not problems:
        problems = [*_part_problems(weights), *_bias_problems(weights, request), *_device_problems(weights)]
    if problems:
        raise WeightError("\n".join(["the weights do not fit:", *(f"  - {problem}" for problem in problems)]))
    return _filled(weights, request)


def _wrong_key(weights: MoEWeights, request: MoEConfig) -> str:
    have, want = format_optional_key(weights.key), format_optional_key(request.weight_key)
    remedy = f"; quantize them by weights.quantize({want!r})" if weights.key is None else ""
    return f"the request asks for weights quantized as {want}, these are {have}{remedy}"


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


def _operand_problems(weights: MoEWeights) -> Iterator[str]:
    for name, tensor in (("w13", weights.w13), ("w2", weights.w2)):
        if weights.key is None:
            if not tensor.is_floating_point() or tensor.dtype.itemsize < 2:
                yield f"{name} is {tensor.dtype} without a quant key; give key=, or floats of at least 16 bits"
        elif tensor.dtype is not storage_of(weights.key).dtype:
            yield f"{name} is {tensor.dtype}; {weights.key} is stored as {storage_of(weights.key).dtype}"


def _size_problems(weights: MoEWeights, request: MoEConfig) -> Iterator[str]:
    from moe_select.kernels.weights import sizes

    E, F, H, I = sizes(weights)  # noqa: E741
    gated = request.activation.is_gated
    expected_rows = 2 * I if gated else I
    if weights.w2.shape[0] != E:
        yield f"w13 has {E} experts, w2 has {weights.w2.shape[0]}"
    if weights.w2.shape[1] != H:
        yield f"w13 says hidden size {H}, w2 has {weights.w2.shape[1]} rows"
    if expected_rows != F:
        form = "2I (gate and up)" if gated else "I (no gate)"
        yield f"w13 has {F} rows; activation {request.activation.value} needs {form} = {expected_rows}"
    stated = (
        ("local experts", request.local_experts, E),
        ("hidden_dim", request.hidden_dim, H),
        ("intermediate_size_per_partition", request.intermediate_size_per_partition, I),
    )
    for name, wanted, have in stated:
        if wanted is not None and wanted != have:
            yield f"the request says {name} {wanted}, the tensors say {have}"


def _part_problems(weights: MoEWeights) -> Iterator[str]:
    from moe_select.kernels.weights import OPERANDS, sizes

    E, F, H, I = sizes(weights)  # noqa: E741
    for name, (rows, cols) in zip(OPERANDS, ((F, H), (H, I)), strict=True):
        for part, (shape, dtype) in _expected_parts(weights, rows, cols).items():
            tensor = getattr(weights, f"{name}_{part}")
            if shape is None:
                if tensor is not None:
                    yield f"{name}_{part} is given, but {format_optional_key(weights.key)} has none"
            elif tensor is None:
                yield f"{name}_{part} is missing; {weights.key} needs it, shaped {[E, *shape]}"
            elif _shape(tensor) != [E, *shape]:
                yield f"{name}_{part} is {_shape(tensor)}, expected {[E, *shape]}"
            elif dtype is not None and tensor.dtype is not dtype:
                yield f"{name}_{part} is {tensor.dtype}, expected {dtype}"


def _expected_parts(weights: MoEWeights, rows: int, cols: int) -> dict[str, tuple[Any, torch.dtype | None]]:
    """Shape without E (None: must be absent) and dtype (None: any float) of each part of an operand."""
    key = weights.key
    if key is None:
        return dict.fromkeys(("scale", "scale_2", "zero_point"), (None, None))
    scales = scale_shape(key.group, rows, cols)
    # Float scales may come wider or narrower than the key says: checkpoints do, and arithmetic is in float32 anyway.
    narrow = scale_torch_dtype(key.scale.dtype)
    return {
        "scale": (scales, narrow if narrow.itemsize == 1 else None),
        "scale_2": ((1, 1) if key.scale2 else None, None),
        "zero_point": (None if key.symmetric else scales, torch.int32),
    }


def _bias_problems(weights: MoEWeights, request: MoEConfig) -> Iterator[str]:
    from moe_select.kernels.weights import sizes

    E, F, H, _ = sizes(weights)
    for name, width in (("w13_bias", F), ("w2_bias", H)):
        tensor = getattr(weights, name)
        if tensor is None and request.bias:
            yield f"{name} is missing: the request says bias=True; expected {[E, width]}"
        elif tensor is not None and not request.bias:
            yield f"{name} is given, but the request says bias=False; a kernel chosen for it may ignore biases"
        elif tensor is not None and _shape(tensor) != [E, width]:
            yield f"{name} is {_shape(tensor)}, expected {[E, width]}"


def _device_problems(weights: MoEWeights) -> Iterator[str]:
    found = {str(tensor.device) for _, tensor in weights.tensors()}
    if len(found) > 1:
        yield f"tensors lie on different devices: {', '.join(sorted(found))}"


def _filled(weights: MoEWeights, request: MoEConfig) -> MoEConfig:
    from moe_select.kernels.weights import sizes

    E, _, H, I = sizes(weights)  # noqa: E741
    parallel = request.parallel
    try:
        return request.replace(
            num_experts=request.num_experts or E * parallel.ep_size,
            hidden_dim=H,
            intermediate_size=I * parallel.tp_size,
        )
    except RequestError as error:
        raise WeightError(f"the weights contradict the request: {'; '.join(error.problems)}") from None

"""Checkpoints in the names and layouts of compressed-tensors."""

from __future__ import annotations

import pytest
import torch

from moe_select import MoEWeights, WeightError
from moe_select.kernels.quantize import dequantize, quantize
from moe_select.vocabulary.quant_keys import NAMED_KEYS


def checkpoint(key, names=("gate_proj", "up_proj", "down_proj"), experts=3, prefix="mlp.experts."):
    """Tensors of a checkpoint and the floats that they stand for."""
    tensors, floats = {}, {}
    for expert in range(experts):
        for name, shape in zip(names, ((48, 64), (48, 64), (64, 48)), strict=True):
            x = torch.randn(shape) * (1 + expert + names.index(name))
            quantized = quantize(x, NAMED_KEYS[key])
            base = f"{prefix}{expert}.{name}."
            packed = "weight_packed" if quantized.values.dtype is torch.int32 else "weight"
            tensors |= {base + packed: quantized.values, base + "weight_scale": quantized.scale}
            if quantized.zero_point is not None:
                tensors[base + "weight_zero_point"] = quantized.zero_point
            if quantized.scale_2 is not None:
                tensors[base + "weight_global_scale"] = quantized.scale_2.reciprocal().reshape(1)
            floats[expert, name] = dequantize(quantized, NAMED_KEYS[key])
    return tensors, floats


@pytest.mark.parametrize("names", [("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")])
@pytest.mark.parametrize(
    ("key", "tolerance"),
    [
        ("int8_static_channel_sym", 1e-6),
        ("int4_static", 1e-6),
        ("int4_static_asym", 1e-6),
        ("fp8_static_channel_sym", 1e-6),
        # One scale must serve gate and up, so the smaller half is quantized again.
        ("int8_static_tensor_sym", 0.02),
        ("nvfp4_static", 0.1),
    ],
)
def test_values_survive(key, tolerance, names):
    tensors, floats = checkpoint(key, names)
    weights = MoEWeights.from_checkpoint(tensors, key, "mlp.experts.").dequantize()
    for expert in range(3):
        gate, up, down = (floats[expert, name] for name in names)
        both = torch.cat([gate, up])
        assert ((weights.w13[expert] - both).norm() / both.norm()) < tolerance
        assert torch.allclose(weights.w2[expert], down)


def test_static_activation_scales_and_biases():
    tensors, _ = checkpoint("int8_static_channel_sym")
    for name in list(tensors):
        base = name.rpartition(".")[0]
        tensors[f"{base}.input_scale"] = torch.tensor([float(len(base))])
        tensors[f"{base}.bias"] = torch.ones(64 if "down" in base else 48)
    weights = MoEWeights.from_checkpoint(tensors, "int8_static_channel_sym", "mlp.experts.")
    assert (weights.a1_scale.item(), weights.a2_scale.item()) == (
        len("mlp.experts.0.gate_proj"),
        len("mlp.experts.0.down_proj"),
    )
    assert (weights.w13_bias.shape, weights.w2_bias.shape) == ((3, 96), (3, 64))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda t: t.pop("mlp.experts.1.up_proj.weight_scale"), r"mlp\.experts\.1\.up_proj\.weight_scale is missing"),
        (lambda t: t.clear(), "no experts"),
        (lambda t: [t.pop(name) for name in list(t) if ".1." in name], "no experts 0, 1"),
        (lambda t: t.update({"mlp.experts.0.up_proj.input_scale": torch.ones(1)}), "1 of 6 projections"),
    ],
)
def test_incomplete_checkpoints(change, word):
    tensors, _ = checkpoint("int8_static_channel_sym")
    change(tensors)
    with pytest.raises(WeightError, match=word):
        MoEWeights.from_checkpoint(tensors, "int8_static_channel_sym", "mlp.experts.")

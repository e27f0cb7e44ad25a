"""Quantization: round trips, ranges, storage, rows that are not finite."""

from __future__ import annotations

import pytest
import torch

from moe_select.errors import WeightError
from moe_select.kernels.quantize import dequantize, quantize
from moe_select.kernels.storage import STORAGE, decode_fp4, encode_fp4, pack, scale_shape, unpack
from moe_select.vocabulary import QuantKey
from moe_select.vocabulary.quant_keys import NAMED_KEYS

DEFINED = [key for key in NAMED_KEYS.values() if key.dtype in STORAGE]
STEP = {"int8": 1 / 127, "uint8b128": 1 / 127, "int4": 1 / 7, "uint4": 2 / 15, "uint4b8": 1 / 7, "float8_e4m3fn": 1 / 8}


@pytest.mark.parametrize("key", DEFINED, ids=str)
def test_round_trip_is_within_a_step(key):
    x = torch.randn(3, 32, 256, generator=torch.Generator().manual_seed(0))
    back = dequantize(quantize(x, key), key)
    step = STEP.get(key.dtype, 1 / 3)
    assert ((back - x).abs() <= step * x.abs().amax()).all()
    assert ((back - x).norm() / x.norm()) < 0.25


@pytest.mark.parametrize("key", DEFINED, ids=str)
def test_zeros_stay_zero(key):
    assert not dequantize(quantize(torch.zeros(4, 256), key), key).any()


def test_int8_channel_by_hand():
    quantized = quantize(torch.tensor([[1.0, -2.0], [127.0, 63.4]]), NAMED_KEYS["int8_static_channel_sym"])
    assert quantized.values.tolist() == [[64, -127], [127, 63]]
    assert torch.allclose(quantized.scale, torch.tensor([[2 / 127], [1.0]]))


def test_asymmetric_by_hand():
    quantized = quantize(torch.tensor([[0.0, 255.0]]), NAMED_KEYS["int8_dynamic_token_asym"])
    assert (quantized.values.tolist(), quantized.scale.item(), quantized.zero_point.item()) == (
        [[-128, 127]],
        1.0,
        -128,
    )


def test_mxfp4_by_hand():
    """The largest magnitude 6 has exponent 2, so the scale is 2 ** 0 (OCP Microscaling Formats v1.0, 6.3)."""
    x = torch.zeros(1, 32)
    x[0, :4] = torch.tensor([6.0, -3.0, 0.5, 1.25])
    quantized = quantize(x, NAMED_KEYS["mxfp4_static"])
    assert quantized.scale.item() == 127
    assert dequantize(quantized, NAMED_KEYS["mxfp4_static"])[0, :4].tolist() == [6.0, -3.0, 0.5, 1.0]


@pytest.mark.parametrize("dtype", ["uint4", "uint4b8", "uint8b128", "float4_e2m1fn"])
def test_packing(dtype):
    storage = STORAGE[dtype]
    bits = storage.dtype.itemsize * 8 // storage.packed
    values = torch.arange(64).view(2, 32) % (1 << bits)
    packed = pack(values, storage)
    assert packed.shape == (2, 32 // storage.packed)
    assert torch.equal(unpack(packed, storage), values.to(torch.int32))
    with pytest.raises(WeightError, match="not a multiple"):
        pack(values[:, :31], storage)


def test_fp4_codes():
    codes = torch.arange(16, dtype=torch.int32)
    assert torch.equal(encode_fp4(decode_fp4(codes, torch.float32)), codes)
    assert decode_fp4(encode_fp4(torch.tensor([0.25, 0.75, 2.5, 5.0, 99.0])), torch.float32).tolist() == [0, 1, 2, 4, 6]


@pytest.mark.parametrize(
    "name", ["int8_dynamic_token_sym", "fp8_dynamic_token_sym", "int8_dynamic_token_asym", "mxfp8_dynamic"]
)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_bad_rows_stay_bad_and_alone(name, bad):
    x = torch.randn(4, 64)
    good = dequantize(quantize(x, NAMED_KEYS[name]), NAMED_KEYS[name])
    x[2, 5] = bad
    back = dequantize(quantize(x, NAMED_KEYS[name]), NAMED_KEYS[name])
    assert not back[2].isfinite().all()
    assert torch.equal(back[[0, 1, 3]], good[[0, 1, 3]])


@pytest.mark.parametrize(
    ("group", "shape"),
    [((-1, -1), (1, 1)), ((1, -1), (6, 1)), ((-1, 1), (6, 1)), ((1, 32), (6, 8)), ((128, 128), (1, 2))],
)
def test_scale_shapes(group, shape):
    from moe_select.vocabulary import GroupShape

    assert scale_shape(GroupShape(*group), 6, 256) == shape


def test_a_key_without_storage():
    with pytest.raises(WeightError, match="no storage layout"):
        quantize(torch.ones(1, 32), QuantKey.parse("mxfp6_e3m2_static"))

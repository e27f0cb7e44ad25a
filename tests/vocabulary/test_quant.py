"""Quant keys: three spellings of one value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_select import GroupShape, QuantKey, ScaleDesc
from moe_select.vocabulary import format_optional_key, parse_optional_key
from moe_select.vocabulary.dtypes import DTYPES
from moe_select.vocabulary.quant_keys import CONSTANTS, NAMED_KEYS, SPELLINGS

EXTENT = st.integers(1, 512) | st.just(-1)
GROUPS = st.builds(GroupShape, EXTENT, EXTENT)
SCALES = st.builds(ScaleDesc, st.sampled_from(list(DTYPES)), st.booleans(), GROUPS)
KEYS = st.builds(QuantKey, st.sampled_from(list(DTYPES)), SCALES, st.none() | SCALES, st.booleans())


@given(KEYS)
def test_any_key_round_trips(key):
    assert QuantKey.parse(str(key)) == key
    assert QuantKey.parse(key.spelled_out()) == key


@given(GROUPS)
def test_any_group_round_trips(group):
    assert GroupShape.parse(str(group)) == group


@pytest.mark.parametrize("constant", CONSTANTS)
def test_constants_have_one_yaml_spelling(constant):
    key = CONSTANTS[constant]
    name = str(key)
    assert name == name.lower()
    assert NAMED_KEYS[name] == key == QuantKey.parse(constant) == QuantKey.parse(key.spelled_out())


@pytest.mark.parametrize(
    ("constant", "name"),
    [
        ("kInt8StaticChannelSym", "int8_static_channel_sym"),
        ("kFp8Static128BlockSym", "fp8_static_128_block_sym"),
        ("kMxfp4Static", "mxfp4_static"),
        ("kNvfp4Dynamic", "nvfp4_dynamic"),
        ("kInt4Static", "int4_static"),
    ],
)
def test_spellings(constant, name):
    assert SPELLINGS[CONSTANTS[constant]] == name


def test_no_two_names_for_one_key():
    assert len(SPELLINGS) == len(NAMED_KEYS) == len(CONSTANTS)


def test_none_is_no_quantization():
    assert parse_optional_key("none") is None
    assert format_optional_key(None) == "none"


@pytest.mark.parametrize(
    "text", ["int9", "int8/static/channel", "int8/static/chanel/float32/sym", "int8/fixed/channel/float32/sym", ""]
)
def test_unknown_keys(text):
    with pytest.raises(ValueError, match=r"unknown|expected"):
        QuantKey.parse(text)

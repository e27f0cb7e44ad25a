"""The quant keys that serving engines have constants for.

Differences from those constants are deliberate: a 4-bit element is named by its own type rather than by the byte that
stores it, so the int4 keys of W4A8 schemes never compare equal to int8 keys.
"""

from __future__ import annotations

import re
from typing import Final

from moe_select.vocabulary.quant import PER_CHANNEL, PER_TENSOR, PER_TOKEN, GroupShape, QuantKey, ScaleDesc

_FP8, _FP4, _E8M0 = "float8_e4m3fn", "float4_e2m1fn", "float8_e8m0fnu"
_F32, _F16, _BF16 = "float32", "float16", "bfloat16"


def _key(
    dtype: str,
    scale_dtype: str,
    static: bool,
    group: GroupShape,
    scale2: ScaleDesc | None = None,
    symmetric: bool = True,
) -> QuantKey:
    return QuantKey(dtype, ScaleDesc(scale_dtype, static, group), scale2, symmetric)


def _along_k(width: int) -> GroupShape:
    return GroupShape(1, width)


kFp8StaticTensorSym: Final = _key(_FP8, _F32, True, PER_TENSOR)
kFp8DynamicTensorSym: Final = _key(_FP8, _F32, False, PER_TENSOR)
kFp8StaticTokenSym: Final = _key(_FP8, _F32, True, PER_TOKEN)
kFp8StaticChannelSym: Final = _key(_FP8, _F32, True, PER_CHANNEL)
kFp8DynamicTokenSym: Final = _key(_FP8, _F32, False, PER_TOKEN)
kFp8Dynamic64Sym: Final = _key(_FP8, _F32, False, _along_k(64))
kFp8Dynamic128Sym: Final = _key(_FP8, _F32, False, _along_k(128))
kFp8Static128BlockSym: Final = _key(_FP8, _F32, True, GroupShape(128, 128))
kFp8Static128BlockE8M0Sym: Final = _key(_FP8, _E8M0, True, GroupShape(128, 128))

kMxfp8Static: Final = _key(_FP8, _E8M0, True, _along_k(32))
kMxfp8Dynamic: Final = _key(_FP8, _E8M0, False, _along_k(32))
kMxfp4Static: Final = _key(_FP4, _E8M0, True, _along_k(32))
kMxfp4Dynamic: Final = _key(_FP4, _E8M0, False, _along_k(32))
kMxfp6E3M2Static: Final = _key("float6_e3m2fn", _E8M0, True, _along_k(32))
kMxfp6E3M2Dynamic: Final = _key("float6_e3m2fn", _E8M0, False, _along_k(32))
kMxfp6E2M3Static: Final = _key("float6_e2m3fn", _E8M0, True, _along_k(32))
kMxfp6E2M3Dynamic: Final = _key("float6_e2m3fn", _E8M0, False, _along_k(32))

kNvfp4Static: Final = _key(_FP4, _FP8, True, _along_k(16), ScaleDesc(_F32, True, PER_TENSOR))
kNvfp4Dynamic: Final = _key(_FP4, _FP8, False, _along_k(16), ScaleDesc(_F32, True, PER_TENSOR))
kNvfp4DynamicToken: Final = _key(_FP4, _FP8, False, _along_k(16), ScaleDesc(_F32, False, PER_TOKEN))

kInt8StaticChannelSym: Final = _key("int8", _F32, True, PER_CHANNEL)
kInt8StaticTensorSym: Final = _key("int8", _F32, True, PER_TENSOR)
kInt8StaticTensorAsym: Final = _key("int8", _F32, True, PER_TENSOR, symmetric=False)
kInt8DynamicTokenSym: Final = _key("int8", _F32, False, PER_TOKEN)
kInt8DynamicTokenAsym: Final = _key("int8", _F32, False, PER_TOKEN, symmetric=False)
kInt8DynamicTensorSym: Final = _key("int8", _F32, False, PER_TENSOR)
kInt8DynamicTensorAsym: Final = _key("int8", _F32, False, PER_TENSOR, symmetric=False)
kInt8Dynamic32Sym: Final = _key("int8", _F32, False, _along_k(32))

kInt4Static: Final = _key("uint4b8", _F16, True, PER_TOKEN)
kInt4StaticAsym: Final = _key("uint4", _F16, True, PER_TOKEN, symmetric=False)
kInt4Static32: Final = _key("uint4b8", _F16, True, _along_k(32))
kInt4Static32Asym: Final = _key("uint4", _F16, True, _along_k(32), symmetric=False)
kInt8Static: Final = _key("uint8b128", _F16, True, PER_TOKEN)

kInt4W4A8StaticChannelSym: Final = _key("int4", _F32, True, PER_CHANNEL)
kInt4W4A8StaticGroupSym: Final = _key("int4", _BF16, True, PER_TOKEN)
kInt4W4A8StaticGroup32Sym: Final = _key("int4", _BF16, True, _along_k(32))
kInt4W4A8StaticGroup64Sym: Final = _key("int4", _BF16, True, _along_k(64))
kInt4W4A8StaticGroup128Sym: Final = _key("int4", _BF16, True, _along_k(128))


_WORD = re.compile(r"E\dM\d|W\dA\d|\d{2,}|[A-Z][a-z]*(?:\d(?!\d))?")


def _snake(constant: str) -> str:
    return "_".join(_WORD.findall(constant[1:])).lower()


CONSTANTS: Final[dict[str, QuantKey]] = {
    name: value for name, value in list(globals().items()) if name.startswith("k") and isinstance(value, QuantKey)
}
"""Constant name to key."""

NAMED_KEYS: Final[dict[str, QuantKey]] = {_snake(name): key for name, key in CONSTANTS.items()}
"""Canonical YAML spelling to key."""

SPELLINGS: Final[dict[QuantKey, str]] = {key: name for name, key in NAMED_KEYS.items()}
"""Key to canonical YAML spelling."""

__all__ = ["CONSTANTS", "NAMED_KEYS", "SPELLINGS", *CONSTANTS]

"""Element types by name. Nothing here is a torch object, so nothing here imports torch."""

from __future__ import annotations

from typing import Final, NamedTuple

from moe_select.vocabulary.suggest import did_you_mean


class DTypeInfo(NamedTuple):
    """Width of one element in bits and its number family."""

    bits: int
    kind: str
    """``float``, ``signed``, ``unsigned`` or ``biased`` (unsigned storage of a signed value)."""


DTYPES: Final[dict[str, DTypeInfo]] = {
    "float64": DTypeInfo(64, "float"),
    "float32": DTypeInfo(32, "float"),
    "float16": DTypeInfo(16, "float"),
    "bfloat16": DTypeInfo(16, "float"),
    "float8_e4m3fn": DTypeInfo(8, "float"),
    "float8_e4m3fnuz": DTypeInfo(8, "float"),
    "float8_e5m2": DTypeInfo(8, "float"),
    "float8_e8m0fnu": DTypeInfo(8, "float"),
    "float6_e3m2fn": DTypeInfo(6, "float"),
    "float6_e2m3fn": DTypeInfo(6, "float"),
    "float4_e2m1fn": DTypeInfo(4, "float"),
    "int8": DTypeInfo(8, "signed"),
    "uint8": DTypeInfo(8, "unsigned"),
    "int4": DTypeInfo(4, "signed"),
    "uint4": DTypeInfo(4, "unsigned"),
    "uint4b8": DTypeInfo(4, "biased"),
    "uint8b128": DTypeInfo(8, "biased"),
}

DTYPE_ALIASES: Final[dict[str, str]] = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "e8m0": "float8_e8m0fnu",
    "fp4": "float4_e2m1fn",
}


def parse_dtype(text: str) -> str:
    """Return the canonical dtype name.

    Accepts canonical names, the usual short forms and ``torch.``-prefixed spellings.

    Raises:
        ValueError: the name is unknown; the message suggests the nearest one.

    >>> parse_dtype("bf16"), parse_dtype("torch.int8")
    ('bfloat16', 'int8')

    """
    name = str(text).strip().removeprefix("torch.").lower()
    name = DTYPE_ALIASES.get(name, name)
    if name not in DTYPES:
        raise ValueError(
            f"unknown dtype {text!r}{did_you_mean(name, [*DTYPES, *DTYPE_ALIASES])}; known: {', '.join(DTYPES)}"
        )
    return name

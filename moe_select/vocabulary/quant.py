"""How numbers are quantized: group shape, scale, key.

The terms are those of serving engines and of compressed-tensors: a *key* says how one operand (the weights, or the
activations) is stored; a pair of keys (weights, activations) is what an experts class supports or refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from moe_select.vocabulary.dtypes import DTYPES, parse_dtype
from moe_select.vocabulary.suggest import did_you_mean

_GROUP_WORDS: Final[dict[str, tuple[int, int]]] = {"tensor": (-1, -1), "token": (1, -1), "channel": (-1, 1)}
_GROUP_PATTERN: Final = re.compile(r"(-1|[1-9]\d*)x(-1|[1-9]\d*)")


class GroupShape(NamedTuple):
    """Rows and columns that share one scale; -1 means the whole extent.

    ``tensor`` is (-1, -1), ``token`` (one row) is (1, -1), ``channel`` (one output channel) is (-1, 1), anything else
    is written ``RxC``: ``1x128`` is a group of 128 along the reduction, ``128x128`` a block.
    """

    row: int
    col: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of ``str()``. Raises ValueError naming the legal forms."""
        if text in _GROUP_WORDS:
            return cls(*_GROUP_WORDS[text])
        match = _GROUP_PATTERN.fullmatch(text)
        if not match:
            raise ValueError(f"unknown group shape {text!r}; expected tensor, token, channel or RxC such as 1x128")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        for word, shape in _GROUP_WORDS.items():
            if self == shape:
                return word
        return f"{self.row}x{self.col}"

    @property
    def is_block(self) -> bool:
        """True for shapes with both extents finite and more than one row."""
        return self.row > 1 and self.col > 0


PER_TENSOR: Final = GroupShape(-1, -1)
PER_TOKEN: Final = GroupShape(1, -1)
PER_CHANNEL: Final = GroupShape(-1, 1)


@dataclass(frozen=True, slots=True)
class ScaleDesc:
    """One level of scales: element type, known ahead of time (static) or computed per call, and what shares one."""

    dtype: str
    static: bool
    group: GroupShape

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", parse_dtype(self.dtype))
        if not isinstance(self.group, GroupShape):
            object.__setattr__(self, "group", GroupShape(*self.group))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of ``str()``: ``static/channel/float32``."""
        parts = text.split("/")
        if len(parts) != 3 or parts[0] not in ("static", "dynamic"):
            raise ValueError(f"unknown scale {text!r}; expected (static|dynamic)/<group>/<dtype>")
        return cls(parts[2], parts[0] == "static", GroupShape.parse(parts[1]))

    def __str__(self) -> str:
        return f"{'static' if self.static else 'dynamic'}/{self.group}/{self.dtype}"


@dataclass(frozen=True, slots=True)
class QuantKey:
    """How one operand is quantized.

    A key that serving engines have a constant for is spelled like that constant in snake case
    (``kInt8StaticChannelSym`` is ``int8_static_channel_sym``); any other key is spelled out,
    ``<dtype>/<static|dynamic>/<group>/<scale dtype>/<sym|asym>[/<second scale>]``. Both forms, and the constant's own
    name, parse back to the same key.
    """

    dtype: str
    scale: ScaleDesc
    scale2: ScaleDesc | None = None
    symmetric: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", parse_dtype(self.dtype))

    def __str__(self) -> str:
        from moe_select.vocabulary.quant_keys import SPELLINGS

        return SPELLINGS.get(self) or self.spelled_out()

    def spelled_out(self) -> str:
        """The long form, whether or not the key has a name."""
        parts = [self.dtype, str(self.scale), "sym" if self.symmetric else "asym"]
        if self.scale2 is not None:
            parts.append(str(self.scale2))
        return "/".join(parts)

    @classmethod
    def parse(cls, text: str) -> QuantKey:
        """Parse a snake-case name, a ``k...`` constant name or the long form.

        Raises:
            ValueError: unknown; the message suggests the nearest name.

        """
        from moe_select.vocabulary.quant_keys import CONSTANTS, NAMED_KEYS

        text = text.strip()
        key = NAMED_KEYS.get(text) or CONSTANTS.get(text)
        if key is not None:
            return key
        if "/" not in text:
            raise ValueError(f"unknown quant key {text!r}{did_you_mean(text, [*NAMED_KEYS, 'none'])}")
        return cls._parse_long(text)

    @classmethod
    def _parse_long(cls, text: str) -> QuantKey:
        parts = text.split("/")
        if len(parts) not in (5, 8) or parts[4] not in ("sym", "asym"):
            raise ValueError(
                f"unknown quant key {text!r}; expected <dtype>/(static|dynamic)/<group>/<dtype>/(sym|asym)[/<scale>]"
            )
        scale2 = ScaleDesc.parse("/".join(parts[5:])) if len(parts) == 8 else None
        return cls(parts[0], ScaleDesc.parse("/".join(parts[1:4])), scale2, parts[4] == "sym")

    @property
    def bits(self) -> int:
        """Width of one stored element."""
        return DTYPES[self.dtype].bits

    @property
    def static(self) -> bool:
        """True when the first-level scales are known before the call."""
        return self.scale.static

    @property
    def group(self) -> GroupShape:
        """What shares one first-level scale."""
        return self.scale.group

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def validate(value: Any) -> QuantKey:
            return value if isinstance(value, cls) else cls.parse(str(value))

        return core_schema.no_info_plain_validator_function(
            validate, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json-unless-none")
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "description": "a quant key such as int8_static_channel_sym"}


def parse_optional_key(value: str | QuantKey | None) -> QuantKey | None:
    """``none`` (or None) is the absence of quantization; anything else is a key."""
    if value is None or isinstance(value, QuantKey):
        return value
    return None if value.strip().lower() == "none" else QuantKey.parse(value)


def format_optional_key(key: QuantKey | None) -> str:
    """Inverse of :func:`parse_optional_key`."""
    return "none" if key is None else str(key)

"""Base of the frozen, hashable pydantic values."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from moe_select.errors import InvalidValueError, RequestError
from moe_select.vocabulary.suggest import did_you_mean

_QUOTED: Final = re.compile(r"'([^']*)'")


def describe_errors(error: ValidationError, fields: list[str]) -> list[str]:
    """One line a problem: where, what was given, what was allowed."""
    lines: list[str] = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        nested = item.get("ctx", {}).get("error")
        if isinstance(nested, InvalidValueError):
            lines.extend(f"{where}.{line}" for line in nested.problems)
            continue
        if item["type"] == "extra_forbidden":
            lines.append(f"{where}: unknown field{did_you_mean(where, fields)}; known: {', '.join(fields)}")
            continue
        message = item["msg"].removeprefix("Value error, ")
        shown = f" (got {item['input']!r})" if where and item["type"] != "value_error" else ""
        if item["type"] == "enum":  # pydantic drops the message of the enumeration, and with it the suggestion
            shown += did_you_mean(str(item["input"]), _QUOTED.findall(item["ctx"]["expected"]))
        lines.append(f"{where}: {message}{shown}" if where else message)
    return lines


class FrozenModel(BaseModel):
    """Immutable value with a hash computed once, so that it can key a cache on a hot path.

    Construction raises an :class:`InvalidValueError` (a ``ValueError``) that lists every problem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)
    _label: ClassVar[str] = "value"
    _error: ClassVar[type[InvalidValueError]] = RequestError
    # Slots, not pydantic private attributes: those cost a Python-level __getattr__ on every hash.
    __slots__ = ("_hash", "_key")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._error(self._label, describe_errors(error, list(type(self).model_fields))) from None

    def model_post_init(self, context: Any, /) -> None:
        """Compute the hash."""
        key = tuple(self.__dict__.values())
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", hash((type(self), key)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key  # type: ignore[attr-defined]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # Pydantic's own copies leave the slots empty. An immutable value needs none.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # String hashes differ between processes, so a pickle carries the fields and the hash is computed anew.
        return _rebuild, (type(self), {name: getattr(self, name) for name in self.model_fields_set})

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new value."""
        set_fields = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**set_fields, **changes})

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Self:
        """Like :meth:`replace`: pydantic's own copy would skip validation."""
        return self.replace(**(update or {}))


def _rebuild(cls: type[FrozenModel], values: dict[str, Any]) -> FrozenModel:
    return cls(**values)

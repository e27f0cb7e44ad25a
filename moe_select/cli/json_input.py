"""JSON that a user hands over: read with its position named where it is wrong."""

from __future__ import annotations

import json
from typing import IO, Any, TypeVar

from moe_select.cli.errors import InputError
from moe_select.vocabulary.frozen import FrozenModel

Model = TypeVar("Model", bound=FrozenModel)


def read_json_object(file: IO[str], what: str) -> dict[str, Any]:
    """A JSON object from an open file.

    Raises:
        InputError: it is not JSON, or not an object; names the position.

    """
    name = getattr(file, "name", "<stdin>")
    try:
        value = json.loads(file.read())
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}:{error.colno}: the {what} is not JSON: {error.msg}") from None
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{name}: cannot read the {what}: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{name}: the {what} must be a JSON object, got {type(value).__name__}")
    return value


def construct(model: type[Model], values: dict[str, Any]) -> Model:
    """The value from field values whose names nobody has checked.

    Raises:
        InvalidValueError: as the model does.
        InputError: a name that Python itself trips over.

    """
    try:
        return model(**values)
    except TypeError as error:
        raise InputError(f"invalid {model.__name__}: {error}") from None

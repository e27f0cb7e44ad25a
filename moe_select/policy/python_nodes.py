"""Plain Python data (the mapping of a ``policy=`` argument) as nodes; positions are key paths."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from moe_select.policy.model import Origin
from moe_select.policy.nodes import MAX_DEPTH, Node, Scalar, bounded
from moe_select.policy.problems import Problems
from moe_select.vocabulary import QuantKey


def read_python(value: Any, source: str, problems: Problems) -> Node:
    """Nodes of ``value``; what YAML could not hold is a problem."""
    return _from_python(value, source, "", problems, 0)


def _from_python(value: Any, source: str, path: str, problems: Problems, depth: int) -> Node:
    origin = Origin(f"{source} {path}".rstrip())
    if depth > MAX_DEPTH:
        problems.error(origin, f"nested deeper than {MAX_DEPTH} levels")
        return Node("scalar", origin)
    if isinstance(value, Mapping):
        return _map_from_python(value, source, path, problems, depth)
    if isinstance(value, list | tuple):
        children = (_from_python(item, source, f"{path}[{i}]", problems, depth + 1) for i, item in enumerate(value))
        return Node("list", origin, items=tuple(children))
    scalar = _plain_scalar(value, origin, problems)
    return Node("scalar", origin, scalar=scalar, text=_text_of(scalar))


def _map_from_python(value: Mapping[Any, Any], source: str, path: str, problems: Problems, depth: int) -> Node:
    origin = Origin(f"{source} {path}".rstrip())
    entries, key_nodes = dict[str, Node](), dict[str, Node]()
    for key, item in value.items():
        name = _plain_scalar(key, origin, problems)
        if not isinstance(name, str):
            problems.error(origin, f"key {key!r} is not text")
            continue
        below = f"{path}.{name}" if path else name
        entries[name] = _from_python(item, source, below, problems, depth + 1)
        key_nodes[name] = Node("scalar", Origin(f"{source} {below}"), scalar=name, text=name)
    return Node("map", origin, entries=entries, key_nodes=key_nodes)


def _plain_scalar(value: Any, origin: Origin, problems: Problems) -> Scalar:
    if value is ...:
        return "..."
    if isinstance(value, QuantKey):
        return str(value)
    try:
        return _checked(value.value if isinstance(value, Enum) else value)
    except (ValueError, TypeError) as error:
        problems.error(origin, f"cannot be written in a policy: {error}", "text, numbers, booleans, lists and maps can")
        return None


def _checked(value: Any) -> Scalar:
    """The value as a plain scalar. Raises ValueError or TypeError for what no file could hold."""
    if isinstance(value, str):
        value.encode()
        return str(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return bounded(int(value))
    raise TypeError(f"{type(value).__name__} is not plain data")


def _text_of(scalar: Scalar) -> str:
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return "" if scalar is None else str(scalar)

"""Values that know where they stand: what YAML text and a call's mappings are both read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moe_select.policy.model import Origin

MAX_DEPTH: Final = 32
_LARGEST_INT: Final = 1 << 63

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Node:
    """One value and where it stands. ``kind`` says which of scalar, ``items`` and ``entries`` holds it."""

    kind: str
    """``scalar``, ``list`` or ``map``."""
    origin: Origin
    scalar: Scalar = None
    text: str = ""
    """A scalar as it was written."""
    items: tuple[Node, ...] = ()
    entries: Mapping[str, Node] = field(default_factory=dict)
    key_nodes: Mapping[str, Node] = field(default_factory=dict)

    @property
    def given(self) -> str:
        """What this is, for messages: ``the number 5``, ``a list``."""
        if self.kind != "scalar":
            return f"a {self.kind}"
        if self.scalar is None:
            return "nothing"
        if isinstance(self.scalar, bool):
            return self.text
        return f"the number {self.text}" if isinstance(self.scalar, int | float) else f"the text {self.text!r}"

    def plain(self) -> Any:
        """The value without positions."""
        if self.kind == "list":
            return [item.plain() for item in self.items]
        if self.kind == "map":
            return {key: value.plain() for key, value in self.entries.items()}
        return self.scalar

    def find(self, path: tuple[str | int, ...]) -> Node:
        """The node at ``path``, or the last one on the way that exists."""
        node = self
        for part in path:
            if isinstance(part, int) and part < len(node.items):
                node = node.items[part]
            elif part in node.entries:
                node = node.entries[str(part)]
            else:
                break
        return node

    def key_origin(self, path: tuple[str | int, ...]) -> Origin:
        """Where the last key of ``path`` stands, or the last node on the way that exists."""
        parent = self.find(path[:-1])
        key = parent.key_nodes.get(str(path[-1]))
        return (key or self.find(path)).origin


def bounded(number: int) -> int:
    """The number, if every reader of the policy can hold it. Raises ValueError."""
    if abs(number) >= _LARGEST_INT:
        raise ValueError("the number is too large")
    return number

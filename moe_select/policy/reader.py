"""Reading nodes: every expectation that fails is a problem with a position, and reading goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moe_select.policy.nodes import Node
from moe_select.policy.problems import Problems
from moe_select.vocabulary.suggest import did_you_mean


class Reader:
    """Helpers that report what was found in place of what was expected."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def error(self, node: Node, message: str, help: str | None = None) -> None:
        """Report a problem at a node."""
        self.problems.error(node.origin, message, help)

    def entries(self, node: Node, what: str) -> Iterator[tuple[str, Node]]:
        """Keys and values of a map, none of anything else."""
        if node.kind == "map":
            yield from node.entries.items()
        else:
            self.error(node, f"expected a map of {what}, got {node.given}")

    def known_entries(self, node: Node, what: str, known: Iterable[str]) -> dict[str, Node]:
        """Like :meth:`entries`, with unknown keys reported and left out."""
        names = list(known)
        found = dict(self.entries(node, what))
        for name in [name for name in found if name not in names]:
            del found[name]
            key = node.key_nodes[name]
            self.error(key, f"unknown key {name!r}{did_you_mean(name, names)}", f"known keys: {', '.join(names)}")
        return found

    def items(self, node: Node, what: str, *, may_be_empty: bool = False) -> tuple[Node, ...]:
        """Items of a list, none of anything else."""
        if node.kind != "list":
            help = f"write [{node.text}]" if isinstance(node.scalar, str) else None
            self.error(node, f"expected a list of {what}, got {node.given}", help)
        elif not node.items and not may_be_empty:
            self.error(node, "an empty list does nothing", f"remove it, or list {what}")
        return node.items

    def text(self, node: Node, what: str) -> str | None:
        """A text that is not blank, or None."""
        if isinstance(node.scalar, str) and node.scalar.strip():
            return node.scalar.strip()
        quotable = node.kind == "scalar" and node.scalar is not None and not isinstance(node.scalar, str)
        self.error(node, f"expected {what}, got {node.given}", f'quote it: "{node.text}"' if quotable else None)
        return None

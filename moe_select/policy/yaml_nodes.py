"""YAML as nodes that know where they stand.

Text is read as libyaml events, so nothing is ever constructed: a file holds text, numbers, booleans, lists and maps.
Tags, anchors, aliases and merge keys are refused; layers and ``...`` are how policies share text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from moe_select.policy.model import Origin
from moe_select.policy.nodes import MAX_DEPTH, Node, Scalar, bounded
from moe_select.policy.problems import Problems

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()
_LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


def read_yaml(text: str, source: str, problems: Problems) -> Node | None:
    """The one document in ``text``, or None when there is none that can be read."""
    before = len(problems)
    reader = _Reader(text, source, problems)
    node = reader.read()
    if node is None and len(problems) == before:
        problems.error(Origin(source), "the file is empty", "an empty policy is written `version: 1`")
    return node


@dataclass
class _Frame:
    """A list or map that is being read."""

    event: Event
    node_items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    key_nodes: dict[str, Node] = field(default_factory=dict)
    key: Node | None = None
    expects_key: bool = True


class _Reader:
    """Builds nodes from events with a stack of its own: deep nesting costs no recursion."""

    def __init__(self, text: str, source: str, problems: Problems) -> None:
        self.text, self.source, self.problems = text, source, problems
        self.lines = problems.texts[source] = _LINE_BREAK.split(text)
        self.stack: list[_Frame] = []
        self.root: Node | None = None
        self.documents = 0

    def read(self) -> Node | None:
        try:
            self.text.encode()
            for event in yaml.parse(self.text, Loader=_LOADER):
                if not self._take(event):
                    return None
        except UnicodeEncodeError as error:
            self._error_at_offset(error.start, "a lone surrogate cannot be written in a file")
            return None
        except yaml.reader.ReaderError as error:
            self._error_at_offset(self._offset_of(error), f"not readable as YAML: {error.reason}")
            return None
        except yaml.MarkedYAMLError as error:
            self._syntax_error(error)
            return None
        return self.root

    def _take(self, event: Event) -> bool:
        """Consume one event; False when the rest cannot be read."""
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._error(event, "a second document", "one file holds one policy; remove the `---`")
                return False
        elif isinstance(event, AliasEvent):
            self._error(event, f"alias *{event.anchor}: aliases are not allowed", _STAR_HELP)
            self._add(self._node(event, "scalar"))
        elif isinstance(event, ScalarEvent):
            self._refuse_marks(event)
            self._add(self._scalar(event))
        elif isinstance(event, SequenceStartEvent | MappingStartEvent):
            self._refuse_marks(event)
            self.stack.append(_Frame(event))
            if len(self.stack) > MAX_DEPTH:
                self._error(event, f"nested deeper than {MAX_DEPTH} levels")
                return False
        elif isinstance(event, SequenceEndEvent | MappingEndEvent):
            self._add(self._close(self.stack.pop()))
        return True

    def _close(self, frame: _Frame) -> Node:
        if isinstance(frame.event, SequenceStartEvent):
            return self._node(frame.event, "list", items=tuple(frame.node_items))
        return self._node(frame.event, "map", entries=frame.entries, key_nodes=frame.key_nodes)

    def _add(self, node: Node) -> None:
        """Hand a finished node to what surrounds it."""
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if isinstance(frame.event, SequenceStartEvent):
            frame.node_items.append(node)
        elif frame.expects_key:
            frame.key, frame.expects_key = node, False
        else:
            self._add_entry(frame, node)
            frame.expects_key = True

    def _add_entry(self, frame: _Frame, value: Node) -> None:
        key = frame.key
        assert key is not None
        if key.kind != "scalar":
            self._problem(key, f"{key.given} as a key", "keys are plain words")
        elif key.text == "<<":
            self._problem(key, "merge keys are not allowed", "write the keys out; layers share text between files")
        elif key.text in frame.entries:
            first = frame.key_nodes[key.text].origin
            self._problem(key, f"{key.text!r} is given twice; first at {first}", "remove one of the two")
        else:
            frame.entries[key.text], frame.key_nodes[key.text] = value, key

    def _scalar(self, event: ScalarEvent) -> Node:
        try:
            value = _resolve(event)
        except ValueError:
            self._error(event, f"{event.value[:40]!r} is not a number that can be read", "quote it if it is text")
            value = event.value
        return self._node(event, "scalar", scalar=value, text=event.value)

    def _refuse_marks(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent) -> None:
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            help = "a value that starts with ! must be quoted: '!=9.0'" if tag.startswith("!=") else "remove the tag"
            self._error(event, f"tag {tag}: tags are not allowed", help)
        if event.anchor is not None:
            self._error(
                event, f"anchor &{event.anchor}: anchors are not allowed", "write the value out where it is used"
            )

    def _node(self, event: Event, kind: str, **parts: Any) -> Node:
        return Node(kind, self._origin_of(event), **parts)

    def _origin_of(self, event: Event) -> Origin:
        mark = event.start_mark
        assert mark is not None  # both parsers mark every event
        return self._origin(mark.line, mark.column)

    def _origin(self, line: int, column: int) -> Origin:
        return Origin(self.source, line + 1, column + 1)

    def _problem(self, node: Node, message: str, help: str | None = None) -> None:
        self.problems.error(node.origin, message, help)

    def _error(self, event: Event, message: str, help: str | None = None) -> None:
        self.problems.error(self._origin_of(event), message, help)

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        if mark is None:
            self.problems.error(Origin(self.source), f"not readable as YAML: {error.problem}")
            return
        line, column = self._inside(mark.line, mark.column)
        what = f"{error.problem}, {error.context}" if error.context else str(error.problem)
        start = error.context_mark
        if start is not None and start.line != line:
            what += f" that starts at line {start.line + 1}"
        help = _syntax_help(self.lines[line], column, str(error.context), str(error.problem))
        self.problems.error(self._origin(line, column), what, help)

    def _inside(self, line: int, column: int) -> tuple[int, int]:
        """The end of a file is reported behind its last line, where there is nothing to show."""
        while line > 0 and (line >= len(self.lines) or not self.lines[line].strip()):
            line -= 1
            column = len(self.lines[line].rstrip()) if line < len(self.lines) else 0
        return line, column

    def _error_at_offset(self, offset: int, message: str) -> None:
        before = _LINE_BREAK.split(self.text[:offset])
        line, column = len(before) - 1, len(before[-1])
        found = self.text[offset : offset + 1]
        code = f" (U+{ord(found):04X})" if found and not found.isprintable() else ""
        self.problems.error(self._origin(line, column), message + code)

    def _offset_of(self, error: yaml.reader.ReaderError) -> int:
        """Characters before the bad one: libyaml counts bytes, PyYAML's own reader counts characters."""
        if _LOADER is yaml.SafeLoader:
            return int(error.position)
        return len(self.text.encode()[: error.position].decode(errors="ignore"))


_STAR_HELP: Final = "a pattern that starts with * must be quoted: '*'"


def _syntax_help(line: str, column: int, context: str, problem: str) -> str | None:
    """The mistakes that policies invite: patterns and comparisons that are not quoted, and tabs."""
    if "alias" in context:
        return _STAR_HELP
    if "block scalar" in context or line[column:].startswith((">", "<", "!")):
        return "a comparison that starts with >, < or ! must be quoted: '>=8.0'"
    if "cannot start any token" in problem and line[: len(line) - len(line.lstrip())].count("\t"):
        return "indent with spaces, not with tabs"
    if "cannot start any token" in problem:
        return "quote the value"
    return None


def _resolve(event: ScalarEvent) -> Scalar:
    """The value of a scalar. Raises ValueError for numbers that cannot be read."""
    if not event.implicit[0]:
        return str(event.value)
    tag = _RESOLVER.resolve(ScalarNode, event.value, (True, False))
    node = ScalarNode(tag, event.value)
    if tag == "tag:yaml.org,2002:null":
        return None
    if tag == "tag:yaml.org,2002:bool":
        return bool(_CONSTRUCTOR.construct_yaml_bool(node))
    if tag == "tag:yaml.org,2002:int":
        return bounded(_CONSTRUCTOR.construct_yaml_int(node))
    if tag == "tag:yaml.org,2002:float":
        return float(_CONSTRUCTOR.construct_yaml_float(node))
    return str(event.value)

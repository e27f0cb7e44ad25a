"""Reading one document into a layer. Everything wrong with it is reported, and what is right is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from moe_select.policy.conditions import ALWAYS, read_condition
from moe_select.policy.document import (
    AUTO,
    DOCUMENT_KEYS,
    RULE_KEYS,
    SCHEME_KEYS,
    SPLICE,
    VERBS,
    VERSION,
    Document,
    Listed,
    Placed,
    RuleLayer,
    SchemeLayer,
    normalize_alias,
    show,
)
from moe_select.policy.kinds import is_pattern
from moe_select.policy.model import DeclaredBackend, ExplicitBackend, Target
from moe_select.policy.nodes import Node
from moe_select.policy.problems import Problems
from moe_select.policy.reader import Reader
from moe_select.support import QuantPair
from moe_select.vocabulary import QuantKey, parse_optional_key

_NAME: Final = r"[A-Za-z0-9_.*?\[\]!-]+"
TARGET_PATTERN: Final = rf"^({_NAME}:)?{_NAME}(/{_NAME})?$"
BACKEND_PATTERN: Final = r"^([A-Za-z0-9_.-]+:)?[A-Za-z0-9_-]+$"
SCHEME_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
_TARGET_FORM: Final = "a target is `backend`, `backend/ExpertsClass`, `distribution:backend` or a pattern of these"

T = TypeVar("T")


def read_document(node: Node, source: str, problems: Problems, *, needs_version: bool = True) -> Document:
    """Read a layer."""
    return _DocumentReader(problems).document(node, source, needs_version)


class _DocumentReader(Reader):
    """One method a construct."""

    def document(self, node: Node, source: str, needs_version: bool) -> Document:
        found = self.known_entries(node, "policy keys", DOCUMENT_KEYS)
        if node.kind == "map":
            self._version(node, found.get("version"), needs_version)
        return Document(
            source,
            self._schemes(found["schemes"]) if "schemes" in found else {},
            self._rules(found["rules"]) if "rules" in found else (),
            self._declared(found["backends"]) if "backends" in found else {},
            self._explicit(found["backend"]) if "backend" in found else None,
        )

    def _version(self, document: Node, version: Node | None, needed: bool) -> None:
        if version is None:
            if needed:
                self.error(document, "`version` is missing", f"add `version: {VERSION}` at the top")
        elif isinstance(version.scalar, bool) or version.scalar != VERSION:
            self.error(version, f"version: expected {VERSION}, got {version.given}", f"write `version: {VERSION}`")

    def _explicit(self, node: Node) -> ExplicitBackend | None:
        if node.scalar == AUTO:
            return ExplicitBackend(AUTO, node.origin)
        target = self._target(node)
        return None if target is None else ExplicitBackend(target.text, node.origin)

    def _declared(self, node: Node) -> dict[str, DeclaredBackend]:
        found = {}
        for name, value in self.entries(node, "backend names"):
            key = node.key_nodes[name]
            if not re.match(BACKEND_PATTERN, name):
                self.error(key, f"{name!r} is not the name of a backend", "`backend` or `distribution:backend`")
            install = None if value.kind == "scalar" and value.scalar is None else self._install(value)
            found[name] = DeclaredBackend(name, install, key.origin)
        return found

    def _install(self, node: Node) -> str | None:
        found = self.known_entries(node, "`install`", ("install",))
        return self._one_line(found["install"], "a command that installs it") or None if "install" in found else None

    def _schemes(self, node: Node) -> dict[str, SchemeLayer]:
        return {name: self._scheme(name, node.key_nodes[name], value) for name, value in self.entries(node, "schemes")}

    def _scheme(self, name: str, key: Node, node: Node) -> SchemeLayer:
        if name == "none" or not re.match(SCHEME_PATTERN, name):
            help = "letters, digits, `_`, `.` and `-`; `none` is the absence of a scheme"
            self.error(key, f"{name!r} cannot name a scheme", help)
        found = self.known_entries(node, "scheme keys", SCHEME_KEYS)
        if node.kind == "map" and not node.entries:
            self.error(node, f"scheme {name!r} says nothing", f"keys: {', '.join(SCHEME_KEYS)}")
        return SchemeLayer(
            name,
            key.origin,
            self._listed(found["match"], "[weights, activations] pairs", self._pair) if "match" in found else None,
            self._aliases(found["aliases"]) if "aliases" in found else {},
            self._listed(found["backends"], "backends", self._candidate, may_be_empty=True)
            if "backends" in found
            else None,
        )

    def _aliases(self, node: Node) -> dict[str, Listed[Target]]:
        found: dict[str, Listed[Target]] = {}
        for spelled, value in self.entries(node, "a framework's names to backends"):
            name, key = normalize_alias(spelled), node.key_nodes[spelled]
            if name in ("", AUTO):
                self.error(key, f"{spelled!r} cannot be an alias", "`auto` leaves the choice to the policy")
            elif name in found:
                self.error(key, f"alias {name!r} is given twice", "case does not count, and hyphens are underscores")
            elif value.kind == "list":
                found[name] = self._listed(value, "backends", self._target)
            else:
                target = self._target(value)
                found[name] = Listed(() if target is None else (Placed(target, value.origin),))
        return found

    def _target(self, node: Node) -> Target | None:
        """A target, or None when it is not one."""
        text = self.text(node, "a backend")
        if text is None:
            return None
        if text == AUTO:
            self.error(node, "`auto` is not a backend", "`auto` is for the top-level key `backend`")
        elif text == SPLICE:
            self.error(node, "`...` is not a backend", "`...` is for lists, where it stands for the list below")
        elif not re.match(TARGET_PATTERN, text):
            self.error(node, f"{text!r} is not a target", _TARGET_FORM)
        else:
            return Target(text, node.origin)
        return None

    def _candidate(self, node: Node) -> Target | None:
        target = self._target(node)
        if target is not None and is_pattern(target.backend):
            help = "name each backend: otherwise installing a plugin would change decisions"
            self.error(node, f"pattern {target.text!r} cannot list candidates", help)
            return None
        return target

    def _pair(self, node: Node) -> QuantPair | None:
        if node.kind != "list" or len(node.items) != 2:
            given = f"{len(node.items)} items" if node.kind == "list" else node.given
            self.error(node, f"expected [weights, activations], got {given}", "such as [fp8_static_tensor_sym, none]")
            return None
        before = len(self.problems)
        weights, activations = (self._key(item) for item in node.items)
        return (weights, activations) if len(self.problems) == before else None

    def _key(self, node: Node) -> QuantKey | None:
        """A quant key; None for ``none``, and for what was reported."""
        text = self.text(node, "a quant key or `none`")
        try:
            return parse_optional_key(text)
        except ValueError as error:
            self.error(node, str(error))
            return None

    def _rules(self, node: Node) -> tuple[RuleLayer, ...]:
        found: dict[str, RuleLayer] = {}
        for item in self.items(node, "rules", may_be_empty=True):
            if item.scalar == SPLICE:
                self.error(item, "`...` has no meaning among rules", "rules of all layers add up by themselves")
                continue
            rule = self._rule(item)
            if rule is None:
                continue
            if rule.name in found:
                first = found[rule.name].origin
                self.problems.error(
                    rule.origin, f"two rules are named {rule.name!r}; first at {first}", "rename one of the two"
                )
            found.setdefault(rule.name or str(rule.origin), rule)
        return tuple(found.values())

    def _rule(self, node: Node) -> RuleLayer | None:
        found = self.known_entries(node, "rule keys", RULE_KEYS)
        if node.kind != "map":
            return None
        name = self._rule_name(node)
        enabled = self._enabled(found.get("enabled"))
        # An unknown key is likely the verb, misspelt: one problem is enough.
        if enabled and not found.keys() & {*VERBS, "options"} and found.keys() == node.entries.keys():
            self.error(node, f"rule {name!r} does nothing", f"give it a verb: {', '.join((*VERBS, 'options'))}")
        return RuleLayer(
            name,
            found.get("name", node).origin,
            read_condition(found["when"], self) if "when" in found else ALWAYS,
            {verb: self._listed(found[verb], "backends", self._target) for verb in VERBS if verb in found},
            self._options(found["options"]) if "options" in found else {},
            self._one_line(found["reason"], "a reason") if "reason" in found else "",
            enabled,
        )

    def _rule_name(self, rule: Node) -> str:
        if "name" in rule.entries:
            return self._one_line(rule.entries["name"], "a name")
        self.error(rule, "a rule without a name", "reports and stronger layers refer to rules by `name`")
        return ""

    def _enabled(self, node: Node | None) -> bool:
        if node is not None and not isinstance(node.scalar, bool):
            self.error(node, f"expected true or false, got {node.given}")
        return node is None or node.scalar is not False

    def _one_line(self, node: Node, what: str) -> str:
        """Text for reports and logs, where a line break would look like another line."""
        return " ".join((self.text(node, what) or "").split())

    def _options(self, node: Node) -> dict[str, tuple[Target, Node]]:
        if node.kind == "map" and not node.entries:
            self.error(node, "no options are given", "remove it, or map a backend to its options")
        found = {}
        for name, value in self.entries(node, "a backend to its options"):
            target = self._target(node.key_nodes[name])
            if value.kind != "map" or not value.entries:
                given = "an empty map" if value.kind == "map" else value.given
                self.error(value, f"expected options of {name}, got {given}", "{option: value}")
            elif target is not None:
                found[name] = target, value
        return found

    def _listed(
        self, node: Node, what: str, read: Callable[[Node], T | None], *, may_be_empty: bool = False
    ) -> Listed[T]:
        items: list[Placed[T] | None] = []
        seen: dict[object, Node] = {}
        for item in self.items(node, what, may_be_empty=may_be_empty):
            is_splice = item.scalar == SPLICE
            value = None if is_splice else read(item)
            if value is None and not is_splice:
                continue
            if value in seen:
                shown = SPLICE if value is None else show(value)
                self.error(item, f"{shown} is listed twice; first at {seen[value].origin}", "remove one of the two")
                continue
            seen[value] = item
            items.append(None if value is None else Placed(value, item.origin))
        return Listed(tuple(items), seen[None].origin if None in seen else None)

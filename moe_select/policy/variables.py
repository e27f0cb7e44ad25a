"""The environment variables that start with MOE_SELECT_: one table, and the policy layer they make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moe_select.policy.document import AUTO, VARIABLE_LAYER, Document, Listed, Placed, RuleLayer
from moe_select.policy.model import ExplicitBackend, Origin, Target
from moe_select.policy.problems import Problems
from moe_select.policy.read_document import TARGET_PATTERN
from moe_select.vocabulary.suggest import did_you_mean

PREFIX: Final = "MOE_SELECT_"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. An empty value is the same as an unset one."""

    name: str
    meaning: str
    verb: str | None = None
    """Verb of the rule that the variable makes."""
    is_policy: bool = True
    """False for variables that are read elsewhere and do not change the policy."""


CONFIG: Final = "MOE_SELECT_CONFIG"
BACKEND: Final = "MOE_SELECT_BACKEND"

VARIABLES: Final[dict[str, Variable]] = {
    variable.name: variable
    for variable in (
        Variable(CONFIG, "a policy file on top of the user's"),
        Variable(BACKEND, "the explicit backend, or a framework's alias of one; `auto` cancels what files say"),
        Variable("MOE_SELECT_PREFER", "targets, by comma, that a rule of this name prefers", "prefer"),
        Variable("MOE_SELECT_DENY", "targets, by comma, that a rule of this name denies", "deny"),
        Variable("MOE_SELECT_STRICT_PLUGINS", "`1` raises for a broken plugin", is_policy=False),
        Variable("MOE_SELECT_DISABLE_PLUGINS", "plugins, by comma, that are not imported", is_policy=False),
        Variable("MOE_SELECT_UPDATE_GOLDEN", "`1` rewrites expected outputs when the tests run", is_policy=False),
        Variable("MOE_SELECT_GOLDEN", "decisions to compare with when the tests run", is_policy=False),
    )
}

SELECTION_VARIABLES: Final = (
    "XDG_CONFIG_HOME",
    "HOME",
    *(variable.name for variable in VARIABLES.values() if variable.is_policy),
)
"""Every environment variable that can change the policy."""


def read_variables(environ: Mapping[str, str], problems: Problems) -> Document | None:
    """The layer that variables make, or None when none is set. Unknown MOE_SELECT_ variables are problems."""
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in VARIABLES:
            hint = did_you_mean(name, VARIABLES)
            problems.error(Origin(name), f"unknown environment variable{hint}", f"known: {', '.join(VARIABLES)}")
    rules = tuple(
        RuleLayer(variable.name, Origin(variable.name), verbs={variable.verb: targets})
        for variable in VARIABLES.values()
        if variable.verb and (targets := _targets(variable.name, environ, problems)).items
    )
    backend = _backend(environ, problems)
    if backend is None and not rules:
        return None
    return Document(VARIABLE_LAYER, rules=rules, backend=backend)


def _backend(environ: Mapping[str, str], problems: Problems) -> ExplicitBackend | None:
    for text, origin in _items(BACKEND, environ, problems, separator=None):
        if text == AUTO or _is_target(text, origin, problems):
            return ExplicitBackend(text, Origin(BACKEND))
    return None


def _targets(name: str, environ: Mapping[str, str], problems: Problems) -> Listed[Target]:
    found = {
        Target(text, Origin(name)): origin
        for text, origin in _items(name, environ, problems, separator=",")
        if _is_target(text, origin, problems)
    }
    return Listed(tuple(Placed(target, target.origin) for target in found))


def _is_target(text: str, origin: Origin, problems: Problems) -> bool:
    if re.match(TARGET_PATTERN, text) and text not in (AUTO, "..."):
        return True
    help = "`backend`, `backend/ExpertsClass`, `distribution:backend` or a pattern of these"
    problems.error(origin, f"{text!r} is not a target", help)
    return False


def _items(
    name: str, environ: Mapping[str, str], problems: Problems, *, separator: str | None
) -> Iterator[tuple[str, Origin]]:
    """The parts of a variable's value, each with its column in ``NAME=value``."""
    value = environ.get(name, "")
    problems.texts[name] = [f"{name}={value}"]
    column = len(name) + 2
    for part in value.split(separator) if separator else [value]:
        if part.strip():
            yield part.strip(), Origin(name, None, column + len(part) - len(part.lstrip()))
        column += len(part) + 1

"""What is wrong with a policy, shown as a compiler shows it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moe_select.policy.model import Origin

_WIDTH: Final = 100
"""Longer source lines are cut around the column."""


class Severity(StrEnum):
    """Errors make a policy unusable; warnings come from the linter only."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: where, what was given, what was allowed."""

    origin: Origin
    message: str
    help: str | None = None
    """What is allowed instead, or what to do."""
    source_line: str | None = None
    severity: Severity = Severity.ERROR

    @property
    def source(self) -> str:
        """File, environment variable or call."""
        return self.origin.source

    @property
    def line(self) -> int | None:
        """Counted from 1."""
        return self.origin.line

    @property
    def column(self) -> int | None:
        """Counted from 1, in characters."""
        return self.origin.column

    @property
    def is_error(self) -> bool:
        """True when the policy cannot be used."""
        return self.severity is Severity.ERROR

    def render(self) -> str:
        """``file:line:column: error: message``, then the source line with a caret, then the help."""
        # A position is never shown as file:None:column: variables and calls have columns at most.
        lines = [f"{self.origin}: {self.severity.value}: {self.message}"]
        if self.source_line is not None and self.source_line.strip():
            lines.extend(_excerpt(self.source_line, self.line, self.column))
        if self.help:
            lines.append(_wrapped(self.help))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems source by source, as the sources came, and by position in each."""
    found = list(problems)
    rank = {source: i for i, source in enumerate(dict.fromkeys(problem.source for problem in found))}
    return tuple(sorted(found, key=lambda item: (rank[item.source], item.line or 0, item.column or 0)))


def _wrapped(help: str) -> str:
    return textwrap.fill(
        help,
        _WIDTH + 10,
        initial_indent="  help: ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _excerpt(source_line: str, line: int | None, column: int | None) -> Iterable[str]:
    shown, at = _cut(source_line, (column or 1) - 1)
    number = "" if line is None else str(line)
    yield f"{number:>5} | {printable(shown)}"
    if column is not None:
        # Tabs stay tabs, so that the caret stands under its character however wide a tab is shown.
        indent = "".join("\t" if char == "\t" else " " for char in shown[:at])
        yield f"      | {indent}^"


def _cut(text: str, at: int) -> tuple[str, int]:
    """At most ``_WIDTH`` characters around ``at``, and where ``at`` is in them."""
    if len(text) <= _WIDTH:
        return text, at
    start = max(0, min(at - _WIDTH // 2, len(text) - _WIDTH))
    head, tail = "..." if start else "", "..." if start + _WIDTH < len(text) else ""
    return head + text[start : start + _WIDTH] + tail, at - start + len(head)


def printable(text: str) -> str:
    """The text with characters that a terminal would act on replaced."""
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


class Problems(list[Problem]):
    """Collects problems, so that all of them are reported at once, and the texts to quote lines from."""

    def __init__(self, texts: dict[str, list[str]] | None = None) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {} if texts is None else texts
        """Source to its lines."""

    def error(self, origin: Origin, message: str, help: str | None = None) -> None:
        """Add an error."""
        self.append(Problem(origin, message, help, self._line_at(origin)))

    def warn(self, origin: Origin, message: str, help: str | None = None) -> None:
        """Add a warning."""
        self.append(Problem(origin, message, help, self._line_at(origin), Severity.WARNING))

    def _line_at(self, origin: Origin) -> str | None:
        """The line to show; a variable has one line, which is shown where the column is known."""
        lines, index = self.texts.get(origin.source, []), (origin.line or 1) - 1
        return lines[index] if origin.column is not None and index < len(lines) else None

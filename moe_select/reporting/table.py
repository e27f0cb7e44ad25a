"""The report as a rich table. Rich is imported when a table is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moe_select.reporting import phrases
from moe_select.support import Verdict

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from moe_select.selection.report import Candidate, Selection

_STYLES: Final = {Verdict.SUPPORTED: "green", Verdict.LAST_RESORT: "yellow", Verdict.REFUSED: "red"}


def selection_to_table(selection: Selection) -> Table:
    """One row a candidate: the winner, then the outranked in order, then the refused, nearest miss first."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False, expand=False)
    table.add_column("candidate", overflow="fold", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=7)
    for candidate in _in_order(selection):
        table.add_row(_name(candidate), _verdict(selection, candidate), _why(selection, candidate), end_section=True)
    return table


def _in_order(selection: Selection) -> list[Candidate]:
    first = [selection.winner] if selection.winner else []
    return [*first, *selection.outranked, *selection.refused]


def _name(candidate: Candidate) -> Text:
    from rich.text import Text

    provider = str(candidate.provider) if candidate.provider else "not installed"
    return Text.assemble((candidate.name, "bold"), "\n", (provider, "dim"))


def _verdict(selection: Selection, candidate: Candidate) -> Text:
    from rich.text import Text

    words = candidate.verdict.value.replace("_", " ")
    if candidate is selection.winner:
        emulated = candidate.verdict is Verdict.LAST_RESORT
        return Text("SELECTED" + ("\nlast resort" if emulated else ""), f"bold {_STYLES[candidate.verdict]}")
    if candidate.verdict is not Verdict.REFUSED:
        words = f"outranked\n{words}"
    return Text(words, _STYLES[candidate.verdict])


def _why(selection: Selection, candidate: Candidate) -> Text:
    """Every reason, one a line; text and not markup, since remedies hold brackets."""
    from rich.text import Text

    lines: list[tuple[str, str]] = []
    if candidate is selection.winner:
        lines.append((f"{phrases.deciding_phrase(selection)} ({selection.deciding})", ""))
    for refusal in candidate.refusals:
        lines.append((f"{refusal.code.value}: {refusal.detail}", ""))
        if refusal.remedy:
            lines.append((f"  → {refusal.remedy}", "cyan"))
    deciding = selection.deciding if candidate is selection.winner else None
    lines.extend((str(effect), "magenta") for effect in phrases.telling_effects(candidate, deciding))
    if options := phrases.options_phrase(candidate):
        lines.append((f"options: {options}", ""))
    lines.extend((f"unproven: {unproven}", "yellow") for unproven in candidate.unproven)
    lines.append((f"named at {candidate.origin}", "dim"))
    joined = Text()
    for i, (text, style) in enumerate(lines):
        joined.append("\n" if i else "").append(_indented(text), style)
    return joined


def _indented(text: str) -> str:
    """One line, its leading indent kept."""
    return text[: len(text) - len(text.lstrip())] + phrases.one_line(text)

"""The report as a table."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from moe_select.reporting.table import selection_to_table
from moe_select.support import Code, Refusal


def render(selection, **options) -> str:
    out = Console(file=io.StringIO(), width=200, **options)
    out.print(selection_to_table(selection))
    return out.file.getvalue()


def test_all_candidates_in_order(report):
    _, selection = report
    text = render(selection)
    ordered = [*filter(None, [selection.winner]), *selection.outranked, *selection.refused]
    places = [text.index(f"\n {candidate.name} ") for candidate in ordered]
    assert places == sorted(places)
    assert text.count("SELECTED") == (1 if selection.ok else 0)


def test_brackets_are_text_and_not_markup(build):
    selection = build["refused"]()
    refusal = Refusal(Code.DEPENDENCY_MISSING, "needs [bold]x[/bold]", "pip install 'x[cpu]'")
    candidate = replace(selection.candidates[0], refusals=(refusal,))
    text = render(build["refused"](candidates=(candidate,)))
    assert "needs [bold]x[/bold]" in text
    assert "pip install 'x[cpu]'" in text


def test_escape_sequences_do_not_pass(build):
    selection = build["refused"]()
    candidate = replace(selection.candidates[0], refusals=(Refusal(Code.PLUGIN_BROKEN, "a\x1b[2Jb\nc"),))
    text = render(build["refused"](candidates=(candidate,)))
    assert "\x1b" not in text
    assert "b c" in text


def test_colour_where_it_can_be_shown(report):
    _, selection = report
    coloured = render(selection, force_terminal=True, color_system="standard")
    assert ("\x1b[1;32m" in coloured or "\x1b[1;33m" in coloured) == selection.ok

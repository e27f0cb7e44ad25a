"""The report as plain text: what exceptions carry, and one line for logs. No colour, readable at 120 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from moe_select.reporting import phrases
from moe_select.support import Verdict

if TYPE_CHECKING:
    from moe_select.policy.model import Origin
    from moe_select.selection.report import Candidate, Selection

WIDTH: Final = 120
_LABEL: Final = 11
"""Width of the left column."""


def selection_to_text(selection: Selection) -> str:
    """The outcome in the first line, then what was asked, what runs and why, what was outranked, what was refused and all
    the reasons (nearest miss first), and what an operator should know besides.
    """
    outcome, *asked = selection_head(selection)
    blocks = (
        [outcome],
        asked,
        list(_winner(selection)),
        list(_candidates("outranked", "could run too, next best first", selection.outranked)),
        list(_candidates("refused", "nearest miss first", selection.refused)),
        [line for notice in selection.notices for line in labelled("notice", notice)],
        list(_fingerprints(selection)),
    )
    return "\n\n".join("\n".join(block) for block in blocks if block)


def selection_to_line(selection: Selection) -> str:
    """One line for a log: outcome, request, place, deciding ``file:line:column``, refused names with their codes."""
    parts = [phrases.outcome_phrase(selection)]
    if selection.deciding is not None:
        parts.append(f"decided by {selection.deciding} ({phrases.deciding_phrase(selection)})")
    parts.append(f"{phrases.quant_phrase(selection)}, {phrases.sizes_phrase(selection.request)}")
    parts.append(f"on {phrases.environment_phrase(selection.environment)}")
    if selection.outranked:
        parts.append("outranked: " + ", ".join(candidate.name for candidate in selection.outranked))
    if selection.refused:
        parts.append("refused: " + ", ".join(_name_and_codes(candidate) for candidate in selection.refused))
    return phrases.one_line(f"{'; '.join(parts)} [{selection.fingerprint}]")


def selection_head(selection: Selection) -> list[str]:
    """The outcome in one line, and the lines that say what was asked."""
    return [phrases.one_line(phrases.outcome_phrase(selection)), *_asked(selection)]


def labelled(label: str, text: str) -> Iterator[str]:
    """The text beside a label in the left column, wrapped."""
    yield from wrapped(text, first=f"{label:<{_LABEL}}", rest=" " * _LABEL)


def wrapped(text: str, *, first: str, rest: str) -> list[str]:
    """Lines of at most :data:`WIDTH` columns; a word longer than that (a path) stays whole."""
    return textwrap.wrap(
        phrases.one_line(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _name_and_codes(candidate: Candidate) -> str:
    codes = dict.fromkeys(refusal.code.value for refusal in candidate.refusals)
    return f"{candidate.name} ({', '.join(codes)})"


def _asked(selection: Selection) -> Iterator[str]:
    request = selection.request
    yield from labelled("asked", phrases.quant_phrase(selection))
    yield from labelled("", phrases.layer_phrase(request))
    if extras := phrases.extras_phrase(request):
        yield from labelled("", extras)
    yield from labelled("on", phrases.environment_phrase(selection.environment))
    if selection.explicit is not None:
        yield from labelled("explicit", f"backend {selection.explicit.name!r} by {selection.explicit.origin}")


def _winner(selection: Selection) -> Iterator[str]:
    winner = selection.winner
    if winner is None:
        return
    emulated = ", a last resort: emulation" if winner.verdict is Verdict.LAST_RESORT else ""
    yield from labelled("winner", f"{winner.name}  ({phrases.origin_phrase(winner)}){emulated}")
    yield from labelled("decided by", f"{selection.deciding}: {phrases.deciding_phrase(selection)}")
    yield from _marks(winner, " " * _LABEL, selection.deciding)


def _candidates(label: str, order: str, candidates: Iterable[Candidate]) -> Iterator[str]:
    listed = tuple(candidates)
    if listed:
        yield from labelled(label, f"{phrases.plural(len(listed), 'candidate')}, {order}")
    for candidate in listed:
        emulated = ", last resort" if candidate.verdict is Verdict.LAST_RESORT else ""
        yield from wrapped(f"{candidate.name}  ({phrases.origin_phrase(candidate)}{emulated})", first="  ", rest="    ")
        yield from _reasons(candidate)
        yield from _marks(candidate, "    ")


def _reasons(candidate: Candidate) -> Iterator[str]:
    for refusal in candidate.refusals:
        yield from wrapped(f"{refusal.code.value}: {refusal.detail}", first="    - ", rest="      ")
        if refusal.remedy:
            yield from wrapped(refusal.remedy, first="      → ", rest="        ")


def _marks(candidate: Candidate, indent: str, deciding: Origin | None = None) -> Iterator[str]:
    """What rules did to a candidate, its options, and what could not be checked."""
    texts = [f"* {effect}" for effect in phrases.telling_effects(candidate, deciding)]
    if options := phrases.options_phrase(candidate):
        texts.append(f"* options: {options}")
    texts.extend(f"? unproven: {unproven}" for unproven in candidate.unproven)
    for text in texts:
        yield from wrapped(text, first=indent, rest=f"{indent}  ")


def _fingerprints(selection: Selection) -> Iterator[str]:
    parts = f"{selection.fingerprint} (policy {selection.policy_fingerprint}, plugins {selection.registry_fingerprint})"
    yield from labelled("decision", parts)

"""The one did-you-mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to ``word``, or None when nothing is close.

    >>> nearest("hummign", ["humming", "triton"])
    'humming'
    """
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"``, or an empty string when nothing is close."""
    match = nearest(word, known)
    return f" (did you mean {match!r}?)" if match else ""

"""Deciding: from a request to a report."""

from moe_select.selection.ambient import override
from moe_select.selection.api import clear_caches, explain, select
from moe_select.selection.engine import decide
from moe_select.selection.report import Candidate, Effect, Selection

__all__ = ["Candidate", "Effect", "Selection", "clear_caches", "decide", "explain", "override", "select"]

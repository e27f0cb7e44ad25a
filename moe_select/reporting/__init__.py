"""Renderings of the report: plain data, text, one log line, a rich table. None of them decides anything."""

from moe_select.reporting.plain import selection_to_dict
from moe_select.reporting.table import selection_to_table
from moe_select.reporting.text import selection_to_line, selection_to_text

__all__ = ["selection_to_dict", "selection_to_line", "selection_to_table", "selection_to_text"]

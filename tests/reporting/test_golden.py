"""Every rendering of every report, to the byte."""

from __future__ import annotations

import io


def test_text(report, check_golden):
    name, selection = report
    check_golden(f"{name}.txt", selection.to_text() + "\n")


def test_line(report, check_golden):
    name, selection = report
    check_golden(f"{name}.log", selection.log_line() + "\n")


def test_json(report, check_golden):
    name, selection = report
    check_golden(f"{name}.json", selection.to_json() + "\n")


def test_table(report, check_golden):
    from rich.console import Console

    name, selection = report
    out = Console(file=io.StringIO(), width=120, force_terminal=False, color_system=None, legacy_windows=False)
    out.print(selection.to_table())
    lines = [line.rstrip() for line in out.file.getvalue().splitlines()]
    check_golden(f"{name}.table", "\n".join(lines) + "\n")

"""The report of ``polyref evaluate -o DIR``: one page for people, and the same numbers for programs beside it."""

from __future__ import annotations

from polyref.eval.report.directory import check_report
from polyref.eval.report.settings import Settings
from polyref.eval.report.write import write_report

__all__ = ["Settings", "check_report", "write_report"]

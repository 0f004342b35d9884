"""One step-wise search over any :class:`StepModel`: beam search, diverse beam search (three semantics), sampling.

Options can be checked without importing torch; the engine is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyref.models.step import RowModel, StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate, StepHook

if TYPE_CHECKING:
    from polyref.paraphrase.search.engine import search

__all__ = ["Candidate", "RowModel", "SearchOptions", "StepHook", "StepModel", "search"]


def __getattr__(name: str) -> Any:
    if name == "search":
        from polyref.paraphrase.search.engine import search

        return search
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

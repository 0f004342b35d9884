"""Kinds of files of human judgements; listing them imports none of their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from polyref.plugins import Plugins

if TYPE_CHECKING:
    from polyref.eval.judgements.base import GoldReader


def _is_reader(kind: str, found: Any) -> bool:
    from polyref.eval.judgements.base import GoldReader

    return isinstance(found, GoldReader) and found.kind == kind


JUDGEMENTS: Final = Plugins(
    "kind of judgements",
    "polyref.judgements",
    {
        "mqm": "polyref.eval.judgements.mqm:READER",
        "da": "polyref.eval.judgements.direct_assessment:READER",
        "darr": "polyref.eval.judgements.task_rankings:READER",
        "pearmut": "polyref.eval.judgements.pearmut:READER",
    },
    "a GoldReader of that kind",
    _is_reader,
)


def gold_reader(kind: str) -> GoldReader:
    """The reader of one kind of files."""
    reader: GoldReader = JUDGEMENTS.load(kind)
    return reader

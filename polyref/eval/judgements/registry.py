"""Kinds of files of human judgements; listing them imports none of their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from polyref.errors import UsageError
from polyref.eval.plugins import Plugins

if TYPE_CHECKING:
    from polyref.eval.judgements.base import GoldReader

JUDGEMENTS: Final = Plugins(
    "kind of judgements",
    "polyref.judgements",
    {
        "mqm": "polyref.eval.judgements.mqm:READER",
        "da": "polyref.eval.judgements.direct_assessment:READER",
        "darr": "polyref.eval.judgements.task_rankings:READER",
    },
)


def gold_reader(kind: str) -> GoldReader:
    """The reader of one kind of files."""
    from polyref.eval.judgements.base import GoldReader

    reader = JUDGEMENTS.load(kind)
    if not isinstance(reader, GoldReader) or reader.kind != kind:
        raise UsageError(
            f"the plug-in {kind!r} of {JUDGEMENTS.group} is {reader!r}, expected a GoldReader of that kind"
        )
    return reader

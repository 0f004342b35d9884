"""References in columns, for forms that have one place for each: who wrote them, or their kind and number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from polyref.errors import DataError
from polyref.formats.roles import NAME, added_kind
from polyref.formats.wmt.documents import NO_DOCUMENT
from polyref.segments import Reference, Segment


@dataclass(frozen=True)
class Layout:
    """A reference set in columns.

    Attributes:
        segments: The segments.
        columns: Names of the columns: originals in the order they come up, then the others by kind and number.
        rows: Column -> reference, of every segment.
        meta: What the set says about itself.
    """

    segments: Sequence[Segment]
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Reference]]
    meta: Mapping[str, Any]

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language, where the segments say one."""
        source = next((one.extra["src_lang"] for one in self.segments if one.extra.get("src_lang")), None)
        return source, next((one.lang for one in self.segments if one.lang), None)

    def padded(self) -> list[list[str]]:
        """The texts of every segment in all columns: one that is lacking is the segment's first again.

        The same reference twice changes no score that takes the best or counts n-grams, unlike an empty one.
        """
        return [
            [
                row[column].text if column in row else next((ref.text for ref in row.values()), "")
                for column in self.columns
            ]
            for row in self.rows
        ]

    def documents(self) -> list[tuple[str, list[int]]]:
        """Name of every document and the places of its segments."""
        found: dict[tuple[str, object], list[int]] = {}
        for key, group in groupby(enumerate(self.segments), key=lambda item: _document(item[1])):
            places = [place for place, _ in group]
            if key in found:
                raise DataError(
                    f"document {key[0]!r} is not in one piece: it goes on at segment {self.segments[places[0]].id}",
                    remedy="this form has one place for each document: sort the segments by document",
                )
            found[key] = places
        return [(name, places) for (name, _), places in found.items()]


def _document(segment: Segment) -> tuple[str, object]:
    return segment.doc or NO_DOCUMENT, segment.extra.get("collection")


def layout(
    segments: Sequence[Segment],
    meta: Mapping[str, Any],
    first: str = "reference",
    readable: Callable[[str], bool] = lambda name: added_kind(name) is None,
) -> Layout:
    """Put the references of segments into columns.

    Args:
        segments: The segments.
        meta: What the set says about itself.
        first: Name of the first reference that has no name; further ones have a number behind it, from 2.
        readable: Whether a name of a reference can be that of its column. Others have columns as if they had none, the
            same in all segments.
    """
    rows: list[dict[str, Reference]] = []
    columns: dict[str, str] = {}
    for segment in segments:
        row: dict[str, Reference] = {}
        numbers: Counter[str] = Counter()
        taken = {name for ref in segment.originals if isinstance(name := ref.extra.get(NAME), str)}
        for ref in (*segment.originals, *segment.extras):
            named = ref.extra.get(NAME)
            named = named if ref.kind == "human" and isinstance(named, str) and named else None
            column = named if named and readable(named) else columns.get(named or "")
            kind = first if ref.kind == "human" else ref.kind
            while column is None or column in row:
                numbers[kind] += 1
                column = kind if kind == first and numbers[kind] == 1 else f"{kind}{numbers[kind]}"
                column = None if column in taken and readable(column) else column
            row[column] = ref
            if named and not readable(named):
                columns.setdefault(named, column)
        rows.append(row)
    there = dict.fromkeys(column for row in rows for column, ref in row.items() if ref.original)
    made = {column: ref.kind for row in rows for column, ref in row.items() if not ref.original}
    ordered = sorted(made, key=lambda column: (made[column], int(column.removeprefix(made[column]))))
    return Layout(segments, [*there, *ordered], rows, meta)

"""Which segment of a set the items of an annotation tool are: by their document and number, else by their source.

An item may be a part of a segment: WMT26 shows paragraphs and strings of a document (``06b-segment_source.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from polyref.eval.data.score_files import shortened
from polyref.eval.judgements.base import Place
from polyref.json_files import Record

#: Between the parts of WMT's ids: set, domain, codes, document, number.
_SEPARATOR: Final = re.compile(r"_#(?:##)?_")
#: Marks of paragraphs, which test sets keep in some places and not in others.
_MARKS: Final = re.compile(r"</?p>|<br ?/?>")


class Items:
    """The items of one file.

    Args:
        place: The set.
    """

    def __init__(self, place: Place) -> None:
        self._has_texts = place.source is not None
        self._texts: dict[str, list[int]] = {}
        self._documents: dict[str, Sequence[int] | None] = {}
        for name, positions in place.index.items():
            # The end of a name stands for it where it is that of no other.
            end = _SEPARATOR.split(name)[-1]
            self._documents[end] = None if end in self._documents else positions
        self._sources = [_plain(text) for text in place.source or ()]
        self._known: dict[str, tuple[str, Sequence[int]]] = {}
        for segment, source in enumerate(self._sources):
            self._texts.setdefault(source, []).append(segment)
        #: Items that are parts of a segment.
        self.parts = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def found(self) -> bool:
        """Whether an item may be a segment of the set."""
        return any(options for _, options in self._known.values())

    @property
    def example(self) -> str:
        """The source of the first item."""
        return next(text for text, _ in self._known.values())

    def add(self, name: str, item: Record) -> None:
        """Take an item with ``src``, or ``src_text`` where that is a picture or a film.

        Raises:
            DataError: An item of that name is another segment.
        """
        text = item.text("src_text") or item.needed("src", item.text)
        before = self._known.get(name)
        if before is not None and before[0] == text:
            return
        options = self._options(name, text)
        if before is None:
            self._known[name] = text, options
        elif len(options) == len(before[1]) == 1 and options[0] != before[1][0]:
            item.fail(
                f"the item {shortened(name)} has the source of segment {options[0] + 1}, and before that of segment "
                f"{before[1][0] + 1}"
            )

    def places(self, names: Sequence[str]) -> list[int | None]:
        """The segments of the items of one screen, which follow each other in the set; None for what is in it nowhere.

        An item whose source several segments have is the one nearest to where its neighbours on the screen say.
        """
        options = [self._known[name][1] for name in names]
        sure = {number: own[0] for number, own in enumerate(options) if len(own) == 1}
        unclear = [number for number, own in enumerate(options) if len(own) > 1]
        while sure and unclear:
            near, number = min(((at, one) for one in unclear for at in sure), key=lambda pair: abs(pair[0] - pair[1]))
            unclear.remove(number)
            expected = sure[near] + number - near
            free = sorted((abs(one - expected), one) for one in options[number] if one not in sure.values())
            if free and (len(free) == 1 or free[0][0] < free[1][0]):
                sure[number] = free[0][1]
        return [sure.get(number) for number in range(len(names))]

    def _options(self, name: str, text: str) -> Sequence[int]:
        *_, document, number = ("", "", *_SEPARATOR.split(name))
        positions = self._documents.get(document)
        at = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1
        named = [positions[at]] if positions is not None and 0 <= at < len(positions) else []
        if not self._has_texts:
            return named
        plain = _plain(text)
        if options := self._texts.get(plain, []):
            return [one for one in named if one in options] or options
        inside = [one for one in positions or () if plain and plain in self._sources[one]]
        self.parts += bool(inside)
        return inside


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split())

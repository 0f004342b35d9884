"""Lists of texts: the references of one segment a line, as a JSON or Python list, as in the releases of Div-Ref."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Opened
from polyref.formats.elements import as_list, elements, is_texts
from polyref.json_files import try_json
from polyref.segments import Place, Reference, Segment


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened(FORMAT.name, {}, _segments(file))


def _segments(file: Lines) -> Iterator[Segment]:
    for position, (number, text) in enumerate(elements(file), 1):
        value = as_list(text) if text.lstrip().startswith("[") else _text(text)
        if not is_texts(value):
            raise DataError(
                "expected a list with the references of one segment, or one text", file=file.name, line=number
            )
        texts = [item for item in value or () if item is not None]
        for item in texts:
            if "\0" in item or any("\ud800" <= letter <= "\udfff" for letter in item):
                raise DataError("a NUL or half a surrogate pair, expected text", file=file.name, line=number)
        yield Segment(Place(position), tuple(Reference(item) for item in texts))


def _text(text: str) -> list[str] | None:
    """One text instead of a list."""
    value = try_json(text, str)
    return None if value is None else [value]


FORMAT: Final = Format("lists", lambda name, first_line: False, _open)

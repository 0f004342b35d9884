"""SGML of WMT up to 2020 and of IWSLT: sets of sources, references and outputs by document.

It is not valid XML (texts hold bare ampersands): tags are found by pattern, and the entities that are entities are
unescaped. White space at the ends of a segment belongs to the markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import Final

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Opened, Outputs, shortened, whole_number
from polyref.formats.wmt.documents import UNNAMED, Document, chosen_of, outputs_of, segments_of

_TAG: Final = re.compile(r"<(/?)(srcset|refset|tstset|doc|seg)\b([^<>]*)>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"""(?<![\w:-])([\w:-]{1,64})\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ENTITY: Final = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
#: Most characters of a segment.
_LONGEST: Final = 1 << 24


def _attributes(text: str) -> dict[str, str]:
    return {key.lower(): _plain(one or other) for key, one, other in _ATTRIBUTE.findall(text)}


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda found: unescape(found[0]), text)


class _Reader:
    """Reads the documents of one file into those that earlier files had."""

    def __init__(self, file: Lines, documents: dict[str, Document], number: int) -> None:
        self.file = file
        self.documents = documents
        #: Texts of several files may have one name: theirs is then told by the file's place.
        self.suffix = "" if number == 1 else str(number)
        self.line = 0
        self.kind = "refset"
        self.of_set: dict[str, str] = {}
        self.document: Document | None = None
        self.texts: dict[int, str] | None = None
        self.segment = 0
        self.pieces: list[str] | None = None
        self.size = 0

    def read(self) -> None:
        for line in self.file.lines:
            self.line += 1
            place = 0
            for tag in _TAG.finditer(line):
                self._text(line[place : tag.start()])
                place = tag.end()
                self._tag(tag[1] == "/", tag[2].lower(), tag[3])
            self._text(f"{line[place:]} ")
        if self.pieces is not None or self.document is not None:
            raise self._fault(f"{'a segment' if self.pieces is not None else 'a document'} that does not end")

    def _fault(self, message: str) -> DataError:
        return DataError(message, file=self.file.name, line=self.line)

    def _text(self, text: str) -> None:
        if self.pieces is not None:
            self.pieces.append(text)
            self.size += len(text)
            if self.size > _LONGEST:
                raise self._fault(f"a segment longer than {_LONGEST} characters")

    def _tag(self, closing: bool, name: str, attributes: str) -> None:
        if self.pieces is not None and not (closing and name == "seg"):
            raise self._fault(f"<{'/' * closing}{name}> within a segment, which does not end")
        if name == "seg":
            self._close_segment() if closing else self._open_segment(_attributes(attributes))
        elif name == "doc":
            self.texts = self.document = None
            if not closing:
                self._open_document(_attributes(attributes))
        else:
            self.kind, self.of_set = ("refset", {}) if closing else (name, _attributes(attributes))

    def _open_document(self, attributes: dict[str, str]) -> None:
        name = attributes.get("docid") or attributes.get("id") or ""
        if not name:
            raise self._fault("a document without docid")
        new = Document(name, attributes.get("genre") or "all", None, False, self.line)
        document = self.document = self.documents.setdefault(name, new)
        document.original = document.original or attributes.get("origlang") or None
        own = attributes.get("sysid") or self.of_set.get("sysid") or ""
        if self.kind == "srcset":
            table, own = {"": document.source}, ""
            document.language = self.of_set.get("srclang") or None
            if document.has_source:
                raise self._fault(f"document {name!r} has a second source")
            document.has_source = True
        elif self.kind == "tstset":
            table = document.outputs
            if not own:
                raise self._fault("an output without the name of its system (sysid)")
        else:
            table = document.references
            own = self.of_set.get("refid") or own or UNNAMED
            if self.suffix and own in table:
                own += self.suffix
            target = self.of_set.get("trglang")
            document.target = document.target or (target if target != "any" else None)
        if own in table and self.kind != "srcset":
            raise self._fault(f"document {name!r} has {own!r} twice")
        self.texts = table.setdefault(own, {})

    def _open_segment(self, attributes: dict[str, str]) -> None:
        if self.texts is None:
            raise self._fault("a segment outside of a document")
        text = attributes.get("id", "")
        number = whole_number(text)
        if not number:
            raise self._fault(f"the segment id is {shortened(text)}, expected a number from 1")
        if number in self.texts:
            raise self._fault(f"segment {number} occurs twice")
        self.segment, self.pieces, self.size = number, [], 0

    def _close_segment(self) -> None:
        if self.pieces is None or self.texts is None:
            raise self._fault("</seg> without a segment")
        self.texts[self.segment] = _plain("".join(self.pieces).strip())
        self.pieces = None


def read_sgml(files: Sequence[Lines]) -> list[Document]:
    """The documents of one or several files, in the order of the first."""
    documents: dict[str, Document] = {}
    for number, file in enumerate(files, 1):
        before = len(documents)
        _Reader(file, documents, number).read()
        if number > 1 and len(documents) > before:
            name = list(documents)[before]
            raise DataError(
                f"document {name!r} is not in {files[0].name}",
                file=file.name,
                remedy="several files are several references of the same documents",
            )
    for document in documents.values():
        for name, texts in {**document.references, **document.outputs}.items():
            if document.has_source and (extra := sorted(texts.keys() - document.source.keys())):
                raise DataError(
                    f"{name!r} has segment {extra[0]} of document {document.name!r}, the source does not",
                    file=files[-1].name,
                )
    if not any(document.numbers for document in documents.values()):
        raise DataError("no segments", file=files[0].name)
    return list(documents.values())


def _open(files: Sequence[Lines]) -> Opened:
    documents = read_sgml(files)
    reading = files[0].reading
    return Opened(FORMAT.name, {}, segments_of(documents, names=chosen_of(documents, files[0]), whole=reading.whole))


def _outputs(file: Lines) -> Outputs:
    return outputs_of(read_sgml([file]), file.name)


FORMAT: Final = Format("sgml", lambda name, first_line: False, _open, _outputs, several=True)

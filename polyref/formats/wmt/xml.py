"""WMT XML, 2021 to 2024: one file a language pair, with sources, references and outputs by document.

Schema: wmt-conference/wmt-format-tools, ``wmt-schema.rnc``. Nothing outside of the file is ever resolved, and document
type declarations are refused.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final
from xml.parsers import expat

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Opened, Outputs, looks, shortened, whole_number
from polyref.formats.wmt.documents import UNNAMED, Document, chosen_of, outputs_of, segments_of
from polyref.languages import base, split_pair
from polyref.textfiles import holds_more, is_packed, most_lines, most_unpacked, unpacks_to_more

#: Bytes or characters that are given to the parser at a time.
_BLOCK: Final = 1 << 20
_ROOTS: Final = frozenset({"dataset", "collection", "doc"})
_EXPECTED: Final = "expected WMT's XML, which begins with <dataset>"


def read_xml(file: Path, source_language: str | None = None) -> list[Document]:
    """The documents of a file, possibly ``.gz``.

    Args:
        file: The file.
        source_language: What sources must be in; None takes any.
    """
    reader = XmlReader(str(file), source_language)
    packed = file.name.endswith(".gz")
    try:
        with gzip.open(file, "rb") if packed else file.open("rb") as stream:
            return reader.blocks(_blocks(stream, most_unpacked() if packed else sys.maxsize, file, reader))  # type: ignore[arg-type]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise reader.fault(f"broken gzip data: {error}") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=file) from None


def _blocks(stream: BinaryIO, room: int, file: Path, reader: XmlReader) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        room -= len(block)
        if room < 0:
            raise unpacks_to_more(file, line=reader.parser.CurrentLineNumber)
        yield block


class XmlReader:
    """Reads documents, from blocks of bytes or from lines.

    Args:
        file: Its name for messages.
        source_language: What sources must be in; None takes any.
        sources: Whether every document must have one; a file that holds references alone has none.
    """

    def __init__(self, file: str, source_language: str | None = None, *, sources: bool = True) -> None:
        self.file = file
        self.source_language = source_language
        self.sources = sources
        self.found: list[Document] = []
        self.collection: str | None = None
        self.document: Document | None = None
        self.texts: dict[int, str] | None = None
        self.segment: int | None = None
        self.pieces: list[str] = []
        self.known: set[tuple[str | None, str]] = set()
        self.first = ""
        self.rooted = False
        self.room = most_lines() if is_packed(file) else sys.maxsize
        self.parser: Any = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def blocks(self, blocks: Iterable[bytes] | Iterable[str]) -> list[Document]:
        """The documents in blocks of any size."""
        return self._read(partial(self._feed, blocks))

    def lines(self, lines: Iterable[str]) -> list[Document]:
        """The documents in lines without their ends."""
        return self.blocks(f"{line}\n" for line in lines)

    def _feed(self, blocks: Iterable[Any]) -> None:
        """In pieces that grow with what is not ended: Expat begins anew at the start of a tag or comment every time."""
        held: list[Any] = []
        size = fed = 0
        for block in blocks:
            held.append(block)
            size += len(block)
            if size >= max(_BLOCK, fed - self.parser.CurrentByteIndex):
                fed += self._parse(held)
                size = 0
        self._parse(held)
        self.parser.Parse(b"", True)

    def _parse(self, held: list[Any]) -> int:
        """Give what is held to Expat, which reads text as UTF-8; the number of its bytes."""
        if not held:
            return 0
        text = held[0][:0].join(held)
        held.clear()
        self.first = self.first or (text.decode("utf-8", "replace") if isinstance(text, bytes) else text)[:_BLOCK]
        self.parser.Parse(text, False)
        return len(text) if isinstance(text, bytes) else len(text.encode("utf-8"))

    def _read(self, parse: Callable[[], object]) -> list[Document]:
        try:
            parse()
        except expat.ExpatError as error:
            start = self.first.lstrip("\ufeff\ufffd\0 \t\r\n")
            if not start.startswith("<"):
                found = f"is no XML: the first line is {looks(start.partition(chr(10))[0])}"
                raise DataError(found, file=self.file, line=1, remedy=_EXPECTED) from None
            raise DataError(f"broken XML: {expat.ErrorString(error.code)}", file=self.file, line=error.lineno) from None
        except (LookupError, ValueError) as error:
            # What Expat does not know itself goes to Python's codecs, which know one-byte encodings alone.
            raise DataError(
                f"cannot be decoded: {error}", file=self.file, line=1, remedy="convert it to UTF-8"
            ) from None
        return self.found

    def fault(self, message: str) -> DataError:
        """An error at the place where the reader is."""
        return DataError(message, file=self.file, line=self.parser.CurrentLineNumber)

    def _doctype(self, *_: object) -> None:
        raise self.fault("a document type declaration, which is not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.room -= 1
        if self.room < 0:
            raise holds_more(self.file, "elements", line=self.parser.CurrentLineNumber)
        if not self.rooted and name not in _ROOTS:
            raise DataError(
                f"is markup (<{shortened(name)[1:-1]}>)",
                file=self.file,
                line=self.parser.CurrentLineNumber,
                remedy=_EXPECTED,
            )
        self.rooted = True
        if name == "collection":
            self.collection = attributes.get("id")
        elif name == "doc":
            self._open_document(attributes)
        elif name in {"src", "ref", "hyp"}:
            self._open_texts(name, attributes)
        elif name == "seg" and self.texts is not None:
            text = attributes.get("id", "")
            number = whole_number(text)
            if not number:
                raise self.fault(f"the segment id is {shortened(text)}, expected a number from 1")
            if number in self.texts:
                raise self.fault(f"segment {number} occurs twice")
            self.segment, self.pieces = number, []

    def _open_document(self, attributes: dict[str, str]) -> None:
        name = attributes.get("id", "")
        if not name:
            raise self.fault("a document without id")
        if (self.collection, name) in self.known:
            raise self.fault(f"the document {name!r} occurs twice")
        self.known.add((self.collection, name))
        line = self.parser.CurrentLineNumber
        domain = attributes.get("domain") or "all"
        self.document = Document(name, domain, self.collection, "testsuite" in attributes, line)
        self.document.original = attributes.get("origlang")
        self.found.append(self.document)

    def _open_texts(self, kind: str, attributes: dict[str, str]) -> None:
        document = self.document
        if document is None:
            raise self.fault(f"{kind} outside of a document")
        if kind == "src":
            document.language = attributes.get("lang")
            if self.source_language and document.language and base(document.language) != base(self.source_language):
                raise self.fault(f"the source is in {document.language!r}, expected {self.source_language!r}")
            document.translator = attributes.get("translator")
            document.has_source = True
            self.texts = document.source
            return
        document.target = document.target or attributes.get("lang")
        table = document.references if kind == "ref" else document.outputs
        name = attributes.get("translator" if kind == "ref" else "system") or (UNNAMED if kind == "ref" else "")
        if not name:
            raise self.fault("an output without the name of its system")
        if name in table:
            raise self.fault(f"document {document.name!r} has {name!r} twice")
        self.texts = table[name] = {}

    def _text(self, data: str) -> None:
        if self.segment is not None:
            self.pieces.append(data)

    def _end(self, name: str) -> None:
        if name == "seg" and self.segment is not None and self.texts is not None:
            # A segment is one line; the file may have been wrapped.
            self.texts[self.segment] = " ".join("".join(self.pieces).split("\n"))
            self.segment = None
        elif name in {"src", "ref", "hyp"}:
            self.texts = None
        elif name == "doc" and self.document is not None:
            self._close(self.document)
            self.document = None
        elif name == "collection":
            self.collection = None

    def _close(self, document: Document) -> None:
        if not document.has_source:
            if not self.sources:
                return
            raise self.fault(f"document {document.name!r} has no source")
        if document.translator is not None:
            # Written in the target language and translated back: the one reference is the original.
            if UNNAMED not in document.references or len(document.references) > 1:
                raise self.fault(f"document {document.name!r}: source and reference both name a translator")
            document.references[document.translator] = document.references.pop(UNNAMED)
        for kind, table in (("reference", document.references), ("system", document.outputs)):
            for name, texts in table.items():
                if extra := sorted(texts.keys() - document.source.keys()):
                    raise self.fault(
                        f"{kind} {name!r} has segment {extra[0]} of document {document.name!r}, the source does not"
                    )


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    documents = _documents(file)
    return Opened(FORMAT.name, {}, segments_of(documents, names=chosen_of(documents, file), whole=file.reading.whole))


def _outputs(file: Lines) -> Outputs:
    return outputs_of(_documents(file), file.name)


def _documents(file: Lines) -> list[Document]:
    """Those that are no test suite's."""
    codes = split_pair(file.reading.pair) if file.reading.pair else None
    source = codes[0] if codes else None
    found = [one for one in XmlReader(file.name, source, sources=False).lines(file.lines) if not one.test_suite]
    if not any(document.numbers for document in found):
        raise DataError("no segments", file=file.name)
    return found


FORMAT: Final = Format("xml", lambda name, first_line: False, _open, _outputs)

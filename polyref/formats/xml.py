"""WMT's markup: XML of 2021 to 2024, and the SGML of before and of IWSLT.

Schema of the XML: wmt-conference/wmt-format-tools, ``wmt-schema.rnc``. Nothing outside of the file is ever resolved,
and document type declarations are refused. SGML is not valid XML (texts hold bare ampersands): tags are found by
pattern, and the entities that are entities are unescaped. White space at the ends of a segment belongs to the markup.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape, unescape
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final
from xml.parsers import expat

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Opened, Outputs, Start, looks, shortened, whole_number
from polyref.formats.columns import DEFAULT_NAME, NO_DOCUMENT, DocumentWriting, Row, SetInColumns, one_line
from polyref.formats.documents import Document, chosen, lost_about, numbers, outputs_of, segments_of
from polyref.languages import base, split_pair
from polyref.references import Segment
from polyref.textfiles import holds_more, is_packed, most_lines, most_unpacked, unpacks_to_more

#: Bytes or characters that are given to the parser at a time.
BLOCK: Final = 1 << 20
_MARKUP: Final = re.compile(
    r"\s*<(\?xml|!doctype|html|tmx|xliff|tei|mteval|srcset|refset|tstset|dataset|collection|doc|seg)\b", re.I
)
_ROOTS: Final = frozenset({"dataset", "collection", "doc"})
_EXPECTED: Final = "expected WMT's XML, which begins with <dataset>"
_TAG: Final = re.compile(r"<(/?)(srcset|refset|tstset|doc|seg)\b([^<>]*)>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"""(?<![\w:-])([\w:-]{1,64})\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ENTITY: Final = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
#: Most characters of a segment of SGML.
_LONGEST: Final = 1 << 24
#: What XML 1.0 has no way to write.
_UNWRITABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_ATTRIBUTES: Final = str.maketrans({"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})


def is_markup(start: Start) -> bool:
    """Whether a file begins as XML, SGML or HTML does."""
    return bool(start.written) and _MARKUP.match(start.written[0]) is not None


class MarkupReader(ABC):
    """What readers of markup share: a file, and where in it they are."""

    def __init__(self, file: str) -> None:
        self.file = file

    @property
    @abstractmethod
    def line(self) -> int:
        """Where the reader is."""

    def fault(self, message: str, remedy: str | None = None) -> DataError:
        """An error at that place."""
        return DataError(message, file=self.file, line=self.line, remedy=remedy)


class XmlReader(MarkupReader):
    """Reads XML from blocks of bytes or of text.

    Args:
        file: Its name for messages.
        expected: What the file should have been, for messages.
        separator: What stands between the namespace of a name and the name; None leaves names as they are.
        doctype: Whether it may name a DTD, which is not read. In none may it declare anything itself.
    """

    def __init__(self, file: str, expected: str, *, separator: str | None = None, doctype: bool = False) -> None:
        super().__init__(file)
        self.expected, self._doctypes = expected, doctype
        self._first = ""
        self._room = most_lines() if is_packed(file) else sys.maxsize
        self.parser: Any = expat.ParserCreate(namespace_separator=separator)
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.SkippedEntityHandler = self._entity
        self.parser.StartElementHandler = self._element
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    @property
    def line(self) -> int:
        """Where the parser is."""
        line: int = self.parser.CurrentLineNumber
        return line

    def feed(self, blocks: Iterable[bytes] | Iterable[str]) -> Iterator[None]:
        """Read blocks of any size, with a pause after each piece that the parser gets."""
        try:
            yield from self._feed(blocks)
        except expat.ExpatError as error:
            start = self._first.lstrip("\ufeff\ufffd\0 \t\r\n")
            if not start.startswith("<"):
                found = f"is no XML: the first line is {looks(start.partition(chr(10))[0])}"
                raise DataError(found, file=self.file, line=1, remedy=self.expected) from None
            raise DataError(f"broken XML: {expat.ErrorString(error.code)}", file=self.file, line=error.lineno) from None
        except (LookupError, ValueError) as error:
            # What Expat does not know itself goes to Python's codecs, which know one-byte encodings alone.
            raise DataError(
                f"cannot be decoded: {error}", file=self.file, line=1, remedy="convert it to UTF-8"
            ) from None

    def _feed(self, blocks: Iterable[Any]) -> Iterator[None]:
        """In pieces that grow with what is not ended: Expat begins anew at the start of a tag or comment every time."""
        held: list[Any] = []
        size = fed = 0
        for block in blocks:
            held.append(block)
            size += len(block)
            if size >= max(BLOCK, fed - self.parser.CurrentByteIndex):
                fed += self._parse(held)
                size = 0
                yield
        self._parse(held)
        self.parser.Parse(b"", True)
        yield

    def _parse(self, held: list[Any]) -> int:
        """Give what is held to Expat, which reads text as UTF-8; the number of its bytes."""
        if not held:
            return 0
        text = held[0][:0].join(held)
        held.clear()
        self._first = self._first or (text.decode("utf-8", "replace") if isinstance(text, bytes) else text)[:BLOCK]
        self.parser.Parse(text, False)
        return len(text) if isinstance(text, bytes) else len(text.encode("utf-8"))

    def _doctype(self, _name: str, _system: str | None, _public: str | None, declares: int) -> None:
        if declares or not self._doctypes:
            raise self.fault("a document type declaration, which is not read")

    def _entity(self, name: str, _parameter: object) -> None:
        raise self.fault(f"the entity &{name};, which XML itself does not have: DTDs are not read")

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        self._room -= 1
        if self._room < 0:
            raise holds_more(self.file, "elements", line=self.line)
        self._start(name, attributes)

    @abstractmethod
    def _start(self, name: str, attributes: dict[str, str]) -> None: ...

    @abstractmethod
    def _end(self, name: str) -> None: ...

    @abstractmethod
    def _text(self, data: str) -> None: ...


def read_xml(file: Path, source_language: str | None = None) -> list[Document]:
    """The documents of a file, possibly ``.gz``, whose sources must be in a language if one is named."""
    reader = _XmlReader(str(file), source_language)
    packed = file.name.endswith(".gz")
    try:
        with gzip.open(file, "rb") if packed else file.open("rb") as stream:
            return reader.read(_blocks(stream, most_unpacked() if packed else sys.maxsize, file, reader))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise reader.fault(f"broken gzip data: {error}") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=file) from None


def _blocks(stream: IO[bytes] | gzip.GzipFile, room: int, file: Path, reader: _XmlReader) -> Iterator[bytes]:
    while block := stream.read(BLOCK):
        room -= len(block)
        if room < 0:
            raise unpacks_to_more(file, line=reader.parser.CurrentLineNumber)
        yield block


class _Builder(MarkupReader):
    """What readers of WMT's markup do at tags: they fill the texts of a document.

    Attributes:
        document: The one that the reader is in.
        texts: Number -> text of the source, reference or output that the reader is in.
        segment: Number of the last segment.
        pieces: Text of the segment that the reader is in; None outside of segments.
    """

    document: Document | None = None
    texts: dict[int, str] | None = None
    segment = 0
    pieces: list[str] | None = None

    def open_segment(self, texts: Mapping[int, str], attributes: Mapping[str, str]) -> None:
        """Begin the segment of a tag."""
        text = attributes.get("id", "")
        number = whole_number(text)
        if not number:
            raise self.fault(f"the segment id is {shortened(text)}, expected a number from 1")
        if number in texts:
            raise self.fault(f"segment {number} occurs twice")
        self.segment, self.pieces = number, []


class _XmlReader(_Builder, XmlReader):
    """Reads documents, from blocks of bytes or of text.

    Args:
        file: Its name for messages.
        source_language: What sources must be in; None takes any.
        sources: Whether every document must have one; a file that holds references alone has none.
    """

    def __init__(self, file: str, source_language: str | None = None, *, sources: bool = True) -> None:
        XmlReader.__init__(self, file, _EXPECTED)
        self.source_language = source_language
        self.sources = sources
        self.found: list[Document] = []
        self.collection: str | None = None
        self.known: set[tuple[str | None, str]] = set()
        self.rooted = False

    def read(self, blocks: Iterable[bytes] | Iterable[str]) -> list[Document]:
        """The documents in blocks of any size."""
        for _ in self.feed(blocks):
            pass
        return self.found

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.rooted and name not in _ROOTS:
            raise self.fault(f"is markup (<{shortened(name)[1:-1]}>)", _EXPECTED)
        self.rooted = True
        if name == "collection":
            self.collection = attributes.get("id")
        elif name == "doc":
            self._open_document(attributes)
        elif name in {"src", "ref", "hyp"}:
            self._open_texts(name, attributes)
        elif name == "seg" and self.texts is not None:
            self.open_segment(self.texts, attributes)

    def _open_document(self, attributes: dict[str, str]) -> None:
        name = attributes.get("id", "")
        if not name:
            raise self.fault("a document without id")
        if (self.collection, name) in self.known:
            raise self.fault(f"the document {name!r} occurs twice")
        self.known.add((self.collection, name))
        domain = attributes.get("domain") or "all"
        self.document = Document(name, domain, self.collection, "testsuite" in attributes, self.line)
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
        name = attributes.get("translator" if kind == "ref" else "system") or (DEFAULT_NAME if kind == "ref" else "")
        if not name:
            raise self.fault("an output without the name of its system")
        if name in table:
            raise self.fault(f"document {document.name!r} has {name!r} twice")
        self.texts = table[name] = {}

    def _text(self, data: str) -> None:
        if self.pieces is not None:
            self.pieces.append(data)

    def _end(self, name: str) -> None:
        if name == "seg" and self.pieces is not None and self.texts is not None:
            # A segment is one line; the file may have been wrapped.
            self.texts[self.segment] = "".join(self.pieces).replace("\n", " ")
            self.pieces = None
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
            if DEFAULT_NAME not in document.references or len(document.references) > 1:
                raise self.fault(f"document {document.name!r}: source and reference both name a translator")
            document.references[document.translator] = document.references.pop(DEFAULT_NAME)
        for kind, table in (("reference", document.references), ("system", document.outputs)):
            for name, texts in table.items():
                if extra := sorted(texts.keys() - document.source.keys()):
                    raise self.fault(
                        f"{kind} {name!r} has segment {extra[0]} of document {document.name!r}, the source does not"
                    )


def _is_xml(name: str, start: Start) -> bool:
    """WMT's XML; markup that is neither that nor SGML is refused, for it is hardly text."""
    text = "\n".join(start.lines)
    if not is_markup(start) or re.search(r"<(dataset|collection)\b", text, re.IGNORECASE):
        return is_markup(start)
    root = re.search(r"<([A-Za-z][\w:.-]*)", text)
    raise DataError(
        f"is markup ({'<' + root[1] + '>' if root else 'XML'}), and neither WMT's XML or SGML nor XLIFF or TMX",
        file=name,
        line=1,
        remedy="extract the texts, one a line; `form` plain reads every line as text",
    )


def _open_xml(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return _opened("xml", _documents(file), file)


def _opened(form: str, documents: Sequence[Document], file: Lines) -> Opened:
    names = chosen((name for document in documents for name in document.references), file)
    return Opened(form, {}, segments_of(documents, names=names, whole=file.reading.whole))


def _xml_outputs(file: Lines) -> Outputs:
    return outputs_of(_documents(file), file.name)


def _documents(file: Lines) -> list[Document]:
    """Those that are no test suite's."""
    codes = split_pair(file.reading.pair) if file.reading.pair else None
    reader = _XmlReader(file.name, codes[0] if codes else None, sources=False)
    found = [one for one in reader.read(f"{line}\n" for line in file.lines) if not one.test_suite]
    if not any(document.numbers for document in found):
        raise DataError("no segments", file=file.name)
    return found


def _attributes(text: str) -> dict[str, str]:
    return {key.lower(): _plain(one or other) for key, one, other in _ATTRIBUTE.findall(text)}


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda found: unescape(found[0]), text)


class _SgmlReader(_Builder):
    """Reads the documents of one file into those that earlier files had."""

    def __init__(self, file: Lines, documents: dict[str, Document], number: int) -> None:
        super().__init__(file.name)
        self.lines = file.lines
        self.documents = documents
        #: Texts of several files may have one name: theirs is then told by the file's place.
        self.suffix = "" if number == 1 else str(number)
        self.number = 0
        self.kind = "refset"
        self.of_set: dict[str, str] = {}
        self.size = 0

    @property
    def line(self) -> int:
        """The line that is read."""
        return self.number

    def read(self) -> None:
        """Read all lines."""
        for line in self.lines:
            self.number += 1
            place = 0
            for tag in _TAG.finditer(line):
                self._text(line[place : tag.start()])
                place = tag.end()
                self._tag(tag[1] == "/", tag[2].lower(), tag[3])
            self._text(f"{line[place:]} ")
        if self.pieces is not None or self.document is not None:
            raise self.fault(f"{'a segment' if self.pieces is not None else 'a document'} that does not end")

    def _text(self, text: str) -> None:
        if self.pieces is not None:
            self.pieces.append(text)
            self.size += len(text)
            if self.size > _LONGEST:
                raise self.fault(f"a segment longer than {_LONGEST} characters")

    def _tag(self, closing: bool, name: str, attributes: str) -> None:
        if self.pieces is not None and not (closing and name == "seg"):
            raise self.fault(f"<{'/' * closing}{name}> within a segment, which does not end")
        if name == "seg":
            if closing:
                self._close_segment()
            elif self.texts is None:
                raise self.fault("a segment outside of a document")
            else:
                self.open_segment(self.texts, _attributes(attributes))
                self.size = 0
        elif name == "doc":
            self.texts = self.document = None
            if not closing:
                self._open_document(_attributes(attributes))
        else:
            self.kind, self.of_set = ("refset", {}) if closing else (name, _attributes(attributes))

    def _open_document(self, attributes: dict[str, str]) -> None:
        name = attributes.get("docid") or attributes.get("id") or ""
        if not name:
            raise self.fault("a document without docid")
        new = Document(name, attributes.get("genre") or "all", None, False, self.line)
        document = self.document = self.documents.setdefault(name, new)
        document.original = document.original or attributes.get("origlang") or None
        own = attributes.get("sysid") or self.of_set.get("sysid") or ""
        if self.kind == "srcset":
            table, own = {"": document.source}, ""
            document.language = self.of_set.get("srclang") or None
            if document.has_source:
                raise self.fault(f"document {name!r} has a second source")
            document.has_source = True
        elif self.kind == "tstset":
            table = document.outputs
            if not own:
                raise self.fault("an output without the name of its system (sysid)")
        else:
            table = document.references
            own = self.of_set.get("refid") or own or DEFAULT_NAME
            if self.suffix and own in table:
                own += self.suffix
            target = self.of_set.get("trglang")
            document.target = document.target or (target if target != "any" else None)
        if own in table and self.kind != "srcset":
            raise self.fault(f"document {name!r} has {own!r} twice")
        self.texts = table.setdefault(own, {})

    def _close_segment(self) -> None:
        if self.pieces is None or self.texts is None:
            raise self.fault("</seg> without a segment")
        self.texts[self.segment] = _plain("".join(self.pieces).strip())
        self.pieces = None


def _read_sgml(files: Sequence[Lines]) -> list[Document]:
    """The documents of one or several files, in the order of the first."""
    documents: dict[str, Document] = {}
    for number, file in enumerate(files, 1):
        before = len(documents)
        _SgmlReader(file, documents, number).read()
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


def _is_sgml(name: str, start: Start) -> bool:
    return is_markup(start) and re.search(r"<(srcset|refset|tstset)\b", "\n".join(start.lines), re.I) is not None


def _open_sgml(files: Sequence[Lines]) -> Opened:
    return _opened("sgml", _read_sgml(files), files[0])


def _sgml_outputs(file: Lines) -> Outputs:
    return outputs_of(_read_sgml([file]), file.name)


def _xml_lines(made: SetInColumns) -> Iterator[str]:
    """wmt-format-tools' XML: sources where there are any, and one element for each reference of a document."""
    _check_places(made, sources=True)
    source, target = made.languages
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<dataset id="references">\n'
    documents = made.documents()
    for collection, group in groupby(documents, key=lambda one: one[1][0][0].extra.get("collection")):
        yield "" if collection is None else f"<collection id={_quoted(str(collection))}>\n"
        for name, pairs in group:
            first = pairs[0][0]
            about = _written(domain=first.extra.get("domain"), origlang=first.extra.get("origlang"))
            yield f"<doc id={_quoted(name)}{about}>\n"
            if "source" in made.parts:
                yield from _element("src", _written(lang=source), pairs, None)
            for column in made.columns:
                if any(column in row for _, row in pairs):
                    named = None if column == DEFAULT_NAME else column
                    yield from _element("ref", _written(lang=target, translator=named), pairs, column)
            yield "</doc>\n"
        yield "" if collection is None else "</collection>\n"
    yield "</dataset>\n"


def _element(tag: str, attributes: str, pairs: Sequence[tuple[Segment, Row]], column: str | None) -> Iterator[str]:
    yield f"<{tag}{attributes}>\n<p>\n"
    yield from _segment_lines(pairs, column)
    yield f"</p>\n</{tag}>\n"


def _check_places(made: SetInColumns, *, sources: bool) -> None:
    """Refuse segments that would have no place: their number would be lost, and others would take it."""
    for segment in made.segments:
        if not segment.refs and (not sources or segment.source is None):
            lacking = "neither source nor" if sources else "no"
            raise DataError(f"segment {segment.id} has {lacking} reference", remedy="this form has no place for it")


def _segment_lines(pairs: Sequence[tuple[Segment, Row]], column: str | None) -> Iterator[str]:
    for (segment, row), number in zip(pairs, numbers(segment for segment, _ in pairs), strict=True):
        text = (segment.source or "") if column is None else row[column].text if column in row else None
        if text is not None:
            yield f'<seg id="{number}">{_escaped(one_line(text), segment)}</seg>\n'


def _sgml_lines(made: SetInColumns) -> Iterator[str]:
    """One reference set with a ``doc`` for each reference of a document."""
    _check_places(made, sources=False)
    source, target = made.languages
    yield f"<refset{_written(setid='references', srclang=source or 'any', trglang=target or 'any')}>\n"
    for name, pairs in made.documents():
        first = pairs[0][0]
        about = _written(genre=first.extra.get("domain"), origlang=first.extra.get("origlang"))
        for column in made.columns:
            if any(column in row for _, row in pairs):
                yield f"<doc sysid={_quoted(column)} docid={_quoted(name)}{about}>\n<p>\n"
                yield from _segment_lines(pairs, column)
                yield "</p>\n</doc>\n"
    yield "</refset>\n"


def _escaped(text: str, segment: Segment) -> str:
    if found := _UNWRITABLE.search(text):
        raise DataError(f"segment {segment.id} holds U+{ord(found[0]):04X}, which XML has no way to write")
    return escape(text, quote=False)


def _quoted(text: str) -> str:
    return f'"{escape(_UNWRITABLE.sub("", text)).translate(_IN_ATTRIBUTES)}"'


def _exact(name: str) -> bool:
    return name not in {"", NO_DOCUMENT} and not _UNWRITABLE.search(name)


def _written(**values: Any) -> str:
    return "".join(f" {name}={_quoted(str(value))}" for name, value in values.items() if value)


XML: Final = Format(
    "xml",
    _is_xml,
    _open_xml,
    _xml_outputs,
    pairs=True,
    begins="<",
    suffixes=(".xml",),
    writing=DocumentWriting(
        frozenset({"id", "bare sources", "langs", "mark", "order", "lines", "logprob", "keys", "meta"}),
        _xml_lines,
        frozenset({"domain", "origlang", "collection", "seg", "src_lang"}),
        exact=_exact,
        more=lambda made: [lost_about(made, ("domain", "origlang", "collection"), made.languages[0])],
    ),
)
SGML: Final = Format(
    "sgml",
    _is_sgml,
    _open_sgml,
    _sgml_outputs,
    several=True,
    begins="<",
    suffixes=(".sgm", ".sgml"),
    writing=DocumentWriting(
        frozenset({"id", "source", "langs", "mark", "order", "lines", "spaces", "logprob", "keys", "meta"}),
        _sgml_lines,
        frozenset({"domain", "origlang", "seg"}),
        exact=_exact,
        more=lambda made: [lost_about(made, ("domain", "origlang"))],
    ),
)

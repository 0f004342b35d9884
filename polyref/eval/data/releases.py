"""Evaluation sets in the forms that WMT releases them: text files (2021 to 2023) and XML (2021 to 2024).

The text release of 2024 has the layout of mt-metrics-eval already. Human scores, if there are any, are in
``human-scores/`` as in that layout, or come from a file of judgements.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.parsers import expat

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.score_files import shortened, whole_number
from polyref.eval.data.text_files import NO_REFERENCE, checked_reference_name
from polyref.tables import name_as_text
from polyref.textfiles import most_unpacked, unpacks_to_more

#: Name of a reference that the release does not name.
UNNAMED = "ref"


def open_release(
    path: str | Path, pair: str, *, collection: str | None = None, test_suites: bool = False
) -> EvalSet:  # fmt: skip
    """The set of one language pair, in any of the forms.

    Args:
        path: A directory in the mt-metrics-eval layout or of a text release; a directory that holds one XML file of the
            pair (``NAME.SRC-TGT.xml``, ``NAME.SRC-TGT.all.xml``); or the XML file.
        pair: Language pair, ``SRC-TGT``.
        collection: Of an XML release, the collection to take; None takes all.
        test_suites: Of an XML release, whether to take documents of test suites as well.

    Raises:
        DataError: As the reader of that form.
        UsageError: A collection or test suites of something that is no XML release.
    """
    place = Path(path)
    files = [place] if place.is_file() else _xml_files(place, pair)
    if files:
        if len(files) > 1:
            raise DataError(f"stands beside {files[0].name}: which one is meant?", file=files[1])
        return XmlRelease(files[0], pair, collection=collection, test_suites=test_suites)
    if collection is not None or test_suites:
        raise UsageError("`collection` and `test_suites` are for XML releases", remedy=f"{path} is none")
    if any((place / "sources").glob(f"*.{pair}.src.*")):
        return TextRelease(place, pair)
    return EvalSet(place, pair)


def _xml_files(place: Path, pair: str) -> list[Path]:
    endings = [f".{pair}{middle}.xml{packed}" for middle in ("", ".all") for packed in ("", ".gz")]
    if not place.is_dir():
        return []
    return sorted(file for file in place.iterdir() if any(file.name.endswith(ending) for ending in endings))


class TextRelease(EvalSet):
    """Text files named ``TESTSET.SRC-TGT.KIND.NAME.LANGUAGE``; system names may hold dots."""

    @property
    def source_file(self) -> Path | None:
        """Where the source segments are."""
        return next(iter(sorted((self.directory / "sources").glob(f"*.{self.pair}.src.*"))), None)

    def _find_references(self) -> dict[str, Path]:
        found = self._files("references", "ref")
        return {checked_reference_name(name or UNNAMED, path): path for name, path in found.items()}

    def _find_outputs(self) -> dict[str, Path]:
        for folder in ("system-outputs", "system_outputs"):
            if found := self._files(folder, "hyp"):
                return found
        return {}

    def _files(self, folder: str, kind: str) -> dict[str, Path]:
        found: dict[str, Path] = {}
        marker = f".{self.pair}.{kind}."
        if (self.directory / folder).is_dir():
            for path in sorted((self.directory / folder).iterdir()):
                testset, has, rest = path.name.partition(marker)
                if has and "." not in testset:
                    name = name_as_text(rest.rpartition(".")[0])  # without the language
                    if name in found:
                        raise DataError(f"stands beside {found[name].name}: which one is meant?", file=path)
                    found[name] = path
        return found


@dataclass
class _Document:
    """One ``doc``: texts by kind and name, and then by segment number."""

    name: str
    domain: str
    collection: str | None
    test_suite: bool
    line: int
    has_source: bool = False
    source: dict[int, str] = field(default_factory=dict)
    translator: str | None = None
    references: dict[str, dict[int, str]] = field(default_factory=dict)
    outputs: dict[str, dict[int, str]] = field(default_factory=dict)


class XmlRelease(EvalSet):
    """An XML file of one language pair (wmt-conference/wmt-format-tools, ``wmt-schema.rnc``).

    Segments are those of ``src``, in the order of documents and then of their ids. A reference may lack documents or
    segments; a system may not.

    Args:
        file: The file, possibly ``.gz``.
        pair: Language pair.
        collection: As for :func:`open_release`.
        test_suites: As for :func:`open_release`.

    Raises:
        DataError: Broken XML, a document type declaration, a system without a segment, a segment twice, or a segment
            that the source does not have.
    """

    def __init__(
        self, file: str | Path, pair: str, *, collection: str | None = None, test_suites: bool = False
    ) -> None:  # fmt: skip
        self.file = Path(file)
        read = _Reader(self.file, pair).read()
        there = list(dict.fromkeys(d.collection for d in read if d.collection is not None))
        if collection is not None and collection not in there:
            raise DataError(
                f"no collection {collection!r}, there are: {', '.join(there) or 'none'}", file=file
            )  # fmt: skip
        self._documents = [
            d for d in read if (test_suites or not d.test_suite) and collection in {None, d.collection}
        ]  # fmt: skip
        if not self._documents:
            raise DataError("no documents", file=file, remedy="`test_suites` takes those of test suites")
        self._order = [(d, number) for d in self._documents for number in sorted(d.source)]
        if not self._order:
            raise DataError("no segments", file=file)
        self._names: dict[str, list[str]] = {
            "references": list(dict.fromkeys(name for d in self._documents for name in d.references)),
            "outputs": list(dict.fromkeys(name for d in self._documents for name in d.outputs)),
        }
        for document in self._documents:
            for system in self._names["outputs"]:
                lacking = sorted(document.source.keys() - document.outputs.get(system, {}).keys())
                if lacking:
                    raise DataError(
                        f"system {system!r} has no output of segment {lacking[0]} of document {document.name!r}",
                        file=file,
                        line=document.line,
                    )
        super().__init__(self.file.parent, pair)

    @property
    def source_file(self) -> Path | None:
        """The file itself."""
        return self.file

    @cached_property
    def source(self) -> tuple[str, ...] | None:
        """Source segments."""
        return tuple(document.source[number].rstrip() for document, number in self._order)

    @cached_property
    def documents(self) -> tuple[tuple[str, str], ...] | None:
        """(domain, document) of every segment."""
        return tuple((document.domain, document.name) for document, _ in self._order)

    def reference(self, name: str) -> tuple[str | None, ...]:
        """Texts of one reference, None where the segment lacks it."""
        texts = [document.references.get(name, {}).get(number) for document, number in self._order]
        return tuple(None if text is None or text.strip() in NO_REFERENCE else text.rstrip() for text in texts)

    @cached_property
    def segments(self) -> int | None:
        """Number of segments; None without references and outputs."""
        return len(self._order) if self.reference_files or self.output_files else None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Nothing: XML has no line ends to mind."""
        return ()

    def _output(self, system: str) -> list[str]:
        return [document.outputs[system][number].rstrip() for document, number in self._order]

    def _find_references(self) -> dict[str, Path]:
        return {checked_reference_name(name, self.file): self.file for name in self._names["references"]}

    def _find_outputs(self) -> dict[str, Path]:
        return dict.fromkeys(self._names["outputs"], self.file)


class _Reader:
    """Reads the documents of a file, without ever resolving anything outside of it."""

    def __init__(self, file: Path, pair: str) -> None:
        self.file = file
        self.source_language = pair.partition("-")[0]
        self.found: list[_Document] = []
        self.names: set[tuple[str | None, str]] = set()
        self.collection: str | None = None
        self.document: _Document | None = None
        self.texts: dict[int, str] | None = None
        self.segment: int | None = None
        self.pieces: list[str] = []
        self.parser: Any = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def read(self) -> list[_Document]:
        try:
            packed = self.file.name.endswith(".gz")
            room = most_unpacked() if packed else sys.maxsize
            with gzip.open(self.file, "rb") if packed else self.file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    room -= len(block)
                    if room < 0:
                        raise unpacks_to_more(self.file, line=self.parser.CurrentLineNumber)
                    self.parser.Parse(block)
                self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise DataError(
                f"broken XML: {expat.ErrorString(error.code)}", file=self.file, line=error.lineno
            ) from None  # fmt: skip
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self._fault(f"broken gzip data: {error}") from None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", file=self.file) from None
        except (LookupError, ValueError) as error:
            # What Expat does not know itself goes to Python's codecs, which know one-byte encodings alone.
            raise DataError(
                f"cannot be decoded: {error}", file=self.file, line=1, remedy="convert it to UTF-8"
            ) from None
        return self.found

    def _fault(self, message: str) -> DataError:
        return DataError(message, file=self.file, line=self.parser.CurrentLineNumber)

    def _doctype(self, *_: object) -> None:
        raise self._fault("a document type declaration, which is not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
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
                raise self._fault(f"the segment id is {shortened(text)}, expected a number from 1")
            if number in self.texts:
                raise self._fault(f"segment {number} occurs twice")
            self.segment, self.pieces = number, []

    def _open_document(self, attributes: dict[str, str]) -> None:
        name = attributes.get("id", "")
        if not name:
            raise self._fault("a document without id")
        if (self.collection, name) in self.names:
            raise self._fault(f"the document {name!r} occurs twice")
        self.names.add((self.collection, name))
        line = self.parser.CurrentLineNumber
        domain = attributes.get("domain") or "all"
        self.document = _Document(name, domain, self.collection, "testsuite" in attributes, line)
        self.found.append(self.document)

    def _open_texts(self, kind: str, attributes: dict[str, str]) -> None:
        document = self.document
        if document is None:
            raise self._fault(f"{kind} outside of a document")
        if kind == "src":
            if attributes.get("lang") not in {None, self.source_language}:
                raise self._fault(
                    f"the source is in {attributes['lang']!r}, expected {self.source_language!r}"
                )  # fmt: skip
            document.translator = attributes.get("translator")
            document.has_source = True
            self.texts = document.source
            return
        table = document.references if kind == "ref" else document.outputs
        name = attributes.get("translator" if kind == "ref" else "system") or (UNNAMED if kind == "ref" else "")
        if not name:
            raise self._fault("an output without the name of its system")
        if name in table:
            raise self._fault(f"document {document.name!r} has {name!r} twice")
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

    def _close(self, document: _Document) -> None:
        if not document.has_source:
            raise self._fault(f"document {document.name!r} has no source")
        if document.translator is not None:
            # Written in the target language and translated back: the one reference is the original.
            if UNNAMED not in document.references or len(document.references) > 1:
                raise self._fault(f"document {document.name!r}: source and reference both name a translator")
            document.references[document.translator] = document.references.pop(UNNAMED)
        for kind, table in (("reference", document.references), ("system", document.outputs)):
            for name, texts in table.items():
                if extra := sorted(texts.keys() - document.source.keys()):
                    raise self._fault(
                        f"{kind} {name!r} has segment {extra[0]} of document {document.name!r}, the source does not"
                    )

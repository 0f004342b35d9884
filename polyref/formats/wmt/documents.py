"""The documents of a test set: texts by kind and name, and then by segment number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from polyref.errors import DataError
from polyref.formats.base import Lines, Outputs
from polyref.formats.roles import DEFAULT_NAME, references
from polyref.segments import Place, Segment

#: What wmt-format-tools and mt-metrics-eval write where a segment has no reference.
NO_REFERENCE: Final = frozenset({"NO TRANSLATION AVAILABLE", "[No translation supplied]"})
#: Name of a reference that a file does not name.
UNNAMED: Final = DEFAULT_NAME
#: What a document is called that has no name, where one is needed.
NO_DOCUMENT: Final = "-"


@dataclass
class Document:
    """One ``doc``.

    Attributes:
        name: Its id.
        domain: ``all`` where the file does not say.
        collection: The collection it belongs to, if any.
        test_suite: Whether it belongs to a test suite.
        line: Where it starts.
        has_source: Whether it has a source, which may be without segments.
        source: Segment number -> text.
        translator: Who translated the source from the target language, if it was written in that.
        references: Name -> segment number -> text.
        outputs: System -> segment number -> text.
        language: Of the source.
        target: Language of references or outputs.
        original: Language that the document was written in.
    """

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
    language: str | None = None
    target: str | None = None
    original: str | None = None

    @property
    def numbers(self) -> list[int]:
        """Numbers of the segments: those of the source, or of everything where there is no source."""
        if self.has_source:
            return sorted(self.source)
        return sorted(
            {number for table in (self.references, self.outputs) for texts in table.values() for number in texts}
        )


def segments_of(documents: Iterable[Document], *, names: Sequence[str] | None, whole: bool) -> Iterator[Segment]:
    """The segments of documents, in order, with positions for ids.

    Args:
        documents: In the order of the file.
        names: References to take, all if None. A reference that a document lacks is absent.
        whole: Also give sources, documents, languages and the names of references.
    """
    position = 0
    for document in documents:
        name = None if document.name == NO_DOCUMENT else document.name
        for place, number in enumerate(document.numbers, 1):
            position += 1
            found = {own: texts.get(number) for own, texts in document.references.items()}
            texts = [
                (own, text)
                for own, text in found.items()
                if text is not None and text.strip() not in NO_REFERENCE and (names is None or own in names)
            ]
            refs = references(texts, whole=whole)
            if not whole:
                yield Segment(Place(position), refs)
                continue
            more: dict[str, Any] = {} if document.domain == "all" else {"domain": document.domain}
            more |= {} if document.original is None else {"origlang": document.original}
            more |= {} if document.collection is None else {"collection": document.collection}
            more |= {} if document.language is None else {"src_lang": document.language}
            more |= {} if place == number else {"seg": number}
            yield Segment(Place(position), refs, document.source.get(number), name, document.target, more)


def outputs_of(documents: Sequence[Document], file: str) -> Outputs:
    """Outputs of every system, in the order of the segments."""
    systems = dict.fromkeys(system for document in documents for system in document.outputs)
    if not systems:
        raise DataError("holds no system output", file=file)
    found: dict[str, list[str]] = {}
    for system in systems:
        found[system] = texts = []
        for document in documents:
            own = document.outputs.get(system, {})
            for number in document.numbers:
                if number not in own:
                    raise DataError(
                        f"system {system!r} has no output of segment {number} of document {document.name!r}",
                        file=file,
                        line=document.line,
                    )
                texts.append(own[number])
    return Outputs(found, [document.name for document in documents for _ in document.numbers])


def taken(documents: Sequence[Document], file: Lines) -> list[str] | None:
    """The references that the user names by ``fields``; None for all."""
    there = list(dict.fromkeys(name for document in documents for name in document.references))
    if not there:
        raise DataError("holds no reference", file=file.name)
    for name in file.reading.fields:
        if name not in there:
            raise DataError(f"no reference {name!r} as `fields` says, there are: {', '.join(there)}", file=file.name)
    return list(file.reading.fields) or None

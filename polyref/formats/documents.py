"""The documents of a test set: texts by kind and name, and then by segment number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from polyref.errors import DataError, UsageError
from polyref.formats.base import Lines, Outputs, shortened
from polyref.formats.columns import NO_DOCUMENT, SetInColumns, counted, references
from polyref.formats.columns import NO_REFERENCE as NO_REFERENCE
from polyref.json_files import Record
from polyref.languages import find_pair
from polyref.references import Place, Segment

Made = TypeVar("Made")

#: Names under which WMT lists translations made by people: ``Human-A.0``, ``HUMAN``, ``refB``, ``ref-A``, ``ref``.
HUMAN_NAME: Final = re.compile(r"human([-_.].*)?|ref([-_]?[a-z])?", re.IGNORECASE)


@dataclass
class Document:
    """A document of a test set: texts by the numbers of their segments."""

    name: str
    domain: str  # "all" where the file does not say
    collection: str | None
    test_suite: bool
    line: int  # where it starts
    has_source: bool = False  # which may be without segments
    source: dict[int, str] = field(default_factory=dict)
    translator: str | None = None  # of the source, if it was written in the target language
    references: dict[str, dict[int, str]] = field(default_factory=dict)
    outputs: dict[str, dict[int, str]] = field(default_factory=dict)
    language: str | None = None  # of the source
    target: str | None = None
    original: str | None = None  # the language that it was written in

    @property
    def numbers(self) -> list[int]:
        """Numbers of the segments: those of the source, or of everything where there is no source."""
        if self.has_source:
            return sorted(self.source)
        return sorted(
            {number for table in (self.references, self.outputs) for texts in table.values() for number in texts}
        )


def present(named: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and texts of the references that are there."""
    return [(name, text) for name, text in named if text.strip() not in NO_REFERENCE]


def segment_of_set(
    position: int,
    named: Sequence[tuple[str, str]],
    source: str | None,
    document: str,
    lang: str | None,
    more: Mapping[str, Any],
    *,
    whole: bool,
) -> Segment:
    """A segment of a test set, whose id is its place.

    Args:
        position: From 1.
        named: Names and texts of its references.
        source: The source.
        document: The name of its document.
        lang: The target language.
        more: What else is known.
        whole: False leaves out all but the texts of references.
    """
    refs = references(named, whole=whole)
    if not whole:
        return Segment(Place(position), refs)
    return Segment(Place(position), refs, source, None if document == NO_DOCUMENT else document, lang, more)


def segments_of(documents: Iterable[Document], *, names: Sequence[str], whole: bool) -> Iterator[Segment]:
    """The segments of documents, in order, with the references of these names."""
    position = 0
    for document in documents:
        about = {
            "domain": None if document.domain == "all" else document.domain,
            "origlang": document.original,
            "collection": document.collection,
            "src_lang": document.language,
        }
        known = {key: value for key, value in about.items() if value is not None}
        for place, number in enumerate(document.numbers, 1):
            position += 1
            refs = document.references.items()
            texts = present((own, found[number]) for own, found in refs if number in found and own in names)
            more = known if place == number else {**known, "seg": number}
            source = document.source.get(number)
            yield segment_of_set(position, texts, source, document.name, document.target, more, whole=whole)


def numbers(segments: Iterable[Segment]) -> Iterator[int]:
    """Numbers of the segments of a document: what they say themselves (``seg``), if it is more than the last."""
    number = 0
    for one in segments:
        given = one.extra.get("seg")
        number = given if type(given) is int and number < given < 10**18 else number + 1
        yield number


def lost_about(made: SetInColumns, keys: Sequence[str], source: str | None = None) -> str:
    """What documents do not say again of their segments, of some keys, ``seg`` and ``src_lang`` (``source``)."""
    lost = 0
    spoken = {"src_lang": source} if source and "source" in made.parts else {}
    compared = [*keys, "seg", *(["src_lang"] if "src_lang" in made.writing.keys else [])]
    for _, pairs in made.documents():
        segments = [segment for segment, _ in pairs]
        first = segments[0].extra
        about = {key: str(first[key]) for key in keys if first.get(key) and (key, first[key]) != ("domain", "all")}
        for place, (one, number) in enumerate(zip(segments, numbers(segments), strict=True), 1):
            read = {**about, **spoken, **({} if number == place else {"seg": number})}
            lost += read != {key: one.extra[key] for key in compared if one.extra.get(key) is not None}
    return counted("keys that differ within documents", lost, "segment")


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


def chosen(there: Iterable[str], file: Lines) -> list[str]:
    """The references that the user names by ``fields``, of those there are; without any, all."""
    names = list(dict.fromkeys(there))
    if not names:
        raise DataError("holds no reference", file=file.name)
    for name in file.reading.fields:
        if name not in names:
            raise DataError(f"no reference {name!r} as `fields` says, there are: {', '.join(names)}", file=file.name)
    return list(file.reading.fields) or names


def of_pair(
    file: Lines, records: Iterable[tuple[str | None, Record]], made: Callable[[Record], Made]
) -> tuple[str | None, list[Made]]:
    """The pair that a user asks for, as the file names it, and what is made of its records; others are never held.

    Args:
        file: What the user says of it.
        records: Each with its pair; None says nothing, and belongs to any.
        made: What to make of a record.
    """
    asked = file.reading.pair
    fits: dict[str | None, bool] = {}
    found: list[tuple[str | None, Made]] = []
    for pair, record in records:
        if pair not in fits:
            fits[pair] = asked is None or pair is None or find_pair(asked, [pair]) is not None
            if asked is None and len(several := [one for one in fits if one is not None]) > 1:
                raise UsageError(
                    f"several language pairs: {', '.join(several)} ...", file=file.name, remedy="choose one: `pair`"
                )
        if fits[pair]:
            found.append((pair, made(record)))
    there = [pair for pair in fits if pair is not None]
    pair = find_pair(asked, there, file.name) if asked is not None else next(iter(there), None)
    kept = [one for own, one in found if own in {pair, None}]
    if not kept:
        nothing = f"no document of {asked}, there are: {', '.join(there)}" if there else "no document"
        raise DataError(nothing, file=file.name)
    return pair, kept


def check_name(name: str, record: Record) -> None:
    """Refuse names of systems and references that no file of scores could hold."""
    if not name or name != name.strip() or re.search("[\0-\x1f\x7f\x85\u2028\u2029]", name):
        record.fail(f"the name {shortened(name)}, expected one without tabs and line ends", "rename it")

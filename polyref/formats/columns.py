"""References in columns: what columns and keys are, and how a set is laid in columns to be written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final, NoReturn, TypeAlias

from polyref.errors import DataError
from polyref.references import KINDS, ORIGINAL_KINDS, Reference, Segment

#: What a column or key can be.
ROLES: Final = ("id", "reference", "paraphrase", "source", "output", "doc", "lang")
#: Roles that make a segment: at least one of them is needed to read references.
REFERENCES: Final = frozenset({"reference", "paraphrase"})
#: A reference's name in the file it came from (``refA``, a translator), among its other keys.
NAME: Final = "name"
#: What a form calls a reference that has no name, where one is needed; further ones have a number behind it.
DEFAULT_NAME: Final = "ref"
#: What a document is called that has no name, where one is needed.
NO_DOCUMENT: Final = "-"
#: What wmt-format-tools and mt-metrics-eval write where a segment has no reference.
NO_REFERENCE: Final = frozenset({"NO TRANSLATION AVAILABLE", "[No translation supplied]"})

_KNOWN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("id", "seg_id", "segid", "segment_id"), "id"),
    **dict.fromkeys(("target", "targets", "tgt"), "reference"),
    "paraphrases": "paraphrase",
    **dict.fromkeys(("source", "src", "source_segment", "src_text"), "source"),
    **dict.fromkeys(
        ("mt", "hyp", "hypothesis", "hypothesis_segment", "output", "candidate", "candidates", "cand", "prediction"),
        "output",
    ),
    **dict.fromkeys(("doc", "doc_id", "docid", "document"), "doc"),
    **dict.fromkeys(("lang", "language", "target_lang", "tgt_lang"), "lang"),
}
#: Taken for references where nothing else is.
_TEXTS: Final = frozenset({"text", "texts", "sentence"})
_REFERENCE: Final = re.compile(r"ref(erence)?s?(_segment)?[-_ ]?([a-z]|\d{1,4})?", re.IGNORECASE)
_ADDED: Final = re.compile(rf"({'|'.join(KINDS)})[-_ ]?(\d{{1,6}})", re.IGNORECASE)


#: Raises an error that names file and line.
Fail: TypeAlias = Callable[[str], NoReturn]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table, or a key of objects."""

    key: str
    role: str  # one of ROLES; empty where that is not known
    kind: str = "human"  # of the references in it
    rank: int | None = None  # of what was made, where the key says it
    name: str = ""  # of the reference, where the key says more than that it is one, or which one by number


def role_of(key: str) -> str | None:
    """The role that the name of a column or key says, or None."""
    kind = added_kind(key)
    if kind is not None:
        return "reference" if kind in ORIGINAL_KINDS else "paraphrase"
    if _REFERENCE.fullmatch(key):
        return "reference"
    return _KNOWN.get(key.lower(), "paraphrase" if key.lower() == "paraphrase" else None)


def added_kind(name: str) -> str | None:
    """The kind of reference that a name says: ``paraphrase`` for ``paraphrase3``; None for any other name."""
    found = _ADDED.fullmatch(name)
    return found[1].lower() if found else None


def is_default(name: str) -> bool:
    """Whether a name says nothing but that it is a reference, or which one by number."""
    return not name or re.fullmatch(rf"{DEFAULT_NAME}\d*", name) is not None


def columns(
    keys: Iterable[str], fields: Mapping[str, str], wanted: frozenset[str], file: str, line: int | None = None
) -> list[Field]:
    """What each key is. A role that the user gives to a key is that key's alone; for other roles, names decide.

    One of the roles that are ``wanted`` must be there; ``file`` and ``line`` say where the keys are named.
    """
    there = list(keys)
    for key in fields:
        if key not in there:
            raise DataError(f"no {key!r} as `fields` says, there are: {', '.join(there)}", file=file, line=line)
    given = set(fields.values())
    found = {}
    for key in there:
        role = fields.get(key) or role_of(key)
        if role is not None and (key in fields or (role not in given and not (given & wanted and role in wanted))):
            found[key] = role
    if "reference" in wanted and "reference" not in found.values() and not given & wanted:
        found |= {key: "reference" for key in there if key.lower() in _TEXTS}
    if not wanted & set(found.values()):
        role = "output" if "output" in wanted else "reference"
        raise DataError(
            f"none of {', '.join(there)} is known to be {'an' if role == 'output' else 'a'} {role}",
            file=file,
            line=line,
            remedy=f"say which one is: `fields` {there[-1] if there else 'KEY'}={role}",
        )
    return [_column(key, found.get(key, ""), said=key in fields) for key in there]


def _column(key: str, role: str, *, said: bool) -> Field:
    kind = added_kind(key)
    made = kind is not None and kind not in ORIGINAL_KINDS
    if role == "paraphrase":
        # A person's text that the user calls a paraphrase is the first one.
        return Field(key, role, kind if kind and made else "paraphrase", (_rank(key) if made else 0) if kind else None)
    if role != "reference" or kind is not None:
        return Field(key, role, kind or "human", _rank(key) if made else None)
    return Field(key, role, name=_name(key, said=said))


def references(named: Sequence[tuple[str, str]], *, whole: bool) -> tuple[Reference, ...]:
    """The references of one segment from names, which may be empty or say kinds, and texts; those of people first.

    ``whole`` keeps names that do not say a kind.
    """
    kinds = [added_kind(name) for name, _ in named]
    humans = {place for place, kind in enumerate(kinds) if kind in {None, *ORIGINAL_KINDS}}
    refs = []
    for place in sorted(range(len(named)), key=lambda place: place not in humans):
        (name, text), kind = named[place], kinds[place]
        kept = name if whole and kind is None and not is_default(name) else ""
        refs.append(_reference(text, kind or "human", _rank(name) if kind else None, kept, alone=len(humans) == 1))
    return tuple(refs)


def _reference(text: str, kind: str, rank: int | None, name: str, *, alone: bool) -> Reference:
    """A reference; one that was not written by people is made of the one that was, if that is alone."""
    if kind in ORIGINAL_KINDS:
        return Reference(text, kind, extra={NAME: name} if name else {})
    return Reference(text, kind, of=0 if alone else None, rank=rank)


def _rank(name: str) -> int:
    return max(int(re.sub(r"\D", "", name)) - 1, 0)


def names_in_tables(name: str) -> bool:
    """Whether a column or key of this name is read as a reference of this name."""
    return role_of(name) == "reference" and added_kind(name) is None and _name(name, said=False) == name


def names_in_documents(name: str) -> bool:
    """Whether documents read a reference of this name as one of this name."""
    return added_kind(name) is None and not is_default(name) and name.isprintable()


def segment_of(
    values: Iterable[tuple[Field, Any]], default_id: str, fail: Fail, fields: Mapping[str, str], *, whole: bool
) -> Segment:
    """A segment from the values of one row or object: texts, lists of texts (references alone), or None.

    ``whole`` keeps more than texts and ids; what the user named in ``fields`` is kept in any case.
    """
    texts: list[tuple[Field, str]] = []
    single: dict[str, str] = {}
    extra: dict[str, Any] = {}
    for column, value in values:
        key, role = column.key, column.role
        if not role or role == "output":
            if whole and value is not None:
                extra[key] = value
        elif role in REFERENCES:
            texts += ((column, text) for text in _texts(key, value, fail))
        elif value is not None:
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                fail(f"{key!r} is no text, expected the {role} of the segment")
            if role in single:
                fail(f"{key!r} is a second {role}")
            single[role] = str(value)
    texts.sort(key=lambda one: one[0].role != "reference")
    humans = sum(column.role == "reference" for column, _ in texts)
    refs = []
    for place, (column, text) in enumerate(texts):
        name = column.name if whole else ""
        rank = place - humans if column.rank is None else column.rank
        refs.append(_reference(text, column.kind, rank, name, alone=humans == 1))
    source, doc, lang = (
        single.get(role) if whole or role in fields.values() else None for role in ("source", "doc", "lang")
    )
    return Segment(single.get("id", default_id), tuple(refs), source, doc, lang, extra)


def _name(key: str, *, said: bool) -> str:
    """The name that a key gives a reference, which the user may have said it is; the key does not say a kind."""
    found = _REFERENCE.fullmatch(key)
    if found:
        return key if found[3] and not found[3].isdigit() else ""
    return key if said and not (key.isdigit() or is_default(key) or key.lower() in {*_TEXTS, *_KNOWN}) else ""


def _texts(key: str, value: Any, fail: Fail) -> list[str]:
    several = value if isinstance(value, list) else [] if value is None else [value]
    for text in several:
        if not isinstance(text, str):
            fail(f"{key!r} holds {type(text).__name__}, expected a text or a list of texts")
        if "\0" in text:
            fail(f"NUL character in {key!r}, expected text")
    return several


#: The references of a segment by their columns.
Row: TypeAlias = dict[str, Reference]


@dataclass(frozen=True)
class SetInColumns:
    """A reference set in columns: originals in the order they come up, then the others by kind and number.

    Attributes:
        segments: Read once for every pass: they may lie in a file.
        columns: Names of all columns.
        named: Names of references that cannot be those of columns -> their columns.
        parts: Which of :data:`PARTS` some segment has.
        languages: Source and target language, where the segments say one.
        writing: The form that it is written in.
    """

    segments: Sequence[Segment]
    columns: Sequence[str]
    named: Mapping[str, str]
    parts: Sequence[str]
    languages: tuple[str | None, str | None]
    writing: Writing

    @property
    def pairs(self) -> Iterator[tuple[Segment, Row]]:
        """Every segment with its references by column."""
        return ((segment, row_of(segment, self.named, self.writing)) for segment in self.segments)

    def documents(self) -> Iterator[tuple[str, list[tuple[Segment, Row]]]]:
        """Every document: its name, and its segments with their references by column. One is held at a time.

        Where the form holds them, collections tell documents apart.
        """
        seen: set[tuple[str, str]] = set()
        for key, group in groupby(self.segments, self._document):
            if key in seen:
                raise DataError(
                    f"document {key[0]!r} is not in one piece: it goes on at segment {next(group).id}",
                    remedy="this form has one place for each document: sort the segments by document",
                )
            seen.add(key)
        return ((key[0], list(group)) for key, group in groupby(self.pairs, lambda pair: self._document(pair[0])))

    def _document(self, segment: Segment) -> tuple[str, str]:
        collection = repr(segment.extra.get("collection")) if "collection" in self.writing.keys else ""
        return segment.doc or NO_DOCUMENT, collection


def padded(column: str, row: Row) -> str:
    """The text of a segment in a column: where that is lacking, the segment's first again.

    The same reference twice changes no score that takes the best or counts n-grams, unlike an empty one.
    """
    return row[column].text if column in row else next((ref.text for ref in row.values()), "")


def row_of(segment: Segment, named: Mapping[str, str], writing: Writing) -> Row:
    """The references of a segment by column, where earlier segments have ``named`` columns for some."""
    first, readable = writing.first, writing.readable
    row: Row = {}
    numbers: Counter[str] = Counter()
    own: dict[str, str] = {}
    taken = {name for ref in segment.originals if isinstance(name := ref.extra.get(NAME), str)}
    for ref in (*segment.originals, *segment.extras):
        name = own_name(ref)
        column = name if name and readable(name) else named.get(name) or own.get(name)
        kind = first if ref.kind == "human" else ref.kind
        while column is None or column in row:
            numbers[kind] += 1
            column = kind if kind == first and numbers[kind] == 1 else f"{kind}{numbers[kind]}"
            column = None if column in taken and readable(column) else column
        row[column] = ref
        if name:
            own.setdefault(name, column)
    return row


def own_name(ref: Reference) -> str:
    """The name of a person's reference; empty where it has none."""
    name = ref.extra.get(NAME)
    return name if ref.kind == "human" and isinstance(name, str) else ""


#: Parts of a segment that tables and JSON have columns and keys for.
PARTS: Final = ("id", "source", "doc", "lang")


def one_line(text: str, *, tabs: bool = True) -> str:
    """A text as one line, without tabs if they would end a column."""
    return re.sub(r"[\r\n]" if tabs else r"[\t\r\n]", " ", text)


def json_line(value: Any) -> str:
    """A value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def json_parts(segment: Segment, taken: Callable[[str], bool]) -> dict[str, Any]:
    """What an object says of a segment besides its references: other keys that mean nothing there, and its parts."""
    parts = {part: value for part in PARTS if (value := getattr(segment, part)) is not None}
    return {**{key: value for key, value in segment.extra.items() if not taken(key)}, **parts}


#: What a form can hold besides the texts of references: parts of a segment; ``names`` of references, their ``kinds``,
#: or at least which are ``paraphrases``; ``several`` human ones of a segment, added ones (``extras``) beside them,
#: ``ragged`` numbers of them, ``bare`` of human ones, and ``none`` at all; other ``langs`` of some segments, and some
#: without a source (``bare sources``); references that are ``empty``, or are a ``mark`` of those that are absent; the
#: ``order`` of references of several kinds or names; ``spaces`` at the ends of texts,
#: ``lines``, line ends of Windows (``returns``) and ``tabs`` in them; ``logprob``; ``keys`` of segments that polyref
#: does not know; ``meta``.
ALL: Final = frozenset(
    {
        *("id", "source", "bare sources", "doc", "lang", "langs", "kinds", "paraphrases", "names"),
        *("several", "extras", "ragged", "none", "bare"),
        *("empty", "mark", "order", "spaces", "lines", "returns", "tabs", "logprob", "keys", "meta"),
    }
)


@dataclass(frozen=True)
class Writing:
    """How a form is written.

    Attributes:
        lacks: What it cannot hold, of :data:`ALL`.
        lines: What is in its one file; None where it has several, or is written otherwise.
        keys: Keys of segments that it holds although polyref does not know them.
        taken: Whether a key means something there, so that one that polyref does not know cannot be called so.
        first: Name of the first reference that has no name; further ones have a number behind it, from 2.
        readable: Whether a name of a reference can be that of its column. Others have columns as if they had none.
        exact: Whether an id, or the name of a document or language, that the form holds is read as it is.
        order: What the names of columns are sorted by; None leaves them in the order that they come up in.
        more: What else is lost, one phrase each; empty ones say nothing.
    """

    lacks: frozenset[str]
    lines: Callable[[SetInColumns], Iterator[str]] | None = None
    keys: frozenset[str] = frozenset()
    taken: Callable[[str], bool] | None = None
    first: str = "reference"
    readable: Callable[[str], bool] = lambda name: added_kind(name) is None
    exact: Callable[[str], bool] = lambda name: True
    order: Callable[[str], Any] | None = None
    more: Callable[[SetInColumns], Sequence[str]] = lambda made: ()

    @property
    def holds(self) -> frozenset[str]:
        """What it can hold, of :data:`ALL`."""
        return ALL - self.lacks


#: How forms of documents are written.
DocumentWriting: Final = partial(
    Writing, first=DEFAULT_NAME, readable=names_in_documents, exact=lambda name: name not in {"", NO_DOCUMENT}
)


def counted(what: str, count: int, unit: str) -> str:
    """A phrase of what is lost, empty where nothing is."""
    return f"{what} ({count} {unit}{'s' * (count != 1)})" if count else ""

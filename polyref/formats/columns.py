"""References in columns: what columns and keys are, and how a set is laid in columns to be written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NoReturn, Protocol

from polyref.errors import DataError, UsageError
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


class Fail(Protocol):
    """Raises a DataError that names file and line."""

    def __call__(self, message: str, remedy: str | None = None) -> NoReturn:
        """Raise it."""
        ...


def failing(file: str, line: int) -> Fail:
    """Raises errors about one line."""

    def fail(message: str, remedy: str | None = None) -> NoReturn:
        raise DataError(message, file=file, line=line, remedy=remedy)

    return fail


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


def roles(
    keys: Iterable[str], fields: Mapping[str, str], wanted: frozenset[str], file: str, line: int | None = None
) -> dict[str, str]:
    """Key -> role, of the keys that have one.

    A role that the user gives to a key is that key's alone; for other roles, names decide.

    Args:
        keys: In order.
        fields: What the user says.
        wanted: Roles of which there must be one.
        file: For messages.
        line: The line that names the keys.
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
    return found


def check_fields(fields: Mapping[str, str]) -> None:
    """Refuse roles that do not exist."""
    for key, role in fields.items():
        if role not in ROLES:
            turned = f"is it {role}={key}?" if key in ROLES else "write KEY=ROLE"
            raise UsageError(
                f"`fields` {key}={role}: {role!r} is no role, expected one of {', '.join(ROLES)}", remedy=turned
            )


def reference(name: str, text: str, *, originals: int, whole: bool, rank: int | None = None) -> Reference:
    """A reference whose name, if it has one, may say its kind.

    Args:
        name: In the file; empty where it has none.
        text: The text.
        originals: How many references of the segment were written by people: of one alone, the others are made.
        whole: Whether to keep a name that does not say the kind.
        rank: Its place, if the name says none.
    """
    kind = added_kind(name)
    if kind is None or kind in ORIGINAL_KINDS:
        return Reference(
            text, kind or "human", extra={NAME: name} if kind is None and whole and not is_default(name) else {}
        )
    number = int(re.sub(r"\D", "", name))
    return Reference(text, kind, of=0 if originals == 1 else None, rank=max(number - 1, 0) if rank is None else rank)


def references(named: Sequence[tuple[str, str]], *, whole: bool) -> tuple[Reference, ...]:
    """The references of one segment from names and texts: those that people wrote come first, as ``of`` counts them."""
    first = sorted(named, key=lambda one: added_kind(one[0]) not in {None, *ORIGINAL_KINDS})
    originals = sum(added_kind(name) in {None, *ORIGINAL_KINDS} for name, _ in first)
    return tuple(reference(name, text, originals=originals, whole=whole) for name, text in first)


def names_in_tables(name: str) -> bool:
    """Whether a column or key of this name is read as a reference of this name."""
    return role_of(name) == "reference" and added_kind(name) is None and _name(name, {}) == name


def names_in_documents(name: str) -> bool:
    """Whether documents read a reference of this name as one of this name."""
    return added_kind(name) is None and not is_default(name)


def segment(
    values: Sequence[tuple[str, str, Any]], default_id: str, fail: Fail, fields: Mapping[str, str], *, whole: bool
) -> Segment:
    """A segment from the values of one row or object.

    Args:
        values: (key, role, value) in order; roles may be empty. A value is a text, None where there is none, or for
            references a list of texts.
        default_id: Where there is no id.
        fail: Raises an error that names file and line.
        fields: What the user said: roles that are named there are kept in any case.
        whole: Whether to keep more than texts and ids.
    """
    texts: list[tuple[str, str, str]] = []
    single: dict[str, str] = {}
    extra: dict[str, Any] = {}
    for key, role, value in values:
        if not role or role == "output":
            if whole and value is not None:
                extra[key] = value
        elif role in REFERENCES:
            texts += ((key, role, text) for text in _texts(key, value, fail))
        elif value is not None:
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                fail(f"{key!r} is no text, expected the {role} of the segment")
            if role in single:
                fail(f"{key!r} is a second {role}")
            single[role] = str(value)
    keep = {role for role in single if whole or role == "id" or role in fields.values()}
    humans = sum(role == "reference" for _, role, _ in texts)
    refs: list[Reference] = []
    added = 0
    for key, role, text in (*(t for t in texts if t[1] == "reference"), *(t for t in texts if t[1] != "reference")):
        kind = added_kind(key)
        if role == "reference":
            refs.append(reference(_name(key, fields), text, originals=humans, whole=whole))
        else:
            name = key if kind not in {None, *ORIGINAL_KINDS} else "paraphrase1"
            refs.append(reference(name, text, originals=humans, whole=whole, rank=None if kind else added))
            added += 1
    source, doc, lang = (single.get(role) if role in keep else None for role in ("source", "doc", "lang"))
    return Segment(single.get("id", default_id), tuple(refs), source, doc, lang, extra)


def _name(key: str, fields: Mapping[str, str]) -> str:
    """The name that a key gives a reference: none where it says no more than that it is one, or which one by number."""
    found = _REFERENCE.fullmatch(key)
    if added_kind(key) or (found and found[3] and not found[3].isdigit()):
        return key
    return key if key in fields and not found and not key.isdigit() and key.lower() not in {*_TEXTS, *_KNOWN} else ""


def _texts(key: str, value: Any, fail: Fail) -> list[str]:
    several = value if isinstance(value, list) else [] if value is None else [value]
    for text in several:
        if not isinstance(text, str):
            fail(f"{key!r} holds {type(text).__name__}, expected a text or a list of texts")
        if "\0" in text:
            fail(f"NUL character in {key!r}, expected text")
    return several


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


#: What a form can hold besides the texts of references: parts of a segment; ``names`` of references, their ``kinds``,
#: or at least which are ``paraphrases``; ``several`` human ones of a segment, added ones (``extras``) beside them,
#: ``ragged`` numbers of them, and ``none`` at all; references that are ``empty``; ``spaces`` at the ends of texts,
#: ``lines``, line ends of Windows (``returns``) and ``tabs`` in them; ``logprob``; their ``generator``, weight and
#: other keys; ``keys`` of segments that polyref does not know; ``meta``.
ALL: Final = frozenset(
    ("id", "source", "doc", "lang", "kinds", "paraphrases", "names", "several", "extras", "ragged", "none", "empty",
     "spaces", "lines", "returns", "tabs", "logprob", "generator", "keys", "meta")
)  # fmt: skip


def losses(
    made: Layout, holds: frozenset[str], known: frozenset[str] = frozenset(), taken: Callable[[str], bool] | None = None
) -> list[str]:
    """What is lost, one phrase each, with counts.

    Args:
        made: The set.
        holds: What the form can hold, of :data:`ALL`.
        known: Keys of segments that it holds all the same.
        taken: Which keys of segments it does not hold, because they mean something there.
    """
    segments = made.segments
    texts = [ref.text for segment in segments for ref in segment.refs]
    counts = [len(segment.refs) for segment in segments]
    several = sum(max(len(segment.originals) - 1, 0) for segment in segments)
    found = [
        ("id", sum(one.id != str(place) for place, one in enumerate(segments, 1)), "ids", "segment"),
        ("source", sum(one.source is not None for one in segments), "sources", "segment"),
        ("doc", sum(one.doc is not None for one in segments), "documents", "segment"),
        ("lang", sum(one.lang is not None for one in segments), "languages", "segment"),
        ("keys", sum(bool(one.extra.keys() - known) for one in segments), "other keys", "segment"),
        ("", sum(any(map(taken, one.extra)) for one in segments) if taken else 0, "other keys", "segment"),
        ("ragged", sum(count < len(made.columns) for count in counts if count),
         "different numbers of references: the first is repeated", "segment"),
        ("none", sum(not count for count in counts), "no reference at all: an empty one is written", "segment"),
        ("several", several, "further human references, which are left out", "reference"),
        ("extras", sum(len(one.extras if one.originals else one.extras[1:]) for one in segments),
         "added references, which are left out", "reference"),
        ("empty", _empty(made), "whether a reference is empty or absent", "reference"),
        ("lines", sum("\n" in text or "\r" in text for text in texts), "line ends, which become spaces", "text"),
        ("returns", sum("\r\n" in text for text in texts), "line ends of Windows, which become line feeds", "text"),
        ("tabs", sum("\t" in text for text in texts), "tabs, which become spaces", "text"),
        ("spaces", sum(text != text.strip() for text in texts), "spaces at the ends", "text"),
        ("meta", len(made.meta), "what the header says", "key"),
    ]  # fmt: skip
    phrases = [
        f"{what} ({count} {unit}{'s' * (count != 1)})" for key, count, what, unit in found if count and key not in holds
    ]
    return phrases + list(_provenance(made, holds))


def _empty(made: Layout) -> int:
    """References that are empty texts, but for a segment's only one."""
    return sum(not ref.text for segment in made.segments for ref in segment.refs if len(segment.refs) > 1)


def _provenance(made: Layout, holds: frozenset[str]) -> Iterator[str]:
    """Where references came from, as far as kind and place do not say it."""
    lost: dict[str, int] = {}
    total = 0
    for segment, row in zip(made.segments, made.rows, strict=True):
        originals = [place for place, ref in enumerate(segment.refs) if ref.original]
        places: dict[str, int] = {}
        for place, ref in enumerate(segment.refs):
            if "extras" not in holds and not ref.original and (originals or place):
                continue
            named = any(one is ref and column == ref.extra.get(NAME) for column, one in row.items())
            names = set(_lost(ref, holds if named else holds - {"names"}))
            if not ref.original:
                rank = places[ref.kind] = places.get(ref.kind, -1) + 1
                if ref.rank not in {None, rank}:
                    names.add("rank")
                if ref.of is not None and originals != [ref.of]:
                    names.add("of")
                if not {"kinds", "paraphrases" if ref.kind == "paraphrase" else "kinds"} & holds:
                    names = {"kind", *names - {"rank", "of"}}
            if originals and ref.original and originals[-1] != len(originals) - 1 and place == originals[-1]:
                names.add("place before an original")
            total += bool(names)
            for name in names:
                lost[name] = lost.get(name, 0) + 1
    if lost:
        yield f"{', '.join(sorted(lost))} ({total} reference{'s' * (total != 1)})"


def _lost(ref: Reference, holds: frozenset[str]) -> Sequence[str]:
    names = []
    if "generator" not in holds:
        names += [name for name in ("weight", "generator") if getattr(ref, name) is not None]
        names += ["other keys"] if ref.extra.keys() - {NAME} else []
    if ref.logprob is not None and "logprob" not in holds:
        names.append("logprob")
    if ref.kind == "postedit" and "kinds" not in holds:
        names.append("kind")
    if NAME in ref.extra and "names" not in holds:
        names.append("name")
    return names

"""What the columns of a table and the keys of a JSON object are: by their names, or as the user says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

from polyref.errors import DataError, UsageError
from polyref.segments import KINDS, ORIGINAL_KINDS, Reference, Segment

#: What a column or key can be.
ROLES: Final = ("id", "reference", "paraphrase", "source", "output", "doc", "lang")
#: Roles that make a segment: at least one of them is needed to read references.
REFERENCES: Final = frozenset({"reference", "paraphrase"})
#: A reference's name in the file it came from (``refA``, a translator), among its other keys.
NAME: Final = "name"
#: What a form calls a reference that has no name, where one is needed; further ones have a number behind it.
DEFAULT_NAME: Final = "ref"

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

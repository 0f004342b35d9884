"""How a set is written in a form: laid in columns, with what is lost of it, whole or not at all.

Segments are read twice, to lay them out and to write them, and may lie in a file (:class:`polyref.formats.own.Spool`):
of those that a form has no need to hold, one document is in memory at a time, or few segments.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from polyref.errors import DataError, UsageError
from polyref.formats import OWN_FORMS
from polyref.formats.base import Format, unpacked
from polyref.formats.columns import (
    NAME,
    NO_REFERENCE,
    PARTS,
    Row,
    SetInColumns,
    Writing,
    counted,
    one_line,
    own_name,
    row_of,
)
from polyref.formats.general_task import GENERAL
from polyref.formats.own import NORMAL, PLAIN, checked, lost_in_normal, plain_files, temporary, write_segments
from polyref.formats.table import SACREBLEU
from polyref.formats.test_sets import FOLDER, layout_files
from polyref.publishing import check_writable, publish_together, published_folder, write_atomically
from polyref.references import Reference, Segment
from polyref.textfiles import display_name

#: Every form that can be written, by name, and by the suffixes of names.
WRITTEN: Final[Mapping[str, Format]] = {form.name: form for form in (NORMAL, *OWN_FORMS) if form.writing}
_SUFFIXES: Final = {suffix: form for form in OWN_FORMS for suffix in form.suffixes}
#: What a file's line is, of a segment and its references by column.
Line: TypeAlias = Callable[[Segment, Row], str]
#: Texts that are in memory when several files are written.
_TEXTS: Final = 1000
#: Where the names of references go in the name of a file for each.
PLACE: Final = "{}"


def form_of(path: str | Path) -> Format:
    """The form that the name of a file says: that of its suffix, the normal one for ``-``, or else plain text."""
    return NORMAL if str(path) == "-" else _SUFFIXES.get(Path(unpacked(str(path))).suffix, PLAIN)


def save(
    segments: Sequence[Segment],
    meta: Mapping[str, Any],
    path: str | Path,
    form: str | None = None,
    pair: str | None = None,
) -> list[str]:
    """Write segments in a form, whole or not at all; see :meth:`polyref.references.ReferenceSet.export`.

    Returns:
        What the form cannot hold of the set, one phrase each.
    """
    if form is not None and form not in WRITTEN:
        raise UsageError(f"`to` is {form!r}, expected one of {', '.join(WRITTEN)}")
    chosen = form_of(path) if form is None else WRITTEN[form]
    writing = chosen.writing
    if chosen is NORMAL or writing is None:
        write_segments(segments, meta, path)
        return lost_in_normal(segments)
    try:
        checking = checked(segments, ids="id" in writing.holds)
        made, lost = layout(checking, segments, meta, writing)
        if not made.columns and (chosen is GENERAL or not chosen.json):
            raise DataError("no segment has a reference", remedy="no file without any can be read")
        if chosen in (PLAIN, SACREBLEU, FOLDER) and any(ref.text.startswith("\ufeff") for ref in segments[0].refs):
            raise DataError("the first segment begins with U+FEFF", remedy="readers take it for a mark of the encoding")
        if chosen is FOLDER:
            _write_folder(path, made, layout_files(made, pair))
        elif writing.lines is None:
            _write_plain(path, made, plain_files(made))
        else:
            with write_atomically(path) as stream:
                stream.writelines(writing.lines(made))
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(error.message, file=display_name(path), remedy=error.remedy) from None
    return [*lost, *filter(None, writing.more(made))]


def _write_plain(path: str | Path, made: SetInColumns, files: Mapping[str, Line]) -> None:
    if str(path).endswith("/") or Path(path).is_dir():
        _write_folder(path, made, {f"{_file_name(column)}.txt": line for column, line in files.items()})
    elif PLACE in str(path):
        named = {Path(str(path).replace(PLACE, _file_name(column))): line for column, line in files.items()}
        for file in named:
            check_writable(file)
        if others := sorted(set(matching(Path(path))) - set(named)):
            raise UsageError(
                f"{others[0]} is there already, and no reference of this set",
                remedy="remove it, or choose another name",
            )
        with ExitStack() as stack:
            with temporary():
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="polyref-")))
                numbered = {folder / str(number): line for number, line in enumerate(named.values())}
                _write_lines(made, numbered)
            publish_together(dict(zip(named, numbered, strict=True)))
    elif len(files) > 1:
        raise UsageError(
            f"{path} is one file, but there are {len(files)} references: {', '.join(files)}",
            remedy=f"put {PLACE} into the name (refs.{PLACE}.txt), name a folder with / at its end, or choose "
            "another form (`to`)",
        )
    else:
        with write_atomically(path) as stream:
            stream.writelines(f"{one_line(line(*pair))}\n" for line in files.values() for pair in made.pairs)


def _write_lines(made: SetInColumns, files: Mapping[Path, Line]) -> None:
    """Write files with a line for every segment; one is open at a time."""
    pairs = made.pairs
    while part := list(islice(pairs, _TEXTS // (len(files) + 1) + 1)):
        for file, line in files.items():
            with file.open("a", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{one_line(line(*pair))}\n" for pair in part)


def matching(pattern: Path) -> list[Path]:
    """The files that are there whose name fits a name with ``{}``."""
    start, _, end = pattern.name.partition(PLACE)
    names = [file.name for file in pattern.parent.iterdir() if len(file.name) > len(start) + len(end)]
    return [pattern.parent / name for name in names if name.startswith(start) and name.endswith(end)]


def _file_name(column: str) -> str:
    if "/" in column or column.startswith(".") or not column.isprintable() or len(column.encode()) > 200:
        raise DataError(f"the reference name {column[:60]!r} cannot be part of a file name")
    return column


def _write_folder(path: str | Path, made: SetInColumns, files: Mapping[str, Line]) -> None:
    target = Path(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{path} is there and not empty", remedy="name a new or an empty folder")
    with published_folder(target) as fresh:
        placed = {fresh.joinpath(*map(_file_name, name.split("/"))): line for name, line in files.items()}
        for file in placed:
            file.parent.mkdir(exist_ok=True)
        _write_lines(made, placed)


def layout(
    segments: Iterable[Segment], held: Sequence[Segment], meta: Mapping[str, Any], writing: Writing
) -> tuple[SetInColumns, list[str]]:
    """Put the references of segments into columns, and say what is lost when they are written: in one pass.

    Args:
        segments: Those that are ``held``, as they are checked.
        held: The segments, which will be read again.
        meta: What the header says.
        writing: The form.

    Returns:
        The set, and a phrase with a count for everything that the form cannot hold of it.
    """
    named: dict[str, str] = {}
    originals: dict[str, None] = {}
    made: dict[str, str] = {}
    losses = _Losses(writing)
    for segment in segments:
        row = row_of(segment, named, writing)
        for column, ref in row.items():
            name = own_name(ref)
            if name and not writing.readable(name):
                named.setdefault(name, column)
            if ref.original:
                originals[column] = None
            else:
                made[column] = ref.kind
        losses.add(segment, row, originals)
    ordered = sorted(made, key=lambda column: (made[column], int(column.removeprefix(made[column]))))
    columns = sorted([*originals, *ordered], key=writing.order) if writing.order else [*originals, *ordered]
    parts = [part for part in PARTS if losses.parts[part]]
    found = SetInColumns(held, columns, named, parts, losses.spoken, writing)
    return found, losses.phrases(columns, len(meta))


class _Losses:
    """What is lost when segments are written, counted as they come."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self.parts: Counter[str] = Counter()
        self.languages: Counter[str | None] = Counter()
        self.source_language: str | None = None
        self._sizes: Counter[int] = Counter()
        self._lost: dict[tuple[str, str, str], int] = {}
        self._origins: Counter[str] = Counter()
        self._origin_lost = 0

    def add(self, one: Segment, row: Row, people: Mapping[str, None]) -> None:
        """Count a segment and its references by column; ``people`` are the columns of originals so far."""
        holds, taken = self.writing.holds, self.writing.taken
        self.parts.update(part for part in PARTS if getattr(one, part) is not None)
        self.languages[one.lang] += 1
        spoken = one.extra.get("src_lang")
        self.source_language = self.source_language or (spoken if isinstance(spoken, str) else None)
        self._sizes[len(one.refs)] += 1
        originals, refs = len(one.originals), [ref.text for ref in one.refs]
        texts = [*refs, one.source or ""] if "source" in holds else refs
        # A segment's only one in the first column, if empty, is an empty line.
        line = len(row) == 1 and [*row] == [*people][:1]
        parts = [getattr(one, part) for part in ("id", "doc", "lang") if part in holds]
        inexact = any(part is not None and not self.writing.exact(part) for part in parts)
        for named, found in {
            ("id", "ids", "segment"): one.id != str(self.parts["id"]),
            ("source", "sources", "segment"): one.source is not None,
            ("doc", "documents", "segment"): one.doc is not None,
            ("lang", "languages", "segment"): one.lang is not None,
            ("langs", "languages", "segment"): 0,  # what is 0 is known when all are there
            ("bare sources", "no source: an empty one is written", "segment"): 0,
            ("keys", "other keys", "segment"): bool(one.extra.keys() - self.writing.keys),
            ("", "other keys", "segment"): taken is not None and any(map(taken, one.extra)),
            (
                "",
                "ids, documents or languages that are empty or hold other signs than this form has",
                "segment",
            ): inexact,
            ("ragged", "different numbers of references: the first is repeated", "segment"): 0,
            ("none", "no reference at all: an empty one is written", "segment"): not refs,
            ("bare", "no human reference: an empty one is written", "segment"): bool(refs) and not originals,
            ("several", "further human references, which are left out", "reference"): max(originals - 1, 0),
            ("extras", "added references, which are left out", "reference"): len(refs) - max(originals, 1),
            ("order", "the order of references", "segment"): [*row] != _in_columns(row, people, self.writing),
            ("empty", "whether a reference is empty or absent", "reference"): 0 if line else refs.count(""),
            ("empty", "whether a source is empty or absent", "segment"): one.source == "",
            ("mark", "references that say there is none", "reference"): sum(
                text.strip() in NO_REFERENCE for text in refs
            ),
            ("lines", "line ends, which become spaces", "text"): sum("\n" in text or "\r" in text for text in texts),
            ("returns", "line ends of Windows, which become line feeds", "text"): sum("\r\n" in text for text in texts),
            ("tabs", "tabs, which become spaces", "text"): sum("\t" in text for text in texts),
            ("spaces", "spaces at the ends", "text"): sum(text != text.strip() for text in texts),
            ("meta", "what the header says", "key"): 0,
        }.items():
            self._lost[named] = self._lost.get(named, 0) + max(found, 0)
        for names in _origins_lost(one, row, self.writing):
            self._origin_lost += 1
            self._origins.update(names)

    def phrases(self, columns: Sequence[str], keys: int) -> list[str]:
        """A phrase with a count for everything, of a set with so many columns and keys of its header."""
        holds, segments, sources = self.writing.holds, self.parts["id"], self.parts["source"]
        final = {
            "langs": (segments - self.languages[self.spoken[1]]) * ("lang" in holds),
            "bare sources": sources and segments - sources,
            "ragged": sum(many for size, many in self._sizes.items() if 0 < size < len(columns)),
            "meta": keys,
        }
        lost = [
            (what, final.get(key, many), unit) for (key, what, unit), many in self._lost.items() if key not in holds
        ]
        lost.append((", ".join(sorted(self._origins)), self._origin_lost, "reference"))
        return [counted(*one) for one in lost if one[1]]

    @property
    def spoken(self) -> tuple[str | None, str | None]:
        """Source and target language, where the segments say one."""
        return self.source_language or None, next(filter(None, self.languages), None)


def _in_columns(row: Row, people: Mapping[str, None], writing: Writing) -> list[str]:
    """The columns of a segment in the order of all columns."""
    if writing.order:
        return sorted(row, key=writing.order)
    made = [(ref.kind, int(name.removeprefix(ref.kind)), name) for name, ref in row.items() if not ref.original]
    return [*(name for name in people if name in row and row[name].original), *(name for *_, name in sorted(made))]


def _origins_lost(segment: Segment, row: Row, writing: Writing) -> Iterator[set[str]]:
    """Where references came from, as far as kind and place do not say it: what is lost of each that loses something."""
    holds = writing.holds
    originals = [place for place, ref in enumerate(segment.refs) if ref.original]
    places: dict[str, int] = {}
    for place, ref in enumerate(segment.refs):
        if "extras" not in holds and not ref.original and (originals or place):
            continue
        named = any(one is ref and name == own_name(ref) and writing.readable(name) for name, one in row.items())
        names = set(_lost(ref, holds if named else holds - {"names"}))
        if not ref.original:
            rank = places[ref.kind] = places.get(ref.kind, -1) + 1
            if ref.rank not in {None, rank}:
                names.add("rank")
            if ref.of is not None and originals != [ref.of]:
                names.add("of")
            if not {"kinds", "paraphrases" if ref.kind == "paraphrase" else "kinds"} & holds:
                names = {"kind", *names - {"rank", "of"}}
        listed = "order" in holds and not {"kinds", "paraphrases"} & holds
        if not listed and originals and originals[-1] != len(originals) - 1 and place == originals[-1]:
            names.add("place before an original")
        if names:
            yield names


def _lost(ref: Reference, holds: frozenset[str]) -> Sequence[str]:
    # The normal form alone holds these.
    names = [name for name in ("weight", "generator") if getattr(ref, name) is not None]
    names += ["other keys"] if ref.extra.keys() - {NAME} else []
    if ref.logprob is not None and ("logprob" not in holds or ref.original):
        names.append("logprob")
    names += [name for name in ("of", "rank") if ref.original and getattr(ref, name) is not None]
    if ref.kind == "postedit" and "kinds" not in holds:
        names.append("kind")
    if NAME in ref.extra and "names" not in holds:
        names.append("name")
    return names

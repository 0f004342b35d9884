"""The files of systems and references of ``polyref score``: their names, their lines, and marks that change a score."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from polyref.errors import DataError, UsageError
from polyref.formats import Reading, open_references, read_outputs
from polyref.formats.registry import LOOKED_AT, is_text
from polyref.references import ReferenceSet
from polyref.tables import name_as_text
from polyref.textfiles import check_parallel, display_name, open_unpacked, read_lines


def read_scored(
    references: Sequence[str],
    systems: Sequence[str],
    source: str | None,
    reading: Reading,
    form: str | None = None,
    encoding: str | None = None,
    fields: int | None = None,
) -> tuple[ReferenceSet, dict[str, list[str]], list[str] | None]:
    """The references, the outputs of systems and the sources that are scored together.

    Args:
        references: Files of references.
        systems: Files of outputs.
        source: The file of sources; None where there is none.
        reading: What these files do not say themselves, apart from ``form``.
        form: The form of the files of outputs.
        encoding: Of all of them, JSON left out; None is UTF-8.
        fields: Number of references that the tabs of each line separate; None does not split lines.
    """
    names = system_names(systems)
    of_outputs = {key: role for key, role in reading.fields.items() if role == "output"}
    of_references = {key: role for key, role in reading.fields.items() if role != "output"}
    encoding = None if _is_utf8(encoding) else encoding
    if fields is None:
        with ExitStack() as stack:
            opened = open_references(references, stack, replace(reading, fields=of_references, encoding=encoding))
            refs = ReferenceSet(tuple(opened.segments), opened.meta)
    else:
        refs = _split_references(references, reading, encoding, fields)
    first = display_name(references[0]), len(refs)
    sources = _parallel_lines([source], first, encoding)[0] if source is not None else None
    given = Reading(form, of_outputs, reading.pair, encoding=encoding)
    outputs = _read_systems(systems, names, given, first, [segment.doc for segment in refs])
    return refs, outputs, sources


def system_names(paths: Sequence[str]) -> list[str]:
    """A name for every system: its file name, or the path as given where two files have one name."""
    # A file name need not be text; a system's name is written.
    paths = [name_as_text(path) for path in paths]
    if repeated := [path for path, count in Counter(paths).items() if count > 1]:
        raise UsageError(f"-i names {repeated[0]} twice", remedy="copy the file to score it against itself")
    short = [display_name(path) if path == "-" else Path(path).name for path in paths]
    counts = Counter(short)
    return [name if counts[name] == 1 else path for name, path in zip(short, paths, strict=True)]


def _is_utf8(encoding: str | None) -> bool:
    """Whether it is the encoding that is read anyway, under any of its names; a byte order mark is left out there."""
    try:
        return encoding is not None and codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    except LookupError:  # the reader says so
        return False


def _split_references(paths: Sequence[str], reading: Reading, encoding: str | None, fields: int) -> ReferenceSet:
    """References from one plain text file, several in a line.

    Args:
        paths: The file.
        reading: What was said about it.
        encoding: Of the file; None is UTF-8.
        fields: Number of references that the tabs of each line separate (``sacrebleu --num-refs``).
    """
    if len(paths) > 1:
        raise UsageError(f"`num_refs` splits the lines of one file, but there are {len(paths)}", remedy="name one file")
    (path,) = paths
    if reading.form not in (None, "plain"):
        raise UsageError(f"`num_refs` is for plain text, not for the {reading.form} form", remedy="leave it out")
    if reading.fields:
        raise UsageError("`num_refs` is for plain text, which has no `fields`", remedy="leave one of them out")
    lines = read_lines(path, encoding=encoding or "utf-8")
    if reading.form is None and not is_text(display_name(path), lines[:LOOKED_AT]):
        raise UsageError(f"{display_name(path)} is no plain text: `num_refs` is for that", remedy="leave it out")
    return ReferenceSet.from_texts([list(row) for row in zip(*_split(lines, fields, path), strict=True)])


def _split(lines: Sequence[str], fields: int, path: str) -> list[list[str]]:
    """One list of texts for each reference of a line."""
    # As sacreBLEU does it: what is at the end of a line is cut first, and further tabs belong to the last reference.
    rows = [line.rstrip().split("\t", fields - 1) if fields > 1 else [line] for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != fields:
            raise DataError(
                f"{len(row)} references in the line, expected {fields} with tabs between them",
                file=display_name(path),
                line=number,
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _parallel_lines(paths: Sequence[str], first: tuple[str, int], encoding: str | None = None) -> list[list[str]]:
    """The lines of files, as many as the file named first has."""
    texts = [read_lines(path, encoding=encoding or "utf-8") for path in paths]
    check_parallel([first, *((display_name(path), len(lines)) for path, lines in zip(paths, texts, strict=True))])
    return texts


def _read_systems(
    paths: Sequence[str],
    names: Sequence[str],
    reading: Reading,
    first: tuple[str, int],
    documents: Sequence[str | None],
) -> dict[str, list[str]]:
    """The outputs of systems in files of any form, each as long as the file named first.

    Args:
        paths: The files; one may hold several systems.
        names: What systems are called whose file does not say.
        reading: What the files do not say themselves.
        first: A file's name and number of segments.
        documents: The document of every segment of that file, as far as it says it.
    """
    systems: dict[str, list[str]] = {}
    for path, name in zip(paths, names, strict=True):
        found = read_outputs(path, reading)
        for theirs, ours in zip(found.documents or (), documents, strict=False):
            if ours is not None and ours != theirs:
                raise DataError(
                    f"holds document {theirs!r} where {first[0]} has {ours!r}",
                    file=display_name(path),
                    remedy="the same documents in the same order, with as many segments",
                )
        for own, texts in found.systems.items():
            called = own or name
            if called in systems:
                raise UsageError(f"two systems are called {called!r}, the second in {display_name(path)}")
            systems[called] = list(texts)
            check_parallel([first, (display_name(path), len(texts))])
    return systems


def notes_of_copies(systems: Mapping[str, Sequence[str]], references: ReferenceSet) -> Iterator[str]:
    """Which systems are the same text as one of the human references, from the first line to the last."""
    several = max((len(segment.originals) for segment in references), default=0)
    humans = [
        [segment.originals[place].text if place < len(segment.originals) else None for segment in references]
        for place in range(several)
    ]
    for name, lines in systems.items():
        for number, texts in enumerate(humans, 1):
            if list(lines) == texts:
                yield note_of_copy(name, number, several)


def note_of_copy(system: str, number: int, several: int) -> str:
    """What to say of a system that is the same text as a human reference, of ``several``, counted from 1."""
    which = "the reference" if several == 1 else f"reference {number}"
    return f"{system} equals {which} line for line: is it the output of a system?"


def tell_of_files(
    paths: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    say: Callable[[str, str], None],
) -> None:
    """What people have to know of files that were read: :func:`notes_of_copies` and :func:`warn_byte_order_marks`."""
    for note in notes_of_copies(systems, references):
        say("note", note)
    warn_byte_order_marks(paths, say)


def warn_byte_order_marks(paths: Sequence[str], say: Callable[[str, str], None]) -> None:
    """Say of each file that starts with a byte order mark that it is left out here, and not by sacreBLEU."""
    for path in paths:
        # A pipe can be read once only, and has been.
        if path != "-" and Path(path).is_file():
            with open_unpacked(path) as stream:
                if stream.read(3) == b"\xef\xbb\xbf":
                    say("warning", f"{path} starts with a byte order mark: it is left out here, "
                                   "sacreBLEU counts it as text")  # fmt: skip

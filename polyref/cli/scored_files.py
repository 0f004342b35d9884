"""The files that `polyref score` reads: references and systems side by side, whole or in stretches."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError, UsageError
from polyref.formats import LOOKED_AT, Reading, is_text, open_plain_outputs, open_references, read_outputs
from polyref.metrics.base import Metric
from polyref.metrics.streamed import Stretch, score_streamed, streams
from polyref.metrics.table import ScoreTable
from polyref.references import ReferenceSet, Segment
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


#: Bytes of files from which on sets are read in stretches. Smaller ones fit into memory.
LARGE: Final = 1 << 25
#: Segments of a stretch.
SEGMENTS: Final = 8192


class Stretches:
    """The references and the outputs of systems, which are read once.

    Args:
        references: Files of references.
        systems: Files of outputs: plain text.
        reading: What these files do not say themselves, apart from ``form``.
        form: The form of the files of outputs.
        stack: Closes them.
    """

    def __init__(
        self, references: Sequence[str], systems: Sequence[str], reading: Reading, form: str | None, stack: ExitStack
    ) -> None:
        self._paths = systems
        self._first = display_name(references[0])
        names = system_names(systems)
        roles = {key: role for key, role in reading.fields.items() if role != "output"}
        self._references = open_references(references, stack, Reading(reading.form, roles, reading.pair))
        given = Reading(form, {key: role for key, role in reading.fields.items() if role == "output"}, reading.pair)
        self._outputs = {
            name: lines
            for name, path in zip(names, systems, strict=True)
            if (lines := open_plain_outputs(path, stack, given)) is not None
        }
        #: Whether all outputs are plain text; others are read as a whole.
        self.plain = len(self._outputs) == len(names)
        self._copies = _Copies(names)

    def __iter__(self) -> Iterator[Stretch]:
        """The stretches."""
        total, read = 0, Counter(dict.fromkeys(self._outputs, 0))
        while segments := tuple(islice(self._references.segments, SEGMENTS)):
            texts = {name: list(islice(lines, len(segments))) for name, lines in self._outputs.items()}
            total += len(segments)
            read.update({name: len(found) for name, found in texts.items()})
            if any(count < total for count in read.values()):
                break
            self._copies.add(segments, texts)
            yield Stretch(ReferenceSet(segments, self._references.meta), texts)
        # Where one ends before the others, those are only counted.
        total += sum(1 for _ in self._references.segments)
        for (name, lines), path in zip(self._outputs.items(), self._paths, strict=True):
            read[name] += sum(1 for _ in lines)
            check_parallel([(self._first, total), (display_name(path), read[name])])

    def notes(self) -> Iterator[str]:
        """Which systems are the same text as one of the human references."""
        return self._copies.notes()


class _Copies:
    """Which systems equal which human reference, so far."""

    def __init__(self, systems: Sequence[str]) -> None:
        self._equal: dict[str, list[bool]] = {name: [] for name in systems}
        self._segments = self._several = 0

    def add(self, segments: Sequence[Segment], texts: Mapping[str, Sequence[str]]) -> None:
        """Compare texts, as they are in the files."""
        humans = [[ref.text for ref in segment.originals] for segment in segments]
        self._several = max(self._several, *map(len, humans))
        for name, lines in texts.items():
            equal = self._equal[name]
            # A reference that earlier segments do not have is not the same text.
            equal += [not self._segments] * (self._several - len(equal))
            for place, still in enumerate(equal):
                equal[place] = still and all(
                    place < len(refs) and refs[place] == line for refs, line in zip(humans, lines, strict=True)
                )
        self._segments += len(segments)

    def notes(self) -> Iterator[str]:
        for name, equal in self._equal.items():
            for number, still in enumerate(equal, 1):
                if still:
                    yield note_of_copy(name, number, self._several)


def score_large(
    references: Sequence[str],
    systems: Sequence[str],
    reading: Reading,
    form: str | None,
    metrics: Mapping[str, Metric],
    ks: Sequence[int] | None,
    say: Callable[[str, str], None],
    test_of: Callable[[int], tuple[str | None, int | None]],
    **settings: Any,
) -> ScoreTable | None:
    """Score the files of a large set in bounded memory.

    Args:
        references: Files of references.
        systems: Files of outputs.
        reading: What these files do not say themselves, apart from ``form``.
        form: The form of the files of outputs.
        metrics: By name.
        ks: Numbers of added references.
        say: Told what people have to know of the files, by its kind.
        test_of: The test and its trials, of a number of systems.
        settings: Of :func:`polyref.metrics.streamed.score_streamed`.

    Returns:
        The scores; None where the set is small, or has a file or a metric that wants all of it at once.
    """
    files = [Path(path) for path in (*references, *systems)]
    if not all(file.is_file() for file in files) or sum(file.stat().st_size for file in files) < LARGE:
        return None
    if not streams(metrics.values()):
        return None
    with ExitStack() as stack:
        opened = Stretches(references, systems, reading, form, stack)
        if not opened.plain:
            return None
        test, trials = test_of(len(systems))
        total = _lines(files[-1])

        def told() -> Iterator[Stretch]:
            yield from opened
            for note in opened.notes():
                say("note", note)
            warn_byte_order_marks([*references, *systems], say)

        return score_streamed(told(), metrics, ks, test=test, trials=trials, total=total, **settings)


def _lines(file: Path) -> int:
    """How many lines an unpacked file has; 0 of one that is packed."""
    if file.suffix in (".gz", ".xz"):
        return 0
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))

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

from polyref.errors import DataError, UsageError, without_secrets
from polyref.formats import LOOKED_AT, Reading, is_text, open_plain_outputs, open_references, read_outputs
from polyref.metrics.base import Metric
from polyref.metrics.streamed import Stretch, score_streamed, streams
from polyref.metrics.table import ScoreTable
from polyref.references import ReferenceSet, Segment
from polyref.tables import name_as_text
from polyref.textfiles import check_parallel, display_name, open_unpacked, read_lines

#: Bytes of files from which on sets are read in stretches. Smaller ones fit into memory.
LARGE: Final = 1 << 25
#: Segments of a stretch.
SEGMENTS: Final = 8192
#: Is told a kind of message, and the message.
Say = Callable[[str, str], None]


def read_scored(
    references: Sequence[str],
    systems: Sequence[str],
    source: str | None,
    reading: Reading,
    form: str | None = None,
    encoding: str | None = None,
    fields: int | None = None,
    hold: Callable[[Iterator[Segment]], Sequence[Segment]] = tuple,
) -> tuple[ReferenceSet, dict[str, list[str]], list[str] | None]:
    """The references, the outputs of systems and the sources that are scored together.

    Args:
        references: Files of references.
        systems: Files of outputs.
        source: The file of sources; None where there is none.
        reading: What these files do not say themselves.
        form: The form of the files of outputs.
        encoding: Of all of them, JSON left out; None is UTF-8.
        fields: Number of references that the tabs of each line separate; None does not split lines.
        hold: Where the segments are kept.
    """
    names = _system_names(systems)
    encoding = None if _is_utf8(encoding) else encoding
    of_references, of_outputs = _parted(replace(reading, encoding=encoding), form)
    if fields is None:
        with ExitStack() as stack:
            opened = open_references(references, stack, of_references)
            refs = ReferenceSet(hold(opened.segments), opened.meta)
    else:
        refs = _split_references(references, reading, encoding, fields)
    first = display_name(references[0]), len(refs)
    sources = None
    if source is not None:
        sources = read_lines(source, encoding=encoding or "utf-8")
        check_parallel([first, (display_name(source), len(sources))])
    outputs: dict[str, list[str]] = {}
    for path, name in zip(systems, names, strict=True):
        found = read_outputs(path, of_outputs)
        for theirs, segment in zip(found.documents or (), refs, strict=False):
            if segment.doc is not None and segment.doc != theirs:
                raise DataError(
                    f"holds document {theirs!r} where {first[0]} has {segment.doc!r}",
                    file=display_name(path),
                    remedy="the same documents in the same order, with as many segments",
                )
        for own, texts in found.systems.items():
            called = own or name
            if called in outputs:
                raise UsageError(f"two systems are called {called!r}, the second in {display_name(path)}")
            outputs[called] = list(texts)
            check_parallel([first, (display_name(path), len(texts))])
    return refs, outputs, sources


def _parted(reading: Reading, form: str | None) -> tuple[Reading, Reading]:
    """How references are read, and how outputs are, which have a form of their own."""
    of_outputs = {key: role for key, role in reading.fields.items() if role == "output"}
    of_references = {key: role for key, role in reading.fields.items() if role != "output"}
    return replace(reading, fields=of_references), replace(reading, form=form, fields=of_outputs)


def _system_names(paths: Sequence[str]) -> list[str]:
    """A name for every system: its file name, or the path as given where two files have one name."""
    if repeated := [name_as_text(path) for path, count in Counter(paths).items() if count > 1]:
        raise UsageError(f"-i names {repeated[0]} twice", remedy="copy the file to score it against itself")
    # A file name need not be text; a system's name is written.
    paths = [without_secrets(name_as_text(path)) for path in paths]
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
    """References from one plain text file with tabs between those of a line (``sacrebleu --num-refs``)."""
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
    # As sacreBLEU does it: what is at the end of a line is cut first, and further tabs belong to the last reference.
    rows = [line.rstrip().split("\t", fields - 1) if fields > 1 else [line] for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != fields:
            raise DataError(
                f"{len(row)} references in the line, expected {fields} with tabs between them",
                file=display_name(path),
                line=number,
            )
    return ReferenceSet.from_texts(rows)


class _Copies:
    """Which systems equal which human reference, from the first line to the last."""

    def __init__(self) -> None:
        self._equal: dict[str, list[bool]] = {}
        self._segments = self._several = 0

    def add(self, segments: Sequence[Segment], texts: Mapping[str, Sequence[str]]) -> None:
        """Compare texts, as they are in the files."""
        humans = [[ref.text for ref in segment.originals] for segment in segments]
        self._several = max([self._several, *map(len, humans)])
        for name, lines in texts.items():
            equal = self._equal.setdefault(name, [])
            # A reference that earlier segments do not have is not the same text.
            equal += [not self._segments] * (self._several - len(equal))
            for place, still in enumerate(equal):
                equal[place] = still and all(
                    place < len(refs) and refs[place] == line for refs, line in zip(humans, lines, strict=True)
                )
        self._segments += len(segments)

    def tell(self, say: Say) -> None:
        """Say which these are."""
        for name, equal in self._equal.items():
            for number, still in enumerate(equal, 1):
                if still:
                    which = "the reference" if self._several == 1 else f"reference {number}"
                    say("note", f"{name} equals {which} line for line: is it the output of a system?")


def tell_of_files(
    paths: Sequence[str], systems: Mapping[str, Sequence[str]], references: ReferenceSet, say: Say
) -> None:
    """Say which systems are the same text as a human reference, and which files start with a mark."""
    copies = _Copies()
    copies.add(references.segments, systems)
    copies.tell(say)
    _warn_byte_order_marks(paths, say)


def _warn_byte_order_marks(paths: Sequence[str], say: Say) -> None:
    """Say of each file that starts with a byte order mark that it is left out here, and not by sacreBLEU."""
    for path in paths:
        # A pipe can be read once only, and has been.
        if path != "-" and Path(path).is_file():
            with open_unpacked(path) as stream:
                if stream.read(3) == b"\xef\xbb\xbf":
                    left_out = "it is left out here, sacreBLEU counts it as text"
                    say("warning", f"{path} starts with a byte order mark: {left_out}")


def score_large(
    references: Sequence[str],
    systems: Sequence[str],
    reading: Reading,
    form: str | None,
    metrics: Mapping[str, Metric],
    ks: Sequence[int] | None,
    say: Say,
    test_of: Callable[[int], tuple[str | None, int | None]],
    **settings: Any,
) -> ScoreTable | None:
    """Score the files of a large set in bounded memory.

    Args:
        references: Files of references.
        systems: Files of outputs.
        reading: What these files do not say themselves.
        form: The form of the files of outputs.
        metrics: By name.
        ks: Numbers of added references.
        say: Told what people have to know of the files.
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
        names = _system_names(systems)
        of_references, of_outputs = _parted(reading, form)
        opened = open_references(references, stack, of_references)
        outputs: dict[str, Iterator[str]] = {}
        for name, path in zip(names, systems, strict=True):
            lines = open_plain_outputs(path, stack, of_outputs)
            if lines is None:  # other forms are read as a whole
                return None
            outputs[name] = lines

        def stretches() -> Iterator[Stretch]:
            copies, total, read = _Copies(), 0, Counter(dict.fromkeys(outputs, 0))
            while segments := tuple(islice(opened.segments, SEGMENTS)):
                texts = {name: list(islice(lines, len(segments))) for name, lines in outputs.items()}
                total += len(segments)
                read.update({name: len(found) for name, found in texts.items()})
                if any(count < total for count in read.values()):
                    break
                copies.add(segments, texts)
                yield Stretch(ReferenceSet(segments, opened.meta), texts)
            # Where one ends before the others, those are only counted.
            total += sum(1 for _ in opened.segments)
            for (name, lines), path in zip(outputs.items(), systems, strict=True):
                read[name] += sum(1 for _ in lines)
                check_parallel([(display_name(references[0]), total), (display_name(path), read[name])])
            copies.tell(say)
            _warn_byte_order_marks([*references, *systems], say)

        test, trials = test_of(len(systems))
        return score_streamed(stretches(), metrics, ks, test=test, trials=trials, total=_lines(files[-1]), **settings)


def _lines(file: Path) -> int:
    """How many lines an unpacked file has; 0 of one that is packed."""
    if file.suffix in (".gz", ".xz"):
        return 0
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))

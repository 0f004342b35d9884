"""Large sets of ``polyref score``: references and plain outputs of systems side by side, in stretches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final

from polyref.cli.files.systems import note_of_copy, system_names, warn_byte_order_marks
from polyref.formats import Reading, open_plain_outputs, open_references
from polyref.metrics.base import Metric
from polyref.metrics.streamed import Stretch, score_streamed, streams
from polyref.metrics.table import ScoreTable
from polyref.references import ReferenceSet, Segment
from polyref.textfiles import check_parallel, display_name

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

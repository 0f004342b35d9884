"""Lists of candidates that were made elsewhere, from files: matched to the references by id or by line."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from polyref.augment.inputs import Inputs
from polyref.augment.select import Candidate
from polyref.augment.sources import Proposed, Proposing, Source, paraphrased, rounded
from polyref.errors import DataError, UsageError
from polyref.formats import segment_line
from polyref.formats.base import Record
from polyref.formats.normal import parse_segment
from polyref.segments import Segment

#: Longest part of a text in a message.
_SHOWN: Final = 60


class Listed(Source):
    """Candidates from one file in any form that holds paraphrases, or from plain files, one candidate a line each.

    A file that names segments by ids of its own is matched by id, in any order, and may leave segments out. All others,
    and one that only counts its lines where no reference has such an id, are matched by line, and have as many lines
    as the references. Where a file holds the text that was paraphrased, it
    must be a reference of that segment.

    Args:
        files: One file; or plain text files, the candidates of rank 0, 1, ...
        references: What they are candidates for.
        stack: Closes what is opened.
        kind: What plain texts become: ``paraphrase``, or ``pseudo`` where they are the outputs of systems.
    """

    def __init__(self, files: Sequence[Inputs], references: Inputs, stack: ExitStack, kind: str = "paraphrase") -> None:
        self.decoding = "given" if kind == "paraphrase" else "peers"
        self._readers = [_Reader(file, references, rank, kind, stack) for rank, file in enumerate(files)]
        named = [item for file in files for item in file.files]
        self.signature = "+".join(f"{item['name']}|sha:{item['sha256'][:12]}" for item in named)
        meta = files[0].meta
        self.facts = {"lists": [{**item, **({"meta": meta} if meta else {})} for item in named]}

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """See :class:`~polyref.augment.sources.Source`."""
        return partial(self._proposed, segments, start)

    def _proposed(self, segments: Sequence[Segment], start: int) -> list[Proposed]:
        found: list[list[Candidate]] = [[] for _ in segments]
        for reader in self._readers:
            for place, segment in enumerate(segments):
                found[place] += reader.candidates(segment, start + place)
        return [Proposed(tuple(sorted(one, key=lambda one: (one.rank, one.of)))) for one in found]


def open_lists(paths: Sequence[str | Path], references: Inputs, stack: ExitStack) -> list[Listed]:
    """Files of candidates: each is a list of its own, but plain text files are one list together.

    Args:
        paths: In the order of their ranks, where they are plain.
        references: What they are candidates for.
        stack: Closes them.
    """
    files = [stack.enter_context(Inputs([path], whole=True)) for path in paths]
    plain = [file for file in files if file.plain]
    groups = [plain if file.plain else [file] for file in files if not file.plain or file is plain[0]]
    return [Listed(group, references, stack) for group in groups]


def open_peers(paths: Sequence[str | Path], references: Inputs, stack: ExitStack) -> Listed:
    """Outputs of a fixed pool of systems, as pseudo-references.

    Args:
        paths: Plain text files, one output a line, in the order in which they become references.
        references: The references of the same segments.
        stack: Closes them.
    """
    files = [stack.enter_context(Inputs([path], whole=True)) for path in paths]
    for file in files:
        if not file.plain:
            raise UsageError(f"{file.names[0]} holds references, expected plain text: one output of a system a line")
    return Listed(files, references, stack, "pseudo")


class _Reader:
    """One file, read along with the references."""

    def __init__(self, file: Inputs, references: Inputs, rank: int, kind: str, stack: ExitStack) -> None:
        self._file = file
        self._references = references
        self._rank = rank
        self._kind = kind
        self._name = file.files[0]["name"]
        self._shelf: _Shelf | None = None
        self._rows: Iterator[Segment] = iter(())
        self._next = 0
        by_line = not file.named or (len(file) == len(references) and self._same_ids())
        # Line numbers, as `polyref paraphrase` writes them, where the references have other ids.
        by_line = by_line or (file.numbered and not self._shares_ids())
        if by_line and len(file) != len(references):
            raise DataError(
                f"has {len(file)} segments, but the references have {len(references)}",
                file=file.names[0],
                remedy="a file without ids of its own needs one line a segment, in the same order",
            )
        if not by_line:
            self._shelf = _Shelf(file, stack)
        matched = found = 0
        for place, segment in enumerate(references.segments()):
            found += len(self.candidates(segment, place))
            matched += self._shelf is not None and self._shelf.find(segment.id) is not None
        if self._shelf is not None and matched < len(file):
            known = {segment.id for segment in references.segments()}
            place, name = next((n, one.id) for n, one in enumerate(file.segments()) if one.id not in known)
            raise self._fault(place, f"there is no segment {name!r} among the references")
        if not found:
            raise DataError("holds no candidates for these references", file=file.names[0])

    def _same_ids(self) -> bool:
        pairs = zip(self._file.segments(), self._references.segments(), strict=True)
        return all(one.id == other.id for one, other in pairs)

    def _shares_ids(self) -> bool:
        found = {segment.id for segment in self._file.segments()}
        return any(segment.id in found for segment in self._references.segments())

    def candidates(self, segment: Segment, place: int) -> list[Candidate]:
        """Those of one segment; quick where places follow each other."""
        if self._shelf is None:
            row, line = self._row(place), place
        else:
            there = self._shelf.find(segment.id)
            if there is None:
                return []
            line, row = there
        sources = paraphrased(segment)
        if self._file.plain:
            # It does not say which reference it paraphrases: it is compared with the first.
            text = row.refs[0].text
            if not sources or not text.strip():
                return []
            return [Candidate(text, sources[0], self._rank, None, generator=self._name, kind=self._kind)]
        of = self._places(segment, row, line)
        result = []
        for number, ref in enumerate(row.extras):
            # What is made of another paraphrase is compared with the reference, too.
            index = of[ref.of] if ref.of in of else sources[0] if sources else None
            if index is not None and index in sources:
                rank = number if ref.rank is None else ref.rank
                name = ref.generator or self._name
                cut = ref.extra.get("truncated") is True
                found = Candidate(ref.text, index, rank, rounded(ref.logprob), generator=name, kind=ref.kind)
                result.append(replace(found, truncated=True) if cut else found)
        return result

    def _places(self, segment: Segment, row: Segment, line: int) -> dict[int | None, int]:
        """Index of every reference that the file holds -> its index among the references of the segment."""
        there = {_bare(ref.text): index for index, ref in reversed([*enumerate(segment.refs)]) if ref.original}
        found: dict[int | None, int] = {}
        for index, ref in enumerate(row.refs):
            if not ref.original:
                continue
            if _bare(ref.text) not in there:
                theirs = next((one.text for one in segment.originals), None)
                expected = "has no reference" if theirs is None else f"is {_short(theirs)}"
                raise self._fault(line, f"the text is {_short(ref.text)}, but segment {segment.id} {expected}")
            found[index] = there[_bare(ref.text)]
        return found

    def _row(self, place: int) -> Segment:
        if place != self._next or not place:
            self._rows = islice(self._file.segments(), place, None)
        self._next = place + 1
        return next(self._rows)

    def _fault(self, place: int, message: str) -> DataError:
        return DataError(
            message,
            file=self._file.names[0],
            line=self._file.line_of(place),
            remedy="candidates need the ids or the order of the references they were made from",
        )


def _bare(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


class _Shelf:
    """The segments of a file by id, on disk: a file of any size, in any order, in bounded memory."""

    def __init__(self, file: Inputs, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="polyref-"))
        base = sqlite3.connect(Path(folder) / "candidates.sqlite", isolation_level=None)
        self._base = stack.enter_context(closing(base))
        self._base.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE rows (id TEXT PRIMARY KEY, place INTEGER, content TEXT) WITHOUT ROWID"
        )
        self._base.execute("BEGIN")
        self._base.executemany(
            "INSERT INTO rows VALUES (?, ?, ?)",
            ((segment.id, place, segment_line(segment)) for place, segment in enumerate(file.segments())),
        )

    def find(self, name: str) -> tuple[int, Segment] | None:
        """Place in the file and content of a segment."""
        query = "SELECT place, content FROM rows WHERE id = ?"
        row: tuple[int, str] | None = self._base.execute(query, (name,)).fetchone()
        return None if row is None else (row[0], parse_segment(Record.parse(row[1], "", row[0]), name))

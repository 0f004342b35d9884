"""Lists of candidates that were made elsewhere: matched to the references by id or by line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from polyref.augment.candidates import Candidate, Proposed, Proposing, Source, paraphrased, rounded
from polyref.augment.inputs import Given, Inputs, Rows
from polyref.errors import DataError, UsageError
from polyref.formats import Reading
from polyref.paraphrase.rewriting.options import GENERATORS
from polyref.paraphrase.tidying import tidied
from polyref.references import Place, Reference, ReferenceSet, Segment
from polyref.values import list_of

#: Longest part of a text in a message.
_SHOWN: Final = 60
#: What is one list by itself.
_LIST: Final = (str, Path, ReferenceSet)


class Listed(Source):
    """Candidates from one file in any form that holds paraphrases, or from plain files, one candidate a line each.

    A file that names segments by ids of its own is matched by id, in any order, and may leave segments out. All others,
    and one that only counts its lines where no reference has such an id, are matched by line, and have as many lines as
    the references. Where a file holds the text that was paraphrased, it must be a reference of that segment.
    """

    def __init__(self, files: Sequence[Rows], references: Rows, kind: str = "paraphrase") -> None:
        self.decoding = "given" if kind == "paraphrase" else "peers"
        self._readers = [_Reader(file, references, rank, kind) for rank, file in enumerate(files)]
        # Of systems, nobody can have more.
        self.longest = sum(reader.longest for reader in self._readers) if kind == "paraphrase" else None
        named = [item for file in files for item in file.files]
        self.signature = "+".join(f"{item['name']}|sha:{item['sha256'][:12]}" for item in named)
        meta = files[0].meta
        why = {"good-writer": "lists without scores", "small-model": "lists with scores"}
        self.needs = (
            {"good-writer": "peers"}
            if kind == "pseudo"
            else {need: why[need] for reader in self._readers for need in reader.needs}
        )
        self.facts = {"lists": [{**item, **({"meta": meta} if meta else {})} for item in named]}

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """Nothing is waited for."""
        return partial(self._proposed, segments, start)

    def _proposed(self, segments: Sequence[Segment], start: int) -> list[Proposed]:
        found: list[list[Candidate]] = [[] for _ in segments]
        for reader in self._readers:
            for place, segment in enumerate(segments):
                found[place] += reader.candidates(segment, start + place)
        return [Proposed(tuple(sorted(one, key=lambda one: (one.rank, one.of)))) for one in found]


def open_lists(
    given: Sequence[str | Path | ReferenceSet], references: Rows, stack: ExitStack, pair: str | None = None
) -> list[Listed]:
    """Files and sets of candidates: each is a list of its own, but plain text files are one list, in this order of
    ranks.
    """
    rows: list[Rows] = []
    for number, one in enumerate(given):
        if isinstance(one, ReferenceSet):
            rows.append(Given(one, f"candidates[{number}]"))
        else:
            rows.append(stack.enter_context(Inputs([one], Reading(pair=pair), whole=True)))
    plain = [file for file in rows if file.plain]
    groups = [plain if file.plain else [file] for file in rows if not file.plain or file is plain[0]]
    return [Listed(group, references) for group in groups]


def as_lists(candidates: Any) -> list[str | Path | ReferenceSet]:
    """What :func:`open_lists` takes, from what a caller has: a file, a set or lists of texts, or a list of several."""
    given = [candidates] if isinstance(candidates, _LIST) else list_of(candidates)
    if not isinstance(given, Sequence):
        raise UsageError(f"`candidates` is of type {type(given).__name__}, expected a file, a set, or a list of them")
    if given and all(_are_texts(one) for one in given):
        given = [given]  # the candidates of every segment
    return [one if isinstance(one, _LIST) else _one_list(one, f"`candidates`[{n}]") for n, one in enumerate(given)]


def _are_texts(values: Any) -> bool:
    values = list_of(values)
    texts = isinstance(values, Sequence) and not isinstance(values, (str, bytes))
    return texts and all(text is None or isinstance(text, str) for text in values)


def _one_list(rows: Any, name: str) -> ReferenceSet:
    """The candidates of every segment, best first; None stands for one that is absent."""
    if isinstance(rows, bytes) or not isinstance(rows := list_of(rows), Sequence):
        raise UsageError(
            f"{name} is of type {type(rows).__name__}, expected the candidates of every segment, or a path"
        )
    segments = []
    for place, texts in enumerate(rows):
        if not _are_texts(texts):
            raise UsageError(f"{name}[{place}] is {texts!r}, expected the list of that segment's candidates")
        refs = [Reference(text, "paraphrase", rank=n) for n, text in enumerate(list_of(texts)) if text is not None]
        segments.append(Segment(Place(place + 1), tuple(refs)))
    return ReferenceSet(tuple(segments))


def open_peers(paths: Sequence[str | Path], references: Rows, stack: ExitStack) -> Listed:
    """Outputs of a fixed pool of systems, plain text files, as pseudo-references in this order."""
    files = [stack.enter_context(Inputs([path], whole=True)) for path in paths]
    for file in files:
        if not file.plain:
            raise UsageError(f"{file.names[0]} holds references, expected plain text: one output of a system a line")
    return Listed(files, references, "pseudo")


class _Reader:
    """One file, read along with the references."""

    def __init__(self, file: Rows, references: Rows, rank: int, kind: str) -> None:
        self._file = file
        self._rank = rank
        self._kind = kind
        self._name = file.files[0]["name"]
        self.needs: set[str] = set()
        same = len(file) == len(references)
        self._by_line = (
            not file.named
            or (same and all(one.id == two.id for one, two in zip(file.segments(), references.segments(), strict=True)))
            # Line numbers, as `polyref paraphrase` writes them, where the references have other ids.
            or (file.numbered and all(file.place_of(one.id) is None for one in references.segments()))
        )
        if self._by_line and not same:
            raise DataError(
                f"has {len(file)} segments, but the references have {len(references)}",
                file=file.names[0],
                remedy="a file without ids of its own needs one line a segment, in the same order",
            )
        matched = found = self.longest = 0
        for place, segment in enumerate(references.segments()):
            there = self.candidates(segment, place)
            found += len(there)
            self.longest = max(self.longest, len(there))
            self.needs.update(one.need for one in there)
            matched += not self._by_line and file.place_of(segment.id) is not None
        if not self._by_line and matched < len(file):
            known = {segment.id for segment in references.segments()}
            place, name = next((n, one.id) for n, one in enumerate(file.segments()) if one.id not in known)
            raise self._fault(place, f"there is no segment {name!r} among the references")
        if not found:
            raise DataError("holds no candidates for these references", file=file.names[0])

    def candidates(self, segment: Segment, place: int) -> list[Candidate]:
        """Those of one segment."""
        line = place if self._by_line else self._file.place_of(segment.id)
        if line is None:
            return []
        row = self._file[line]
        sources = paraphrased(segment)
        if self._file.plain:
            # It does not say which reference it paraphrases: it is compared with the first.
            text = row.refs[0].text
            if not sources or not text.strip():
                return []
            found = Candidate(text, sources[0], self._rank, None, generator=self._name, kind=self._kind)
            return [_as_needed(found, segment)]
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
                result.append(_as_needed(replace(found, truncated=cut), segment))
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

    def _fault(self, place: int, message: str) -> DataError:
        return DataError(
            message,
            file=self._file.names[0],
            line=self._file.line_of(place),
            remedy="candidates need the ids or the order of the references they were made from",
        )


def _as_needed(candidate: Candidate, segment: Segment) -> Candidate:
    """With the filter that its writer needs; what a list put around what a good one wrote is taken off."""
    if need_of(candidate.score, candidate.generator) == "small-model":
        return candidate
    bare = tidied(candidate.text, segment.refs[candidate.of].text) if candidate.kind == "paraphrase" else candidate.text
    return replace(candidate, text=bare, need="good-writer")


def need_of(score: float | None, generator: str | None) -> str:
    """The filter that a writer needs: one that gives scores, which are those of a search, is a small model.

    Whoever writes without them, or is a language model that was asked, is taken to write well.
    """
    asked = (generator or "").startswith(tuple(f"{name}:" for name in GENERATORS))
    return "small-model" if score is not None and not asked else "good-writer"


def _bare(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")

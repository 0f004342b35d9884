"""Everything that is said of a reference set: counts, diversity, refusals and examples to read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal

from polyref import __version__
from polyref.augment.candidates import Dropped
from polyref.augment.filters import NEEDS, FilterChain, filter_chain
from polyref.augment.lists import need_of
from polyref.errors import DataError
from polyref.eval.inspection.counts import Counts, Diversity, base_of, sampled
from polyref.json_files import Record
from polyref.metrics.copies import Copies, Nearness, plain_copies, plain_originals
from polyref.metrics.ngram.diversity import UNSPACED
from polyref.paraphrase.loading import language_of
from polyref.references import Reference, ReferenceSet, Segment
from polyref.textfiles import display_name, iter_lines

#: A word, a character of a script without spaces, or a mark, with the white space after it.
_TOKEN: Final = re.compile(rf"(?:[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’][^\W{UNSPACED}]+)*|\S)\s*")


@dataclass(frozen=True)
class Piece:
    """A part of two texts.

    Attributes:
        change: ``same`` is in both, ``gone`` in the first alone, ``new`` in the second alone.
        text: The part, with the white space inside but none at its ends.
        space: White space after it.
    """

    change: Literal["same", "gone", "new"]
    text: str
    space: str = ""


def differences(before: str, after: str) -> list[Piece]:
    """Both texts as one sequence of pieces: what is gone stands before what came in its place.

    Without those that are ``new``, the pieces are the words of the first text; without those ``gone``, of the second.
    """
    old, new = _TOKEN.findall(before.strip()), _TOKEN.findall(after.strip())
    pieces: list[Piece] = []
    for change, i, i_end, j, j_end in _blocks(old, new):
        if change == "equal":
            pieces += _piece("same", [*new[j : j_end - 1], max(old[i_end - 1], new[j_end - 1], key=len)])
        else:
            pieces += _piece("gone", old[i:i_end])
            pieces += _piece("new", new[j:j_end])
    return pieces


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """How to come from one list of tokens to the other; a lone mark between two changes is part of them."""
    bare, other = ([token.strip() for token in tokens] for tokens in (old, new))
    found = list(SequenceMatcher(None, bare, other, autojunk=False).get_opcodes())
    merged: list[tuple[str, int, int, int, int]] = []
    for place, (change, i, i_end, j, j_end) in enumerate(found):
        between = 0 < place < len(found) - 1
        if change == "equal" and between and not any(token.isalnum() for token in bare[i:i_end]):
            change = "replace"
        if merged and change != "equal" and merged[-1][0] != "equal":
            _, i, _, j, _ = merged.pop()
            change = "replace"
        merged.append((change, i, i_end, j, j_end))
    return merged


def _piece(change: Literal["same", "gone", "new"], tokens: Sequence[str]) -> list[Piece]:
    text = "".join(tokens)
    bare = text.rstrip()
    return [Piece(change, bare, text[len(bare) :])] if text else []


@dataclass(frozen=True)
class Added:
    """An added reference.

    Attributes:
        reference: With its kind, generator and scores.
        pieces: The reference it was made from and its own text as one; its text alone where that is not known.
        fault: What is wrong with it; empty where nothing was found.
    """

    reference: Reference
    pieces: Sequence[Piece]
    fault: str = ""


@dataclass(frozen=True)
class Example:
    """A segment to read; of what was added, those with a fault come first."""

    segment: Segment
    added: Sequence[Added]


#: Faults that mislead nobody: such a reference only counts twice.
_HARMLESS: Final = frozenset({"copy", "duplicate"})


class Faults:
    """What is wrong with references: ``empty``, or why the filter that their writer needs would refuse them now.

    Paraphrases are compared with what they were made from; of outputs and translations, only copies and repeats are
    told. Without a language that the header or the texts tell, what needs one is not checked.
    """

    def __init__(self, part: Sequence[Segment], meta: Mapping[str, Any]) -> None:
        try:
            lang = language_of(part, meta=meta)[0]
        except DataError:
            lang = ""
        self._chain = FilterChain("", by_need={need: filter_chain(need, lang) for need in NEEDS})

    def of(self, segment: Segment) -> dict[int, str]:
        """Place of a reference -> its fault."""
        found = {}
        offers = self._chain.start(ref.text for ref in segment.originals if ref.text.strip())
        for place, ref in enumerate(segment.refs):
            base = base_of(ref, segment)
            compared = ref.kind == "paraphrase" and base is not None and base.text.strip()
            need = need_of(ref.logprob, ref.generator) if compared else ""
            if not ref.text.strip():
                found[place] = "empty"
            elif not ref.original and (reason := offers.offer(base.text if base else "", ref.text, need=need)):
                found[place] = re.sub(r"[\d.-]+$", "", reason)  # thresholds are no fault
        return found


def examples(
    references: ReferenceSet, part: Sequence[Segment], places: Sequence[int], faults: Faults, number: int, seed: int
) -> tuple[list[Example], Counter[str]]:
    """Segments to read, and how often each fault is in a part of the set.

    Those of the part with a fault come first, and of these, those with more than copies and repeats. The others are
    random: of the ``places`` of segments that have added references, if there are any.
    """
    every = [(segment, found) for segment in part if (found := faults.of(segment))]
    chosen: list[Segment] = []
    for first in (True, False):
        alike = [segment for segment, found in every if (not _HARMLESS.issuperset(found.values())) is first]
        chosen += sampled(alike, number - len(chosen), seed)
    there = {segment.id for segment in chosen}
    others = [references[place] for place in sampled(places or range(len(references)), number, seed)]
    chosen += [one for one in others if one.id not in there][: number - len(chosen)]
    counted = Counter(one for _, found in every for one in found.values())
    return [_example(segment, faults.of(segment)) for segment in chosen], counted


def _example(segment: Segment, faults: Mapping[int, str]) -> Example:
    added = []
    for place, ref in enumerate(segment.refs):
        if not ref.original:
            base = base_of(ref, segment)
            pieces = differences(base.text, ref.text) if base else [Piece("same", ref.text)]
            added.append(Added(ref, pieces, faults.get(place, "")))
    return Example(segment, sorted(added, key=lambda one: (not one.fault, one.fault in _HARMLESS)))


@dataclass(frozen=True)
class Refusal:
    """One reason.

    Attributes:
        reason: The check that refused.
        count: Candidates that it refused.
        example: One of them against the reference it was made from; None where that is not in the set.
    """

    reason: str
    count: int
    example: Sequence[Piece] | None


def refusals(references: ReferenceSet, dropped: Sequence[Dropped], seed: int) -> list[Refusal]:
    """Every reason with its count and an example, most frequent first."""
    reasons: dict[str, list[Dropped]] = {}
    for one in dropped:
        reasons.setdefault(one.reason, []).append(one)
    chosen = {reason: sampled(every, 1, seed)[0] for reason, every in reasons.items()}
    wanted = {one.id for one in chosen.values()}
    segments = {segment.id: segment for segment in references if segment.id in wanted} if wanted else {}
    found = []
    for reason, one in chosen.items():
        segment = segments.get(one.id)
        base = segment.refs[one.of] if segment is not None and 0 <= one.of < len(segment.refs) else None
        pieces = None if base is None else differences(base.text, one.text)
        found.append(Refusal(reason, len(reasons[reason]), pieces))
    return sorted(found, key=lambda refusal: (-refusal.count, refusal.reason))


def read_dropped(path: str | Path) -> list[Dropped]:
    """Read the file that ``polyref augment --dropped`` wrote."""
    name = display_name(path)
    found = []
    for number, line in enumerate(iter_lines(path), 1):
        record = Record.parse(line, name, number)
        text, reason = record.text("text"), record.text("reason")
        if text is None or reason is None:
            record.fail(
                'no "text" or no "reason", expected a refused candidate', "name a file that `polyref augment` wrote"
            )
        found.append(
            Dropped(record.identifier(str(number)), record.index("of") or 0, record.index("rank") or 0, text, reason)
        )
    return found


@dataclass(frozen=True)
class Measures:
    """What is known of a reference set.

    Attributes:
        name: What people call it: the name of its file.
        segments: Number of segments.
        counts: Counted over the whole set.
        runs: What the header says of every run that added references: generator, decoding, k, filters, ...
        diversity: Of the human and of the added references, on ``sampled`` segments.
        sampled: Segments that diversity was measured on, and faults were looked for in: a random part of a large set.
        refusals: Why candidates were refused, most frequent first; None where nothing says it.
        examples: Segments to read: those with a fault first, then random ones.
        faults: Fault -> references that have it, most frequent first, of the ``sampled`` segments.
        tokenize: How texts were cut for diversity: sacreBLEU's ``13a``, or ``char``.
        seed: Of everything random.
        copies: Copies of systems' outputs among the added references; None where no outputs were given.
        originals: How near outputs are to the original references, the nearest to each first; likewise.
    """

    name: str
    segments: int
    counts: Counts
    runs: Sequence[Mapping[str, Any]]
    diversity: Sequence[Diversity]
    sampled: int
    refusals: Sequence[Refusal] | None
    examples: Sequence[Example]
    faults: Mapping[str, int]
    tokenize: str
    seed: int
    copies: Sequence[Copies] | None = None
    originals: Sequence[Nearness] | None = None

    @property
    def signature(self) -> str:
        """What the numbers depend on, apart from the set."""
        part = f"sample:{self.sampled}|" if self.sampled < self.segments else ""
        return f"inspection|{part}seed:{self.seed}|tok:{self.tokenize}|polyref:{__version__}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row with everything, as plain values; None where a number is not defined."""
        row: dict[str, Any] = {
            "name": self.name,
            "segments": self.segments,
            **asdict(self.counts),
            "runs": [dict(run) for run in self.runs],
            "diversity": [asdict(one) for one in self.diversity],
            "sampled": self.sampled,
            "refusals": self.refusals and [{"reason": one.reason, "count": one.count} for one in self.refusals],
            **({} if self.copies is None else {"circular": plain_copies(self.copies)}),
            **({} if self.originals is None else {"originals": plain_originals(self.originals)}),
            "faults": dict(self.faults),
            "examples": [
                {
                    "id": one.segment.id,
                    "source": one.segment.source,
                    "references": [ref.text for ref in one.segment.originals],
                    "added": [added.reference.text for added in one.added],
                    "faults": [added.fault or None for added in one.added],
                }
                for one in self.examples
            ],
        }
        return [_plain(row)]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value

"""Everything that is said of a reference set: counts, diversity, refusals and examples to read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal

from polyref import __version__
from polyref.augment.candidates import Dropped
from polyref.eval.inspection.counts import Counts, Diversity, base_of, sampled
from polyref.json_files import Record
from polyref.metrics.copies import Copies, Nearness, plain_copies, plain_originals
from polyref.metrics.ngram.diversity import UNSPACED
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
    """

    reference: Reference
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class Example:
    """A segment to read."""

    segment: Segment
    added: Sequence[Added]


def examples(references: ReferenceSet, number: int, seed: int) -> list[Example]:
    """Random segments, of those that have added references if there are any."""

    def added(ref: Reference, segment: Segment) -> Added:
        base = base_of(ref, segment)
        return Added(ref, differences(base.text, ref.text) if base else [Piece("same", ref.text)])

    there = [segment for segment in references if segment.extras] or list(references)
    return [Example(one, [added(ref, one) for ref in one.extras]) for one in sampled(there, number, seed)]


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
    segments = {segment.id: segment for segment in references} if dropped else {}
    found = []
    for reason, every in reasons.items():
        (one,) = sampled(every, 1, seed)
        segment = segments.get(one.id)
        base = segment.refs[one.of] if segment is not None and 0 <= one.of < len(segment.refs) else None
        pieces = None if base is None else differences(base.text, one.text)
        found.append(Refusal(reason, len(every), pieces))
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
        sampled: Segments that diversity was measured on: a random part of a large set.
        refusals: Why candidates were refused, most frequent first; None where nothing says it.
        examples: Random segments.
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
            "examples": [
                {
                    "id": one.segment.id,
                    "source": one.segment.source,
                    "references": [ref.text for ref in one.segment.originals],
                    "added": [added.reference.text for added in one.added],
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

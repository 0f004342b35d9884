"""The candidates that a filter refused, as ``polyref augment --dropped`` wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyref.augment.selection import Dropped
from polyref.eval.inspection.differences import Piece, differences
from polyref.eval.inspection.sampling import sampled
from polyref.json_files import Record
from polyref.references import ReferenceSet
from polyref.textfiles import display_name, iter_lines


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

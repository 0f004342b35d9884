"""Everything that is said of a reference set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from polyref import __version__
from polyref.eval.inspection.counts import Counts
from polyref.eval.inspection.diversity import Diversity
from polyref.eval.inspection.examples import Example
from polyref.eval.inspection.refusals import Refusal
from polyref.metrics.copies import Copies, Nearness, plain_copies, plain_originals


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
        row = {
            "name": self.name,
            "segments": self.segments,
            **asdict(self.counts),
            "runs": [dict(run) for run in self.runs],
            "diversity": [asdict(one) for one in self.diversity],
            "sampled": self.sampled,
            "refusals": None
            if self.refusals is None
            else [{"reason": one.reason, "count": one.count} for one in self.refusals],
            **({} if self.copies is None else {"circular": plain_copies(self.copies)}),
            **({} if self.originals is None else {"originals": plain_originals(self.originals)}),
            "examples": [
                {"id": one.segment.id, "source": one.segment.source,
                 "references": [ref.text for ref in one.segment.originals],
                 "added": [added.reference.text for added in one.added]}
                for one in self.examples
            ],
        }  # fmt: skip
        return [_plain(row)]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value

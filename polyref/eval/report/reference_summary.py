"""What the references are: how many, how long, how many say the same, and a few of them to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from polyref.eval.evaluation import Evaluation
from polyref.references import Segment

#: Segments to read, spread evenly over the test set.
SAMPLES: Final = 3


@dataclass(frozen=True)
class Sample:
    """One segment, picked by its place alone.

    Attributes:
        number: Position in the test set, from 1.
        source: Source text, or None.
        references: Human references.
        added: Added references that the largest k uses.
    """

    number: int
    source: str | None
    references: Sequence[str]
    added: Sequence[str]


@dataclass(frozen=True)
class ReferenceSummary:
    """The references of one evaluation set.

    Attributes:
        place: Set, language pair and generator.
        segments: Number of segments.
        human: Fewest and most human references of a segment.
        added: Fewest and most added references of a segment that the largest k uses.
        human_length: Mean length of the human references in characters; NaN without any.
        added_length: The same of the added ones.
        repeated: Share of added references, 0 to 1, that are equal to a reference before them; NaN without any.
        samples: Some of them.
    """

    place: str
    segments: int
    human: tuple[int, int]
    added: tuple[int, int]
    human_length: float
    added_length: float
    repeated: float
    samples: Sequence[Sample]


def reference_summaries(evaluations: Sequence[Evaluation]) -> list[ReferenceSummary]:
    """One for every set, pair and generator of the evaluations that have texts."""
    found: dict[str, ReferenceSummary] = {}
    for one in evaluations:
        place = " ".join(filter(None, [one.set_name, one.pair, one.generator]))
        if one.references is not None and len(one.references) and place not in found:
            found[place] = _summary(place, one.references.segments, max(one.ks, default=0))
    return list(found.values())


def _summary(place: str, segments: Sequence[Segment], k: int) -> ReferenceSummary:
    human = [[ref.text for ref in segment.originals] for segment in segments]
    added = [[ref.text for ref in segment.extras[:k]] for segment in segments]
    every = sum(map(len, added))
    repeated = sum(
        len(new) - len(set(new) - set(given)) for given, new in zip(human, added, strict=True)
    )  # fmt: skip
    # The middles of as many equal parts.
    count = min(SAMPLES, len(segments))
    picked = [(2 * part + 1) * len(segments) // (2 * count) for part in range(count)]
    return ReferenceSummary(
        place,
        len(segments),
        _range(human),
        _range(added),
        _mean_length(human),
        _mean_length(added),
        repeated / every if every else float("nan"),
        [Sample(i + 1, segments[i].source or None, human[i], added[i]) for i in picked],
    )


def _range(texts: Sequence[Sequence[str]]) -> tuple[int, int]:
    return min(map(len, texts)), max(map(len, texts))


def _mean_length(texts: Sequence[Sequence[str]]) -> float:
    lengths = [len(text) for some in texts for text in some]
    return sum(lengths) / len(lengths) if lengths else float("nan")

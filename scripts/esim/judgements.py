"""Reading what ESIM learns from: judged outputs, or pairs of outputs of which people preferred one.

JSON lines, of one kind a run::

    {"ref": "...", "sys": "...", "score": 0.3}         a judgement; with "annotator": "..." where it is known
    {"ref": "...", "better": "...", "worse": "..."}    a relative ranking; with "weight": 0.5 where it counts less

Other keys, such as ``srcsent``, are left alone. Rows whose score is NaN or null are skipped.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.json_files import parse_json
from polyref.textfiles import display_name, iter_lines

#: Below this reliability, judgements teach nothing worth having.
RELIABLE: Final = 0.2


@dataclass(frozen=True)
class Judged:
    """An output that was judged. Higher scores are better; ``annotator`` is None where it is not told."""

    ref: str
    sys: str
    score: float
    annotator: str | None = None


@dataclass(frozen=True)
class Ranked:
    """Two outputs of which the first was preferred. ``weight`` is above 0."""

    ref: str
    better: str
    worse: str
    weight: float = 1.0


@dataclass(frozen=True)
class TrainingSet:
    """Rows of one kind: one of the two is empty.

    Attributes:
        judged: Judgements, one a (reference, output): the mean over annotators.
        ranked: Relative rankings.
        skipped: Rows without a score, or of an annotator whose scores are all the same.
        reliability: Correlation of two annotators' standardised scores of the same output, or None when unknown.
        repeated: Pairs of judgements that it rests on.
        contradicted: Relative rankings whose opposite is there too.
    """

    judged: tuple[Judged, ...]
    ranked: tuple[Ranked, ...]
    skipped: int = 0
    reliability: float | None = None
    repeated: int = 0
    contradicted: int = 0

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.judged) + len(self.ranked)

    @property
    def kind(self) -> str:
        """``judgements`` or ``rankings``."""
        return "judgements" if self.judged else "rankings"

    @property
    def rows(self) -> tuple[Judged | Ranked, ...]:
        """All rows."""
        return self.judged or self.ranked

    def references(self) -> list[str]:
        """The distinct references, in the order of their first row."""
        return list(dict.fromkeys(row.ref for row in self.rows))

    def texts(self) -> list[str]:
        """The distinct texts, in the order of their first row."""
        found: dict[str, None] = {}
        for judged in self.judged:
            found |= dict.fromkeys((judged.ref, judged.sys))
        for ranked in self.ranked:
            found |= dict.fromkeys((ranked.ref, ranked.better, ranked.worse))
        return list(found)

    def of(self, references: Iterable[str]) -> TrainingSet:
        """The rows of some references."""
        kept = frozenset(references)
        return TrainingSet(
            tuple(row for row in self.judged if row.ref in kept), tuple(row for row in self.ranked if row.ref in kept)
        )


def read_training(paths: Sequence[str | Path]) -> TrainingSet:
    """Read files of judgements or relative rankings.

    Judgements whose annotators are known are standardised for each annotator (mean 0, standard deviation 1), and
    averaged for each (reference, output), as is usual for direct assessments.

    Raises:
        DataError: A file cannot be read, a line is not such a row, or there is no row with a score.
        UsageError: Both kinds of row are there, or only some judgements name their annotator.
    """
    judged: list[Judged] = []
    ranked: list[Ranked] = []
    skipped = 0
    for path in paths:
        for number, line in enumerate(iter_lines(path), 1):
            row = _row(line, display_name(path), number)
            if isinstance(row, Ranked):
                ranked.append(row)
            elif math.isnan(row.score):
                skipped += 1
            else:
                judged.append(row)
    names = ", ".join(display_name(path) for path in paths)
    if judged and ranked:
        raise UsageError(f"{names} hold judgements and relative rankings", remedy="train on one kind at a time")
    if not judged and not ranked:
        raise DataError("no row with a score", file=names)
    if ranked:
        unique = tuple(dict.fromkeys(ranked))
        seen = {(row.ref, row.better, row.worse) for row in unique}
        against = sum((row.ref, row.worse, row.better) in seen for row in unique)
        return TrainingSet((), unique, contradicted=against)
    named = sum(row.annotator is not None for row in judged)
    if not named:
        return TrainingSet(_averaged(judged), (), skipped)
    if named < len(judged):
        raise UsageError(
            f"{names}: {len(judged) - named} of {len(judged)} judgements name no annotator, expected all or none"
        )
    standard = standardised(judged)
    if not standard:
        raise DataError("no annotator gave two different scores", file=names)
    reliable, repeated = reliability(standard)
    return TrainingSet(
        _averaged(standard), (), skipped + len(judged) - len(standard), reliability=reliable, repeated=repeated
    )


def standardised(judged: Iterable[Judged]) -> list[Judged]:
    """Judgements minus their annotator's mean, over the standard deviation. Annotators without any are left out."""
    by_annotator: dict[str | None, list[float]] = defaultdict(list)
    rows = list(judged)
    for row in rows:
        by_annotator[row.annotator].append(row.score)
    spread = {name: (float(np.mean(scores)), float(np.std(scores))) for name, scores in by_annotator.items()}
    return [
        Judged(row.ref, row.sys, (row.score - spread[row.annotator][0]) / spread[row.annotator][1], row.annotator)
        for row in rows
        if spread[row.annotator][1] > 1e-9
    ]


def reliability(judged: Iterable[Judged]) -> tuple[float | None, int]:
    """How well two annotators agree on one output.

    Returns:
        Pearson's correlation over all pairs of judgements of the same (reference, output) by two annotators, each
        pair in both orders, -1 to 1; None with fewer than three pairs or without any spread. The number of pairs.
    """
    items: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for row in judged:
        items[row.ref, row.sys].append(row)
    pairs = [
        (one.score, other.score)
        for rows in items.values()
        for place, one in enumerate(rows)
        for other in rows[place + 1 :]
        if one.annotator != other.annotator
    ]
    if len(pairs) < 3:
        return None, len(pairs)
    x, y = np.array([*pairs, *(pair[::-1] for pair in pairs)]).T
    if x.std() < 1e-9:
        return None, len(pairs)
    return float(np.corrcoef(x, y)[0, 1]), len(pairs)


def _averaged(judged: Iterable[Judged]) -> tuple[Judged, ...]:
    items: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in judged:
        items[row.ref, row.sys].append(row.score)
    return tuple(Judged(ref, output, float(np.mean(scores))) for (ref, output), scores in items.items())


def _row(line: str, name: str, number: int) -> Judged | Ranked:
    found = parse_json(line, name, number, finite=False)
    texts = ("ref", "better", "worse") if "better" in found else ("ref", "sys")
    for key in texts:
        if not isinstance(found.get(key), str):
            raise DataError(
                f"no text {key!r}",
                file=name,
                line=number,
                remedy='expected {"ref", "sys", "score"} or {"ref", "better", "worse"}',
            )
        if any("\ud800" <= character <= "\udfff" for character in found[key]):
            raise DataError(f"{key!r} holds half of a surrogate pair, which is no text", file=name, line=number)
    if "better" in found:
        weight = _number(found.get("weight", 1.0), "weight", name, number)
        if not weight > 0 or math.isinf(weight):
            raise DataError(f"weight {weight}, expected more than 0", file=name, line=number)
        return Ranked(found["ref"], found["better"], found["worse"], weight)
    if "score" not in found:
        raise DataError("no number 'score'", file=name, line=number)
    score = math.nan if found["score"] is None else _number(found["score"], "score", name, number)
    if math.isinf(score):
        raise DataError(f"score {score}, expected a finite number", file=name, line=number)
    annotator = found.get("annotator")
    return Judged(found["ref"], found["sys"], score, None if annotator is None else str(annotator))


def _number(value: Any, key: str, name: str, number: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{key} {value!r}, expected a number", file=name, line=number)
    try:
        return float(value)
    except OverflowError:
        raise DataError(f"{key} has {len(str(value))} digits, expected a number", file=name, line=number) from None

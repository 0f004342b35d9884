"""Segments that show what added references do: where a metric's order of the outputs moved most, for and against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.eval.evaluation import Evaluation
from polyref.eval.judgements.gold import Gold
from polyref.eval.statistics.correlation import darr_counts
from polyref.references import Reference

FloatArray = npt.NDArray[np.float64]

#: Segments shown where agreement rose, and as many where it fell.
SHOWN: Final = 3
#: Values of k shown in one table.
MOST_KS: Final = 7


@dataclass(frozen=True)
class Output:
    """One system's output of the segment.

    Attributes:
        system: Its name.
        text: The output.
        human: Human score; for rankings, outputs it beats minus outputs that beat it.
        scores: The metric's score of the output for every k shown; larger is better.
    """

    system: str
    text: str
    human: float
    scores: list[float]


@dataclass(frozen=True)
class Example:
    """One segment.

    Attributes:
        number: Position in the test set, from 1.
        metric: Whose scores are shown.
        ks: The values of k.
        agreement: Agreement with people within the segment, -1 to 1, for the first and the last k.
        source: Source text, or None.
        references: Human references.
        added: Added references that the largest k uses.
        outputs: Judged outputs, best for people first.
    """

    number: int
    metric: str
    ks: list[int]
    agreement: tuple[float, float]
    source: str | None
    references: list[str]
    added: list[Reference]
    outputs: list[Output]


def examples(evaluation: Evaluation, shown: int = SHOWN) -> list[Example]:
    """The segments whose agreement rose most and fell most from the first to the last k, by the first metric that has
    several k; none where there is no such metric or no judgement of segments.
    """
    chosen = [one for one in evaluation.series if one.resamples and len(evaluation.ends(one)) > 1]
    names = _judged(evaluation.gold)
    if not chosen or not names or evaluation.references is None:
        return []
    series = chosen[0]
    ks = _some(sorted({k for k in (*evaluation.ends(series), *evaluation.shown_ks(series)) if k is not None}))
    scores = {k: series.segment(names, k) for k in ks}
    first, last = scores[ks[0]], scores[ks[-1]]
    if first is None or last is None:
        return []
    before, after = _within(evaluation.gold, names, first), _within(evaluation.gold, names, last)
    change = after - before
    defined = np.flatnonzero(~np.isnan(change))
    # Many segments move equally far: those with more to order say more.
    weight = _orders(evaluation.gold, names, len(change))
    rising = sorted(defined, key=lambda i: (-change[i], -weight[i], i))[:shown]
    falling = sorted(defined, key=lambda i: (change[i], -weight[i], i))[:shown]
    picked = [i for i in rising if change[i] > 0] + [i for i in falling if change[i] < 0]
    return [
        _example(
            evaluation,
            series.metric,
            int(i),
            ks,
            names,
            np.stack([value for k in ks if (value := scores[k]) is not None]),
            (before[i], after[i]),
        )
        for i in picked
    ]


def _example(
    evaluation: Evaluation,
    metric: str,
    index: int,
    ks: list[int],
    names: list[str],
    scores: FloatArray,
    agreement: tuple[float, float],
) -> Example:
    assert evaluation.references is not None
    segment = evaluation.references[index]
    human = _human(evaluation.gold, names, index)
    outputs = [
        Output(name, evaluation.outputs[name][index], human[name], [float(value) for value in scores[:, row, index]])
        for row, name in enumerate(names)
        if name in human
    ]
    outputs.sort(key=lambda one: -one.human)
    return Example(
        index + 1,
        metric,
        ks,
        (float(agreement[0]), float(agreement[1])),
        segment.source or None,
        [ref.text for ref in segment.originals],
        list(segment.extras[: ks[-1]]),
        outputs,
    )


def _judged(gold: Gold) -> list[str]:
    return list(gold.pairs.systems) if gold.pairs is not None else list(gold.segment)


def _within(gold: Gold, names: list[str], scores: FloatArray) -> FloatArray:
    """Agreement within each segment, -1 to 1: (C - D) over the pairs that people order; NaN where they order none."""
    if gold.pairs is not None:
        counts = darr_counts(scores, gold.pairs)
        total = counts.concordant + counts.discordant + counts.tied
        return _ratio(counts.concordant - counts.discordant, total)
    human = np.stack([gold.segment[name] for name in names])
    i, j = np.triu_indices(len(names), 1)
    people = np.nan_to_num(np.sign(human[i] - human[j]))
    return _ratio((np.sign(scores[i] - scores[j]) * people).sum(axis=0), np.abs(people).sum(axis=0))


def _orders(gold: Gold, names: list[str], segments: int) -> FloatArray:
    """Number of pairs of outputs that people order in each segment."""
    if gold.pairs is not None:
        return np.bincount(gold.pairs.segment, minlength=segments).astype(np.float64)
    human = np.stack([gold.segment[name] for name in names])
    i, j = np.triu_indices(len(names), 1)
    ordered: FloatArray = (np.nan_to_num(human[i] - human[j]) != 0).sum(axis=0).astype(np.float64)
    return ordered


def _human(gold: Gold, names: list[str], index: int) -> dict[str, float]:
    if gold.pairs is None:
        return {name: float(gold.segment[name][index]) for name in names if not np.isnan(gold.segment[name][index])}
    here = gold.pairs.segment == index
    net: dict[str, float] = {}
    for better, worse in zip(gold.pairs.better[here], gold.pairs.worse[here], strict=True):
        net[names[better]] = net.get(names[better], 0.0) + 1
        net[names[worse]] = net.get(names[worse], 0.0) - 1
    return net


def _some(ks: Sequence[int]) -> list[int]:
    """At most ``MOST_KS`` values, the first and the last among them."""
    if len(ks) <= MOST_KS:
        return list(ks)
    places = np.unique(np.linspace(0, len(ks) - 1, MOST_KS).round().astype(int))
    return [ks[place] for place in places]


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)

"""Human judgements as statistics take them: who is judged, on which segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polyref.errors import DataError
from polyref.eval.judgements.gold import Gold
from polyref.eval.judgements.relative_rankings import RankingPairs
from polyref.eval.statistics.base import People
from polyref.eval.statistics.resampling import BoolArray, Bootstrap


@dataclass(frozen=True)
class Judged:
    """The judgements that a statistic needs, and whom they judge.

    Attributes:
        name: What rows call the judgement.
        systems: The systems, in the order of all arrays.
        people: The judgements.
        cells: How many judgements of outputs or pairs of them there are.
        segments: How many segments take part; None where there are no texts.
        over: Of scores of systems: the segments that they are over, None for all.
    """

    name: str
    systems: Sequence[str]
    people: People
    cells: int = 0
    segments: int | None = None
    over: BoolArray | None = None


def of_known(gold: Gold, known: BoolArray, systems: Sequence[str]) -> Gold:
    """Without judgements of unknown outputs: what has no text has no score to hold against them."""
    rows = {name: known[number] for number, name in enumerate(systems)}
    segment = {
        name: np.where(rows[name], scores, np.nan) if name in rows else scores for name, scores in gold.segment.items()
    }
    return replace(gold, segment={name: scores for name, scores in segment.items() if not np.isnan(scores).all()})


def check_known(pairs: RankingPairs, known: BoolArray, systems: Sequence[str]) -> None:
    """Refuse rankings of outputs that have no text."""
    rows = [list(systems).index(name) for name in pairs.systems]
    unknown = np.argwhere(pairs.cells(known.shape[1]) & ~known[rows])
    if len(unknown):
        system, segment = unknown[0]
        raise DataError(
            f"the relative rankings judge segment {segment + 1} of {pairs.systems[system]}, whose output is empty, "
            "which means unknown",
            remedy="add the output or leave the pair out",
        )


def of_systems(gold: Gold, known: BoolArray | None, systems: Sequence[str], bootstrap: Bootstrap) -> Judged:
    """Scores of systems.

    Args:
        gold: The judgements.
        known: Which systems (of ``systems``) have which segment's text; None where there are no texts.
        systems: The systems, in the order of ``known``.
        bootstrap: The redrawn test sets.
    """
    names = list(gold.system)
    human = np.array([gold.system[name] for name in names])
    kind = gold.system_name or gold.name
    if known is None:
        return Judged(kind, names, People(human, bootstrap=bootstrap))
    # All systems are scored on the same segments: those whose text is known for every one of them.
    over: BoolArray = np.logical_and.reduce(known[[list(systems).index(name) for name in names if name in systems]])
    segments = int(over.sum())
    if not segments:
        raise DataError("no segment has the outputs of all judged systems: no system-level scores")
    people = People(human, over, bootstrap)
    return Judged(kind, names, people, segments=segments, over=None if segments == len(over) else over)


def of_segments(gold: Gold, bootstrap: Bootstrap) -> Judged:
    """Scores of outputs."""
    names = list(gold.segment)
    human = np.stack([gold.segment[name] for name in names])
    judged = ~np.isnan(human)
    universe: BoolArray = np.logical_or.reduce(judged)
    people = People(human, universe, bootstrap)
    return Judged(gold.name, names, people, int(judged.sum()), int(universe.sum()))


def of_rankings(gold: Gold, pairs: RankingPairs, bootstrap: Bootstrap) -> Judged:
    """Which of two outputs is better."""
    universe: BoolArray = np.bincount(pairs.segment).astype(np.bool_)
    people = People(np.zeros(0), universe, bootstrap, pairs)
    return Judged(gold.name, pairs.systems, people, len(pairs), int(universe.sum()))

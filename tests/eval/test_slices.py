from __future__ import annotations

from pathlib import Path

import numpy as np

from polyref.eval.agreement import agreement
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.judged import top_systems
from polyref.eval.series import ComputedSeries
from polyref.eval.statistics.base import Bootstrap
from polyref.metrics.registry import get_metric

SYSTEMS = ["Alpha", "Beta.1", "Gamma-2"]


def test_top_systems() -> None:
    human = {"a": 1.0, "b": 3.0, "c": 2.0}
    assert top_systems(human, 2) == ["b", "c"]
    assert top_systems(human, 3) == ["b", "c", "a"]


def _series(minimal: Path) -> tuple[EvalSet, ComputedSeries]:
    evalset = EvalSet(minimal, "de-en")
    references = reference_set(evalset, ["refA"], minimal / "paraphrases/de-en.refA.jsonl")
    outputs = dict(zip(SYSTEMS, evalset.outputs(SYSTEMS), strict=True))
    return evalset, ComputedSeries(get_metric("chrf"), outputs, references, [0, 1])


def test_judgements_of_some_segments(minimal: Path) -> None:
    evalset, series = _series(minimal)
    mask = np.array([True, False, True, True, False])
    known = evalset.known(evalset.outputs(SYSTEMS))
    rows = {}
    for name in ("mqm", "darr"):
        gold = evalset.gold(name).within(mask)
        for row in agreement([series], gold, known=known & mask, systems=SYSTEMS, bootstrap=Bootstrap(0)):
            rows[row.statistic, row.k] = row
    assert rows["pearson", 0].segments == 3
    assert rows["kendall-tau-b", 0].n == 9
    assert rows["kendall-darr", 0].n == 4

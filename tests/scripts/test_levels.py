"""Tests that polyref recommends hold their level: of two equal things they find a difference in 5 % of the trials.

A smaller form of the table in docs/benchmarks.md, on made-up texts and scores. 400 trials of a test that holds its
level reject in .05 with a standard deviation of .011; the seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyref.metrics import get_metric
from polyref.references import ReferenceSet

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts" / "bench" / "quality"
TRIALS = 400
LOW, HIGH = 0.02, 0.08


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)


@pytest.mark.slow
def test_corpus_scores_of_two_systems() -> None:
    from parts.levels import corpus_trial, rejected

    rng = np.random.default_rng(1)
    words = np.array(["the", "a", "old", "new", "ship", "house", "sea", "hill", "left", "came", "by", "to"])
    references = [list(rng.choice(words, rng.integers(5, 20))) for _ in range(200)]
    outputs = {}
    for system, spoilt in (("good", 0.1), ("poor", 0.4)):
        changed = [np.where(rng.random(len(r)) < spoilt, rng.choice(words, len(r)), r) for r in references]
        outputs[system] = [" ".join(row) for row in changed]
    metric = get_metric("bleu")
    stats = metric.statistics(outputs, ReferenceSet.from_texts([[" ".join(row)] for row in references]), ks=[0])
    rates = rejected(lambda number: corpus_trial(metric, stats, number, 100, 200), TRIALS)
    assert all(LOW < rates[test] < HIGH for test in ("paired-ar", "paired-bs-shift")), rates
    # What the other one is recommended against, and that these trials can tell.
    assert rates["paired-bs"] > HIGH, rates


@pytest.mark.slow
def test_scores_of_outputs() -> None:
    from parts.levels import output_trial, rejected

    from polyref.eval.experiments.system_pairs import paired_t_p, rank_sum_p

    rng = np.random.default_rng(2)
    item = rng.normal(size=500)
    scores = np.stack([item + rng.normal(size=500), 1 + item + 2 * rng.normal(size=500)])
    assert paired_t_p(*scores) < 1e-3  # the two are not equal before their scores are exchanged
    rates = {
        test: rejected(lambda number, t=test: output_trial(scores, t, "p", number, 100), TRIALS)["p"]
        for test in (paired_t_p, rank_sum_p)
    }
    assert LOW < rates[paired_t_p] < HIGH
    # It takes the systems' scores as independent, though a hard segment is hard for both: it finds less than it could.
    assert rates[rank_sum_p] < HIGH


def test_redrawn_segments_tell_a_good_metric_from_a_poor_one() -> None:
    from parts.levels import bootstrap_difference

    rng = np.random.default_rng(0)
    human = rng.normal(size=(8, 1)) + rng.normal(size=(8, 60))
    good, poor = human + rng.normal(size=human.shape), 3 * rng.normal(size=human.shape) + 0.1 * human
    assert bootstrap_difference(good, poor, human, resamples=300, seed=1) < 0.01
    assert bootstrap_difference(poor, good, human, resamples=300, seed=1) > 0.99
    assert bootstrap_difference(good, good, human, resamples=50, seed=1) == 1.0


@pytest.mark.slow
def test_agreement_of_two_metrics() -> None:
    from parts.levels import agreement_trial, rejected, standard

    rng = np.random.default_rng(3)
    human = rng.normal(size=(12, 1)) + rng.normal(size=(12, 300))
    good, poor = (standard(human + noise * rng.normal(size=human.shape)) for noise in (1, 4))

    def of(scores: np.ndarray) -> object:
        return lambda chosen: scores[:, chosen].mean(axis=1)

    rates = rejected(lambda number: agreement_trial([good, poor], [of(good), of(poor)], human, number, 60, 99), TRIALS)
    for test in ("PERM-SYSTEMS", "Williams", "PERM-BOTH systems", "PERM-BOTH segments"):
        assert LOW < rates[f"{test}, outputs exchanged"] < HIGH, rates
    # Where metrics are for or against whole systems, what is recommended against does not hold its level.
    assert LOW < rates["PERM-SYSTEMS, systems exchanged"] < HIGH, rates
    assert LOW < rates["PERM-SYSTEMS, means of systems exchanged"] < HIGH, rates
    assert rates["PERM-BOTH systems, systems exchanged"] > HIGH, rates


@pytest.mark.slow
def test_verdicts_hold_their_level_for_outputs_and_for_systems() -> None:
    from parts.levels import VERDICTS, rejected, standard, verdict_trial

    from polyref.eval.statistics.named import SOFT_PAIRWISE_ACCURACY

    rng = np.random.default_rng(4)
    human = np.round(rng.normal(size=(12, 1)) + rng.normal(size=(12, 300)), 1)
    good, poor = (
        standard(human + 0.5 * rng.normal(size=(12, 1)) + noise * rng.normal(size=human.shape)) for noise in (1, 2)
    )
    rates = rejected(lambda number: verdict_trial([good, poor], human, number, 60, VERDICTS), TRIALS)
    rates |= rejected(lambda number: verdict_trial([good, poor], human, number, 12, [SOFT_PAIRWISE_ACCURACY]), 60)
    assert max(rates.values()) < HIGH, rates
    for how in ("outputs", "systems"):
        assert rates[f"kendall-without-ties (seg), {how} exchanged"] > 0.01, rates
    # A metric that is better for all systems is found in nearly every trial.
    from polyref.eval.statistics.base import People
    from polyref.eval.statistics.named import ACC23, KENDALL_WITHOUT_TIES
    from polyref.eval.statistics.significance import jackknife_p

    people = People(human)
    for statistic in (KENDALL_WITHOUT_TIES, ACC23):
        one, other = (statistic.without_each(scores, people) for scores in (good, poor))
        gain = statistic.against(people)(good) - statistic.against(people)(poor)
        assert one is not None and other is not None
        assert jackknife_p(float(gain[0]), one - other) < 0.025

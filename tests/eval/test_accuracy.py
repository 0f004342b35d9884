from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyref.eval.evaluation_table import fisher_average
from polyref.eval.statistics.base import Bootstrap, People
from polyref.eval.statistics.named import SOFT_PAIRWISE_ACCURACY, system_accuracy_rows
from polyref.eval.statistics.within_segments import SegmentPairs, tie_accuracy, tie_threshold

# Three systems, two segments. Segment 1: people tie a and b, c is worse; segment 2: a > b > c.
HUMAN = np.array([[3.0, 3.0], [3.0, 2.0], [1.0, 1.0]])
SCORES = np.array([[0.50, 0.9], [0.52, 0.4], [0.30, 0.45]])


def soft_pairwise_accuracy(scores: np.ndarray, human: np.ndarray, *, resamples: int = 1000, seed: int = 1) -> float:
    people = People(human, bootstrap=Bootstrap(resamples, seed=seed))
    return float(SOFT_PAIRWISE_ACCURACY.against(people)(scores)[0])


def _accuracy(scores: np.ndarray, human: np.ndarray, threshold: float) -> float:
    """Acc23 with a threshold, pair by pair."""
    shares = []
    for x, y in zip(scores.T, human.T, strict=True):
        pairs = [(x[i] - x[j], y[i] - y[j]) for i, j in itertools.combinations(np.flatnonzero(~np.isnan(y)), 2)]
        told = [(0.0 if abs(metric) <= threshold else np.sign(metric), np.sign(gold)) for metric, gold in pairs]
        if told:
            shares.append(np.mean([metric == gold for metric, gold in told]))
    return float(np.mean(shares))


def test_accuracy_with_ties_by_hand() -> None:
    # Without ties: segment 1 orders a-c and b-c rightly and misses the tie, 2/3; segment 2 has a-b and a-c, 2/3.
    assert _accuracy(SCORES, HUMAN, 0) == pytest.approx(2 / 3)
    # With .02 the tie of segment 1 is found: 3/3 and 2/3. (.05 would cost nothing more: b-c was wrong.)
    assert tie_threshold(SCORES, HUMAN) == pytest.approx(0.02)
    assert tie_accuracy(SegmentPairs.of(SCORES, HUMAN), None) == pytest.approx([5 / 6])
    # From .20 on b-c (.22) and a-c (.20) of segment 1 become ties and are wrong.
    assert _accuracy(SCORES, HUMAN, 0.21) == pytest.approx((2 / 3 + 2 / 3) / 2)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_calibration_finds_the_best_of_all_thresholds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    human = generator.integers(0, 3, size=(4, 5)).astype(float)
    human[generator.random(human.shape) < 0.2] = math.nan
    scores = np.round(generator.normal(size=human.shape), 1)
    (found,) = tie_accuracy(SegmentPairs.of(scores, human), None)
    if math.isnan(found):
        assert ((~np.isnan(human)).sum(axis=0) < 2).all()
        return
    differences = {0.0, *np.abs(scores[:, None] - scores[None, :]).ravel()}
    assert found == pytest.approx(max(_accuracy(scores, human, one) for one in differences), abs=1e-12)
    assert found == pytest.approx(_accuracy(scores, human, tie_threshold(scores, human)), abs=1e-12)


def test_missing_judgements_take_part_in_no_pair() -> None:
    human = HUMAN.copy()
    human[1, 0] = math.nan
    scores = SCORES.copy()
    scores[1, 0] = math.nan
    # Segment 1 has the pair a-c alone; no threshold is better than none.
    assert tie_threshold(scores, human) == 0
    assert tie_accuracy(SegmentPairs.of(scores, human), None) == pytest.approx([(1 + 2 / 3) / 2])
    with pytest.raises(ValueError, match="no score"):
        tie_accuracy(SegmentPairs.of(scores, HUMAN), None)
    nothing = np.full_like(human, math.nan)
    assert tie_threshold(scores, nothing) == 0
    assert np.isnan(tie_accuracy(SegmentPairs.of(scores, nothing), None)).all()


def test_system_accuracy_by_hand() -> None:
    # Pairs: a-b right, a-c right, a-d tied by people, b-c wrong, b-d right, c-d tied by the metric, so wrong.
    found = system_accuracy_rows(np.array([[4.0, 2, 3, 3]]), np.array([3, 1, 0.5, 3]))
    assert found == pytest.approx([3 / 5])
    assert np.isnan(system_accuracy_rows(np.array([[1.0, 2]]), np.array([1.0, 1]))).all()


def test_soft_pairwise_accuracy_by_hand() -> None:
    # Two systems, three segments: 8 permutations of the signs.
    human = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    # Differences 1 2 3, sum 6: only the identity reaches it, p = 1/8.
    scores = np.array([[1.0, 1.0, -1.0], [0.0, 0.0, 0.0]])
    # Differences 1 1 -1, sum 1: reached with at most one minus among |1 1 1|: 4 of 8.
    assert soft_pairwise_accuracy(scores, human) == pytest.approx(1 - abs(1 / 8 - 4 / 8))
    assert soft_pairwise_accuracy(human, human) == 1.0
    # The metric prefers the other system: differences -1 -2 -3, every permutation reaches -6.
    assert soft_pairwise_accuracy(-human, human) == pytest.approx(1 / 8)
    # People tie: p = 1/2, whichever system comes first; the metric's is 1/8 or 1.
    tie = np.zeros((2, 3))
    assert soft_pairwise_accuracy(human, tie) == pytest.approx(1 - 3 / 8)
    assert soft_pairwise_accuracy(human[::-1], tie) == pytest.approx(1 - 1 / 2)
    assert soft_pairwise_accuracy(tie, tie) == 1.0


@pytest.mark.parametrize("segments", [8, 40])
@pytest.mark.parametrize("kind", ["alike", "blocks"])
def test_ties_of_systems_do_not_make_their_order_matter(segments: int, kind: str) -> None:
    generator = np.random.default_rng(2)
    human = np.full((5, segments), 50.0)
    if kind == "blocks":
        human[:3], human[3:] = 90.0, 10.0
    scores = np.arange(5.0, 0.0, -1.0)[:, None] + generator.normal(size=human.shape)
    scores[4] = scores[3]
    found = soft_pairwise_accuracy(scores, human)
    for order in ([4, 3, 2, 1, 0], [1, 0, 2, 4, 3], [3, 4, 0, 1, 2]):
        # But for the permutation that is the observed one.
        assert soft_pairwise_accuracy(scores[order], human[order]) == pytest.approx(found, abs=1 / 2**8)


def test_soft_pairwise_accuracy_tests_each_pair_on_what_is_judged_of_both() -> None:
    generator = np.random.default_rng(6)
    human, scores = np.round(generator.normal(size=(2, 5, 30)), 1)
    human[0, :10] = human[3, 5:12] = human[4, :] = math.nan

    def p_value(differences: np.ndarray) -> float:
        draw = np.random.default_rng(9).integers(0, 2, size=(300, len(differences)), dtype=np.int8)
        return float((((draw * 2.0 - 1) * differences).sum(axis=1) >= differences.sum() - 1e-9).mean())

    distances = []
    for i, j in itertools.combinations(range(4), 2):
        both = ~np.isnan(human[i] + human[j])
        distances.append(abs(p_value((human[i] - human[j])[both]) - p_value((scores[i] - scores[j])[both])))
    found = soft_pairwise_accuracy(scores, human, resamples=300, seed=9)
    assert found == pytest.approx(1 - np.mean(distances), abs=1e-12)


def test_soft_pairwise_accuracy_samples_long_tests() -> None:
    generator = np.random.default_rng(1)
    human = generator.normal(size=(4, 200)) + np.array([[0.0], [0.1], [0.2], [0.8]])
    near = human + 0.3 * generator.normal(size=human.shape)
    far = generator.normal(size=human.shape)
    assert soft_pairwise_accuracy(near, human) > soft_pairwise_accuracy(far, human)
    assert soft_pairwise_accuracy(near, human, seed=3) == soft_pairwise_accuracy(near, human, seed=3)
    human[0] = math.nan
    human[1, :100] = math.nan
    assert 0 < soft_pairwise_accuracy(near, human) <= 1
    assert math.isnan(soft_pairwise_accuracy(near, np.full_like(human, math.nan)))


def test_fisher_average_by_hand() -> None:
    # atanh .9 = 1.47222, atanh .5 = .549306; weights 9 and 3: mean 1.241491, tanh .845880.
    assert fisher_average([0.9, 0.5], [12, 6]) == pytest.approx(0.845880, abs=1e-6)
    assert fisher_average([0.7], [10]) == pytest.approx(0.7)
    assert fisher_average([0.7, math.nan], [10, 10]) == pytest.approx(0.7)
    assert fisher_average([1.0, 0.0], [10, 10]) > 0.99
    assert math.isnan(fisher_average([], []))

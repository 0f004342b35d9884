from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyref.eval.statistics.accuracy import pairwise_accuracy_with_ties, soft_pairwise_accuracy
from polyref.eval.statistics.averages import averaged, fisher_average
from polyref.eval.statistics.correlation import kendall_tau_b, pearson
from polyref.eval.statistics.named import system_accuracy_rows

# Three systems, two segments. Segment 1: people tie a and b, c is worse; segment 2: a > b > c.
HUMAN = np.array([[3.0, 3.0], [3.0, 2.0], [1.0, 1.0]])
SCORES = np.array([[0.50, 0.9], [0.52, 0.4], [0.30, 0.45]])


def test_accuracy_with_ties_by_hand() -> None:
    # Without ties: segment 1 orders a-c and b-c rightly and misses the tie, 2/3; segment 2 has a-b and a-c, 2/3.
    none = pairwise_accuracy_with_ties(SCORES, HUMAN, epsilon=0)
    assert none.accuracy == pytest.approx(2 / 3)
    # With epsilon .02 the tie of segment 1 is found: 3/3 and 2/3. (.05 would cost nothing more: b-c was wrong.)
    best = pairwise_accuracy_with_ties(SCORES, HUMAN)
    assert best.accuracy == pytest.approx(5 / 6)
    assert best.epsilon == pytest.approx(0.02)
    assert best.groups == 2
    # From .20 on b-c (.22) and a-c (.20) of segment 1 become ties and are wrong.
    assert pairwise_accuracy_with_ties(SCORES, HUMAN, epsilon=0.21).accuracy == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_groupings_by_hand() -> None:
    # Within systems there is one pair each: a .50 < .90, people tie; b .52 > .40, right; c .30 < .45, people tie.
    assert pairwise_accuracy_with_ties(SCORES, HUMAN, grouping="system", epsilon=0).accuracy == pytest.approx(1 / 3)
    best = pairwise_accuracy_with_ties(SCORES, HUMAN, grouping="system")
    # c's tie needs .15, which turns b's .12 into a (wrong) tie; only .40 finds both ties and loses b: 2/3.
    assert (best.accuracy, best.epsilon) == (pytest.approx(2 / 3), pytest.approx(0.4))
    pooled = pairwise_accuracy_with_ties(SCORES, HUMAN, grouping="none", epsilon=0)
    assert pooled.groups == 1
    right = sum(
        np.sign(SCORES.flat[i] - SCORES.flat[j]) == np.sign(HUMAN.flat[i] - HUMAN.flat[j])
        for i, j in itertools.combinations(range(6), 2)
    )
    assert pooled.accuracy == pytest.approx(right / 15)
    with pytest.raises(ValueError, match="expected one of item, system, none"):
        pairwise_accuracy_with_ties(SCORES, HUMAN, grouping="document")


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(["item", "system", "none"]))
def test_calibration_finds_the_best_of_all_thresholds(seed: int, grouping: str) -> None:
    generator = np.random.default_rng(seed)
    human = generator.integers(0, 3, size=(4, 5)).astype(float)
    human[generator.random(human.shape) < 0.2] = math.nan
    scores = np.round(generator.normal(size=human.shape), 1)
    best = pairwise_accuracy_with_ties(scores, human, grouping=grouping)
    if not best.groups:
        assert math.isnan(best.accuracy)
        return
    differences = np.abs(scores.ravel()[:, None] - scores.ravel()[None, :]).ravel()
    tried = {e: pairwise_accuracy_with_ties(scores, human, grouping=grouping, epsilon=e).accuracy for e in differences}
    assert best.accuracy == pytest.approx(max(tried.values()), abs=1e-12)
    again = pairwise_accuracy_with_ties(scores, human, grouping=grouping, epsilon=best.epsilon)
    assert again.accuracy == pytest.approx(best.accuracy, abs=1e-12)


def test_missing_judgements_take_part_in_no_pair() -> None:
    human = HUMAN.copy()
    human[1, 0] = math.nan
    scores = SCORES.copy()
    scores[1, 0] = math.nan
    # Segment 1 has the pair a-c alone.
    assert pairwise_accuracy_with_ties(scores, human, epsilon=0).accuracy == pytest.approx((1 + 2 / 3) / 2)
    with pytest.raises(ValueError, match="no score"):
        pairwise_accuracy_with_ties(scores, HUMAN)
    with pytest.raises(ValueError, match="epsilon"):
        pairwise_accuracy_with_ties(SCORES, HUMAN, epsilon=-1)
    with pytest.raises(ValueError, match="shape"):
        pairwise_accuracy_with_ties(SCORES[:2], HUMAN)
    assert math.isnan(pairwise_accuracy_with_ties(scores, np.full_like(human, math.nan)).accuracy)


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


def test_averages_by_hand() -> None:
    # Systems: within segment 1, then within segment 2.
    within = [kendall_tau_b(SCORES[:, n], HUMAN[:, n]) for n in (0, 1)]
    assert averaged(kendall_tau_b, SCORES, HUMAN, over="items") == pytest.approx(np.mean(within))
    assert averaged(pearson, SCORES, HUMAN, over="none") == pytest.approx(pearson(SCORES.ravel(), HUMAN.ravel()))
    # People tie systems a and c over the segments: undefined and left out.
    assert averaged(pearson, SCORES, HUMAN, over="systems") == pytest.approx(1.0)
    human = HUMAN.copy()
    human[:, 1] = math.nan
    assert averaged(kendall_tau_b, SCORES, human, over="items") == pytest.approx(within[0])
    assert math.isnan(averaged(pearson, SCORES, np.full_like(HUMAN, math.nan), over="items"))
    with pytest.raises(ValueError, match="items, systems or none"):
        averaged(pearson, SCORES, HUMAN, over="documents")


def test_fisher_average_by_hand() -> None:
    # atanh .9 = 1.47222, atanh .5 = .549306; weights 9 and 3: mean 1.241491, tanh .845880.
    assert fisher_average([0.9, 0.5], [12, 6]) == pytest.approx(0.845880, abs=1e-6)
    assert fisher_average([0.7], [10]) == pytest.approx(0.7)
    assert fisher_average([0.7, math.nan], [10, 10]) == pytest.approx(0.7)
    assert fisher_average([1.0, 0.0], [10, 10]) > 0.99
    assert math.isnan(fisher_average([], []))
    with pytest.raises(ValueError, match="of 3 points"):
        fisher_average([0.5], [3])
    with pytest.raises(ValueError, match="counts"):
        fisher_average([0.5], [])

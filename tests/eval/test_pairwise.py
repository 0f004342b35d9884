from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from polyref.eval.system_pairs import (
    CORRECT,
    INCORRECT,
    NOT_SIGNIFICANT,
    outcome_table,
    pair_outcomes,
    paired_t_p,
    rank_sum_p,
)


def test_rank_sum_by_hand() -> None:
    # 1 2 3 against 4 5 6: rank sum 6, mean 10.5, variance 5.25; with the correction for continuity z = 4 / 2.2913.
    z = (10.5 - 6 - 0.5) / math.sqrt(5.25)
    assert rank_sum_p(np.array([1.0, 2, 3]), np.array([4.0, 5, 6])) == pytest.approx(2 * scipy.stats.norm.sf(z))
    assert rank_sum_p(np.array([1.0, math.nan, 2, 3]), np.array([4.0, 5, 6, math.nan])) == pytest.approx(
        2 * scipy.stats.norm.sf(z)
    )
    assert rank_sum_p(np.ones(4), np.ones(5)) == 1.0
    assert math.isnan(rank_sum_p(np.array([math.nan]), np.ones(5)))


def test_paired_t_equals_scipy() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 30))
    assert paired_t_p(x, y) == pytest.approx(scipy.stats.ttest_rel(x, y).pvalue)
    y[3] = math.nan
    assert paired_t_p(x, y) == pytest.approx(scipy.stats.ttest_rel(x, y, nan_policy="omit").pvalue)
    assert paired_t_p(x, x) == 1.0
    assert paired_t_p(x, x + 1) == 0.0
    assert math.isnan(paired_t_p(x[:1], x[:1]))


def test_outcomes() -> None:
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(4, 200))
    # People: a > b > c clearly, d like c.
    human = noise + np.array([[3.0], [2.0], [0.0], [0.0]])
    # The metric: a > b as well, c far above both, d like b.
    scores = generator.normal(size=(4, 200)) * 0.5 + np.array([[3.0], [2.0], [5.0], [2.0]])
    human[0, :50] = math.nan
    found = {(o.better, o.worse): o for o in pair_outcomes("abcd", scores, human)}
    assert {pair: o.outcome for pair, o in found.items()} == {
        ("a", "b"): CORRECT,
        ("a", "c"): INCORRECT,
        ("b", "c"): INCORRECT,
        ("a", "d"): CORRECT,
        ("b", "d"): NOT_SIGNIFICANT,
    }
    assert outcome_table(list(found.values())) == {CORRECT: 2, INCORRECT: 2, NOT_SIGNIFICANT: 1}
    assert found["a", "b"].human_p == rank_sum_p(human[0], human[1])
    assert found["a", "b"].metric_p == paired_t_p(scores[0], scores[1])

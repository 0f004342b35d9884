"""Is one metric's correlation with people really higher than another's? And after how many questions?

Every test is one-sided (the first metric is better) and gives p = 1 for identical inputs, NaN where a correlation is
undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.eval.data.score_files import FloatArray
from polyref.eval.statistics.base import ROUNDING
from polyref.eval.statistics.correlation import pearson, pearson_rows

#: All ways in which 14 systems can exchange their scores; of more systems, as many random ones.
_EXCHANGES: Final = 2**14
#: Scores of resampled sets (resamples, systems, segments) and human ones -> one number a resample.
Correlation = Callable[[FloatArray, FloatArray], FloatArray]


def williams_p(r12: float, r13: float, r23: float, n: int) -> float:
    """P-value of Williams' test that r12 > r13, two correlations that share the variable 1 (the human scores).

    Williams (1959) as Graham and Baldwin (2014) use it for metrics; t-distributed with n - 3 degrees of freedom.

    Args:
        r12: Correlation of the first metric with people, with its sign.
        r13: Correlation of the second metric with people.
        r23: Correlation of the two metrics.
        n: Number of systems.

    Returns:
        P-value, 0 to 1; 1 where the metrics are the same; NaN for fewer than four systems or an undefined correlation.
    """
    from scipy.stats import t as student

    if n < 4 or math.isnan(r12 + r13 + r23):
        return math.nan
    if r23 >= 1.0 - 1e-12:  # the same metric, perhaps on another scale: what is left of r12 - r13 is rounding
        return 1.0
    statistic = float(_williams_statistic(np.array([r12]), np.array([r13]), np.array([r23]), n)[0])
    if math.isinf(statistic):
        return 1.0 if statistic < 0 else 0.0
    return float(student.sf(statistic, n - 3))


def _williams_statistic(r12: FloatArray, r13: FloatArray, r23: FloatArray, n: int) -> FloatArray:
    """The difference of two correlations in units of its standard error: infinite where there is no error."""
    # The determinant of the correlation matrix; rounding can leave a tiny negative number.
    k = np.maximum(0.0, 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23)
    scale = 2 * k * (n - 1) / (n - 3) + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
    exact = scale <= 0
    statistic = (r12 - r13) * np.sqrt((n - 1) * (1 + r23) / np.where(exact, 1.0, scale))
    return np.where(exact, np.where(r12 > r13, np.inf, -np.inf), statistic)


def williams_test(first: npt.ArrayLike, second: npt.ArrayLike, human: npt.ArrayLike) -> float:
    """P-value of Williams' test that ``first`` correlates better with ``human`` than ``second`` does.

    Args:
        first: Scores of systems by one metric, shape (systems,).
        second: Scores by another, same shape.
        human: Human scores, same shape.

    Returns:
        As :func:`williams_p`; 1 for equal scores of any number of systems, if their correlation is defined.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    r12 = pearson(one, human)
    if np.array_equal(one, other):
        return math.nan if math.isnan(r12) else 1.0
    return williams_p(r12, pearson(other, human), pearson(one, other), len(one))


def perm_systems(first: npt.ArrayLike, second: npt.ArrayLike, human: npt.ArrayLike, *, seed: int = 1) -> float:
    """PERM-SYSTEMS: exchange the two metrics' scores of whole systems (Deutsch et al. 2021).

    Are the metrics equally good for systems like these? Then either could have given a system either of its two
    scores. What is compared is Williams' statistic, not the bare difference of the correlations: that of exchanged
    scores varies more, since the given ones were fitted to each other by their means.

    Exchanged scores must be on one scale. Give them in units of the standard deviation of the metrics' scores of
    outputs of one system (:func:`spread_of_outputs`). That of the systems' scores themselves is no good unit: of few
    and unlike systems it is ill known, and the test then rejects too often.

    Args:
        first: Scores of systems by one metric, shape (systems,).
        second: Scores by another, same shape.
        human: Human scores, same shape.
        seed: Of the random exchanges, for more than 14 systems; up to 14, all exchanges are tried.

    Returns:
        P-value of "the first is not better", never 0. Of a first metric that is worse it is 1 minus the p-value of
        "the second is not better", so that a two-sided test at 5 % rejects below .025 and above .975; for five systems
        and fewer it never does. 1 where the metrics are the same; NaN for fewer than four systems or an undefined
        correlation.
    """
    x, y = (np.asarray(scores, dtype=np.float64) for scores in (first, second))
    people = np.asarray(human, dtype=np.float64)
    n = len(x)
    if n < 4 or math.isnan(pearson(x, people) + pearson(y, people)):
        return math.nan
    if pearson(x, y) >= 1.0 - 1e-12:
        return 1.0
    if 2**n <= _EXCHANGES:
        swap = (np.arange(2**n)[:, None] >> np.arange(n)) & 1  # the first one exchanges nothing
    else:
        drawn = np.random.default_rng(seed).integers(2, size=(_EXCHANGES - 1, n))
        swap = np.concatenate([np.zeros((1, n), dtype=np.int64), drawn])
    x, y = x - x.mean(), y - y.mean()
    size = max(np.abs(x).max(), np.abs(y).max())  # squares of very large or small scores leave the range of numbers
    found = _williams_statistic(*_exchanged_correlations(x / size, y / size, people, swap), n)
    worse = found[0] < 0
    found = -found if worse else found
    # Undefined correlations of exchanged scores count against a difference.
    reached = float(np.mean(~(found < found[0] * (1 - 1e-9) - 1e-12)))
    return 1.0 - reached if worse else reached


def jackknife_p(difference: float, without_each: FloatArray) -> float:
    """Is the difference of two metrics above zero for other systems too? By the jackknife over systems.

    The standard error is that of the difference when each system is left out in turn, and the difference over it is
    t-distributed, with a degree of freedom less for each metric. What a metric has for or against a system is the same
    in all of its outputs, so systems are what is independent, not outputs.

    Args:
        difference: Of a statistic, on the test set.
        without_each: The same without each system in turn, shape (systems,).

    Returns:
        One-sided p-value of "not above zero"; a two-sided test at 5 % rejects below .025 and above .975. Where no
        system changes anything it is .5 without a difference, else 2^-n, the smallest that exchanges of n systems can
        give, or 1 - 2^-n. NaN for fewer than four systems, or where the difference is undefined, with all systems or
        without one.
    """
    from scipy.stats import t as student

    n = len(without_each)
    if n < 4 or math.isnan(difference + float(without_each.sum())):
        return math.nan
    error = math.sqrt((n - 1) / n * float(((without_each - without_each.mean()) ** 2).sum()))
    if error <= ROUNDING:
        least: float = 2.0**-n
        return 0.5 if abs(difference) <= ROUNDING else least if difference > 0 else 1 - least
    return float(student.sf(difference / error, n - 2))


def spread_of_outputs(outputs: FloatArray) -> tuple[float, float]:
    """Standard deviations of a metric's scores: of the outputs of one system, over all systems, and of their means.

    Args:
        outputs: Shape (systems, segments), NaN where there is none.

    Returns:
        NaN where a system has no output.
    """
    there = ~np.isnan(outputs)
    if not there.any(axis=1).all():
        return math.nan, math.nan
    means = np.nanmean(outputs, axis=1)
    return float((outputs - means[:, None])[there].std()), float(means.std())


def _exchanged_correlations(
    x: FloatArray, y: FloatArray, human: FloatArray, swap: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Correlations of the first scores with people, of the second ones, and of both, one of each for every exchange.

    ``x`` and ``y`` have the mean 0; ``swap``, shape (exchanges, systems), is 1 where a system exchanges its scores.
    """
    h = human - human.mean()
    h = h / np.abs(h).max()
    moved = swap.astype(np.float64) @ np.stack([y - x, y * y - x * x, (y - x) * h], axis=1)
    # Sums, sums of squares, and products with people: of the first scores, then of the second ones.
    terms = zip((x, x * x, x * h), (y, y * y, y * h), moved.T, strict=True)
    sums, squares, products = (np.stack([of_x.sum() + part, of_y.sum() - part]) for of_x, of_y, part in terms)
    spread = squares - sums**2 / len(x)
    spread = np.where(spread > 1e-13 * squares, spread, np.nan)
    first, second = products / np.sqrt(spread * float(h @ h))
    both = (float(x @ y) - sums[0] * sums[1] / len(x)) / np.sqrt(spread[0] * spread[1])
    return np.clip(first, -1.0, 1.0), np.clip(second, -1.0, 1.0), np.clip(both, -1.0, 1.0)


def system_pearson(scores: FloatArray, human: FloatArray) -> FloatArray:
    """Pearson's r of the systems' mean scores: shapes (..., systems, segments) and (systems, segments) -> (...)."""
    means = scores.mean(axis=-1)
    rows = means.reshape(-1, means.shape[-1])
    return pearson_rows(rows, human.mean(axis=-1)).reshape(means.shape[:-1])


def pooled_pearson(scores: FloatArray, human: FloatArray) -> FloatArray:
    """Pearson's r over all (system, segment) cells at once; shapes as in ``system_pearson``."""
    rows = scores.reshape(-1, human.size)
    return pearson_rows(rows, human.reshape(-1)).reshape(scores.shape[:-2])


def perm_both(
    first: FloatArray,
    second: FloatArray,
    human: FloatArray,
    *,
    statistic: Correlation = system_pearson,
    resamples: int = 1000,
    seed: int = 1,
) -> float:
    """PERM-BOTH: swap the two metrics' scores of single outputs at random (Deutsch et al. 2021, algorithm 2).

    Both are standardised first, since swapping means nothing between different scales.

    Args:
        first: Shape (systems, segments), no NaN.
        second: Same shape.
        human: Same shape.
        statistic: Correlation to compare.
        resamples: Number of random swaps.
        seed: Equal seeds give equal p-values.

    Returns:
        P-value of "the first is not better", never 0: the observed difference counts among the resamples. NaN where it
        is undefined.
    """
    x, y = _standardised(first), _standardised(second)
    observed = float((statistic(x[None], human) - statistic(y[None], human))[0])
    if math.isnan(observed):
        return math.nan
    generator = np.random.default_rng(seed)
    reached = 1
    for at in range(0, resamples, 50):  # a slice at a time bounds the memory
        size = min(50, resamples - at)
        bits = np.unpackbits(generator.integers(0, 256, size=(size, -(-x.size // 8)), dtype=np.uint8), axis=1)
        swap = bits[:, : x.size].reshape(size, *x.shape).astype(bool)
        differences = statistic(np.where(swap, y, x), human) - statistic(np.where(swap, x, y), human)
        reached += int((differences >= observed - 1e-12).sum())
    return reached / (resamples + 1)


#: How p-values are corrected for their number.
CORRECTIONS: Final = ("holm", "bonferroni", "bh")


def adjusted(p_values: Sequence[float], method: str = "holm") -> list[float]:
    """P-values corrected for many comparisons; NaN stays NaN and is not counted.

    Args:
        p_values: As the tests gave them.
        method: ``bonferroni``, ``holm`` (both control the chance of any false claim) or ``bh`` (Benjamini and Hochberg
            1995: the expected share of false claims).
    """
    p: FloatArray = np.asarray(p_values, dtype=np.float64)
    result = np.full(len(p), np.nan)
    where = np.flatnonzero(~np.isnan(p))
    order = where[np.argsort(p[where], kind="stable")]
    ranked: FloatArray = p[order]
    m = len(order)
    corrected: FloatArray
    if method == "bonferroni":
        corrected = ranked * m
    elif method == "holm":
        corrected = np.maximum.accumulate(ranked * np.arange(m, 0, -1.0))
    else:
        corrected = np.minimum.accumulate((ranked * m / np.arange(1.0, m + 1))[::-1])[::-1]
    result[order] = np.minimum(corrected, 1.0)
    return [float(value) for value in result]


def _standardised(scores: FloatArray) -> FloatArray:
    deviation = scores.std()
    standardised: FloatArray = (scores - scores.mean()) / (deviation if deviation > 0 else 1.0)
    return standardised

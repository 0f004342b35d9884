"""What rows of agreement allow to say: verdicts, PERM-BOTH, and corrections for many comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.eval.experiments.series import Series
from polyref.eval.judgements.gold import Gold
from polyref.eval.statistics.agreement import REAL_MINUS_PLACEBO, Row
from polyref.eval.statistics.registry import STATISTICS, statistics_called
from polyref.eval.statistics.resampling import ROUNDING
from polyref.eval.statistics.significance import adjusted, perm_both, pooled_pearson, system_pearson
from polyref.progress import each

FloatArray = npt.NDArray[np.float64]

#: Verdicts on a gain.
BETTER: Final = "better"
WORSE: Final = "worse"
UNCLEAR: Final = "unclear"
#: Half of the level of a two-sided test at 5 %.
_TAIL: Final = 0.025
#: Level -> the correlation that is compared, always Pearson's: of mean scores of systems, or of all cells.
_STATISTICS = {"sys": system_pearson, "seg": pooled_pearson}


def verdict(row: Row) -> str:
    """Whether a gain is real: ``better``, ``worse`` or ``unclear``; empty where nothing says.

    Segments: the interval of the gain excludes zero; it speaks of what was redrawn. Systems: the p-value of the
    statistic's test, two-sided at 5 %, whatever was redrawn. Intervals over segments hold the systems fixed: they
    exclude zero for gains that other systems would not show. Intervals over systems too find a difference between equal
    metrics too often where systems are many, and too seldom where they are few.

    Two kinds of statistics have no verdict. A tie rate is neither better nor worse. Those that are pooled over all
    segments move with how hard and how long segments are: a metric that sees nothing but lengths gains there.
    """
    if _says_nothing(row):
        return ""
    if row.control == REAL_MINUS_PLACEBO:
        return _of_interval(row.ci) if row.level == "seg" else ""
    if row.control or row.gain is None or np.isnan(row.gain) or (not row.k and row.gain == 0):
        return ""
    if row.level == "seg":
        return _of_interval(row.gain_ci)
    if row.p is None or np.isnan(row.p):
        return ""
    return BETTER if row.p < _TAIL else WORSE if row.p > 1 - _TAIL else UNCLEAR


def p_behind(row: Row) -> float | None:
    """The one-sided p-value that goes with the verdict: of the bootstrap within segments; None without a verdict."""
    if not verdict(row):
        return None
    return row.p_bootstrap if row.level == "seg" else row.p


def _of_interval(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return ""
    low, high = interval
    return BETTER if low > ROUNDING else WORSE if high < -ROUNDING else UNCLEAR


def _says_nothing(row: Row) -> bool:
    name = row.statistic
    if name not in STATISTICS.names():
        return False
    return any(one.pooled or one.higher_is_better is None for one in statistics_called(name) if one.level == row.level)


def with_perm_both(
    rows: Sequence[Row],
    series: Sequence[Series],
    gold: Gold,
    *,
    baseline: str | None = None,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Row]:
    """The rows, those of Pearson's r with the p-value of PERM-BOTH against their baseline.

    The test permutes scores of single outputs (Deutsch et al. 2021), so the score of a system is the mean of its
    segments' here, for people and for metrics. It is over the segments that were judged for every system. A row of an
    undefined gain has an undefined p-value.

    Args:
        rows: What :func:`~polyref.eval.statistics.agreement.agreement` returned.
        series: The metrics in them.
        gold: The judgements, with scores of segments.
        baseline: As for :func:`~polyref.eval.statistics.agreement.agreement`.
        resamples: Number of permutations.
        seed: Equal seeds give equal p-values.

    Raises:
        UsageError: The judgement has no segment scores, or fewer than two segments have all systems judged.
    """
    if not gold.segment:
        raise UsageError(
            f"PERM-BOTH needs scores of segments, which the judgement {gold.name!r} does not have",
            remedy="choose another `gold`",
        )
    names = list(gold.segment)
    human = np.stack([gold.segment[name] for name in names])
    judged = ~np.isnan(human).any(axis=0)
    if judged.sum() < 2:
        raise UsageError(f"PERM-BOTH: {int(judged.sum())} segments have all {len(names)} systems judged, needs 2")
    by_name = {one.metric: one for one in series}
    cells: dict[tuple[str, int | None], FloatArray | None] = {}

    def scores(metric: str, k: int | None) -> FloatArray | None:
        if (metric, k) not in cells:
            found = by_name[metric].segment(names, k)
            cells[metric, k] = None if found is None else found[:, judged]
        return cells[metric, k]

    result = []
    for row in each(rows, "permuting", "numbers"):
        if row.gain is not None and row.statistic == "pearson":
            base_name = baseline or row.metric
            first, second = scores(row.metric, row.k), scores(base_name, by_name[base_name].ks[0])
            if np.isnan(row.gain):
                row = replace(row, p_perm_both=float("nan"))
            elif first is not None and second is not None:
                p = perm_both(
                    first, second, human[:, judged], statistic=_STATISTICS[row.level], resamples=resamples, seed=seed
                )
                row = replace(row, p_perm_both=p)
        result.append(row)
    return result


def with_correction(rows: Sequence[Row], method: str) -> list[Row]:
    """The rows with p-values corrected for the number of comparisons in them, those of each test by themselves.

    Rows without a gain are no comparisons and do not count: the baseline itself, scores equal to its, and undefined
    correlations.

    Args:
        rows: All rows that a claim is picked from, of all language pairs.
        method: ``holm``, ``bonferroni`` or ``bh``.
    """
    result = list(rows)
    tested = [i for i, row in enumerate(rows) if _p(row) is not None and row.gain != 0]
    for permuted in (False, True):
        family = [i for i in tested if (rows[i].p_perm_both is not None) is permuted]
        corrected = adjusted([float(_p(rows[i]) or 0.0) for i in family], method)
        for i, p in zip(family, corrected, strict=True):
            result[i] = replace(rows[i], p_adjusted=p)
    return result


def _p(row: Row) -> float | None:
    p = row.p if row.p_perm_both is None else row.p_perm_both
    return None if p is None or np.isnan(p) or row.gain is None or np.isnan(row.gain) else p

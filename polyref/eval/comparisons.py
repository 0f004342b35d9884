"""What rows of agreement allow to say: verdicts, PERM-BOTH, and corrections for many comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from polyref.errors import UsageError
from polyref.eval.agreement import Row
from polyref.eval.judgements.gold import FloatArray, Gold
from polyref.eval.series import Series
from polyref.eval.statistics.base import ROUNDING
from polyref.eval.statistics.named import STATISTICS, statistics_called
from polyref.eval.statistics.significance import adjusted, perm_both, pooled_pearson, system_pearson
from polyref.progress import each

#: Words of verdicts. ``gains`` is what ``better`` is called where no placebo was run.
BETTER: Final = "better"
GAINS: Final = "gains"
WORSE: Final = "worse"
UNCLEAR: Final = "unclear"
WITHHELD: Final = "withheld"
#: Half of the level of a two-sided test at 5 %.
_TAIL: Final = 0.025
#: Level -> the correlation that is compared, always Pearson's: of mean scores of systems, or of all cells.
_STATISTICS = {"sys": system_pearson, "seg": pooled_pearson}


@dataclass(frozen=True)
class Verdict:
    """What may be said of a gain.

    Attributes:
        word: ``better``, ``gains``, ``worse``, ``unclear`` or ``withheld``; empty where nothing says.
        reason: Why it is not ``better`` though the gain, or the gain beyond the placebo, is significant.
    """

    word: str = ""
    reason: str = ""


def verdict(row: Row, beyond: Row | None = None, reasons: Sequence[str] = ()) -> Verdict:
    """What may be said of a gain: the one place where it is decided.

    All tests are two-sided at 5 %. Added references are ``better`` where two things are significant: the gain itself,
    and the gain beyond the placebo. Either alone can mislead. Any text breaks ties, and a placebo can harm. Without a
    placebo they have a gain, which is called ``gains``. A loss (``worse``) needs no control. A gain without added
    references, over another metric, is ``better`` or ``worse`` by itself.

    Two kinds of statistics have no verdict. A tie rate is neither better nor worse. Those that are pooled over all
    segments move with how hard and how long segments are: a metric that sees nothing but lengths gains there.

    Args:
        row: A row with a gain.
        beyond: The row of the difference to the placebo, where one was run.
        reasons: What is wrong with the added references: whatever the gain, the verdict is ``withheld``.
    """
    if row.control or row.gain is None or np.isnan(row.gain) or (not row.k and row.gain == 0):
        return Verdict()
    gain = _significance(row)
    if gain is None:
        return Verdict()
    if not row.k:
        return Verdict((UNCLEAR, BETTER, WORSE)[gain])
    more = None if beyond is None else _significance(beyond)
    if reasons:
        return Verdict(WITHHELD, "; ".join(reasons))
    if gain < 0:
        return Verdict(WORSE)
    if beyond is None:
        return Verdict(GAINS if gain else UNCLEAR)
    if gain and more == 1:
        return Verdict(BETTER)
    if gain:
        return Verdict(UNCLEAR, "the gain is significant, the gain beyond the placebo is not")
    return Verdict(UNCLEAR, "the gain beyond the placebo is significant, the gain is not" if more == 1 else "")


def p_behind(row: Row, told: Verdict) -> float | None:
    """The one-sided p-value of the gain that a verdict is made from; None without a verdict."""
    return row.p if told.word else None


def _significance(row: Row) -> int | None:
    """1 or -1 for a significant gain or loss, 0 for neither, None where nothing says."""
    if row.p is None or _says_nothing(row):
        return None
    amount = row.value if row.control else row.gain
    if amount is None or abs(amount) <= ROUNDING:  # exchanging or leaving out equal scores is no test
        return 0
    # An undefined p-value, of too few systems, is neither.
    return 1 if row.p < _TAIL else -1 if row.p > 1 - _TAIL else 0


def _says_nothing(row: Row) -> bool:
    name = row.statistic
    if name not in STATISTICS:
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
        rows: What :func:`~polyref.eval.agreement.agreement` returned.
        series: The metrics in them.
        gold: The judgements, with scores of segments.
        baseline: As for :func:`~polyref.eval.agreement.agreement`.
        resamples: Number of permutations.
        seed: Equal seeds give equal p-values.

    Raises:
        UsageError: The judgement has no segment scores, or fewer than two segments have all systems judged.
    """
    check_perm_both(gold)
    names = list(gold.segment)
    human = np.stack([gold.segment[name] for name in names])
    judged = ~np.isnan(human).any(axis=0)
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


def check_perm_both(gold: Gold) -> None:
    """Refuse judgements that have too little for PERM-BOTH.

    Raises:
        UsageError: There are no scores of segments, or fewer than two segments have all systems judged.
    """
    if not gold.segment:
        raise UsageError(
            f"`perm_both` needs scores of segments, which the judgement {gold.name!r} does not have",
            remedy="choose another `gold`",
        )
    judged = int((~np.isnan(np.stack(list(gold.segment.values()))).any(axis=0)).sum())
    if judged < 2:
        raise UsageError(
            f"`perm_both` needs 2 segments with all {len(gold.segment)} systems judged, and the judgement "
            f"{gold.name!r} has {judged}"
        )


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
    for test in dict.fromkeys(_test_of(rows[i]) for i in tested):
        family = [i for i in tested if _test_of(rows[i]) == test]
        corrected = adjusted([float(_p(rows[i]) or 0.0) for i in family], method)
        for i, p in zip(family, corrected, strict=True):
            result[i] = replace(rows[i], p_adjusted=p)
    return result


def _test_of(row: Row) -> str:
    """Which test a row's p-value is corrected with: that of PERM-BOTH, of PERM-SYSTEMS, or of the jackknife."""
    if row.p_perm_both is not None:
        return "perm-both"
    return "perm-systems" if (row.level, row.statistic) == ("sys", "pearson") else "jackknife"


def _p(row: Row) -> float | None:
    p = row.p if row.p_perm_both is None else row.p_perm_both
    return None if p is None or np.isnan(p) or row.gain is None or np.isnan(row.gain) else p

"""How often a verdict of ``polyref evaluate`` is wrong where two metrics are equally good.

    python scripts/bench/exactness/interval_levels.py [--trials 300]

Two made-up metrics see the quality of the systems, a bias for each system that they share, one that each has for
itself, and noise in every segment. They are drawn alike, so neither is better, and every verdict "better" or "worse"
is wrong. docs/benchmarks/interval_levels.csv has the share of such verdicts: by PERM-SYSTEMS, by the
jackknife over systems, by Williams' test, and by intervals over segments, systems, or both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.eval.statistics.base import People
from polyref.eval.statistics.named import KENDALL_WITHOUT_TIES, PEARSON
from polyref.eval.statistics.resampling import REDRAWN, SEGMENTS, Bootstrap, percentile_interval
from polyref.eval.statistics.significance import jackknife_p, perm_systems, spread_of_outputs, williams_test

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import update

FloatArray = npt.NDArray[np.float64]
KEY: Final = ("statistic", "verdict", "systems", "segments", "own_bias")
COLUMNS: Final = (*KEY, "wrong", "trials", "resamples", "seed")


def equal_metrics(
    systems: int, segments: int, own_bias: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Two metrics that are drawn alike, shape (systems, segments), human scores like them, and those of the systems.

    Args:
        systems: How many.
        segments: How many.
        own_bias: Standard deviation of what a metric has for or against a system by itself; that of quality is 1.
        rng: Where it is drawn from.
    """
    shape = (systems, segments)
    quality = rng.normal(size=(systems, 1))
    shared = quality + 0.5 * rng.normal(size=(systems, 1)) + rng.normal(size=shape)
    first, second = (shared + own_bias * rng.normal(size=(systems, 1)) + 0.5 * rng.normal(size=shape) for _ in range(2))
    return first, second, quality + rng.normal(size=shape), quality[:, 0]


def verdicts(
    first: FloatArray, second: FloatArray, human: FloatArray, quality: FloatArray, bootstrap: Bootstrap
) -> Iterator[tuple[str, str, bool]]:
    """Statistic, what the verdict is from, and whether it calls one of the metrics better."""
    universe = np.ones(human.shape[1], dtype=np.bool_)
    over = "segments and systems" if bootstrap.over == "both" else bootstrap.over
    people = People(human, universe, bootstrap)
    within = KENDALL_WITHOUT_TIES.against(people)
    yield "kendall-without-ties", over, _apart(within(first) - within(second), bootstrap)
    people = People(quality, universe, bootstrap)
    means = [_system_scores(scores, people.draws) for scores in (first, second)]
    pearson = PEARSON[0].against(people)
    yield "pearson", over, _apart(pearson(means[0]) - pearson(means[1]), bootstrap)
    if bootstrap.over == SEGMENTS:
        of_outputs = People(human)
        one, other = (KENDALL_WITHOUT_TIES.without_each(scores, of_outputs) for scores in (first, second))
        gain = (within(first) - within(second))[0]
        yield "kendall-without-ties", "jackknife", not 0.025 <= jackknife_p(float(gain), one - other) <= 0.975
        in_units = (own[0] / spread_of_outputs(scores)[0] for own, scores in zip(means, (first, second), strict=True))
        yield "pearson", "PERM-SYSTEMS", not 0.025 <= perm_systems(*in_units, quality) <= 0.975
        yield "pearson", "Williams' test", not 0.025 <= williams_test(means[0][0], means[1][0], quality) <= 0.975


def _system_scores(scores: FloatArray, draws: FloatArray | None) -> FloatArray:
    whole = scores.mean(axis=1)[None]
    return whole if draws is None else np.concatenate([whole, draws @ scores.T / scores.shape[1]])


def _apart(gains: FloatArray, bootstrap: Bootstrap) -> bool:
    interval = percentile_interval(gains[1:], bootstrap.confidence)
    return interval is not None and not interval[0] <= 0 <= interval[1]


def wrong_verdicts(
    systems: int, segments: int, own_bias: float, *, trials: int, resamples: int, seed: int
) -> dict[tuple[str, str], float]:
    """(statistic, what the verdict is from) -> share of trials in which one of two equal metrics is called better.

    Args:
        systems: Number of systems, 4 or more.
        segments: Number of segments.
        own_bias: As for :func:`equal_metrics`.
        trials: How many pairs of metrics are drawn.
        resamples: Of every interval.
        seed: Equal seeds give equal shares.
    """
    rng = np.random.default_rng(seed)
    wrong: dict[tuple[str, str], int] = {}
    for trial in range(trials):
        drawn = equal_metrics(systems, segments, own_bias, rng)
        for over in REDRAWN:
            for statistic, name, found in verdicts(*drawn, Bootstrap(resamples, seed=seed + trial, over=over)):
                wrong[statistic, name] = wrong.get((statistic, name), 0) + found
    return {key: count / trials for key, count in wrong.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--systems", type=int, nargs="+", default=[6, 12, 18])
    parser.add_argument("--own-bias", type=float, nargs="+", default=[0.0, 0.3])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the table")
    args = parser.parse_args()
    for systems in args.systems:
        for own_bias in args.own_bias:
            found = wrong_verdicts(
                systems, args.segments, own_bias, trials=args.trials, resamples=args.resamples, seed=args.seed
            )
            rows = [
                dict(zip(COLUMNS, (*key, systems, args.segments, own_bias, f"{share:.4f}",
                                   args.trials, args.resamples, args.seed), strict=True))
                for key, share in found.items()
            ]  # fmt: skip
            update(args.out / "interval_levels.csv", COLUMNS, KEY, rows)
            for row in rows:
                print(*(f"{key}={row[key]}" for key in (*KEY, "wrong")), flush=True)


if __name__ == "__main__":
    main()

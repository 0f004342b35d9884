"""How often a verdict of ``polyref evaluate`` is wrong where two metrics are equally good.

    python scripts/bench/exactness/interval_levels.py [--trials 2000] [--scores "lt-en bleu chrf++" ...]

Every trial has two metrics, neither of which agrees better with people. Every statistic that gives verdicts has one
on them, and each verdict "better" or "worse" is wrong. Three nulls:

- ``outputs exchanged``: real scores of two metrics, in units of their standard deviation. Each output keeps or
  exchanges its two scores, at random.
- ``systems exchanged``: the same, but all outputs of a system do. So each metric is for or against each system.
- ``drawn alike``: made-up metrics, which see the quality of the systems, a bias for each system that they share, one
  that each has for itself (``own bias``, in standard deviations of quality), and noise in every output.

A trial of real scores takes 200 of the judged segments at random (relative rankings: all), and six or all of the 14
systems. Its number is its seed. For made-up metrics, verdicts that would be made from Williams' test and
from intervals are counted as well (``--intervals`` trials). docs/benchmarks/interval_levels.csv has the share of wrong
ones; it is written every 100 trials, and what it has is not run again (``--again`` starts from nothing).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.eval.agreement import BETTER, WORSE, Row, judgements_for, verdict
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.score_files import Gold
from polyref.eval.statistics.base import (
    RANKINGS,
    REDRAWN,
    SEGMENTS,
    SYSTEMS,
    Bootstrap,
    Needs,
    People,
    Statistic,
    percentile_interval,
)
from polyref.eval.statistics.named import KENDALL_WITHOUT_TIES, PEARSON, STATISTICS, statistics_called
from polyref.eval.statistics.significance import jackknife_p, spread_of_outputs, williams_test

BENCH: Final = Path(__file__).parent.parent
sys.path += [str(BENCH), str(BENCH / "quality")]
from parts.levels import AGREEMENT, exchanged_systems, standard, swapped  # noqa: E402
from parts.levels import of_segments as scores_of  # noqa: E402
from raw_tables import read, update  # noqa: E402

FloatArray = npt.NDArray[np.float64]
#: Statistic, level, what the verdict is from -> whether it is wrong.
Found = dict[tuple[str, str, str], bool]
#: Number of a trial -> null and scores of two metrics that are equally good, and the judgements.
Trial = Callable[[int], Iterator[tuple[str, FloatArray, FloatArray, Gold]]]
#: Two metrics, the judgements and a seed -> which verdicts are wrong.
Judge = Callable[[FloatArray, FloatArray, Gold, int], Found]

KEY: Final = ("scores", "null", "statistic", "level", "verdict", "systems", "segments")
COLUMNS: Final = (*KEY, "wrong", "trials", "resamples")
#: In standard deviations of the systems' quality.
OWN_BIAS: Final = 0.3
ALIKE: Final = "drawn alike"
#: Trials between two writes of the table.
STRETCH: Final = 100


# -- two metrics that are equally good -------------------------------------------------------------------------------


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


def made_up(
    systems: int, segments: int, own_bias: float, number: int
) -> Iterator[tuple[str, FloatArray, FloatArray, Gold]]:
    """A trial of :func:`equal_metrics`."""
    drawn = equal_metrics(systems, segments, own_bias, np.random.default_rng((12, number)))
    yield ALIKE, *drawn[:2], judged(drawn[2], drawn[3])


def exchanged(
    cells: Sequence[FloatArray], human: FloatArray, systems: int, segments: int, number: int
) -> Iterator[tuple[str, FloatArray, FloatArray, Gold]]:
    """A trial of real scores of two metrics, shape (systems, segments), on random systems and segments."""
    rng = np.random.default_rng((13, number))
    part = np.ix_(*(np.sort(rng.choice(size, least, replace=False))
                    for size, least in zip(human.shape, (systems, segments), strict=True)))  # fmt: skip
    first, second = (scores[part] for scores in cells)
    gold = judged(human[part], human[part].mean(axis=1))
    yield "outputs exchanged", *swapped(first, second, rng), gold
    swap = rng.integers(2, size=systems, dtype=bool)
    yield "systems exchanged", *exchanged_systems(first, second, swap), gold


def ranked(cells: Sequence[FloatArray], gold: Gold, number: int) -> Iterator[tuple[str, FloatArray, FloatArray, Gold]]:
    """A trial of real scores that are held against relative rankings."""
    rng = np.random.default_rng((14, number))
    yield "outputs exchanged", *swapped(cells[0], cells[1], rng), gold
    swap = rng.integers(2, size=len(cells[0]), dtype=bool)
    yield "systems exchanged", *exchanged_systems(cells[0], cells[1], swap), gold


def judged(cells: FloatArray, systems: FloatArray) -> Gold:
    """Human scores of outputs, shape (systems, segments), and of systems, as a judgement."""
    names = [f"s{number}" for number in range(len(cells))]
    return Gold(
        "made", "made", dict(zip(names, map(float, systems), strict=True)), dict(zip(names, cells, strict=True))
    )


def settings(data: Path, segments: int) -> Iterator[tuple[str, int, int, Callable[[], Trial]]]:
    """What is measured: scores, systems and segments of a trial, and what makes the trials."""
    for (language_pair, systems), pair in itertools.product((("en-de", 14), ("zh-en", 14), ("en-de", 6)), AGREEMENT):
        metrics = " ".join(f"{name} {'+'.join(refs)}" for name, refs in pair)
        load = partial(real_trial, data, language_pair, pair, systems, segments)
        yield f"wmt22.mqm {language_pair} {metrics}", systems, segments, load
    yield "wmt19 lt-en bleu chrf++", 11, 1000, partial(ranked_trial, data)
    for systems in (12, 6, 18):
        yield f"made up, own bias {OWN_BIAS}", systems, 100, lambda n=systems: partial(made_up, n, 100, OWN_BIAS)


def real_trial(data: Path, language_pair: str, pair: Sequence[tuple[str, Sequence[str]]], *sizes: int) -> Trial:
    evalset = EvalSet(data / "wmt22.mqm", language_pair)
    gold = {name: scores for name, scores in evalset.gold("mqm").segment.items() if not name.startswith("ref")}
    human = np.stack(list(gold.values()))
    there = ~np.isnan(human).any(axis=0)
    cells = [standard(scores_of(evalset, name, list(gold), refs)[:, there]) for name, refs in pair]
    return partial(exchanged, cells, human[:, there], *sizes)


def ranked_trial(data: Path) -> Trial:
    evalset = EvalSet(data / "wmt19", "lt-en")
    pairs = evalset.gold("darr").pairs
    assert pairs is not None
    cells = [standard(scores_of(evalset, name, pairs.systems, ("ref",))) for name in ("bleu", "chrf++")]
    return partial(ranked, cells, Gold("darr", None, {}, pairs=pairs))


# -- verdicts --------------------------------------------------------------------------------------------------------


def verdicts(first: FloatArray, second: FloatArray, gold: Gold, seed: int) -> Found:
    """Which verdicts on two metrics say that one of them is better.

    Args:
        first: Scores of the one, shape (systems, segments); those of systems are their means.
        second: Of the other.
        gold: The judgements; systems are in their order.
        seed: Of what is random in the statistics.
    """
    none = Bootstrap(0, seed=seed)
    kinds: tuple[Needs, ...] = (SEGMENTS, SYSTEMS, RANKINGS)
    people = {needs: found.people for needs in kinds if (found := judgements_for(gold, needs, none)) is not None}
    units = [spread_of_outputs(scores)[0] for scores in (first, second)]
    found: Found = {}
    for one in with_verdict():
        if one.needs not in people:
            continue
        here, scores = people[one.needs], (first, second)
        if one.needs == SYSTEMS:
            scores = tuple(own.mean(axis=1)[None] for own in scores)
        value, other = (float(one.against(here)(own)[0]) for own in scores)
        without, of_other = (one.without_each(own, here) for own in scores)
        if without is not None and of_other is not None:
            p = jackknife_p(value - other, without - of_other)
        else:
            p = one.test(*(own[0] / unit for own, unit in zip(scores, units, strict=True)), here)
        row = Row("", one.level, "", None, one.name, value, value - other, None, None, 0, None, p)
        name = "jackknife" if without is not None else "PERM-SYSTEMS"
        found[one.name, one.level, name] = verdict(row).word in (BETTER, WORSE)
    return found


@cache
def with_verdict() -> tuple[Statistic, ...]:
    """Every statistic of polyref that gives verdicts."""
    every = [one for name in STATISTICS.names() for one in statistics_called(name)]
    return tuple(one for one in every if not one.pooled and one.higher_is_better is not None)


def of_intervals(first: FloatArray, second: FloatArray, gold: Gold, seed: int, *, resamples: int) -> Found:
    """The same if verdicts were made from intervals that exclude zero, or from Williams' test."""
    human, quality = np.stack(list(gold.segment.values())), np.array(list(gold.system.values()))
    universe = np.ones(human.shape[1], dtype=np.bool_)
    found: Found = {}
    for redrawn in REDRAWN:
        bootstrap = Bootstrap(resamples, seed=seed, over=redrawn)
        over = "segments and systems" if redrawn == "both" else redrawn
        within = KENDALL_WITHOUT_TIES.against(People(human, universe, bootstrap))
        found["kendall-without-ties", "seg", over] = apart(within(first) - within(second), bootstrap)
        people = People(quality, universe, bootstrap)
        means = [system_scores(scores, people.draws) for scores in (first, second)]
        pearson = PEARSON[0].against(people)
        found["pearson", "sys", over] = apart(pearson(means[0]) - pearson(means[1]), bootstrap)
        if redrawn == SEGMENTS:
            found["pearson", "sys", "Williams' test"] = (
                not 0.025 <= williams_test(*(m[0] for m in means), quality) <= 0.975
            )
    return found


def system_scores(scores: FloatArray, draws: FloatArray | None) -> FloatArray:
    whole = scores.mean(axis=1)[None]
    return whole if draws is None else np.concatenate([whole, draws @ scores.T / scores.shape[1]])


def apart(gains: FloatArray, bootstrap: Bootstrap) -> bool:
    interval = percentile_interval(gains[1:], bootstrap.confidence)
    return interval is not None and not interval[0] <= 0 <= interval[1]


def counted(trial: Trial, numbers: Sequence[int], judge: Judge) -> dict[tuple[str, ...], int]:
    """(null, statistic, level, what the verdict is from) -> wrong verdicts in these trials."""
    wrong: dict[tuple[str, ...], int] = {}
    for number in numbers:
        for null, first, second, gold in trial(number):
            for key, found in judge(first, second, gold, number).items():
                wrong[(null, *key)] = wrong.get((null, *key), 0) + found
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--intervals", type=int, default=300, help="trials of verdicts from intervals")
    parser.add_argument("--resamples", type=int, default=400, help="of intervals")
    parser.add_argument("--segments", type=int, default=200, help="of a trial of real scores")
    parser.add_argument("--scores", nargs="+", default=[""], help="only those whose name has one of these in it")
    parser.add_argument("--again", action="store_true", help="measure again what the table has")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the table")
    args = parser.parse_args()
    for name, systems, segments, load in settings(args.data, args.segments):
        if not any(part in name for part in args.scores):
            continue
        trial = load()
        measure(args, name, (systems, segments), trial, args.trials, verdicts, 0)
        if name.startswith("made up"):
            judge = partial(of_intervals, resamples=args.resamples)
            measure(args, name, (systems, segments), trial, args.intervals, judge, args.resamples)


def measure(
    args: argparse.Namespace, name: str, sizes: tuple[int, int], trial: Trial, trials: int, judge: Judge, resamples: int
) -> None:
    """Trials of one kind, from where the table ends."""
    path = args.out / "interval_levels.csv"

    same = {"scores": name, "systems": str(sizes[0]), "segments": str(sizes[1]), "resamples": str(resamples)}
    before = [] if args.again else [row for row in read(path) if same.items() <= row.items()]
    done = min((int(row["trials"]) for row in before), default=0)
    keys = ("null", "statistic", "level", "verdict")
    wrong = {tuple(row[key] for key in keys): round(float(row["wrong"]) * int(row["trials"])) for row in before}
    while done < trials:
        upto = min(done + STRETCH, trials)
        for key, count in counted(trial, range(done + 1, upto + 1), judge).items():
            wrong[key] = wrong.get(key, 0) + count
        done = upto
        rows = [
            dict(zip(COLUMNS, (name, *key, *sizes, f"{count / done:.4f}", done, resamples), strict=True))
            for key, count in wrong.items()
        ]
        update(path, COLUMNS, KEY, rows)
    print(
        name, sizes, *(f"{' '.join(key)}: {count / done:.4f}" for key, count in wrong.items()), sep="\n  ", flush=True
    )


if __name__ == "__main__":
    main()

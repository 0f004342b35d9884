"""How often a test calls two equal things different: share of trials with p <= .05.

A trial takes 400 segments of WMT22 zh-en at random and exchanges two things at random, so that no difference between
them is real: a test that holds its level rejects in 5 % of the trials, and nothing is learnt about the test set. All
tests are polyref's own, with 1,000 samples each, and see the same trials. There are three kinds:

- ``corpus``: two systems' outputs are exchanged by segment, and their corpus scores compared (``polyref score``).
- ``outputs``: the same for tests over scores of segments (``polyref evaluate --pairwise``): the paired t-test on a
  metric's scores, the rank-sum test on people's.
- ``agreement``: two metrics' scores are exchanged, and their agreement with people (MQM) compared: two-sided by what
  verdicts are made from and by Williams' test, one-sided ("the first agrees better") by the others. They are exchanged
  by output (each output keeps or exchanges its two scores), or by system (all outputs of a system do, and its corpus
  score; scores of systems are then corpus scores or means of those of outputs). Neither metric is better in both cases;
  but where systems are exchanged, each metric has a bias for or against each system, so that only tests about systems
  can hold their level.

What verdicts are made from is measured by ``scripts/bench/exactness/interval_levels.py``, for every statistic.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.statistics.base import bootstrap_p
from polyref.eval.statistics.significance import (
    perm_both,
    perm_systems,
    pooled_pearson,
    spread_of_outputs,
    system_pearson,
    williams_test,
)
from polyref.eval.system_pairs import paired_t_p, rank_sum_p
from polyref.metrics import Metric, get_metric
from polyref.metrics.significance import paired_bootstrap, paired_randomization
from polyref.metrics.statistics import Statistics

PAIR = "zh-en"
METRICS = ("bleu", "chrf++", "ter")
SYSTEMS = (("Online-A", "Online-B"), ("JDExploreAcademy", "LanguageX"))
#: Two metrics whose agreement with people is compared: name and references of each.
AGREEMENT = (
    (("bleu", ("refA",)), ("chrf++", ("refA",))),
    (("bleu", ("refA",)), ("bleu", ("refA", "refB"))),
)
LEVEL = 0.05
KEY: Final = ("kind", "metric", "systems", "test")
COLUMNS: Final = (*KEY, "trials", "rejected")
#: Of a trial, and of a test in it.
SEGMENTS: Final = 400
SAMPLES: Final = 1000

Floats = npt.NDArray[np.float64]
#: Name of a test -> what computes its p-value.
Tests = Mapping[str, Callable[[], float]]


def table(_: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of false-positives.csv."""
    for kind, trials in ((kind, KINDS[kind]) for kind in args.kinds):
        for metric, systems, trial in trials(args.data, SEGMENTS, SAMPLES):
            for test, rate in rejected(trial, args.trials).items():
                row = {"kind": kind, "metric": metric, "systems": systems, "test": test, "trials": args.trials}
                yield {**row, "rejected": f"{rate:.3f}"}
            print(f"{kind} {metric} {systems}: {args.trials} trials", file=sys.stderr, flush=True)


def rejected(
    trial: Callable[[int], Mapping[str, Callable[[], float]]], trials: int, tests: Sequence[str] | None = None
) -> dict[str, float]:
    """Share of trials in which each test finds a difference; ``trial`` prepares the tests of one, by its number."""
    found: dict[str, list[bool]] = {}
    for number in range(trials):
        for test, p_value in trial(number).items():
            if tests is None or test in tests:
                found.setdefault(test, []).append(p_value() <= LEVEL)
    return {test: float(np.mean(results)) for test, results in found.items()}


# -- corpus scores of two systems ------------------------------------------------------------------------------------


def corpus_trials(data: Path, segments: int, samples: int) -> Iterator[tuple[str, str, Any]]:
    evalset = EvalSet(data / "wmt22", PAIR)
    references = reference_set(evalset, ("refA",))
    for name, pair in itertools.product(METRICS, SYSTEMS):
        metric = get_metric(name)
        outputs = dict(zip(pair, evalset.outputs(pair), strict=True))
        stats = metric.statistics(outputs, references, ks=[0])
        yield name, "/".join(pair), lambda number, m=metric, s=stats: corpus_trial(m, s, number, segments, samples)


def corpus_trial(metric: Metric, stats: Statistics, number: int, segments: int, samples: int) -> Tests:
    """Tests of the second system against the first, their outputs exchanged."""
    here = exchanged(stats, np.random.default_rng((7, number)), segments)

    def bootstrap(null: Any) -> float:
        found = paired_bootstrap(metric, here, k=0, samples=samples, seed=number, null=null)
        assert found.p_value is not None
        return float(found.p_value[1])

    def percentile() -> float:
        draws = np.random.default_rng(number).multinomial(segments, np.full(segments, 1 / segments), size=samples)
        drawn = metric.resample(here, draws, k=0) @ [1, -1]
        return min(1.0, 2 * min(bootstrap_p(drawn), bootstrap_p(-drawn)))

    return {
        "paired-ar": lambda: float(paired_randomization(metric, here, k=0, trials=samples, seed=number)[1]),
        "paired-bs-shift": lambda: bootstrap("shift"),
        "paired-bs": lambda: bootstrap("sacrebleu"),
        "percentile interval": percentile,
    }


def exchanged(stats: Statistics, rng: np.random.Generator, segments: int) -> Statistics:
    """Random segments of two systems' statistics, exchanged between the two at random."""
    chosen = rng.choice(len(stats.segments), segments, replace=False)
    values = stats.values[:, :, chosen]
    swap = rng.integers(2, size=segments, dtype=bool)[:, None]
    return replace(
        stats,
        segments=tuple(stats.segments[index] for index in chosen),
        values=np.where(swap, values[:, ::-1], values),
        originals=stats.originals[chosen],
        extras=stats.extras[chosen],
    )


# -- scores of outputs -----------------------------------------------------------------------------------------------


def output_trials(data: Path, segments: int, samples: int) -> Iterator[tuple[str, str, Any]]:
    evalset = EvalSet(data / "wmt22.mqm", PAIR)
    human = evalset.gold("mqm").segment
    for name, test, own in (("bleu", "paired t-test", paired_t_p), ("mqm", "rank-sum test", rank_sum_p)):
        for pair in SYSTEMS:
            scores = np.stack([human[one] for one in pair]) if name == "mqm" else of_segments(evalset, name, pair)
            yield (
                name,
                "/".join(pair),
                lambda number, v=scores, t=test, f=own: output_trial(v, f, t, number, segments),
            )


def output_trial(
    scores: Floats, test: Callable[[Floats, Floats], float], name: str, number: int, segments: int
) -> Tests:
    rng = np.random.default_rng((8, number))
    here = scores[:, rng.choice(scores.shape[1], segments, replace=False)]
    return {name: lambda: test(*swapped(here[0], here[1], rng))}


def swapped(first: Floats, second: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Two arrays of one shape with their values exchanged at random."""
    swap = rng.integers(2, size=first.shape, dtype=bool)
    return np.where(swap, second, first), np.where(swap, first, second)


def of_segments(evalset: EvalSet, name: str, systems: Sequence[str], refs: Sequence[str] = ("refA",)) -> Floats:
    metric = get_metric(name)
    outputs = dict(zip(systems, evalset.outputs(systems), strict=True))
    stats = metric.statistics(outputs, reference_set(evalset, refs), ks=[0])
    return metric.aggregate(stats, k=0).segment


# -- agreement of two metrics with people ----------------------------------------------------------------------------


def agreement_trials(data: Path, segments: int, samples: int) -> Iterator[tuple[str, str, Any]]:
    evalset = EvalSet(data / "wmt22.mqm", PAIR)
    gold = evalset.gold("mqm").segment
    systems = list(gold)
    human = np.stack([gold[name] for name in systems])
    for pair in AGREEMENT:
        cells = [of_segments(evalset, name, systems, refs) for name, refs in pair]
        corpora = [
            corpus_scores(evalset, name, systems, refs, scores.std())
            for (name, refs), scores in zip(pair, cells, strict=True)
        ]
        outputs = [standard(scores) for scores in cells]
        label = "/".join(f"{name} {'+'.join(refs)}" for name, refs in pair)
        yield (
            label,
            f"{len(systems)} of {PAIR}",
            lambda number, c=outputs, w=corpora: agreement_trial(c, w, human, number, segments, samples),
        )


def corpus_scores(
    evalset: EvalSet, name: str, systems: Sequence[str], refs: Sequence[str], unit: float
) -> Callable[[npt.NDArray[np.intp]], Floats]:
    """Corpus scores of the systems on the given segments, in the unit of scores of outputs, their mean 0."""
    metric = get_metric(name)
    outputs = dict(zip(systems, evalset.outputs(systems), strict=True))
    stats = metric.statistics(outputs, reference_set(evalset, refs), ks=[0])

    def of(chosen: npt.NDArray[np.intp]) -> Floats:
        scores = metric.score_sums(stats.at(0)[:, chosen].sum(axis=1, dtype=np.int64)) / unit
        return np.asarray(scores - scores.mean())

    return of


def agreement_trial(
    cells: Sequence[Floats],
    corpora: Sequence[Callable[[npt.NDArray[np.intp]], Floats]],
    human: Floats,
    number: int,
    segments: int,
    samples: int,
) -> Tests:
    """Tests of "the metrics do not agree equally well", or "the first agrees better", the metrics' scores exchanged."""
    rng = np.random.default_rng((9, number))
    chosen = rng.choice(human.shape[1], segments, replace=False)
    here = human[:, chosen]
    people = here.mean(axis=1)
    by_output = swapped(cells[0][:, chosen], cells[1][:, chosen], rng)
    swap = rng.integers(2, size=len(people), dtype=bool)
    whole = exchanged_systems(corpora[0](chosen), corpora[1](chosen), swap)
    by_system = exchanged_systems(cells[0][:, chosen], cells[1][:, chosen], swap)

    def permuted(scores: tuple[Floats, Floats], statistic: Any) -> float:
        return perm_both(*scores, here, statistic=statistic, resamples=samples, seed=number)

    def redrawn(scores: tuple[Floats, Floats]) -> float:
        return bootstrap_difference(*scores, here, resamples=samples, seed=number)

    def systems(scores: Sequence[Floats], outputs: tuple[Floats, Floats]) -> float:
        first, second = (one / spread_of_outputs(own)[0] for one, own in zip(scores, outputs, strict=True))
        return two_sided(perm_systems(first, second, people, seed=number))

    means = [scores.mean(axis=1) for scores in by_output]
    means_of_systems = [scores.mean(axis=1) for scores in by_system]
    return {
        "PERM-SYSTEMS, outputs exchanged": lambda: systems(means, by_output),
        "PERM-SYSTEMS, systems exchanged": lambda: systems(whole, by_system),
        "Williams, outputs exchanged": lambda: two_sided(williams_test(*means, people)),
        "Williams, systems exchanged": lambda: two_sided(williams_test(*whole, people)),
        "PERM-SYSTEMS, means of systems exchanged": lambda: systems(means_of_systems, by_system),
        "Williams, means of systems exchanged": lambda: two_sided(williams_test(*means_of_systems, people)),
        "PERM-BOTH systems, outputs exchanged": lambda: permuted(by_output, system_pearson),
        "PERM-BOTH systems, systems exchanged": lambda: permuted(by_system, system_pearson),
        "PERM-BOTH segments, outputs exchanged": lambda: permuted(by_output, pooled_pearson),
        "bootstrap segments, outputs exchanged": lambda: redrawn(by_output),
    }


def bootstrap_difference(first: Floats, second: Floats, human: Floats, *, resamples: int, seed: int) -> float:
    """P-value of "the first does not agree better" in Pearson's r over all outputs (BOOT-INPUTS, Deutsch et al. 2021).

    Segments are redrawn, and both metrics see the same draw.

    Args:
        first: One metric's scores, shape (systems, segments), no NaN.
        second: The other's.
        human: Same shape, no NaN.
        resamples: Number of draws.
        seed: Equal seeds give equal results.
    """
    generator = np.random.default_rng(seed)
    differences = np.empty(resamples)
    for at in range(resamples):
        drawn = generator.integers(human.shape[1], size=(human.shape[1],))
        one, other = (pooled_pearson(scores[:, drawn][None], human[:, drawn]) for scores in (first, second))
        differences[at] = (one - other)[0]
    return bootstrap_p(differences)


def exchanged_systems(first: Floats, second: Floats, swap: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Scores of two metrics, those of some systems exchanged."""
    here = swap.reshape(-1, *[1] * (first.ndim - 1))
    return np.where(here, second, first), np.where(here, first, second)


def two_sided(p: float) -> float:
    """From a one-sided p-value."""
    return min(1.0, 2 * min(p, 1 - p))


def standard(scores: Floats) -> Floats:
    """Two metrics' scores can be exchanged on one scale alone."""
    return (scores - scores.mean()) / scores.std()


KINDS = {
    "corpus": corpus_trials,
    "outputs": output_trials,
    "agreement": agreement_trials,
}

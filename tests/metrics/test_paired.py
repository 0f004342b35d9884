"""Intervals and tests against sacreBLEU's, and the case that it gets wrong."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from polyref.errors import UsageError
from polyref.eval.statistics.base import Bootstrap, People
from polyref.eval.statistics.named import SOFT_PAIRWISE_ACCURACY
from polyref.metrics import get_metric
from polyref.metrics.significance import confidence, paired_bootstrap, paired_randomization
from polyref.references import ReferenceSet

WORDS = [*"abcdefghij", "the", "cat", "dog", "saw", "old", "in", "and", "was", "not"]


@pytest.fixture(scope="module")
def corpus() -> tuple[dict[str, list[str]], ReferenceSet]:
    """120 segments; "same" copies "base", "near" is a little worse, "far" much."""
    rng = random.Random(9)

    def noisy(text: str, rate: float) -> str:
        return " ".join(rng.choice(WORDS) if rng.random() < rate else word for word in text.split())

    references = [" ".join(rng.choices(WORDS, k=rng.randrange(6, 20))) for _ in range(120)]
    base = [noisy(text, 0.25) for text in references]
    systems = {"base": base, "same": list(base)}
    systems |= {name: [noisy(text, rate) for text in references] for name, rate in (("near", 0.27), ("far", 0.5))}
    paraphrases = [[noisy(text, 0.2)] for text in references]
    return systems, ReferenceSet.from_texts([[text] for text in references], paraphrases=paraphrases)


def peers(name: str, corpus: Any, test: str, samples: int) -> dict[str, list[Any]]:
    systems, references = corpus
    metric = BLEU() if name == "bleu" else CHRF(word_order=2)
    ranks = [list(rank) for rank in zip(*references.texts(), strict=True)]
    run = PairedTest(list(systems.items()), {"x": metric}, ranks, test_type=test, n_samples=samples)
    _, found = run()
    (results,) = (value for key, value in found.items() if key != "System")
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bleu", "chrf++"])
def test_paired_bootstrap_equals_sacrebleu(name: str, corpus: Any) -> None:
    metric = get_metric(name)
    stats = metric.statistics(*corpus)
    ours = paired_bootstrap(metric, stats, k=1, samples=500)
    for s, theirs in enumerate(peers(name, corpus, "bs", 500)):
        assert ours.mean[s] == pytest.approx(theirs.mean, abs=1e-4)
        assert ours.half_width[s] == pytest.approx(theirs.ci, abs=1e-4)
        if s > 1:
            assert ours.p_value[s] == pytest.approx(theirs.p_value, abs=1 / 500)
    assert np.isnan(ours.p_value[0])
    assert ours.p_value[1] == 1
    assert ours.p_value[3] < 0.01 < ours.p_value[2]
    assert metric.corpus(stats, k=1).tolist() == metric.aggregate(stats, k=1).system.tolist()
    alone = confidence(metric, stats, k=1, samples=500)
    assert alone.mean.tolist() == ours.mean.tolist()
    assert np.all((alone.low < alone.mean) & (alone.mean < alone.high))
    assert alone.p_value is None


@pytest.mark.parametrize("name", ["bleu", "chrf++"])
def test_randomization_equals_sacrebleu(name: str, corpus: Any) -> None:
    metric = get_metric(name)
    stats = metric.statistics(*corpus)
    ours = paired_randomization(metric, stats, k=1, trials=1500)
    theirs = peers(name, corpus, "ar", 1500)
    assert np.isnan(ours[0])
    assert ours[1] == 1
    assert ours[2:].tolist() == pytest.approx([result.p_value for result in theirs[2:]], abs=1e-9)
    assert ours[3] < 0.01 < ours[2]


@pytest.mark.parametrize(
    ("name", "options"), [("ter", {}), ("bleu", {"combine": "expected"}), ("chrf", {"combine": "mean"})]
)
def test_equal_systems_stay_equal_where_statistics_are_fractions(name: str, options: Any, corpus: Any) -> None:
    metric = get_metric(name, **options)
    stats = metric.statistics(*corpus)
    assert paired_bootstrap(metric, stats, k=1, samples=300).p_value[1] == 1
    assert paired_randomization(metric, stats, k=1, trials=300)[1] == 1


def test_another_baseline_and_seed(corpus: Any) -> None:
    metric = get_metric("bleu")
    stats = metric.statistics(*corpus)
    result = paired_bootstrap(metric, stats, k=0, baseline=3, samples=200, seed=4)
    assert np.flatnonzero(np.isnan(result.p_value)).tolist() == [3]
    again = paired_bootstrap(metric, stats, k=0, baseline=3, samples=200, seed=4)
    assert result.mean.tolist() == again.mean.tolist()
    assert result.mean.tolist() != paired_bootstrap(metric, stats, k=0, samples=200, seed=5).mean.tolist()


def test_too_few_samples(corpus: Any) -> None:
    metric = get_metric("bleu")
    stats = metric.statistics(*corpus)
    with pytest.raises(UsageError, match="1 bootstrap samples, expected 2 or more"):
        confidence(metric, stats, k=0, samples=1)
    with pytest.raises(UsageError, match="0 trials, expected 1 or more"):
        paired_randomization(metric, stats, k=0, trials=0)


@pytest.mark.parametrize("name", ["bleu", "ter"])
def test_segments_without_a_reference_are_not_drawn(name: str) -> None:
    """Four of six segments have none: a sample of these alone has no score, and its p-value no meaning."""
    references = ReferenceSet.from_texts([["the old cat saw a dog"], [], [], ["it was not in the c d"], [], []])
    outputs = ["the old cat saw a b", "a", "b", "it was in the c d", "c", "d"]
    metric = get_metric(name)
    stats = metric.statistics({"A": outputs, "same": list(outputs)}, references, allow_missing=True)
    found = paired_bootstrap(metric, stats, k=0, samples=200)
    assert found.p_value is not None
    assert found.p_value[1] == 1
    assert np.isfinite(found.half_width).all()
    kept = ReferenceSet.from_texts([["the old cat saw a dog"], ["it was not in the c d"]])
    alone = metric.statistics({"A": [outputs[0], outputs[3]]}, kept)
    assert found.low[0] == confidence(metric, alone, k=0, samples=200).low[0]
    none = metric.statistics({"A": ["a"]}, ReferenceSet.from_texts([[]]), allow_missing=True)
    assert np.isnan(metric.aggregate(none, k=0).system[0])
    assert np.isnan(metric.corpus(none, k=0)[0])
    for test in (confidence, paired_bootstrap, paired_randomization):
        with pytest.raises(UsageError, match="no segment has a reference"):
            test(metric, none, k=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_the_shifted_bootstrap_holds_its_level_and_sacrebleus_does_not(name: str, corpus: Any) -> None:
    """Two systems whose outputs are exchanged at random are equal: at .05, one trial in twenty may say otherwise."""
    systems, references = corpus
    metric = get_metric(name)
    stats = metric.statistics({name: systems[name] for name in ("base", "near")}, references, ks=[0])
    rng = np.random.default_rng(3)
    trials, rejected = 300, dict.fromkeys(("shift", "sacrebleu"), 0)
    for trial in range(trials):
        swap = rng.integers(2, size=len(references), dtype=bool)
        values = np.where(swap[None, None, :, None], stats.values[:, ::-1], stats.values)
        mixed = replace(stats, values=values)
        for null in rejected:
            found = paired_bootstrap(metric, mixed, k=0, samples=200, seed=trial, null=null)  # type: ignore[arg-type]
            assert found.p_value is not None
            rejected[null] += bool(found.p_value[1] <= 0.05)
    assert rejected["shift"] <= 0.08 * trials < rejected["sacrebleu"], rejected


def test_an_unknown_null_is_refused(corpus: Any) -> None:
    systems, references = corpus
    metric = get_metric("bleu")
    stats = metric.statistics(systems, references, ks=[0])
    with pytest.raises(UsageError, match="`null` is 'x', expected one of sacrebleu, shift"):
        paired_bootstrap(metric, stats, k=0, null="x")  # type: ignore[arg-type]


def _long(name: str, corpus: Any, segments: int) -> tuple[Any, Any]:
    """A metric, and the corpus again and again."""
    metric = get_metric(name)
    stats = metric.statistics(*corpus)
    times = -(-segments // len(stats.segments))
    again = {key: np.tile(getattr(stats, key), times)[:segments] for key in ("originals", "extras")}
    values = np.tile(stats.values, (1, 1, times, 1))[:, :, :segments]
    return metric, replace(stats, segments=tuple(map(str, range(segments))), values=values, **again)


@pytest.mark.parametrize("segments", [120, 4567, 9001])
@pytest.mark.parametrize("name", ["chrf", "bleu(combine=mean)"])
def test_blocks_of_trials_give_what_all_at_once_do(name: str, segments: int, corpus: Any) -> None:
    metric, stats = _long(name, corpus, segments)
    values = stats.at(1).astype(np.float64)
    swap = np.random.default_rng(7).integers(2, size=(1500, segments), dtype=bool)
    totals, sums = values.sum(axis=1), []
    for coins in swap:
        moved = (values[0] - values)[:, coins].sum(axis=1)
        sums.append(metric.score_sums(totals + moved) - metric.score_sums(totals[0] - moved))
    actual = metric.score_sums(totals)
    expected = (np.sum(np.abs(sums) >= np.abs(actual - actual[0]) - 1e-9, axis=0) + 1) / 1501
    found = paired_randomization(metric, stats, k=1, trials=1500, seed=7)
    assert (found[1:] == expected[1:]).all() and found[1] == 1
    drawn = np.random.default_rng(7).choice(segments, size=(1200, segments), replace=True)
    scores = np.stack([metric.score_sums(values[:, rows].sum(axis=1)) for rows in drawn])
    bootstrap = paired_bootstrap(metric, stats, k=1, samples=1200, seed=7)
    assert bootstrap.mean == pytest.approx(scores.mean(axis=0), rel=1e-12)
    differences = scores - scores[:, [0]]
    shifted = np.abs(differences) - np.abs(differences).mean(axis=0)
    expected = (np.sum(shifted >= np.abs(actual - actual[0]) - 1e-9, axis=0) + 1) / 1201
    assert bootstrap.p_value is not None and (bootstrap.p_value[1:] == expected[1:]).all()


def test_memory_does_not_grow_with_trials_times_segments(corpus: Any) -> None:
    metric, stats = _long("chrf(char_order=1)", corpus, 60_000)
    for test, more in ((paired_randomization, {"trials": 3000}), (paired_bootstrap, {"samples": 300})):
        tracemalloc.start()
        test(metric, stats, k=1, **more)  # type: ignore[operator]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 160 << 20, test.__name__


def test_memory_of_soft_pairwise_accuracy() -> None:
    rng = np.random.default_rng(3)
    human, scores = rng.normal(size=(2, 2, 30_000))
    tracemalloc.start()
    SOFT_PAIRWISE_ACCURACY.against(People(human, bootstrap=Bootstrap(0)))(scores)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 120 << 20

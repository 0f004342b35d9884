"""Peer evaluation: ways to sum up tokens and samples, seeded draws, thresholds and their choice."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr

from polyref.errors import DataError, UsageError
from polyref.metrics.likelihood.peer import Peer
from polyref.models.scorers import load_scorer
from polyref.references import ReferenceSet, Segment

SOURCES = ["two children throw bread to the ducks", "a grey heron waits", "the wind turns the boats", ""]
SYSTEMS = {
    "A": ["the children feed the ducks", "a heron waits", "the boats swing round", "nobody"],
    "B": ["two ducks throw bread", "", "the boats swing round on their ropes", ""],
    "C": ["bread bread", "the old mill", "the river", "the"],
}


def refset(sources: list[str] = SOURCES) -> ReferenceSet:
    return ReferenceSet(tuple(Segment(str(n), (), source=text) for n, text in enumerate(sources)))


def peer(folder: Path | str, **options: Any) -> Peer:
    # The shipped model reads English only: its "sources" are pivot texts.
    return Peer(model=str(folder), source_lang="en", **options)


def scores(metric: Peer, systems: dict[str, list[str]] = SYSTEMS, sources: list[str] = SOURCES) -> np.ndarray:
    found = metric.aggregate(metric.statistics(systems, refset(sources)), k=0)
    np.testing.assert_allclose(found.system, found.segment.mean(axis=1))
    return found.segment


def test_sources_and_all_digits_are_in_signatures(seq2seq: dict[str, Path]) -> None:
    def signature(sources: list[str] = SOURCES, **options: Any) -> str:
        metric = peer(seq2seq["m2m"], **options)
        return metric.aggregate(metric.statistics(SYSTEMS, refset(sources)), k=0).signature

    assert signature() != signature(SOURCES[::-1])
    assert "|thresholds:0.01234567..1|" in signature(low=0.01234567)


@pytest.mark.parametrize("tokens", ["mean", "sum", "median", "min", "std"])
def test_sums_up_tokens(tokens: str, seq2seq: dict[str, Path]) -> None:
    low, high = 0.002, 0.02
    plain, bounded = (scores(peer(seq2seq["m2m"], tokens=tokens, low=a, high=b)) for a, b in ((0.0, 1.0), (low, high)))
    scorer = load_scorer(seq2seq["m2m"])
    reduce = {"mean": np.mean, "sum": np.sum, "median": np.median, "min": np.min, "std": lambda row: -np.std(row)}
    changed = 0
    for s, outputs in enumerate(SYSTEMS.values()):
        for n, (source, output) in enumerate(zip(SOURCES, outputs)):
            job = scorer.source(source, "en"), scorer.target(output, "en")
            row = scorer.score([job], "en")[0].astype(np.float64)
            assert plain[s, n] == pytest.approx(reduce[tokens](row), abs=1e-5)
            clipped = np.minimum(np.maximum(row, np.log(low)), np.log(high))
            changed += bool((clipped != row).any())
            assert bounded[s, n] == pytest.approx(reduce[tokens](clipped), abs=1e-5)
    assert changed > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bart", "t5", "m2m"])
def test_dropout_is_seeded_by_the_pair_alone(name: str, seq2seq: dict[str, Path]) -> None:
    source_lang = "en" if name == "m2m" else None

    def make(**more: Any) -> Peer:
        return Peer(model=str(seq2seq[name]), source_lang=source_lang, **{"dropout": 0.1, "samples": 5, **more})

    base = scores(make())
    assert np.array_equal(base, scores(make()))
    assert not np.allclose(base, scores(make(seed=2)), atol=1e-4)
    plain = scores(make(dropout=0.0, samples=1))
    assert not np.allclose(base, plain, atol=1e-4)
    turned = {system: SYSTEMS[system][::-1] for system in ("C", "A")}
    other = scores(make(), turned, SOURCES[::-1])
    assert np.array_equal(other[:, ::-1], base[[2, 0]])
    # More samples come nearer to each other's mean than single draws are.
    spread = -scores(make(over="std"))
    assert (spread >= 0).all() and spread.max() > 0.01


@pytest.mark.slow
def test_a_dropout_sample_is_a_forward_pass_of_the_thinned_network(seq2seq: dict[str, Path]) -> None:
    for name, lang in (("bart", None), ("t5", None), ("m2m", "en"), ("shipped", "en")):
        scorer = load_scorer(seq2seq.get(name, "shipped"))
        job = scorer.source(SOURCES[0], scorer.read(lang)), scorer.target(SYSTEMS["A"][0], lang)
        plain = scorer.score([job], lang)[0]
        none = scorer.dropout_scores(job, lang, samples=3, rate=0.0, seed=1)
        assert none.shape == (3, len(job[1]))
        np.testing.assert_allclose(none, np.tile(plain, (3, 1)), atol=1e-5)
        some = scorer.dropout_scores(job, lang, samples=30, rate=0.1, seed=1)
        assert len(np.unique(some.mean(axis=1))) == 30
        assert np.array_equal(some, scorer.dropout_scores(job, lang, samples=30, rate=0.1, seed=1))
        # Nothing is left switched on.
        assert np.array_equal(scorer.score([job], lang)[0], plain)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shipped", "m2m"])
def test_sampled_segmentations_spell_the_same_text(name: str, seq2seq: dict[str, Path]) -> None:
    scorer = load_scorer(seq2seq.get(name, "shipped"))
    text = SYSTEMS["B"][2]
    drawn = scorer.segmentations("target", text, "en", count=40, alpha=0.1, nbest=16, seed=3)
    assert len(set(drawn)) > 3
    assert {scorer._codec.decode(t) for t in drawn} == {text}
    assert drawn == scorer.segmentations("target", text, "en", count=40, alpha=0.1, nbest=16, seed=3)
    assert drawn != scorer.segmentations("target", text, "en", count=40, alpha=0.1, nbest=16, seed=4)
    # A sharp distribution draws the best one, which is the usual one.
    assert set(scorer.segmentations("target", text, "en", count=9, alpha=50, nbest=16, seed=1)) == {
        scorer.target(text, "en")
    }
    assert set(scorer.segmentations("source", "", "en", count=2, alpha=1, nbest=4, seed=1)) == {scorer.source("", "en")}


@pytest.mark.parametrize("name", ["shipped", "m2m"])
@pytest.mark.parametrize("space", ["\u00a0", "\t", "\n", "\u2028", "  "], ids=["NBSP", "tab", "LF", "U+2028", "two"])
def test_white_space_of_any_kind_is_segmented(name: str, space: str, seq2seq: dict[str, Path]) -> None:
    scorer = load_scorer(seq2seq.get(name, name))
    options: dict[str, Any] = {"count": 9, "alpha": 50, "nbest": 16, "seed": 1}
    drawn = scorer.segmentations("target", f" the cat{space}sat", "en", **options)
    assert set(drawn) == {scorer.target("the cat sat", "en")}


def test_a_text_with_a_special_token_is_named(seq2seq: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="segmentations of 'the </s> cat' cannot be sampled"):
        load_scorer(seq2seq["m2m"]).segmentations("target", "the </s> cat", "en", count=1, alpha=1, nbest=4, seed=1)


def test_sampled_segmentations_are_seeded_by_the_pair_alone(seq2seq: dict[str, Path]) -> None:
    metric = peer(seq2seq["m2m"], subwords=0.2, samples=4)
    base = scores(metric)
    other = scores(metric, {"C": SYSTEMS["C"][::-1]}, SOURCES[::-1])
    np.testing.assert_allclose(other[0, ::-1], base[2], atol=1e-6)
    assert not np.allclose(base, scores(peer(seq2seq["m2m"])), atol=1e-3)
    both = peer(seq2seq["m2m"], subwords=0.2, samples=2, dropout=0.1, over="min")
    assert np.array_equal(scores(both), scores(both))


def test_thresholds_are_chosen_on_development_data(seq2seq: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    choose_thresholds = importlib.import_module("peer_thresholds").choose_thresholds
    metric = peer(seq2seq["m2m"])
    rng = np.random.default_rng(1)
    human = rng.normal(size=(3, 4))
    human[0, 1] = human[2, 3] = np.nan
    grid: dict[str, Any] = {"lows": (0.0, 0.002, 0.1), "highs": (0.02, 1.0)}
    judged = ~np.isnan(human)
    for statistic, compute in (("pearson", pearsonr), ("kendall", kendalltau)):
        found = choose_thresholds(metric, SYSTEMS, refset(), human, statistic=statistic, **grid)
        assert len(found) == 5  # 0.1 is above 0.02
        assert [one.value for one in found] == sorted((one.value for one in found), reverse=True)
        for one in found:
            values = scores(peer(seq2seq["m2m"], low=one.low, high=one.high))
            assert one.value == pytest.approx(compute(values[judged], human[judged]).statistic, abs=1e-6)
    found = choose_thresholds(metric, SYSTEMS, refset(), human, statistic="system", **grid)
    values = scores(peer(seq2seq["m2m"], low=found[0].low, high=found[0].high))
    means = [[row[mask].mean() for row, mask in zip(rows, judged)] for rows in (values, human)]
    assert found[0].value == pytest.approx(pearsonr(*means).statistic, abs=1e-6)
    with pytest.raises(DataError, match=r"shape \(2, 4\), expected 3 systems x 4 segments"):
        choose_thresholds(metric, SYSTEMS, refset(), human[:2])
    with pytest.raises(DataError, match="expected at least two"):
        choose_thresholds(metric, SYSTEMS, refset(), np.full((3, 4), np.nan))
    with pytest.raises(UsageError, match="no low threshold"):
        choose_thresholds(metric, SYSTEMS, refset(), human, lows=(0.5,), highs=(0.2,))
    with pytest.raises(UsageError, match="expected pearson, kendall or system"):
        choose_thresholds(metric, SYSTEMS, refset(), human, statistic="spearman")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": "max"}, "`tokens` is 'max', expected one of mean, sum, median, min, std"),
        ({"over": "std"}, "std over samples, but there is one"),
        ({"samples": 3}, "3 samples would be equal"),
        ({"samples": 0}, "`samples` is 0, expected 1 or more"),
        ({"dropout": 1.0}, "`dropout` is 1.0, expected 0 or more and below 1"),
        ({"subwords": -1.0}, "`subwords` is -1.0, expected 0 or more"),
        ({"low": 0.5, "high": 0.5}, "expected 0 <= low < high <= 1"),
    ],
)
def test_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Peer(model="shipped", **options)


@pytest.mark.slow
def test_signature_and_models_without_sampled_segmentations(seq2seq: dict[str, Path]) -> None:
    metric = peer("shipped", subwords=0.2, samples=2, dropout=0.1, low=0.01, tokens="median", seed=7)
    signature = metric.aggregate(metric.statistics(SYSTEMS, refset()), k=0).signature
    for part in ("tokens:median", "samples:2*mean", "dropout:0.1", "subwords:0.2/64", "seed:7", "thresholds:0.01..1"):
        assert f"|{part}|" in signature
    assert signature.startswith("Peer|model:polyref-en|") and "|k:" not in signature
    with pytest.raises(UsageError, match="t5: its tokeniser cannot sample segmentations"):
        Peer(model=str(seq2seq["t5"]), subwords=0.1).statistics(SYSTEMS, refset())

"""The evidence: the script measures what ``polyref evaluate --placebo`` prints, and its controls are what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyref
from polyref.metrics.likelihood import SequenceMetric
from polyref.metrics.registry import get_metric

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MINIMAL = REPOSITORY / "tests" / "eval" / "minimal"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (REPOSITORY / "scripts" / "bench", REPOSITORY / "scripts" / "bench" / "quality"):
        monkeypatch.syspath_prepend(folder)


@pytest.mark.slow
def test_it_measures_what_evaluate_prints() -> None:
    from material import Judges, Material, measured
    from sets import Set

    from polyref.eval.data.reference_sets import reference_set
    from polyref.eval.statistics.base import Bootstrap

    material = Material.of(Set("minimal", MINIMAL.name, "de-en", "refA", "mqm"), MINIMAL.parent)
    lists = MINIMAL / "paraphrases" / "de-en.refA.jsonl"
    references = reference_set(material.loaded.evalset, ["refA"], lists)
    metrics = {name: get_metric("chrf", combine=name) for name in ("max", "blend")}
    real, fakes = measured(material, references, metrics, [0, 1], 2, 4, None)
    judges = Judges(material, Bootstrap(50, seed=4))
    table = polyref.evaluate(
        MINIMAL,
        "de-en",
        references=lists,
        ref="refA",
        gold="mqm",
        metrics=[f"chrf(combine={name})" for name in metrics],
        ks=[0, 1],
        statistics=["kendall-tau-b-items", "acc23"],
        placebo=2,
        resamples=50,
        seed=4,
    )
    printed = {
        (row["metric"], row["k"], row["level"], row["statistic"], row["control"] or "real"): row["value"]
        for row in table.rows
    }
    for index, name in enumerate(metrics):
        metric = f"chrf(combine={name})"
        given = judges.samples(real[index], 1)
        controls = [judges.samples(fake[index], 1) for fake in fakes]
        assert len(given) == 5
        for (level, statistic), values in given.items():
            control = np.mean([one[level, statistic] for one in controls], axis=0)
            assert values[0] == pytest.approx(printed[metric, 1, level, statistic, "real"])
            assert control[0] == pytest.approx(printed[metric, 1, level, statistic, "placebo"])
            difference = printed[metric, 1, level, statistic, "real - placebo"]
            assert values[0] - control[0] == pytest.approx(difference)


def test_scores_of_pairs_are_computed_once(tmp_path: Path) -> None:
    from pair_scores import _Store

    asked: list[tuple[str, str]] = []

    def lengths(pairs: object) -> np.ndarray:
        assert isinstance(pairs, list)
        asked.extend(pairs)
        return np.array([[float(len(a)), float(len(b))] for a, b in pairs])

    pairs = [("a", "bb"), ("ccc", "d")]
    first = _Store(tmp_path / "pairs.sqlite").scores(pairs, lengths, 2)
    again = _Store(tmp_path / "pairs.sqlite").scores([*reversed(pairs), ("", "e")], lengths, 2)
    assert first.tolist() == [[1.0, 2.0], [3.0, 1.0]]
    assert again.tolist() == [[3.0, 1.0], [1.0, 2.0], [0.0, 1.0]]
    assert asked == [*pairs, ("", "e")]


@pytest.mark.slow
def test_bartscore_reads_the_scores_of_prism(tmp_path: Path) -> None:
    """Both ask the shipped model the same questions, so its scores are computed once."""
    from pair_scores import metric_of

    from polyref.metrics.pairs import PairMetric

    pairs = [("The museum is closed on Mondays.", "On Mondays the museum is closed."), ("He slept.", "He was awake.")]
    for name, directions in (("precision", 1), ("recall", 1), ("f", 3)):
        kept = metric_of(f"bartscore-{name}", "max", tmp_path)
        exact = get_metric("bartscore", model="shipped", direction=name, cache=False, jobs=1)
        assert isinstance(kept, PairMetric)
        assert isinstance(exact, PairMetric)
        assert kept._pairs(pairs).shape == (2, directions)
        assert kept._pairs(pairs) == pytest.approx(exact._pairs(pairs), abs=1e-6)
    assert [path.name.partition("-")[0] for path in (tmp_path / "pairs").iterdir()] == ["prism"]


@pytest.mark.parametrize("name", ["prism", "bartscore-recall"])
def test_another_model_has_scores_of_its_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was trained again has the same name and options."""
    from evidence import _models_of, models_behind
    from pair_scores import metric_of

    def kept() -> int:
        return len(list((tmp_path / "pairs").iterdir()))

    before = metric_of(name, "max", tmp_path)
    (first,) = models_behind({"metric": name}, {}, tmp_path)[:1]
    assert kept() == 1
    assert isinstance(before, SequenceMetric)
    assert f"sha:{before.scorer.digest}" in first
    monkeypatch.setattr(before.scorer, "digest", "0123456789ab")
    metric_of(name, "max", tmp_path)
    assert kept() == 2
    _models_of.cache_clear()
    (second,) = models_behind({"metric": name}, {}, tmp_path)[:1]
    _models_of.cache_clear()
    assert "sha:0123456789ab" in second


def test_rows_say_whose_references_they_have() -> None:
    from evidence import models_behind
    from looks import from_commit

    (none, writers) = models_behind({"metric": "bleu", "references": "shipped"}, {}, Path())
    assert none == "" and "|sha:" in writers
    assert models_behind({"members": "bleu + chrf++", "references": "llm"}, {}, Path())[-1] == ""
    row = from_commit({"metric": "bleu"}, "abc1234", none, writers)
    assert row == {"metric": "bleu", "commit": "abc1234", "models": writers}


def test_the_ledger_says_what_was_looked_at(tmp_path: Path) -> None:
    from argparse import Namespace

    from evidence import looked_at, note_look
    from raw_tables import read

    args = Namespace(
        metrics=["bleu"], uses=["max"], k=[0, 10], references=["llm", "shipped"], placebo=5, resamples=9, seed=1
    )
    note_look(tmp_path / "ledger.csv", "gains", "lt", args, "abc1234")
    note_look(tmp_path / "ledger.csv", "noise", "wmt22-zh", args, "abc1234")
    first, second = read(tmp_path / "ledger.csv")
    assert (first["set"], first["references"], first["ks"], first["resamples"]) == (
        "wmt19 lt-en ref darr",
        "shipped",
        "0 10",
        "9",
    )
    assert (second["metrics"], second["uses"], second["part"]) == ("bleu chrf++", "max expected blend", "noise")
    assert looked_at("ensembles", "wmt22-zh", args)["references"] == "llm"
    assert "esim" not in looked_at("metrics", "gu", args)["metrics"]
    assert "esim" in looked_at("metrics", "news", args)["metrics"]


def test_wrong_references_are_those_of_other_segments() -> None:
    from parts.quality import with_wrong

    from polyref.references import ReferenceSet

    texts = [f"text {n}" for n in range(40)]
    references = ReferenceSet.from_texts([[text] for text in texts], paraphrases=[[f"{text} again"] for text in texts])
    assert [segment.refs for segment in with_wrong(references, 0.0, 1)] == [segment.refs for segment in references]
    half = with_wrong(references, 0.5, 1)
    wrong = [segment.extras[0].text != f"{text} again" for segment, text in zip(half, texts, strict=True)]
    assert 10 <= sum(wrong) <= 30
    assert all(segment.originals == real.originals for segment, real in zip(half, references, strict=True))


def test_a_test_set_is_asked_for_by_name() -> None:
    from evidence import wanted

    from polyref.errors import UsageError

    assert wanted(None, test=False) == ["news", "bio-de", "bio-es", "bio-ru"]
    assert wanted(["gu"], test=True) == ["gu"]
    assert wanted(["wmt22-de"], test=False) == ["wmt22-de"]
    for names, test in ((["gu"], False), (["news"], True)):
        with pytest.raises(UsageError, match="--test"):
            wanted(names, test=test)

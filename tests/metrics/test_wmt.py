"""Real test sets: sacreBLEU's numbers on all systems, and the scores that the organisers of WMT published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thorough import THOROUGH

from polyref.metrics import Metric, Statistics, get_metric
from polyref.metrics.ngram import native
from polyref.references import ReferenceSet
from polyref.textfiles import read_lines

pytestmark = pytest.mark.data


def read_systems(folder: Path) -> dict[str, list[str]]:
    # Not read_lines: it drops a byte order mark, and one output of WMT23 was scored with its own (AIRC, en-de).
    return {path.stem: path.read_bytes().decode().split("\n")[:-1] for path in sorted(folder.glob("*.txt"))}


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``count(metric, systems, references, ks)``: statistics, which C (where it is built) and NumPy agree upon."""

    def both(metric: Metric, systems: Mapping[str, list[str]], references: ReferenceSet, ks: list[int]) -> Statistics:
        monkeypatch.setenv(native.ENVIRONMENT, "0")
        stats = metric.statistics(systems, references, ks=ks)
        monkeypatch.delenv(native.ENVIRONMENT)
        if native.LIBRARY.is_file():
            assert native.available()
            assert np.array_equal(metric.statistics(systems, references, ks=ks).values, stats.values)
        return stats

    return both


@pytest.fixture(scope="module")
def paraphrased(data_dir: Path) -> ReferenceSet:
    return ReferenceSet.load(data_dir / "wmt22" / "paraphrases" / "zh-en.refA.jsonl")


@pytest.fixture(scope="module")
def outputs(data_dir: Path) -> dict[str, list[str]]:
    return read_systems(data_dir / "wmt22" / "system-outputs" / "zh-en")


# chrF takes sacreBLEU long: every fourth segment, and one system, unless there is time. chrF alone is a part of chrF++.
@pytest.mark.parametrize(
    ("name", "systems"),
    [("bleu", 13), ("chrf", 3), ("chrf++", 13)] if THOROUGH else [("bleu", 13), ("chrf++", 1)],
)
def test_ten_paraphrases_equal_sacrebleu(
    name: str, systems: int, paraphrased: ReferenceSet, outputs: Mapping[str, list[str]], peer: Any, count: Any
) -> None:
    assert len(outputs) == 13
    part = slice(None, None, 1 if THOROUGH or name == "bleu" else 4)
    paraphrased = ReferenceSet(paraphrased.segments[part])
    outputs = {system: texts[part] for system, texts in list(outputs.items())[:systems]}
    metric = get_metric(name)
    stats = count(metric, outputs, paraphrased, [0, 10])
    scores = metric.aggregate(stats, k=10)
    texts = paraphrased.texts()
    oracle = peer(name)
    # Public calls read the references again for every system and sentence: one system here, the rest from the cache
    # that sacreBLEU itself uses for significance tests.
    some = slice(0, 300)
    assert scores.system[0] == pytest.approx(oracle.corpus(outputs[stats.systems[0]], texts), abs=1e-9)
    public = oracle.sentences(outputs[stats.systems[0]][some], texts[some])
    np.testing.assert_allclose(scores.segment[0, some], public, rtol=0, atol=1e-9)

    corpus, sentence = oracle.corpus_metric, oracle.sentence_metric
    corpus._ref_cache = corpus._cache_references([list(rank) for rank in zip(*texts, strict=True)])
    for s, system in enumerate(stats.systems):
        rows = corpus._extract_corpus_statistics(outputs[system], None)
        assert np.array_equal(stats.at(10)[s], rows)
        assert scores.system[s] == pytest.approx(corpus._aggregate_and_compute(rows).score, abs=1e-9)
        expected = [sentence._compute_score_from_stats(row).score for row in rows]
        np.testing.assert_allclose(scores.segment[s], expected, rtol=0, atol=1e-9)


def test_ter_equals_sacrebleu(
    paraphrased: ReferenceSet, outputs: Mapping[str, list[str]], peer: Any, count: Any
) -> None:
    # Every 200th segment, two systems: sacreBLEU takes about a hundredth of a second for a pair of texts.
    part = ReferenceSet(paraphrased.segments[::200])
    systems = {name: texts[::200] for name, texts in list(outputs.items())[:2]}
    metric = get_metric("ter")
    scores = metric.aggregate(count(metric, systems, part, [0, 10]), k=10)
    for s, texts in enumerate(systems.values()):
        assert scores.system[s] == peer("ter").corpus(texts, part.texts())


SETS = [("wmt21.news", "zh-en"), ("wmt22", "zh-en"), ("wmt22", "de-en"), ("wmt22", "en-de"), ("wmt23", "en-de")]


@pytest.mark.parametrize(("name", "prefix"), [("bleu", "BLEU"), ("chrf", "chrF")])
@pytest.mark.parametrize(("folder", "pair"), SETS)
def test_published_scores(folder: str, pair: str, name: str, prefix: str, data_dir: Path, count: Any) -> None:
    home = data_dir / folder
    systems = read_systems(home / "system-outputs" / pair)
    metric = get_metric(name)
    files = sorted((home / "metric-scores" / pair).glob(f"{prefix}-*.sys.score"))
    assert files
    for file in files:
        names = file.name.removeprefix(f"{prefix}-").removesuffix(".sys.score").split(".")
        references = ReferenceSet.load(*(home / "references" / f"{pair}.{ref}.txt" for ref in names))
        published = dict(line.split() for line in read_lines(file))
        scored = {system: systems[system] for system in published}
        scores = metric.aggregate(count(metric, scored, references, [0]), k=0)
        # The published two-reference chrF of zh-en came from another release of sacreBLEU.
        tolerance = 0.009 if (name, pair, len(names)) == ("chrf", "zh-en", 2) else 5e-7
        expected = [float(value) for value in published.values()]
        np.testing.assert_allclose(scores.system, expected, rtol=0, atol=tolerance)

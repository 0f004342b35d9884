from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_encoders

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.metrics.combination import MaximumEach
from polyref.metrics.embedding.laser_lm import LaserLM, LaserLMSource
from polyref.metrics.registry import get_metric
from polyref.metrics.statistics import Scores
from polyref.models.encoders import load_encoder
from polyref.models.language_model import Causal, load_language_model
from polyref.models.opening import find
from polyref.references import Reference, ReferenceSet, Segment

HUMAN = ["the old bridge was closed", "nobody knows why", "the cat sat on the mat"]
EXTRA = [["the bridge is closed", ""], [], ["a cat sat on a mat"]]
SYSTEMS = {
    "good": ["the old bridge is closed", "no one knows why", "the cat sat"],
    "poor": ["cat", "", "mat the on sat"],
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoders.bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A causal language model with a byte-level vocabulary and random weights."""
    return tiny_encoders.gpt(tmp_path_factory.mktemp("gpt"))


@pytest.fixture
def refset() -> ReferenceSet:
    return ReferenceSet.from_texts([[text] for text in HUMAN], paraphrases=EXTRA)


def pooled(bert: str, text: str, layer: int) -> np.ndarray:
    encoder = load_encoder(bert)
    (tokens,) = encoder.tokens([text])
    return encoder.states(tokens.ids[None], [layer])[0, 0][~tokens.special].astype(np.float64).mean(axis=0)


def test_the_score_is_a_mix_of_cosine_and_fluency(bert: str, gpt: str, refset: ReferenceSet) -> None:
    metric = LaserLM(model=bert, layer=2, lm=gpt, weight=0.7, combination=MaximumEach(), cache=False)
    stats = metric.statistics(SYSTEMS, refset)
    for s, outputs in enumerate(SYSTEMS.values()):
        for n, output in enumerate(outputs):
            fluency = alone(gpt, output)
            cosines = []
            for text in (HUMAN[n], *EXTRA[n]):
                if not text or not output:
                    cosines.append(0.0)
                    continue
                a, b = pooled(bert, text, 2), pooled(bert, output, 2)
                cosines.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
            best = max(cosines)
            assert stats.at(9)[s, n] == pytest.approx([best, fluency, 0.7 * best + 0.3 * fluency, 1], abs=1e-5)


def alone(gpt: str, text: str) -> float:
    """The mean log-probability from a plain forward pass, with start and end."""
    return float(tiny_encoders.forward_pass(gpt, text).mean())


def test_fluency_does_not_depend_on_neighbours_and_counts_each_text_once(gpt: str, monkeypatch: Any) -> None:
    texts = [*HUMAN, "", "cat", "the mat sat on the cat", "cat"]
    together = Causal(find(gpt, "language model"), "cpu").fluency(texts)
    assert together == pytest.approx([alone(gpt, text) for text in texts], abs=1e-5)
    model = Causal(find(gpt, "language model"), "cpu")
    model.fluency(texts)
    monkeypatch.setattr(model, "_sums", lambda _texts: pytest.fail("scored again"))
    assert np.array_equal(model.fluency(texts[::-1]), model.fluency(texts)[::-1])


def test_of_several_devices_a_process_takes_its_own(bert: str, gpt: str, refset: ReferenceSet) -> None:
    metrics = [LaserLM(model=bert, layer=2, lm=gpt, cache=False, jobs=1, device=names) for names in ("cpu", "cpu:0,1")]
    one, several = (metric.statistics(SYSTEMS, refset).values for metric in metrics)
    assert np.array_equal(one, several)


def test_long_texts_are_cut_and_warned_of(gpt: str) -> None:
    model, name = Causal(find(gpt, "language model"), "cpu"), Path(gpt).name
    (value,) = model.fluency(["x" * 100])
    assert value == pytest.approx(alone(gpt, "x" * 38), abs=1e-5)
    assert model.cut == {"x" * 100} and model.longest == 40
    with pytest.warns(PolyrefWarning, match=f"1 text is longer than {name} reads: scored from the beginning"):
        model.totals(["x" * 100, "x"])


@pytest.mark.filterwarnings("error")
def test_the_metric_says_how_many_texts_either_model_cuts(bert: str, gpt: str) -> None:
    references = ReferenceSet.from_texts([["the cat"], ["a b " * 20]])
    with pytest.warns(PolyrefWarning) as caught:
        LaserLM(model=bert, layer=2, lm=gpt).statistics({"A": ["x" * 100, "a"]}, references)
    assert [str(one.message).split(" tokens")[0] for one in caught] == [
        f"2 texts are longer than {Path(bert).name} reads: 24",
        f"1 text is longer than {Path(gpt).name} reads: 40",
    ]


def test_the_shipped_model_prefers_sentences_to_their_words_in_disorder() -> None:
    model = load_language_model("shipped")
    good = ["The old bridge was closed for repairs on Monday.", "Nobody knows why the lights went out."]
    bad = ["repairs Monday old the closed on for bridge was The.", "lights why out the knows went Nobody."]
    assert (model.fluency(good) > model.fluency(bad)).all()
    assert model.name == "polyref-en(unconditional)"


def test_by_source(bert: str, gpt: str) -> None:
    segments = [Segment(str(n), (), source=text) for n, text in enumerate(HUMAN)]
    metric = LaserLMSource(model=bert, layer=2, lm=gpt, cache=False)
    scores = metric.aggregate(metric.statistics(SYSTEMS, ReferenceSet(tuple(segments))), k=0)
    by_reference = LaserLM(model=bert, layer=2, lm=gpt, cache=False)
    references = ReferenceSet.from_texts([[text] for text in HUMAN])
    same = by_reference.aggregate(by_reference.statistics(SYSTEMS, references), k=0)
    assert scores.segment == pytest.approx(same.segment, abs=1e-6)
    assert scores.system == pytest.approx(same.system, abs=1e-6)
    assert scores.name == "LASER+LM-src" and scores.signature.startswith("LASER+LM-src|weight:0.9|model:bert|sha256:")
    many = ReferenceSet.from_texts([[text] for text in HUMAN], paraphrases=EXTRA)
    many = ReferenceSet(tuple(replace(segment, source=segment.refs[0].text) for segment in many))
    stats = metric.statistics(SYSTEMS, many)
    assert np.array_equal(stats.at(0), stats.at(2))
    with pytest.raises(DataError, match="segment 0 has no source"):
        metric.statistics(SYSTEMS, ReferenceSet(tuple(Segment(str(n), (Reference("a"),)) for n in range(3))))


def test_the_weight_is_tuned(bert: str, gpt: str, refset: ReferenceSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    tune_weight = importlib.import_module("laser_lm_weight").tune_weight
    metric = LaserLM(model=bert, layer=2, lm=gpt, cache=False)
    truth = replace(metric, weight=0.3)
    judged = truth.aggregate(truth.statistics(SYSTEMS, refset), k=1).segment

    def agreement(scores: Scores) -> float:
        return -float(np.abs(scores.segment - judged).sum())

    best, found = tune_weight(metric, SYSTEMS, refset, agreement, k=1, weights=(0.0, 0.3, 1.0))
    assert best == 0.3 and set(found) == {0.0, 0.3, 1.0} and found[0.3] == 0
    with pytest.raises(UsageError, match="no weight is named"):
        tune_weight(metric, SYSTEMS, refset, agreement, weights=())


def test_signature_and_faults(bert: str, gpt: str, refset: ReferenceSet) -> None:
    metric = get_metric("laser-lm", model=bert, lm=gpt, cache=False)
    signature = metric.aggregate(metric.statistics(SYSTEMS, refset), k=1).signature
    assert signature.startswith("parLASER+LM|combine:max|weight:0.9|model:bert|sha256:") and "|layer:3|" in signature
    with pytest.raises(UsageError, match=r"laser-lm: `weight` is 1.5, expected 0 to 1"):
        get_metric("laser-lm", weight=1.5)


def test_sources_are_in_the_signature_and_checked(bert: str, gpt: str) -> None:
    sources = ["the bridge is old and the town is small", "nobody knows why it was closed"]
    german = [
        "die Brücke ist alt und wir sind nicht auf dem Weg",
        "der Hund und die Katze sind auch nicht mit dem Mann",
    ]
    outputs = {"good": ["the old bridge", "no one knows"]}
    found = []
    for texts in (sources, sources[::-1]):
        metric = get_metric("laser-lm-src", model=bert, lm=gpt, cache=False)
        found.append(metric.aggregate(metric.statistics(outputs, with_sources(texts)), k=0).signature)
    assert found[0] != found[1] and all("|sources:" in one for one in found)
    metric = get_metric("laser-lm-src", lm=gpt, cache=False)
    with pytest.warns(PolyrefWarning, match="the sources are German, but the encoder of LASER.* is for English"):
        metric.statistics(outputs, with_sources(german))


def with_sources(texts: list[str]) -> ReferenceSet:
    return ReferenceSet(tuple(Segment(str(n), (), source=text) for n, text in enumerate(texts)))


def test_score_at_the_command_line(polyref: Callable[..., Any], bert: str, gpt: str, tmp_path: Path) -> None:
    (tmp_path / "refs").write_text("\n".join(HUMAN) + "\n")
    (tmp_path / "sys").write_text("\n".join(SYSTEMS["good"]) + "\n")
    inputs = [tmp_path / "refs", "-i", tmp_path / "sys", "--no-cache", "--json"]
    options = ["--laser-lm-model", bert, "--laser-lm-lm", gpt, "--laser-lm-weight", "0.5", "--laser-lm-layer", "2"]
    row = polyref("score", *inputs, "-m", "laser-lm", *options).json()["rows"][0]
    metric = LaserLM(model=bert, layer=2, lm=gpt, weight=0.5, cache=False)
    references = ReferenceSet.from_texts([[text] for text in HUMAN])
    scores = metric.aggregate(metric.statistics({"good": SYSTEMS["good"]}, references), k=0)
    assert row["score"] == pytest.approx(scores.system[0], abs=1e-6) and row["signature"] == scores.signature
    done = polyref("score", *inputs, "-m", "laser-lm-src", *options, "--source", tmp_path / "refs")
    assert done.json()["rows"][0]["score"] == pytest.approx(scores.system[0], abs=1e-6)

"""Prism against the plain way: one pair at a time through the model's own forward; and against fairseq's own scores."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.eval.api import evaluate
from polyref.metrics import Statistics, get_metric
from polyref.metrics.combination import COMBINATIONS
from polyref.metrics.likelihood.prism import PrismRef, PrismSrc
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.forced import ForcedScorer
from polyref.models.opening import SHIPPED
from polyref.models.scorers import load_scorer
from polyref.references import Reference, ReferenceSet, Segment

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
HUMAN = [["the old mill stands near the river"], ["nobody has seen the ferry"], [""]]
EXTRA = [["the mill is old", "an old mill near the water", ""], ["the ferry is gone"], ["the boats swing round"]]
SYSTEMS = {
    "A": ["the mill near the river is old", "nobody has seen the ducks", "the wind turns the boats"],
    "B": ["an old mill", "", "the wind turns the boats"],
    "C": ["an old mill", "nobody has seen the ferry", "bread"],
}
SOURCES = ["two children throw bread", "a grey heron waits", "the wind turns"]

Score = Callable[[str, str], float]


@pytest.fixture
def references() -> ReferenceSet:
    return ReferenceSet.from_texts(HUMAN, paraphrases=EXTRA)


def with_sources(references: ReferenceSet, sources: Sequence[str | None]) -> ReferenceSet:
    pairs = zip(references, sources, strict=True)
    return ReferenceSet(tuple(Segment(s.id, s.refs, source=source) for s, source in pairs))


def plain(folder: Path, lang: str | None = None) -> Score:
    """Mean token log-probability by Transformers alone."""
    import transformers
    from tiny_seq2seq import token_logprobs

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    if lang is not None:
        tokenizer.src_lang = tokenizer.tgt_lang = lang

    @cache
    def score(source: str, target: str) -> float:
        ids = tokenizer(source)["input_ids"], tokenizer(text_target=target)["input_ids"]
        return float(token_logprobs(model, *ids)[0 if lang is None else 1 :].mean())

    return score


@cache
def plain_pointer() -> Score:
    """The shipped model one token after the other, as its search runs it."""
    model = load_pointer(SHIPPED / "en")

    @cache
    def score(source: str, target: str) -> float:
        ids = [*model.spm.encode(target), model.network.eos]
        state = model.network.encode([[*model.spm.encode(source), model.network.eos]])
        total, previous = 0.0, model.network.start
        for token in ids:
            total += float(model.network.step(state, torch.tensor([[previous]]))[0, 0, token])
            previous = token
        return total / len(ids)

    return score


def expected(score: Score, k: int) -> np.ndarray:
    """Shape (S, N)."""
    rows = []
    for outputs in SYSTEMS.values():
        texts = [(h + e[:k], output) for h, e, output in zip(HUMAN, EXTRA, outputs)]
        rows.append([np.mean([(score(r, o) + score(o, r)) / 2 for r in refs]) for refs, o in texts])
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shipped", "bart", "t5", "m2m"])
def test_equals_a_plain_loop_over_the_models_own_forward(
    name: str, seq2seq: dict[str, Path], references: ReferenceSet
) -> None:
    score = plain_pointer() if name == "shipped" else plain(seq2seq[name], "en" if name == "m2m" else None)
    metric = PrismRef(model=name if name == "shipped" else str(seq2seq[name]))
    stats = metric.statistics(SYSTEMS, references)
    for k in (0, 2):
        scores = metric.aggregate(stats, k=k)
        np.testing.assert_allclose(scores.segment, expected(score, k), atol=1e-5)
        np.testing.assert_allclose(scores.system, expected(score, k).mean(axis=1), atol=1e-5)
    assert scores.name == "parPrism" and metric.aggregate(stats, k=0).name == "Prism-ref"


@pytest.mark.parametrize("which", ["post", "pre"])
def test_prism_src_gives_fairseqs_own_scores(which: str, data_dir: Path, tmp_path: Path) -> None:
    golden = data_dir / "fairseq-golden"
    for file in ("dict.src.txt", "dict.tgt.txt", "spm.model"):
        (tmp_path / file).symlink_to(golden / file)
    (tmp_path / "checkpoint.pt").symlink_to(golden / which / "checkpoint.pt")
    sources = (golden / "sents.txt").read_text("utf-8").splitlines()
    with gzip.open(golden / which / "greedy.json.gz", "rt") as stream:
        entries = {entry["id"]: entry for entry in json.load(stream)["sentences"]}
    scorer = load_scorer(tmp_path)
    texts, used, wanted = [], [], []
    for number, source in enumerate(sources):
        found = entries[number]["nbest"][0]
        text = scorer._codec.decode(found["tokens"])
        # A model may write a text in other pieces than the tokeniser would.
        if scorer.target(text) == tuple(found["tokens"][1:]) and scorer.source(source) == tuple(entries[number]["src"]):
            texts.append(text)
            used.append(source)
            wanted.append(np.mean(found["positional_scores"][1:]))  # without the tag, as Prism's program
    assert len(texts) >= 10
    metric = PrismSrc(model=str(tmp_path), lang="en")
    refs = with_sources(ReferenceSet.from_texts([[]] * len(texts)), used)
    scores = metric.aggregate(metric.statistics({"greedy": texts}, refs), k=0)
    np.testing.assert_allclose(scores.segment[0], wanted, atol=1e-5)
    assert "|lang:en|" in scores.signature and "refs" not in scores.signature


@pytest.mark.slow
def test_numbers_depend_neither_on_batches_nor_on_order(
    seq2seq: dict[str, Path], references: ReferenceSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in ("shipped", *map(str, seq2seq.values())):
        metric = PrismRef(model=model)
        base = metric.aggregate(metric.statistics(SYSTEMS, references), k=3)
        turned = ReferenceSet(tuple(reversed(references.segments)))
        systems = {name: SYSTEMS[name][::-1] for name in reversed(SYSTEMS)}
        other = metric.aggregate(metric.statistics(systems, turned), k=3)
        np.testing.assert_allclose(other.segment[::-1, ::-1], base.segment, atol=1e-6)
        for name, outputs in SYSTEMS.items():
            for n, segment in enumerate(references):
                alone = metric.aggregate(metric.statistics({name: outputs[n : n + 1]}, ReferenceSet((segment,))), k=3)
                assert alone.segment[0, 0] == pytest.approx(base.segment[list(SYSTEMS).index(name), n], abs=1e-6)


def test_references_combine_by_mean_max_and_weight(seq2seq: dict[str, Path], references: ReferenceSet) -> None:
    refs = ReferenceSet(
        tuple(
            Segment(s.id, tuple(Reference(r.text, r.kind, weight=1.0 + i) for i, r in enumerate(s.refs)))
            for s in references
        )
    )
    shuffled = ReferenceSet(tuple(Segment(s.id, (s.refs[0], *s.refs[:0:-1])) for s in refs))
    twice = ReferenceSet(tuple(Segment(s.id, (*s.refs, *s.refs)) for s in refs))

    def segment(references: ReferenceSet, combine: str, **options: str) -> np.ndarray:
        metric = PrismRef(model=str(seq2seq["bart"]), combination=COMBINATIONS[combine](**options))
        return metric.aggregate(metric.statistics(SYSTEMS, references), k=99).segment

    one = [
        [segment(ReferenceSet.from_texts([[h] if n == m else ["x"] for m in range(3)]), "mean")[:, n] for h in texts]
        for n, texts in enumerate(refs.texts())
    ]
    for n, values in enumerate(one):
        matrix = np.array(values)
        assert segment(refs, "mean")[:, n] == pytest.approx(matrix.mean(axis=0), abs=1e-6)
        assert segment(refs, "max")[:, n] == pytest.approx(matrix.max(axis=0), abs=1e-6)
        weighted = np.average(matrix, axis=0, weights=1.0 + np.arange(len(matrix)))
        assert segment(refs, "mean", weights="given")[:, n] == pytest.approx(weighted, abs=1e-6)
    for combine in ("mean", "max", "max-each"):
        np.testing.assert_allclose(segment(shuffled, combine), segment(refs, combine), atol=1e-9)
        np.testing.assert_allclose(segment(twice, combine), segment(refs, combine), atol=1e-9)
    assert (segment(refs, "max-each") >= segment(refs, "max")).all()


def test_every_job_is_scored_once(references: ReferenceSet, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = PrismRef(cache=False)
    seen: list[tuple[object, object]] = []
    score = type(metric.scorer)._score

    def counting(self: ForcedScorer, sources: list, targets: list, start: int | None) -> list:
        seen.extend(zip(sources, targets))
        return score(self, sources, targets, start)

    monkeypatch.setattr(type(metric.scorer), "_score", counting)
    metric.statistics({**SYSTEMS, "D": SYSTEMS["A"]}, references)
    distinct = set()
    for n, refs in enumerate(references.texts()):
        for outputs in SYSTEMS.values():
            distinct |= {pair for ref in refs for pair in ((ref, outputs[n]), (outputs[n], ref))}
    assert len(seen) == len(set(seen)) == len(distinct)


@pytest.mark.slow
def test_missing_references_empty_texts_and_long_ones(tmp_path: Path, references: ReferenceSet) -> None:
    metric = PrismRef()
    ragged = ReferenceSet.from_texts([["the mill"], [None], [""]])
    with pytest.raises(DataError, match="segment 2 has no reference"):
        metric.statistics(SYSTEMS, ragged)
    stats = metric.statistics(SYSTEMS, ragged, allow_missing=True)
    scores = metric.aggregate(stats, k=0)
    assert np.isnan(scores.segment[:, 1]).all() and np.isfinite(scores.segment[:, [0, 2]]).all()
    np.testing.assert_allclose(scores.system, np.nanmean(scores.segment, axis=1))
    # Two empty texts: the end of sentence alone.
    empty = metric.aggregate(metric.statistics({"A": [""]}, ReferenceSet.from_texts([[""]])), k=0)
    assert empty.segment[0, 0] == pytest.approx(plain_pointer()("", ""), abs=1e-5)
    with pytest.warns(PolyrefWarning, match="1 text is longer than polyref-en reads: 160/250 tokens of it are scored"):
        long = metric.statistics({"A": ["mill " * 500]}, ReferenceSet.from_texts([["the mill"]]))
    signature = metric.aggregate(long, k=0).signature
    assert "|cut:2|" in signature  # the output, as source and as target
    assert np.isfinite(metric.aggregate(long, k=0).system).all()
    # A saved file has all that the signature says, without the model.
    long.save(tmp_path / "stats.npz")
    assert metric.aggregate(Statistics.load(tmp_path / "stats.npz"), k=0).signature == signature
    for part in (
        "Prism-ref|model:polyref-en|sha:",
        "closeness:",
        "lang:en",
        "dtype:float32",
        "dir:both",
        "combine:mean",
    ):
        assert part in signature


@pytest.mark.slow
def test_prism_src_needs_sources_and_a_model_that_translates(
    seq2seq: dict[str, Path], references: ReferenceSet
) -> None:
    with pytest.raises(UsageError, match=r"polyref-en reads and writes one language \(name a translation model"):
        PrismSrc().statistics(SYSTEMS, with_sources(references, SOURCES))
    metric = get_metric("prism-src", model=str(seq2seq["m2m"]), source_lang="de")
    with pytest.raises(DataError, match="segment 2 has no source, which Prism-src reads"):
        metric.statistics(SYSTEMS, with_sources(references, ["a", None, "c"]))
    with pytest.raises(UsageError, match="no source language is named, expected one of af, "):
        PrismSrc(model=str(seq2seq["m2m"])).statistics(SYSTEMS, with_sources(references, SOURCES))
    scores = metric.aggregate(metric.statistics(SYSTEMS, with_sources(references, SOURCES)), k=1)
    assert scores.name == "Prism-src" and "|from:de|" in scores.signature
    import transformers
    from tiny_seq2seq import token_logprobs

    tokenizer = transformers.AutoTokenizer.from_pretrained(seq2seq["m2m"], src_lang="de", tgt_lang="en")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(seq2seq["m2m"])
    for s, outputs in enumerate(SYSTEMS.values()):
        for n, (source, output) in enumerate(zip(SOURCES, outputs)):
            ids = tokenizer(source)["input_ids"], tokenizer(text_target=output)["input_ids"]
            assert scores.segment[s, n] == pytest.approx(token_logprobs(model, *ids)[1:].mean(), abs=1e-5)
    with pytest.raises(UsageError, match="language 'xx' is unknown"):
        PrismRef(model=str(seq2seq["m2m"]), lang="xx").statistics(SYSTEMS, references)


def test_a_stretch_begins_without_the_states_of_the_one_before(
    seq2seq: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyref.models.scorers import LeanScorer, load_scorer

    scorer = load_scorer(seq2seq["m2m"])
    assert isinstance(scorer, LeanScorer)
    encoded: list[int] = []
    real = scorer._network.encode_states
    monkeypatch.setattr(
        scorer._network, "encode_states", lambda *part: encoded.append(len(set(part[0]))) or real(*part)
    )
    texts = ["the cat", "the old bridge was closed", "nobody knows why"]
    stretch = ([scorer.source(text, "en") for text in texts], [scorer.target(text, "en") for text in texts], None)
    first, again = scorer.compute(stretch), scorer.compute(stretch)
    assert sum(encoded) == 2 * len(texts)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def turned(folder: Path) -> None:
    """The small set de-en as en-de."""
    for file in (path for path in MINIMAL.rglob("*") if path.is_file()):
        copy = folder / str(file.relative_to(MINIMAL)).replace("de-en", "en-de")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())


@pytest.mark.slow
def test_evaluate_tells_a_model_the_languages_of_the_pair(seq2seq: dict[str, Path], tmp_path: Path) -> None:
    turned(tmp_path)

    def measured(metrics: Any, **options: Any) -> list[dict[str, Any]]:
        told = {"ref": "refA", "gold": "mqm", "resamples": 20, "options": options}
        return list(evaluate(tmp_path, "en-de", metrics=metrics, **told).rows)

    model = str(seq2seq["m2m"])
    for name, marks in (("prism", ["|lang:de|"]), ("prism-src", ["|lang:de|", "|from:en|"])):
        told = measured(f"{name}(model={model})")
        assert all(mark in row["signature"] for row in told for mark in marks)
        # A metric as an object is told it, too; and what somebody named stays.
        assert [row["value"] for row in measured([get_metric(name, model=model)])] == [row["value"] for row in told]
        named = measured(f"{name}(model={model}, lang=fr)")
        assert all("lang:fr|" in row["signature"] for row in named)
        assert [row["value"] for row in named] != [row["value"] for row in told]
    # A model of one language writes that.
    assert all("|lang:en|" in row["signature"] for row in measured("prism"))


GERMAN = [
    "Die alte Mühle steht seit vielen Jahren am Fluss.",
    "Niemand hat heute die Fähre gesehen, und der Regen hört nicht auf.",
    "Zwei Kinder werfen den Enten Brot zu, obwohl das hier verboten ist.",
    "Der Bürgermeister sagte, dass die Brücke im Herbst gesperrt wird.",
    "Sie öffnet das Fenster, weil es in der Küche zu warm geworden ist.",
]


def test_evaluate_tells_of_references_that_a_model_cannot_read(tmp_path: Path) -> None:
    turned(tmp_path)
    (tmp_path / "references" / "en-de.refA.txt").write_text("".join(f"{line}\n" for line in GERMAN), "utf-8")
    heard: list[str] = []
    told = {
        "ref": "refA",
        "gold": "mqm",
        "resamples": 20,
        "ks": [0],
        "say": lambda kind, message: heard.append(message),
    }
    evaluate(tmp_path, "en-de", metrics=["prism", "bleu"], **told)
    assert "the references are German, but the model of Prism-ref is for English" in heard
    heard.clear()
    evaluate(tmp_path, "en-de", metrics=["bleu"], **told)
    assert not any("the references are" in message for message in heard)

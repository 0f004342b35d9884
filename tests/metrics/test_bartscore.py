"""BARTScore against what its authors' program computes, written here with Transformers alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from polyref.errors import UsageError
from polyref.metrics import get_metric
from polyref.metrics.combination import MaximumEach
from polyref.metrics.likelihood.bartscore import BARTScore, BARTScoreSrc
from polyref.references import ReferenceSet, Segment

HUMAN = [["the old mill stands near the river"], ["nobody has seen the ferry"], [""]]
EXTRA = [["the mill is old", "an old mill near the water"], ["the ferry is gone"], ["the boats swing round"]]
SYSTEMS = {
    "A": ["the mill near the river is old", "nobody has seen the ducks", "the wind turns the boats"],
    "B": ["an old mill", "", "bread"],
}
SOURCES = ["two children throw bread", "a grey heron waits", "the wind turns"]


class Program:
    """The published way: batches of ``size``, labels from the tokeniser, padding left out of the mean."""

    def __init__(self, folder: Path, size: int = 2) -> None:
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
        self.size = size

    @torch.inference_mode()
    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        found: list[float] = []
        for start in range(0, len(sources), self.size):
            part = slice(start, start + self.size)
            read, written = (
                self.tokenizer(list(texts[part]), padding=True, return_tensors="pt") for texts in (sources, targets)
            )
            labels = written["input_ids"]
            logits = self.model(
                input_ids=read["input_ids"], attention_mask=read["attention_mask"], labels=labels
            ).logits
            picked = logits.log_softmax(-1).gather(2, labels[..., None])[..., 0]
            mask = written["attention_mask"]
            found += ((picked * mask).sum(1) / mask.sum(1)).tolist()
        return np.array(found)


@pytest.fixture
def references() -> ReferenceSet:
    pairs = zip(ReferenceSet.from_texts(HUMAN, paraphrases=EXTRA), SOURCES, strict=True)
    return ReferenceSet(tuple(Segment(s.id, s.refs, source=source) for s, source in pairs))


def scores(metric: BARTScore | BARTScoreSrc, references: ReferenceSet, k: int) -> np.ndarray:
    return metric.aggregate(metric.statistics(SYSTEMS, references), k=k).segment


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bart", "t5"])
def test_equals_the_authors_way(name: str, seq2seq: dict[str, Path], references: ReferenceSet) -> None:
    program, model = Program(seq2seq[name]), str(seq2seq[name])
    found = {d: scores(BARTScore(model=model, direction=d), references, 2) for d in ("precision", "recall", "f")}
    best = scores(BARTScore(model=model, combination=MaximumEach()), references, 2)
    faithful = scores(BARTScoreSrc(model=model), references, 2)
    for s, outputs in enumerate(SYSTEMS.values()):
        np.testing.assert_allclose(faithful[s], program(SOURCES, outputs), atol=1e-5)
        for n, output in enumerate(outputs):
            refs = HUMAN[n] + EXTRA[n]
            precision, recall = program(refs, [output] * len(refs)), program([output] * len(refs), refs)
            assert found["precision"][s, n] == pytest.approx(precision.mean(), abs=1e-5)
            assert found["recall"][s, n] == pytest.approx(recall.mean(), abs=1e-5)
            assert found["f"][s, n] == pytest.approx((precision.mean() + recall.mean()) / 2, abs=1e-5)
            # The authors' maximum over references takes each direction's own.
            assert best[s, n] == pytest.approx((precision.max() + recall.max()) / 2, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
def test_prompts_and_their_ensemble(side: str, seq2seq: dict[str, Path], references: ReferenceSet) -> None:
    program, prompts = Program(seq2seq["bart"]), ("the ducks", "boats near")
    metric = BARTScore(model=str(seq2seq["bart"]), prompts=prompts, prompt_side=side, direction="precision")
    found = scores(metric, references, 0)
    faithful = scores(BARTScoreSrc(model=str(seq2seq["bart"]), prompts=prompts, prompt_side=side), references, 0)
    for s, outputs in enumerate(SYSTEMS.values()):
        for given, got in (([refs[0] for refs in HUMAN], found), (SOURCES, faithful)):
            each = []
            for prompt in prompts:
                if side == "source":
                    each.append(program([f"{text} {prompt}," for text in given], outputs))
                else:
                    each.append(program(given, [f"{prompt}, {text}" for text in outputs]))
            np.testing.assert_allclose(got[s], np.mean(each, axis=0), atol=1e-5)
    signature = metric.aggregate(metric.statistics(SYSTEMS, references), k=0).signature
    assert f"|prompts:{side}(the ducks+boats near)|" in signature


@pytest.mark.slow
def test_names_signatures_and_what_is_refused(seq2seq: dict[str, Path], references: ReferenceSet) -> None:
    metric = get_metric("bartscore", model=str(seq2seq["bart"]))
    stats = metric.statistics(SYSTEMS, references)
    assert [metric.aggregate(stats, k=k).name for k in (0, 1)] == ["BARTScore", "parBARTScore"]
    signature = metric.aggregate(stats, k=1).signature
    assert signature.startswith("parBARTScore|model:bart|sha:")
    for part in ("dtype:float32", "max:40/40", "cut:0", "dir:f", "combine:mean", "weights:uniform", "k:1"):
        assert f"|{part}|" in signature
    half = BARTScore(model=str(seq2seq["bart"]), dtype="bfloat16")
    found = half.aggregate(half.statistics(SYSTEMS, references), k=1)
    assert "|dtype:bfloat16|" in found.signature
    np.testing.assert_allclose(found.segment, metric.aggregate(stats, k=1).segment, rtol=0.05)
    for options in ({}, {"direction": "recall"}, {"prompts": ("the ducks",), "direction": "recall"}):
        bare = BARTScore(model=str(seq2seq["bart"]), **options)
        stats = bare.statistics({"A": ["bread"]}, ReferenceSet.from_texts([[None]]), allow_missing=True)
        assert np.isnan(bare.aggregate(stats, k=0).system).all()
    with pytest.raises(UsageError, match="bartscore needs a model"):
        BARTScore()
    with pytest.raises(UsageError, match="`direction` is 'both', expected one of precision, recall, f"):
        BARTScore(model="x", direction="both")
    with pytest.raises(UsageError, match="`prompt_side` is 'left'"):
        BARTScore(model="x", prompt_side="left")
    with pytest.raises(UsageError, match="`prompts` is 'Such as', expected texts"):
        BARTScore(model="x", prompts="Such as")
    with pytest.raises(UsageError, match="expected texts that are not blank"):
        BARTScore(model="x", prompts=["Such as", " "])
    with pytest.raises(UsageError, match="BARTScore-src reads sources, but polyref-en reads 'en'"):
        BARTScoreSrc(model="shipped").statistics(SYSTEMS, references)
    with pytest.raises(UsageError, match="`dtype` is 'float8'"):
        BARTScore(model="shipped", dtype="float8")
    pivot = BARTScoreSrc(model="shipped", source_lang="en")
    assert np.isfinite(scores(pivot, references, 0)).all()

"""Forced scoring against the search's own scores, against fairseq's, and its cache and batching."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from tiny_models import TEXT, scored, write

from polyref.errors import UsageError
from polyref.models import scorers
from polyref.models.checkpoints.seq2seq import Seq2Seq, load_fairseq
from polyref.models.scorers import LeanScorer
from polyref.paraphrase.search import SearchOptions, search


@pytest.fixture
def model(tmp_path: Path, spm: bytes) -> Seq2Seq:
    return load_fairseq(write(tmp_path / "m", spm))


def test_scores_are_those_of_the_search(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [model.codec.encode(text) for text in (*TEXT, "")]
    options = SearchOptions(beam=6, groups=3, max_len_b=9, semantics="fairseq")
    pairs = []
    for source, found in zip(sources, search(model.network, sources, options, [[4]] * len(sources))):
        pairs += [(source, candidate) for candidate in found]
    for most in (1, 50, 4096):
        monkeypatch.setattr(LeanScorer, "_positions", most)
        monkeypatch.setattr(scorers, "_BATCH", most)
        scores = scored(model, [source for source, _ in pairs], [candidate.tokens for _, candidate in pairs])
        for (_, candidate), score in zip(pairs, scores):
            assert score.dtype == np.float32
            assert score.tolist() == pytest.approx(candidate.token_logprobs, abs=2e-5)


def test_sources_are_encoded_once_a_stretch(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    real = model.network.encode_states
    monkeypatch.setattr(model.network, "encode_states", lambda *part: encoded.append(len(set(part[0]))) or real(*part))
    sources = [model.codec.encode(text) for text in TEXT]
    targets = [model.codec.encode_target(text)[:25] for text in TEXT]
    first = scored(model, sources * 3, targets * 3)
    assert sum(encoded) == len(TEXT)
    for one, two in zip(first, scored(model, sources, targets)):
        np.testing.assert_allclose(one, two, atol=1e-5)
    assert sum(encoded) == 2 * len(TEXT)


def test_what_the_network_does_not_know_is_refused(model: Seq2Seq) -> None:
    with pytest.raises(UsageError, match="not in the vocabulary"):
        scored(model, [[5, 2]], [[9999]])
    with pytest.raises(UsageError, match="a source token is not in the vocabulary"):
        scored(model, [[9999, 2]], [[5]])


@pytest.mark.parametrize("name", ["sample_topk10", "sample_topp09"])
@pytest.mark.parametrize("which", ["post", "pre"])
def test_fairseqs_samples_score_as_it_says(
    golden: Path,
    models: dict[str, Seq2Seq],
    which: str,
    name: str,
) -> None:
    with gzip.open(golden / which / f"{name}.json.gz", "rt") as stream:
        entries = json.load(stream)["sentences"]
    pairs = [(entry["src"], found) for entry in entries for found in entry["nbest"]]
    scores = scored(models[which], [s for s, _ in pairs], [found["tokens"] for _, found in pairs])
    for (_, found), score in zip(pairs, scores):
        # The first token is the forced tag, which fairseq does not draw but scores like the others.
        assert score.tolist() == pytest.approx(found["positional_scores"], abs=2e-5)
        assert float(score.mean()) == pytest.approx(found["score"], abs=1e-5)

"""Forced scoring against the search's own scores, against fairseq's, and its cache and batching."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from tiny_models import TEXT, write

from polyref.errors import UsageError
from polyref.models.checkpoints.fairseq import Seq2Seq, load_fairseq
from polyref.models.scorers import Scorer
from polyref.paraphrase.search import SearchOptions, search


@pytest.fixture
def model(tmp_path: Path, spm: bytes) -> Seq2Seq:
    return load_fairseq(write(tmp_path / "m", spm))


def test_scores_are_those_of_the_search(model: Seq2Seq) -> None:
    sources = [model.codec.encode(text) for text in (*TEXT, "")]
    options = SearchOptions(beam=6, groups=3, max_len_b=9, semantics="fairseq")
    pairs = []
    for source, found in zip(sources, search(model.network, sources, options, [[4]] * len(sources))):
        pairs += [(source, candidate) for candidate in found]
    for max_tokens in (1, 50, 4096):
        scorer = Scorer(model.network, max_tokens=max_tokens)
        scores = scorer.score([source for source, _ in pairs], [candidate.tokens for _, candidate in pairs])
        for (_, candidate), score in zip(pairs, scores):
            assert score.dtype == np.float32
            assert score.tolist() == pytest.approx(candidate.token_logprobs, abs=2e-5)


def test_sources_are_encoded_once(model: Seq2Seq) -> None:
    scorer = Scorer(model.network)
    sources = [model.codec.encode(text) for text in TEXT]
    targets = [model.codec.encode_target(text)[:25] for text in TEXT]
    first = scorer.score(sources * 3, targets * 3)
    assert scorer.encoded == len(TEXT)
    again = scorer.score(sources, targets)
    assert scorer.encoded == len(TEXT)
    for one, two in zip(first, again):
        np.testing.assert_allclose(one, two, atol=1e-5)
    forgetful = Scorer(model.network, cache_bytes=0)
    for one, two in zip(first, forgetful.score(sources, targets)):
        np.testing.assert_allclose(one, two, atol=1e-5)
    forgetful.score(sources, targets)
    assert forgetful.encoded == 2 * len(TEXT)


def test_temperature_and_what_is_refused(model: Seq2Seq) -> None:
    sources, targets = [[5, 2]], [[4, 7, 2]]
    plain = Scorer(model.network).score(sources, targets)[0]
    hot = Scorer(model.network, temperature=1e6).score(sources, targets)[0]
    np.testing.assert_allclose(hot, -np.log(model.network.vocab_size), atol=1e-4)
    assert not np.allclose(plain, hot)
    assert Scorer(model.network).score([[2], [5, 2]], [[], [7, 2]])[0].shape == (0,)
    assert Scorer(model.network).score([], []) == []
    with pytest.raises(UsageError, match="1 sources but 2 targets"):
        Scorer(model.network).score(sources, targets * 2)
    with pytest.raises(UsageError, match="31 tokens, expected at most 30"):
        Scorer(model.network).score(sources, [[5] * 31])
    with pytest.raises(UsageError, match="not in the vocabulary"):
        Scorer(model.network).score(sources, [[9999]])
    with pytest.raises(UsageError, match="source 1 has no tokens"):
        Scorer(model.network).score([[5, 2], []], [[5], [5]])
    with pytest.raises(UsageError, match="temperature"):
        Scorer(model.network, temperature=0)


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
    scores = Scorer(models[which].network).score([s for s, _ in pairs], [found["tokens"] for _, found in pairs])
    for (_, found), score in zip(pairs, scores):
        # The first token is the forced tag, which fairseq does not draw but scores like the others.
        assert score.tolist() == pytest.approx(found["positional_scores"], abs=2e-5)
        assert float(score.mean()) == pytest.approx(found["score"], abs=1e-5)

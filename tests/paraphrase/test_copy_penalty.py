"""The lexical copy penalty, on a vocabulary one can read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_models import TEXT, write

from polyref.errors import UsageError
from polyref.models.checkpoints.seq2seq import load_fairseq
from polyref.paraphrase.copy_penalty import LexicalCopyPenalty
from polyref.paraphrase.search import SearchOptions, search

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "▁the", "▁The", "▁ri", "ver", "▁river", "▁runs", "▁r", "▁", "run", "▁dry"]
IDS = {symbol: number for number, symbol in enumerate(SYMBOLS)}


def penalties(source: list[str], prefix: list[str], a: float = 1.0, b: float = 2.0) -> dict[str, float]:
    scores = torch.zeros(1, 2, len(SYMBOLS))
    rows = torch.tensor([[[IDS[p] for p in prefix], [IDS["▁dry"]] * len(prefix)]])
    LexicalCopyPenalty(SYMBOLS, [source], a, b)(torch.tensor([0]), rows, scores)
    return {SYMBOLS[i]: -float(v) for i, v in enumerate(scores[0, 0]) if v}


def test_word_starts_are_penalised_in_any_case() -> None:
    found = penalties(["▁the", "▁ri", "ver"], [])
    # "▁" and the cases of "the"; the pieces of "river", and "▁river" itself, which its pieces join to.
    assert found == {"▁": 4.0, "▁the": 2.0, "▁The": 2.0, "▁r": 2.0, "▁ri": 2.0, "▁river": 2.0}
    assert "ver" not in found and "run" not in found


def test_longer_matches_cost_more_and_add_up() -> None:
    source = ["▁the", "▁ri", "ver", "▁runs"]
    unigram = penalties(source, [])
    after = penalties(source, ["▁the"])
    assert after["▁river"] == pytest.approx(unigram["▁river"] + 2 * 2**2)
    assert after["▁runs"] == pytest.approx(unigram["▁runs"])
    trigram = penalties(source, ["▁the", "▁ri", "ver"])
    assert trigram["▁runs"] == pytest.approx(unigram["▁runs"] + 2 * 2**2 + 2 * 3**2)
    assert penalties(source, ["▁The", "▁ri", "ver"])["▁runs"] == pytest.approx(unigram["▁runs"] + 2 * 2**2)


def test_places_add_up_and_a_scales() -> None:
    once, twice = penalties(["▁dry"], []), penalties(["▁dry", "▁dry"], [])
    assert twice["▁dry"] == 2 * once["▁dry"]
    assert penalties(["▁dry"], [], a=0.5)["▁dry"] == 0.5 * once["▁dry"]
    assert penalties(["▁dry"], [], a=0.0) == {}
    assert penalties([], []) == {}
    with pytest.raises(UsageError, match="`prism_a` is -1"):
        LexicalCopyPenalty(SYMBOLS, [], -1, 1)


def test_a_search_with_it_copies_less(tmp_path: Path, spm: bytes) -> None:
    import sentencepiece

    model = load_fairseq(write(tmp_path / "m", spm))
    pieces = [sentencepiece.SentencePieceProcessor(model_proto=spm).EncodeAsPieces(text) for text in TEXT]
    sources = [model.codec.encode(text) for text in TEXT]
    options = SearchOptions(beam=6, groups=2, max_len_b=10)
    plain = search(model.network, sources, options, [[4]] * len(sources))
    hook = LexicalCopyPenalty(model.codec.target.symbols, pieces, 2.0, 1.0)  # type: ignore[attr-defined]
    less = search(model.network, sources, options, [[4]] * len(sources), [hook])

    def copied(lists: list[list[object]]) -> int:
        return sum(t in source[:-1] for source, found in zip(sources, lists) for c in found for t in c.tokens)  # type: ignore[attr-defined]

    assert copied(less) < copied(plain)
    alone = search(model.network, sources[:1], options, [[4]], [hook])
    assert [c.tokens for c in alone[0]] == [c.tokens for c in less[0]]
    assert all(c.score <= c.logprob / (len(c.tokens) - 1) + 1e-5 for found in less for c in found)

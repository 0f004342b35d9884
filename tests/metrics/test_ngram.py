"""The counting engine against sacreBLEU's own counting, on text that no one would write."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from polyref.metrics import get_metric
from polyref.metrics.ngram import counts
from polyref.metrics.ngram import counts as ngram
from polyref.metrics.ngram.counts import number_chrf_words, tokenize_13a
from polyref.references import ReferenceSet

# White space of every kind, marks that combine, letters that change length in lower case, an unpaired surrogate,
# planes above the first, entities and the things that 13a treats in its own way.
PIECES = [
    *"     .,-&;/\\'\"()[]{}<>|~`^_!@#$%*+=:?0123456789aAbBxy",
    *"\t\r\n\x0b\x1c\x1f\x85\xa0\u2028\u2029\u3000\u200b\ufeff\u00ad",
    *"éÉßİıſςΣñç中文，。日本語한국어अनुवादعربيע\u0301\u0308\u200d",
    *"\U0001f600\U0001f468\U00010400\U00010428\ud800\U0010ffff",
    *["<skipped>", "&quot;", "&amp;", "&lt;", "&gt;", "-\n", "the ", "the the ", "<ski", "pped>", "1.5", "a.b", "3-4 "],
]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def odd_text(rng: random.Random, longest: int) -> str:
    return "".join(rng.choices(PIECES, k=rng.randrange(longest)))


def sacrebleu_rows(peer: Any, outputs: list[str], references: list[list[str]]) -> np.ndarray:
    most = max(map(len, references))
    ranks = [[row[j] if j < len(row) else None for row in references] for j in range(most)]
    return np.array(peer._extract_corpus_statistics(outputs, ranks))


@pytest.mark.slow
def test_13a_on_a_hundred_thousand_strings() -> None:
    rng = random.Random(20)
    tokenizer = Tokenizer13a.__call__.__wrapped__
    peer = Tokenizer13a()
    strings = [odd_text(rng, 20) for _ in range(100_000)]
    # Runs of marks beside digits, where the expressions of 13a get into each other's way.
    strings += ["".join(rng.choices(" ..,,--55a\n", k=rng.randrange(9))) for _ in range(50_000)]
    assert tokenize_13a(strings) == [tokenizer(peer, text).split() for text in strings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "peer"),
    [
        ("bleu", {}, BLEU(force=True)),
        ("bleu", {"lowercase": True, "tokenize": "none"}, BLEU(force=True, lowercase=True, tokenize="none")),
        ("chrf++", {}, CHRF(word_order=2)),
        ("chrf", {"whitespace": True, "lowercase": True}, CHRF(whitespace=True, lowercase=True)),
    ],
)
def test_statistics_of_many_odd_strings(name: str, options: dict[str, Any], peer: Any) -> None:
    rng = random.Random(22)
    total = 1500
    systems = {s: [odd_text(rng, 40) for _ in range(total)] for s in "ab"}
    references = [[odd_text(rng, 40) for _ in range(rng.randrange(1, 6))] for _ in range(total)]
    # Half of the references are near an output, so that there is something to match.
    for n, row in enumerate(references):
        for j in range(0, len(row), 2):
            base = systems[rng.choice("ab")][n]
            cut = rng.randrange(len(base) + 1)
            row[j] = base[cut:] + odd_text(rng, 4) + base[:cut]
    refset = ReferenceSet.from_texts([row[:1] for row in references], paraphrases=[row[1:] for row in references])
    stats = get_metric(name, **options).statistics(systems, refset)
    for k in stats.ks:
        for s, outputs in enumerate(systems.values()):
            expected = sacrebleu_rows(peer, outputs, [row[: k + 1] for row in references])
            assert np.array_equal(stats.at(k)[s], expected)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    outputs=st.lists(texts, min_size=3, max_size=3),
    references=st.lists(st.lists(texts, min_size=1, max_size=4), min_size=3, max_size=3),
    name=st.sampled_from(["bleu", "chrf", "chrf++"]),
)
def test_any_text(outputs: list[str], references: list[list[str]], name: str) -> None:
    peer = BLEU(force=True) if name == "bleu" else CHRF(word_order=2 if name == "chrf++" else 0)
    refset = ReferenceSet.from_texts([row[:1] for row in references], paraphrases=[row[1:] for row in references])
    stats = get_metric(name).statistics({"a": outputs}, refset)
    for k in stats.ks:
        assert np.array_equal(stats.at(k)[0], sacrebleu_rows(peer, outputs, [row[: k + 1] for row in references]))


@pytest.mark.parametrize("name", ["bleu", "chrf++"])
def test_long_texts_and_large_alphabets(name: str) -> None:
    # Thousands of different symbols in one block: n-grams no longer fit into one integer unless they are renumbered.
    rng = random.Random(23)
    han = [chr(code) for code in range(0x4E00, 0x9000)]
    outputs = ["".join(rng.choices(han, k=4000)), " ".join(rng.choices(han, k=5000)), "x" * 10_000, "a b " * 3000]
    references = [[text[500:] + text[:100], text[::2]] for text in outputs]
    refset = ReferenceSet.from_texts([row[:1] for row in references], paraphrases=[row[1:] for row in references])
    stats = get_metric(name).statistics({"a": outputs}, refset)
    peer = BLEU(force=True) if name == "bleu" else CHRF(word_order=2)
    for k in stats.ks:
        assert np.array_equal(stats.at(k)[0], sacrebleu_rows(peer, outputs, [row[: k + 1] for row in references]))


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_numbers_of_chrf_words(count: int) -> None:
    rng = random.Random(24)
    texts = [odd_text(rng, 20) for _ in range(count)]
    peer = CHRF()
    words = [peer._remove_punctuation(text) for text in texts]
    numbers, lengths, below = number_chrf_words([text.split() for text in texts])
    assert lengths.tolist() == [len(row) for row in words]
    flat = [word for row in words for word in row]
    assert len(set(zip(numbers.tolist(), flat, strict=True))) == len(set(flat)) == below
    assert sorted(set(numbers.tolist())) == list(range(below))


@pytest.mark.parametrize(("symbols", "cells"), [(counts._SYMBOLS, counts._MOST_CELLS), (1, 100), (50, 0)])
@pytest.mark.parametrize("vocabulary", [1, 3, 12])
def test_looking_up_is_sorting(symbols: int, cells: int, vocabulary: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_SYMBOLS", symbols)
    monkeypatch.setattr(counts, "_MOST_CELLS", cells)
    rng = np.random.default_rng(vocabulary)
    for segments, ranks in [(1, 2), (1, 5), (7, 2), (30, 4)]:
        # Some texts are empty: references, outputs, the last ones, all of them.
        for longest in (1, 3, 20):
            lengths = rng.integers(longest, size=(segments, ranks))
            numbers = rng.integers(vocabulary, size=int(lengths.sum()))
            block = ngram.Block(numbers, vocabulary, segments, ranks, lengths)
            found = counts.lookup_matches(numbers, lengths, vocabulary, 5)
            for matched, kept in zip(found, ngram.features(block, 5), strict=True):
                assert np.array_equal(matched, ngram.first_matches(kept, block, 1))
                assert np.array_equal(matched, ngram.pair_matches(kept, block, 1))


def test_scores_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch, systems: Any, refset: Any) -> None:
    for name in ("bleu", "chrf++"):
        metric = get_metric(name)
        whole = metric.statistics(systems, refset)
        monkeypatch.setattr(ngram, "_BLOCK_SEGMENTS", 3)
        pieces = metric.statistics(systems, refset)
        monkeypatch.setattr(ngram, "_BLOCK_SYMBOLS", 1)
        single = metric.statistics(systems, refset)
        assert np.array_equal(whole.values, pieces.values)
        assert np.array_equal(whole.values, single.values)
        monkeypatch.undo()


def test_blocks_take_every_segment_once() -> None:
    sizes = [5, 0, 400_000, 7, *[1000] * 500]
    found = list(ngram.blocks(sizes))
    assert sorted(index for chosen in found for index in chosen) == list(range(len(sizes)))
    assert all(len(chosen) == 1 or sum(sizes[i] for i in chosen) <= 300_000 for chosen in found)

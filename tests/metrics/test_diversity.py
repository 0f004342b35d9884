"""Self-BLEU and the other measures of diversity, against sacreBLEU text by text and against plain counting."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import sacrebleu

from polyref.metrics.ngram.diversity import (
    Tokenizer,
    bleu_to_references,
    distinct_ngrams,
    new_ngrams,
    self_bleu,
    tokenizer_for,
)

WORDS = ["the", "the", "a", "cat", "dog,", "sat.", "1,5", "(mat)", "on", "&amp;", "U.S.", "don't", "最", "大", ""]
GROUPS = [["a b c d e f", "a b c d f e", "a b"], ["one text alone"], [], ["x y z", "x y z"]]


def _groups(seed: int, most: int) -> list[list[str]]:
    rng = random.Random(seed)
    return [[" ".join(rng.choices(WORDS, k=rng.randrange(12))) for _ in range(rng.randrange(most))] for _ in range(70)]


@pytest.mark.parametrize("tokenize", ["13a", "char"])
@pytest.mark.parametrize("most", [3, 9])
def test_self_bleu_is_sacrebleu_of_every_text_against_the_others(tokenize: Tokenizer, most: int) -> None:
    groups = _groups(1, most)
    metric = sacrebleu.BLEU(effective_order=True, tokenize=tokenize)
    expected = [
        metric.sentence_score(text, [*texts[:place], *texts[place + 1 :]]).score
        for texts in groups
        for place, text in enumerate(texts)
        if len(texts) > 1
    ]
    assert self_bleu(groups, tokenize).tolist() == pytest.approx(expected, abs=1e-12)
    assert len(set(expected)) > 20


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_bleu_to_references_is_sacrebleu(tokenize: Tokenizer) -> None:
    groups, references = _groups(2, 5), _groups(3, 4)
    metric = sacrebleu.BLEU(effective_order=True, tokenize=tokenize)
    expected = [
        metric.sentence_score(text, refs).score
        for texts, refs in zip(groups, references, strict=True)
        for text in texts
        if refs
    ]
    assert bleu_to_references(groups, references, tokenize).tolist() == pytest.approx(expected, abs=1e-12)


def test_equal_texts_and_texts_without_a_common_word() -> None:
    assert self_bleu([["a b c d", "a b c d"]]).tolist() == pytest.approx([100, 100])
    assert self_bleu([["a b c d", "e f g h"]]).tolist() == [0, 0]
    assert len(self_bleu([["alone"], []])) == len(bleu_to_references([["a"]], [[]])) == 0


def test_distinct_ngrams_by_hand() -> None:
    one, two = distinct_ngrams(GROUPS)
    assert one == (6 + 3 + 0 + 3) / (14 + 3 + 6)
    # ab bc cd de ef df fe ab; one-text, text-alone; xy yz xy yz
    assert two == (7 + 2 + 2) / (11 + 2 + 4)
    assert math.isnan(distinct_ngrams([[]])[0])


def test_new_ngrams_by_hand() -> None:
    references = [["a b c x"], ["other words"], ["y"], ["x y"]]
    one, two, three = new_ngrams(GROUPS, references, 3)
    assert one == (3 + 3 + 0 + 1) / (6 + 3 + 0 + 3)
    assert two == (5 + 2 + 0 + 1) / (7 + 2 + 0 + 2)
    assert three == (5 + 1 + 1) / (6 + 1 + 1)
    assert math.isnan(new_ngrams([[""]], [["a"]])[0])


def test_characters_count_where_words_run_on() -> None:
    assert tokenizer_for(["今天下雨。", "今天下雪。", "It rained."]) == "char"
    assert tokenizer_for(["今天下雨。", "It rained.", ""]) == "13a"
    assert distinct_ngrams([["今天 下雨", "今天下雪"]], 1, "char") == [5 / 8]
    assert np.mean(self_bleu([["今天下雨。", "今天下雪。"]], "char")) > np.mean(
        self_bleu([["今天下雨。", "今天下雪。"]])
    )

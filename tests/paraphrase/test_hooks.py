"""The rules of the shipped paraphraser, on hand-made prefixes."""

from __future__ import annotations

import math

import torch

from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.shipped import Digits, NoAddedRepeats, SourceDigits


class Pieces:
    """The part of a SentencePiece model that ``Digits`` reads."""

    pieces = ("<pad>", "<unk>", "<s>", "</s>", "▁a", "1", "▁2", "2", "▁", "½", "12")

    def get_piece_size(self) -> int:
        return len(self.pieces)

    def id_to_piece(self, token: int) -> str:
        return self.pieces[token]


def forbidden(scores: torch.Tensor) -> list[list[set[int]]]:
    return [[{i for i, s in enumerate(row) if s == -math.inf} for row in sentence] for sentence in scores.tolist()]


def test_only_the_token_that_completes_a_seen_phrase_is_forbidden() -> None:
    rule = NoAddedRepeats([[], []], n=3)
    prefixes = torch.tensor([[[5, 6, 7, 8, 5, 6], [5, 6, 7, 5, 6, 8]], [[5, 6, 5, 6, 5, 6], [1, 2, 3, 4, 5, 6]]])
    scores = torch.zeros(2, 2, 10)
    rule(torch.tensor([0, 1]), prefixes, scores)
    assert forbidden(scores) == [[{7}, set()], [{5}, set()]]


def test_short_prefixes_are_left_alone() -> None:
    scores = torch.zeros(1, 1, 10)
    NoAddedRepeats([[]])(torch.tensor([0]), torch.tensor([[[5, 5, 5]]]), scores)
    assert forbidden(scores) == [[set()]]


def test_a_phrase_may_come_as_often_as_in_the_source() -> None:
    rule = NoAddedRepeats([[5, 6, 7, 8, 5, 6, 7, 3]], n=3)
    prefixes = torch.tensor([[[5, 6, 7, 9, 5, 6], [5, 6, 8, 9, 5, 6]]])
    scores = torch.zeros(1, 2, 10)
    rule(torch.tensor([0]), prefixes, scores)
    assert forbidden(scores) == [[set(), {8}]]
    scores = torch.zeros(1, 1, 10)
    rule(torch.tensor([0]), torch.tensor([[[5, 6, 7, 5, 6, 7, 5, 6]]]), scores)
    assert forbidden(scores) == [[{7}]]


def test_phrases_with_digits_may_be_repeated() -> None:
    rule = NoAddedRepeats([[]], free=[7], n=3)
    scores = torch.zeros(1, 2, 10)
    rule(torch.tensor([0]), torch.tensor([[[5, 6, 7, 9, 5, 6], [7, 6, 4, 9, 7, 6]]]), scores)
    assert forbidden(scores) == [[set(), set()]]


def test_repeated_numbers_and_names_stay_whole() -> None:
    texts = [
        "The city has 1,000,000 inhabitants.",
        "They sold 3,000 cars in May and 5,000 cars in June.",
        "He moved to Shijiazhuang, because Shijiazhuang is cheap.",
    ]
    million, cars, name = (found.paraphrases for found in load_paraphraser("shipped", dtype="float32")(texts, k=5))
    assert all("1,000,000" in one for one in million)
    assert all("3,000" in one and "5,000" in one for one in cars)
    assert all(one.count("Shijiazhuang") == 2 for one in name)


def test_digits_are_single_pieces_with_or_without_a_space() -> None:
    digits = Digits(Pieces())  # type: ignore[arg-type]
    assert digits.tokens.tolist() == [5, 6, 7]
    assert digits.count(torch.tensor([[5, 6, 7, 4, 9, 10]]))[0].tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 0, 0]


def test_digits_are_neither_invented_nor_lost() -> None:
    digits = Digits(Pieces())  # type: ignore[arg-type]
    rule = SourceDigits(digits, [[4, 3], [5, 6, 4, 3]], eos=3)
    prefixes = torch.tensor([[[4, 4], [4, 8]], [[4, 6], [5, 7]]])
    scores = torch.zeros(2, 2, 11)
    rule(torch.tensor([0, 1]), prefixes, scores)
    nothing_to_copy = {5, 6, 7}
    assert forbidden(scores)[0] == [nothing_to_copy, nothing_to_copy]
    # "2" is used and "1" is missing: no end yet; both used: the end is free, further digits are not.
    assert forbidden(scores)[1] == [{3, 6, 7}, {5, 6, 7}]


def test_sentences_that_left_the_batch_do_not_shift_the_counts() -> None:
    digits = Digits(Pieces())  # type: ignore[arg-type]
    rule = SourceDigits(digits, [[4, 3], [5, 4, 3]], eos=3)
    scores = torch.zeros(1, 1, 11)
    rule(torch.tensor([1]), torch.tensor([[[4]]]), scores)
    assert forbidden(scores) == [[{3, 6, 7}]]

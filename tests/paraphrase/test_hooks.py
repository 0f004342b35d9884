"""What the shipped paraphraser adds to a search: rules, on hand-made prefixes, and how it judges candidates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from polyref.augment.measures import Equivalence
from polyref.errors import ModelError
from polyref.models.opening import find
from polyref.paraphrase import DiverseBeam, Paraphraser, SearchOptions, load_paraphraser
from polyref.paraphrase.paraphraser import Hypothesis
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
    # All that is found, not judged.
    options = SearchOptions(beam=6, groups=2, max_len_a=1.25, max_len_b=5)
    raw = load_paraphraser("shipped", dtype="float32")(texts, k=5, decoding=options)
    million, cars, name = (found.paraphrases for found in raw)
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


TEXTS = [
    "In 2018, about 1,500 people worked in the two factories.",
    "Yes.",
    "The committee said that it would look at the 12 plans again, because it was not happy with them.",
    "“I have never seen so much snow in April,” said Tomas Lind.",
    "",
    "The dog barked all night.",
]


@pytest.fixture
def judging(tmp_path: Path) -> Callable[[Any], Path]:
    """The shipped model with another ``search`` in its ``config.json``: a folder."""

    def folder(search: Any) -> Path:
        shipped, made = find("shipped", "generator").folder, tmp_path / json.dumps(search).replace("/", "")[:99]
        made.mkdir()
        for path in shipped.iterdir():
            (made / path.name).symlink_to(path)
        config = json.loads((shipped / "config.json").read_text("utf-8"))
        (made / "config.json").unlink()
        (made / "config.json").write_text(json.dumps({**config, "search": search}), "utf-8")
        return made

    return folder


@pytest.fixture(scope="module")
def shipped() -> Paraphraser:
    return load_paraphraser("shipped", threads=1, cache=False)


def found(paraphraser: Paraphraser, k: int, **options: Any) -> list[tuple[Hypothesis, ...]]:
    return [one.hypotheses for one in paraphraser.paraphrase(TEXTS, k, **options)]


@pytest.mark.parametrize("least", [0.0, 0.1])
def test_what_follows_both_ways_is_offered_and_the_best_comes_first(
    judging: Callable[[Any], Path], least: float
) -> None:
    folder = judging({"closeness": 3, "beam": 8, "equivalence": least})
    model = load_paraphraser(folder, threads=1, cache=False)
    assert model.signature.endswith(f"|equivalence>={least:g}")
    # The search of a model that does not judge, and the measure of the filters.
    searched = found(
        load_paraphraser(judging(None), threads=1, cache=False), 8, decoding=DiverseBeam(beam=8, closeness=3)
    )
    measure = Equivalence(str(folder), lang="en")
    expected = []
    for text, candidates in zip(TEXTS, searched, strict=True):
        values = measure.score([(text, one.text) for one in candidates])
        judged = sorted(zip(values, candidates, strict=True), key=lambda pair: -pair[0])
        expected.append(tuple(one for value, one in judged if value >= least and one.text != text))
    offered = found(model, 8)
    assert offered == expected and max(map(len, offered)) >= 2
    # All of it was needed: copies and worse ones were found, and the search had another order.
    assert any(one.text == text for text, every in zip(TEXTS, searched, strict=True) for one in every)
    assert sum(map(len, offered)) < sum(one.text != text for text, every in zip(TEXTS, searched) for one in every)
    assert any(
        [one.score for one in each] != sorted((one.score or 0 for one in each), reverse=True) for each in offered
    )


def test_a_judged_list_is_the_same_alone_and_the_start_of_a_longer_one(shipped: Paraphraser) -> None:
    lists = found(shipped, 10)
    assert [next(iter(shipped.paraphrase([text], 10))).hypotheses for text in TEXTS[:3]] == lists[:3]
    assert found(shipped, 1) == [every[:1] for every in lists] and max(map(len, lists)) > 1
    assert shipped.describe_decoding(None, 1) == shipped.describe_decoding(None, 30)
    assert shipped.describe_decoding(DiverseBeam(beam=4), 1).startswith("dbs(beam=4,groups=2,")


def test_a_search_with_options_of_its_own_is_not_judged(judging: Callable[[Any], Path], shipped: Paraphraser) -> None:
    options = SearchOptions(beam=6, groups=2, max_len_b=40)
    plain = load_paraphraser(judging(None), threads=1, cache=False)
    lists = found(shipped, 6, decoding=options)
    assert lists == found(plain, 6, decoding=options)
    assert [bool(every) for every in lists] == [bool(text) for text in TEXTS]
    assert any(one.text == text for text, every in zip(TEXTS, lists, strict=True) for one in every)
    assert "equivalence" in shipped.signature and "equivalence" not in plain.signature


@pytest.mark.parametrize(
    "search",
    [
        [],
        "3 8 0",
        {"closeness": 3, "beam": 8},
        {"closeness": 3, "beam": 8, "equivalence": 0, "depth": 1},
        {"closeness": 4, "beam": 8, "equivalence": 0},
        {"closeness": None, "beam": 8, "equivalence": 0},
        {"closeness": 3, "beam": 0, "equivalence": 0},
        {"closeness": 3, "beam": 2.5, "equivalence": 0},
        {"closeness": 3, "beam": None, "equivalence": 0},
        {"closeness": 3, "beam": 10**6, "equivalence": 0},
        {"closeness": 3, "beam": 8, "equivalence": "0.5"},
        {"closeness": 3, "beam": 8, "equivalence": None},
        {"closeness": 3, "beam": 8, "equivalence": math.nan},
    ],
    ids=json.dumps,
)
def test_a_model_that_says_nonsense_of_its_search_is_refused(judging: Callable[[Any], Path], search: Any) -> None:
    folder = judging(search)
    with pytest.raises(ModelError) as error:
        load_paraphraser(folder, cache=False)
    assert error.value.file == str(folder / "config.json")
    expected = 'expected null, or {"closeness": 0 to 3, "beam": 1 or more, "equivalence": a number}'
    assert error.value.message == f"search is {search!r}, {expected}"

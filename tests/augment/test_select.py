from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_paraphraser import RuleParaphraser

from polyref.augment import Tally, augment
from polyref.augment.candidates import Candidate, Generated, selection
from polyref.augment.pipeline import Augmentation
from polyref.comparison import dice, ngrams
from polyref.errors import UsageError
from polyref.references import ReferenceSet

NAMES = ["rank", "mmr", "mmr:0.9", "mmr:0", "mmr:1"]
HAVE = ["the cat sat on the mat"]


@st.composite
def pools(draw: st.DrawFn) -> list[Candidate]:
    """Candidates of one or two references, each with its own ranks."""
    text = st.lists(st.sampled_from("the a cat dog sat lay on mat rug".split()), min_size=1, max_size=6).map(" ".join)  # noqa: SIM905
    found = []
    for of in range(draw(st.integers(1, 2))):
        texts = draw(st.lists(text, max_size=8))
        for rank, one in enumerate(texts):
            found.append(Candidate(one, of, rank, draw(st.floats(-4, 0))))
    return found


@pytest.mark.slow
@given(pools(), st.sampled_from(NAMES), st.integers(0, 20), st.randoms(use_true_random=False))
def test_any_selection_is_a_choice_of_k_nested_in_k_and_blind_to_the_order_given(
    pool: list[Candidate], name: str, k: int, random: Any
) -> None:
    way = selection(name)
    chosen = way.order(pool, HAVE, k)
    assert len(chosen) == min(k, len(pool))
    assert len({(one.of, one.rank) for one in chosen}) == len(chosen)
    assert all(one in pool for one in chosen)
    assert way.order(pool, HAVE, len(pool))[:k] == chosen
    shuffled = list(pool)
    random.shuffle(shuffled)
    assert way.order(shuffled, HAVE, k) == chosen


def test_rank_takes_one_of_each_reference_in_turn() -> None:
    pool = [Candidate("b", 1, 0), Candidate("c", 0, 1), Candidate("a", 0, 0), Candidate("d", 1, 3)]
    assert [one.text for one in selection("rank").order(pool, [], 9)] == ["a", "b", "c", "d"]


@pytest.mark.slow
@given(pools(), st.sampled_from([0.0, 0.3, 1.0]))
def test_mmr_against_its_formula(pool: list[Candidate], balance: float) -> None:
    held = list(HAVE)
    for one in selection(f"mmr:{balance}").order(pool, HAVE, 4):

        def value(c: Candidate) -> float:
            near = max(dice(ngrams(c.text, 2), ngrams(text, 2)) for text in held)
            return balance * math.exp(c.score) - (1 - balance) * near

        assert value(one) == max(map(value, pool))
        pool = [other for other in pool if other is not one]
        held.append(one.text)


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    assert dice(ngrams("他今天来了", 2), ngrams("他昨天来了", 2)) == pytest.approx(2 * 6 / 18)
    assert dice(ngrams("", 2), ngrams("", 2)) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best", "`select` is 'best', expected one of rank, mmr"),
        ("rank:2", "`select` rank takes no parameter, but has '2'"),
        ("group", "`select` group has gone (mmr prefers what is unlike the references there already)"),
        ("coverage:3", "`select` coverage has gone (mmr prefers what is unlike"),
        ("mmr:x", "`select` mmr: the parameter is 'x', expected a number from 0 to 1"),
        ("mmr:1.5", "`select` mmr: lambda is 1.5, expected 0 to 1"),
        ("mmr:nan", "`select` mmr: lambda is nan, expected 0 to 1"),
    ],
)
def test_wrong_names(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        selection(text)


def test_in_the_pipeline() -> None:
    references = ReferenceSet.from_texts([["Ann paid 5 euros."]])
    tally = Tally()
    ranked = augment(references, RuleParaphraser(), 4, filters="none")
    chosen = augment(references, RuleParaphraser(), 4, filters="none", select="mmr:0", tally=tally)
    assert ranked.meta.get("select") is None and chosen.meta["select"] == "mmr:0"
    assert len(chosen[0].extras) == 4
    # All eight candidates are looked at: two are copies, one a duplicate, one more was not selected.
    assert (tally.candidates, tally.kept, tally.surplus, tally.dropped.total()) == (8, 4, 1, 3)
    # The least like the reference comes first; where it came from is kept.
    assert chosen[0].extras[0].text == "It is not so that Ann paid 5 euros." and chosen[0].extras[0].rank == 7
    assert chosen[0].extras[0].logprob == -0.9876


def test_the_selection_is_part_of_the_signature(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text("Ann paid.\n")
    rules = Generated(RuleParaphraser(), 4)
    works = {name: Augmentation(rules, 2, _none(), select=selection(name)).signature for name in NAMES}
    assert len(set(works.values())) == len(NAMES)
    assert "select:" not in works["rank"] and "|select:mmr:0.5|" in works["mmr"]
    # A set made in two runs says what each of them did.
    once = augment(ReferenceSet.from_texts([["Ann paid."]]), RuleParaphraser(), 1)
    twice = augment(once, RuleParaphraser(), 1, select="mmr")
    assert twice.meta["select"] == [None, "mmr:0.5"]
    result = polyref("augment", tmp_path / "refs.en", "--select", "mmr:2")
    assert result.code == 2 and "lambda is 2, expected 0 to 1" in result.err


def _none() -> Any:
    from polyref.augment import filter_chain

    return filter_chain("none")

"""The program that makes the table of ``lexical``: what it counts, and what it leaves out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest

from polyref.paraphrase.lexical import tokens

CLUSTERS = [
    ["The big house was sold.", "The large house was sold."],
    ["A big house is here now.", "A large house is here now."],
    ["His big house is by the sea.", "His large house is by the sea.", "His large home is by the sea."],
    ["We saw a big dog there.", "We saw a huge dog there."],
    ["It is Paris that he likes.", "It is London that he likes."],
]


@pytest.fixture
def mine(training: Callable[[str], ModuleType]) -> ModuleType:
    training("package")
    return importlib.import_module("mine_substitutions")


def test_shares_are_of_clusters_with_the_source(mine: ModuleType) -> None:
    rows = {(source, target): share for source, target, share in mine.table(CLUSTERS, 0.0)}
    # Three clusters have large for big, of four with big; the share of an edit in context is its own.
    assert rows["big", "large"] == pytest.approx((3 - 0.7) / (4 + 6))
    assert rows["large", "big"] == pytest.approx((3 - 0.7) / (3 + 6))
    assert rows["big house", "large house"] == pytest.approx((3 - 0.7) / (3 + 6))
    # One cluster each: too few.
    assert ("big", "huge") not in rows and ("house", "home") not in rows
    assert all("paris" not in source and "london" not in target for source, target in rows)
    assert mine.table(CLUSTERS, 0.9) == []


def test_every_substitution_has_its_contexts(mine: ModuleType) -> None:
    found = set(mine.substitutions([tokens("He left, prior to noon."), tokens("He left, before noon.")]))
    # "prior to" and "before": all words of one side carry no meaning of their own.
    assert found == set()
    found = set(mine.substitutions([tokens("The old car broke down."), tokens("The ancient car broke down.")]))
    assert {pair for pair in found if pair[0].startswith(("old", "the old"))} == {
        ("old", "ancient"),
        ("the old", "the ancient"),
        ("old car", "ancient car"),
        ("the old car", "the ancient car"),
    }
    assert all((target, source) in found for source, target in found)


@pytest.mark.parametrize(
    ("source", "target", "taken"),
    [
        (["bought"], ["purchased"], True),
        (["fire", " brigade"], ["fire", " department"], True),
        (["the", " fire", " brigade"], ["the", " fire", " service"], True),
        (["fire", " brigade"], ["firefighters"], False),
        (["city"], ["the", " town"], False),
        (["grew"], ["has", " risen"], False),
        (["buying"], ["purchased"], False),
        (["loss"], ["damage"], True),
        (["the"], ["a"], False),
        (["said"], ["to"], False),
        (["three"], ["four"], False),
        (["may"], ["july"], False),
        (["street"], ["streets"], False),
        (["12"], ["twelve"], False),
        (["word", ","], ["words"], False),
        (["one", " two", " three", " more"], ["four"], False),
    ],
)
def test_which_are_taken(mine: ModuleType, source: list[str], target: list[str], taken: bool) -> None:
    assert mine.exchangeable(source, target) is taken


def test_endings(mine: ModuleType) -> None:
    assert (
        mine.inflected("street", "streets")
        and mine.inflected("decide", "deciding")
        and mine.inflected("city", "cities")
    )
    assert not mine.inflected("tested", "examined") and not mine.inflected("aim", "goal")

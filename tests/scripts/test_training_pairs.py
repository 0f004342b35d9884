"""Which sentences of a cluster become training pairs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pytest

Training = Callable[[str], ModuleType]
TEXTS = (
    "The council finally approved the new budget on Monday evening.",
    "On Monday evening, the council finally passed the new budget.",
    "The new budget was finally approved by the council on Monday evening.",
    "The council finally adopted the new budget on Monday night.",
)


@pytest.mark.parametrize(
    ("source", "target", "inserted"),
    [
        ("The price rose.", "In addition, the price rose.", True),
        ("The price also rose.", "In addition, the price rose.", False),
        ("But the price rose.", "However, the price rose.", False),
        ("The price rose.", "However, the price rose.", True),
        ("The price rose.", "As a result, the price rose.", True),
        ("The price rose because of it.", "As a result, the price rose.", False),
        ("The price rose.", '"Moreover, the price rose.', True),
        ("Moreover, the price rose.", "The price rose.", False),
        ("The price rose.", "Thusness is no connective.", False),
    ],
)
def test_inserted_openings(training: Training, source: str, target: str, inserted: bool) -> None:
    assert training("pairs").inserts_opening(source, target) is inserted


def made(
    training: Training, texts: tuple[str, ...], nref: int = 0, **rules: object
) -> tuple[set[tuple[str, str]], Counter[str]]:
    pairs, recipe = training("pairs"), training("recipe")
    faults: Counter[str] = Counter()
    cluster = pairs.Cluster("set/de-en", 1, nref, texts)
    rules = {"most": 99, "most_without_human": 99, **rules}
    found = pairs.pairs_of(cluster, recipe.PairRules(**rules), random.Random(1), faults)
    return {(pair.source, pair.target) for pair in found}, faults


def test_openings_are_refused_where_the_rules_say_so(training: Training) -> None:
    texts = (*TEXTS, f"In addition, {TEXTS[0][0].lower()}{TEXTS[0][1:]}")
    found, _ = made(training, texts)
    assert any(target == texts[-1] for _, target in found)
    found, faults = made(training, texts, openings=False)
    assert not any(target == texts[-1] for _, target in found)
    assert any(source == texts[-1] for source, _ in found)
    assert faults["opening"] > 0


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("The council has not approved the new budget on Monday evening.", "negation"),
        ("The council finally approved the 3 new budgets on Monday evening.", "digits"),
        ("The council in Bern under Keller finally approved the budget on Monday evening.", "capitals"),
        ("The new budget.", "length"),
        ("A red car.", "apart"),
    ],
)
def test_faults(training: Training, other: str, reason: str) -> None:
    found, faults = made(training, (TEXTS[0], other))
    assert not found
    assert faults[reason] == 2


def test_near_copies(training: Training) -> None:
    near = ("The council of the town finally approved the new budget on Monday evening.",
            "The council of the city finally approved the new budget on Monday evening.")  # fmt: skip
    assert len(made(training, near)[0]) == 2
    found, faults = made(training, near, near_copies=0.0)
    assert not found
    assert faults["near copy"] == 2


def test_what_a_judge_refuses_is_counted(training: Training) -> None:
    pairs, recipe = training("pairs"), training("recipe")
    faults: Counter[str] = Counter()
    rows = [pairs.Cluster("set/de-en", 1, 0, TEXTS)]
    rules = recipe.PairRules(most_without_human=99)

    def judge(cluster: object) -> Callable[[str, str], str | None]:
        assert cluster is rows[0]
        return lambda source, target: "score" if target == TEXTS[1] else None

    (found,) = pairs.training_pairs(rows, rules, 1, faults, judge)
    assert {pair.target for pair in found} == {*TEXTS} - {TEXTS[1]}
    assert faults["score"] == 3


def test_human_texts_first_or_last(training: Training) -> None:
    """With few pairs a cluster, the sign of ``human`` decides whether the human text is among them."""
    first, _ = made(training, TEXTS, nref=1, most=3, human=9.0)
    last, _ = made(training, TEXTS, nref=1, most=3, human=-9.0)
    assert all(TEXTS[0] in pair for pair in first)
    assert not any(TEXTS[0] in pair for pair in last)


def test_targets_of_the_consensus(training: Training) -> None:
    texts = (*TEXTS, "The council finally approved its new budget on Monday evening.",
             "Budget: finally, council said yes on Monday to the new one.")  # fmt: skip
    found, faults = made(training, texts, min_consensus=0.5)
    assert faults["consensus"] == 15
    assert not any(target == texts[-1] for _, target in found)


def test_caps(training: Training) -> None:
    """Clusters without a human text have a cap of their own; those that differ in names alone are few."""
    pairs, recipe = training("pairs"), training("recipe")
    rows = [pairs.Cluster("s/de-en", n, n % 2, tuple(f"{text} Room {n}." for text in TEXTS)) for n in range(6)]
    rules = recipe.PairRules(most=3, most_without_human=2, most_template=4)
    faults: Counter[str] = Counter()
    assert [len(found) for found in pairs.training_pairs(rows, rules, 1, faults)] == [2, 3, 2, 3]
    assert faults["clusters like others"] == 2


def test_validation_split(training: Training) -> None:
    pairs = training("pairs")
    rows = [pairs.Cluster(f"{n % 2}/de-en", n, int(n < 16), TEXTS) for n in range(20)]
    train, valid = pairs.split(rows, 3)
    assert [cluster.id for cluster in valid] == [10, 11, 12, 13, 14, 15]
    assert len(train) == 14

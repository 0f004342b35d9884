"""Which pairs say the same: each rule on invented sentences, and all of them on pairs that were read."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Training = Callable[[str], ModuleType]

#: By lowest score and files of read pairs: how many pairs are kept, wrong and faultless ones among them. Of all 450,
#: 167 are wrong and 148 faultless. Recorded when the rules came here, with what Judge learns from the clusters that
#: have the number of a read pair (14,164 of 152,816). With all clusters of the three files, which takes a minute, it is
#: (182, 22, 105), (124, 10, 76), and of the last file (49, 11, 25), (28, 4, 18).
KEPT = {
    (-8.0, "all"): (124, 13, 78),
    (-4.0, "all"): (67, 4, 49),
    (-8.0, "read last"): (30, 6, 16),
    (-4.0, "read last"): (15, 2, 12),
}


def family(training: Training, *texts: str, **exchanges: float) -> Any:
    """``mayor_teacher=0.5``: these stems stand for each other; all neighbours are known."""
    rules = training("rules")
    known = {tuple(sorted(pair.split("_"))): value for pair, value in exchanges.items()}
    neighbours = {pair for text in texts for pair in rules._neighbours(rules._words(text))}
    return rules.Family(texts, rules.Lexicon(known, neighbours))


@pytest.mark.parametrize(
    ("one", "other", "fault"),
    [
        ("The mayor came. The band played.", "The mayor came, the band played.", "form"),
        ("Mr. Miller came early.", "Dr. Miller came early.", None),
        ('He called it "odd".', "He called it odd.", "form"),
        ("The mayor - and the band - came.", "The mayor and the band came.", "form"),
        ("The mayor came: the band played.", "The mayor came, the band played.", "form"),
        ("The mayor came?", "The mayor came.", "form"),
        ("The band (of the town) came.", "The band of the town came.", "form"),
        ("Well... the mayor came.", "Well, the mayor came.", "form"),
        ("The mayor has two dogs.", "The mayor has three dogs.", "numbers"),
        ("The mayor has 12 dogs.", "The mayor has 13 dogs.", "numbers"),
        ("The mayor reportedly came.", "The mayor came.", "hedges"),
        ("The mayor reportedly came.", "The mayor apparently came.", None),
        ("Almost all dogs came.", "Nearly all dogs came.", None),
        ("Almost all dogs came.", "All dogs came.", "hedges"),
        ("If the mayor came, they left.", "As the mayor came, they left.", "hedges"),
        ("He is one of the dogs.", "He is the dog.", "hedges"),
        ("The dog came already.", "The dog came.", "hedges"),
        ("He came.", "You came.", "persons"),
        ("I’m early.", "It is early.", "persons"),
        ("We came.", "I came.", None),
        ("They came.", "These came.", None),
        ("He came.", "She came.", None),
    ],
)
def test_form_numbers_hedges_and_persons_agree(training: Training, one: str, other: str, fault: str | None) -> None:
    texts = family(training, one, other)
    assert texts.fault(one, other, -99.0) == fault
    assert texts.fault(other, one, -99.0) == fault


@pytest.mark.parametrize(
    ("source", "target", "omits"),
    [
        ("The old mayor came.", "The mayor came.", True),
        ("The mayor came.", "The old mayor came.", False),
        ("The mayor came.", "The teacher came.", False),
        ("There the mayor came.", "The mayor came.", False),
        ("The old mayor came home with five dogs.", "The teacher came home with five dogs.", True),
        ("On the old bridge in the park the mayor met five dogs, two cats, a bird and a cow.",
         "In the park the teacher met five dogs, two cats, a bird and a cow on the bridge.", False),
    ],
)  # fmt: skip
def test_nothing_is_left_out(training: Training, source: str, target: str, omits: bool) -> None:
    """Words of function aside; one content word of ten may be lost where another one is new."""
    assert family(training, source, target).fault(source, target, -99.0) == ("omission" if omits else None)


def test_words_that_are_exchanged_need_a_partner_in_the_lexicon(training: Training) -> None:
    one, other = "The old bridge was repaired.", "The old crossing was mended."
    unknown = family(training, one, other)
    half = family(training, one, other, repair_mend=0.3)
    known = family(training, one, other, bridg_cros=0.2, bridg_cross=0.2, repair_mend=0.3)
    assert unknown.score(one, other) < half.score(one, other) < known.score(one, other) == 0
    assert unknown.fault(one, other, -8.0) == "score"
    assert known.fault(one, other, -0.0) is None
    assert half.score(one, other) == half.score(other, one)
    assert half.fault(one, other, half.score(one, other)) is None
    alike = ("The town governed itself.", "The town's government itself.")
    assert family(training, *alike).score(*alike) == 0


def test_witnesses_make_an_unknown_word_cheaper(training: Training) -> None:
    one, other = "The old bridge was closed.", "The old bridge was ruined."
    alone = family(training, one, other)
    both = ("The bridge was closed and ruined.", "Closed was the bridge, and ruined.")
    neither = ("The bridge was shut.", "The bridge was barred.")
    scores = [
        family(training, one, other, *others).score(one, other) for others in (neither, (both[0], neither[0]), both)
    ]
    assert scores[0] < scores[1] < scores[2]
    assert scores[0] < alone.score(one, other) < scores[2]


def test_new_neighbours_of_the_target_cost_one(training: Training) -> None:
    """The same words in another order: ends of the text count as neighbours."""
    rules = training("rules")
    one, other = "The man bit the dog.", "The dog bit the man."
    unknown, known = rules.Lexicon({}, set()), rules.Lexicon({}, {("dog", "bit"), ("bit", "him")})
    assert rules.Family((one, other), unknown).score(one, other) == -2  # dog bit, man </s>
    assert rules.Family((one, other), known).score(one, other) == -1
    witness = "A dog bit this man."
    assert rules.Family((one, other, witness), unknown).score(one, other) == 0
    assert rules.Family((one, "Bit the dog."), unknown).score(one, "Bit the dog.") < -1  # <s> bit, and a lost man


@pytest.mark.parametrize(
    ("words", "stem"),
    [
        (("city", "cities"), "citi"),
        (("stop", "stops", "stopped", "stopping"), "stop"),
        (("house", "houses", "housed", "housing"), "hous"),
        (("quick", "quickly"), "quick"),
        (("bus",), "bus"),
        (("mayor", "mayor's"), "mayor"),
        (("1,000",), "1,000"),
    ],
)
def test_stems(training: Training, words: tuple[str, ...], stem: str) -> None:
    assert {training("rules").stem(word) for word in words} == {stem}


def made(rows: int) -> list[tuple[int, list[str]]]:
    """Families in as many places: "mayor" and "bridge" are exchanged in all."""
    names = ("north", "south", "east", "west", "upper", "lower")
    return [
        (n, [f"The mayor of the {names[n]} opened a bridge.", f"The head of the {names[n]} opened a crossing."])
        for n in range(rows)
    ]


def test_the_lexicon_counts_places(training: Training) -> None:
    learn = training("rules").learn_lexicon
    known = learn(made(4))
    assert known.exchange("mayor", ["head"]) > 0 < known.exchange("head", ["mayor"])
    assert known.exchange("mayor", []) == 0 == known.exchange("mayor", ["south"])
    assert ("the", "mayor") in known.neighbours and ("crossing", "</s>") in known.neighbours
    assert ("north", "opened") not in known.neighbours
    assert not learn(made(3)).exchanges
    assert learn(made(3)).neighbours and not learn(made(2)).neighbours
    assert not learn([(0, texts) for _, texts in made(6)]).exchanges, "all in one place"
    assert learn(made(4)[::-1]) == known
    assert not learn([]).exchanges


def test_a_lexicon_is_written_and_read(training: Training, tmp_path: Path) -> None:
    known = training("rules").learn_lexicon(made(6))
    known.save(tmp_path / "lexicon.json")
    assert training("rules").Lexicon.load(tmp_path / "lexicon.json") == known


def test_right_samples(training: Training, tmp_path: Path) -> None:
    """By the rules for all pairs and those for pairs that say the same; the samples are each other's witnesses."""
    rules = training("rules")
    rules.Lexicon({("begin", "start"): 0.5}, frozenset()).save(tmp_path / "lexicon.json")
    source = "The 3 dogs started to bark loudly in the garden."
    samples = [
        source,
        "The 3 dogs began to bark loudly in the garden.",
        "The 4 dogs began to bark loudly in the garden.",
        "The 3 dogs began to bark in the garden.",
        "In the garden, the 3 dogs began to bark loudly.",
        "However, the 3 dogs started to bark loudly in the garden.",
        "Yes.",
        "",
    ]
    found = rules.right_samples(tmp_path / "lexicon.json", -99.0, [source, *samples])
    assert [(number, level) for number, level, _ in found] == [(2, 3), (5, 2)]
    best = found[0][2]
    assert best > found[1][2]
    assert [number for number, *_ in rules.right_samples(tmp_path / "lexicon.json", best, [source, *samples])] == [2]


def test_the_lexicon_tells_partners_from_company(training: Training) -> None:
    """Where one word of two stays, the other has but one partner: expectation maximisation finds out."""
    several = made(6) + [(n, [text.replace("mayor", "head") for text in texts]) for n, texts in made(6)]
    known = training("rules").learn_lexicon(several)
    assert known.exchange("bridg", ["cross"]) > 3 * known.exchange("bridg", ["head"])


def test_a_judge_knows_families_doubtful_sets_and_loose_references(training: Training) -> None:
    pairs, rules = training("pairs"), training("rules")
    human, system, other = "The mayor came late.", "The mayor came tardily.", "The mayor arrived late."
    rows = [
        pairs.Cluster("newstest2015/de-en", 4, 1, (human, system)),
        pairs.Cluster("newstest2015/fi-en", 9, 1, (human, other)),
        pairs.Cluster("newstest2015/cs-en", 4, 0, (system, other)),
        pairs.Cluster("newstest2010/cs-en", 4, 1, (system, human)),
        pairs.Cluster("newstest2010/de-en", 4, 1, (other,)),
        pairs.Cluster("wmt21/ha-en", 1, 1, (human, system)),
        pairs.Cluster("wmt21/de-en", 1, 1, (human, system)),
    ]
    judge = rules.Judge(rows)
    newstest, _, _, early, _, doubtful, sure = (judge.faults_of(row, -99.0) for row in rows)
    assert newstest(human, system) == "human source"
    assert newstest(system, human) is None is newstest(system, other), "by the same human text"
    assert early(human, other) is None, "by the number of the line"
    assert doubtful(human, system) == "doubtful set"
    assert sure(human, system) is None
    assert judge.faults_of(rows[0], 0.0)(system, other) == "score"
    with pytest.raises(KeyError):
        sure(human, other)


@pytest.mark.slow
def test_a_model_is_asked_about_doubtful_pairs(training: Training) -> None:
    """Those that score below ``sure`` and are likely enough are kept; the model's own scores say which."""
    pairs, prepare, recipe, rules = map(training, ("pairs", "prepare", "recipe", "rules"))
    texts = (
        "The council approved the new budget.",
        "The council passed the new budget.",
        "The council sold the new car.",
    )
    cluster = pairs.Cluster("set/de-en", 1, 0, texts)
    judge = rules.Judge([cluster])

    def made(**changed: object) -> tuple[set[tuple[str, str]], Counter[str]]:
        faults: Counter[str] = Counter()
        asked = recipe.PairRules(most_without_human=99, **changed)
        (found,) = prepare.judged_pairs([cluster], asked, lambda: judge, 1, faults)
        return {(pair.source, pair.target) for pair in found}, faults

    everything, _ = made(least=-99.0)
    likely = dict(zip(everything, prepare.scorer("shipped").score([*everything]), strict=True))
    least = sum(sorted(likely.values())[1:3]) / 2  # both directions score the same, to rounding
    kept, faults = made(least=-99.0, forced=recipe.Forced(least, sure=1.0))
    assert kept == {pair for pair, score in likely.items() if score >= least} != everything
    assert faults["unlikely"] == len(everything) - len(kept)
    assert (texts[0], texts[1]) in kept
    assert made(least=-99.0, forced=recipe.Forced(least, sure=-99.0))[0] == everything, "the rules are sure"
    assert made()[0] == everything


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"strict": True}, "least = -8.0"),
        ({"forced": {}}, "needs least"),
        ({"least": -8.0, "forced": {"most": 1}}, "unknown in [sources.made.rules.forced]: most"),
        ({"strict": False, "forced": None}, None),
        ({"least": -8.0, "forced": {"least": -1.6, "model": "folder"}}, None),
    ],
)
def test_rules_in_a_recipe(training: Training, rules: dict[str, Any], message: str | None) -> None:
    """Checkpoints of earlier runs have ``strict = false``: they are read as they were meant."""
    recipe = training("recipe")
    source = {"file": "made.jsonl.gz", "kind": "clusters", "origin": "", "licence": "", "rules": rules}
    table = {
        "validation": {"source": "made"},
        "sources": {"made": source},
        "stages": [{"name": "pairs", "tokens": 1, "mix": {"made": 1}}],
    }
    if message is None:
        made = recipe.recipe_of(table)
        assert made.sources["made"].rules.least == rules.get("least")
        assert recipe.recipe_of(made.to_dict()) == made
    else:
        with pytest.raises(ValueError, match=re.escape(message)):
            recipe.recipe_of(table)


@pytest.mark.data
@pytest.mark.slow
def test_pairs_that_were_read(training: Training, data_dir: Path) -> None:
    """The share of wrong pairs falls as on the table of the readings: .37 of all, .10 at -8, .06 at -4."""
    pairs, rules = training("pairs"), training("rules")
    folder = data_dir / "paraphrase-train"
    files = [folder / "read-pairs" / f"{name}.tsv" for name in ("labels", "labels_heldout", "labels_third")]
    if not files[0].exists():
        pytest.skip(f"no {files[0]}")
    read = []
    for file in files:
        with file.open(encoding="utf-8", newline="") as stream:
            table = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
            read += [(file is files[-1], row) for row in table]
    numbers = {int(row["cluster"]) for _, row in read}
    clusters = [
        cluster
        for name in ("wmt", "newstest.a", "flores")
        for cluster in pairs.read_clusters(folder / f"{name}.en.jsonl.gz")
        if cluster.id in numbers
    ]
    judge = rules.Judge(clusters)
    known = {(cluster.set, cluster.id): cluster for cluster in clusters}
    kept: dict[tuple[float, str], list[str]] = {key: [] for key in KEPT}
    for last, row in read:
        cluster = known[row["set"].split(":")[1], int(row["cluster"])]
        for least, which in KEPT:
            if last >= (which == "read last") and not judge.faults_of(cluster, least)(row["source"], row["target"]):
                kept[least, which].append(row["label"])
    assert {key: (len(labels), labels.count("wrong"), labels.count("ok")) for key, labels in kept.items()} == KEPT

"""``polyref.score``: from texts to a table in one call."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

import polyref
from polyref.errors import DataError, PolyrefError, UsageError
from polyref.metrics.registry import get_metric
from polyref.metrics.signature import digest, inputs_signature
from polyref.metrics.significance import confidence, paired_bootstrap, paired_randomization
from polyref.references import ReferenceSet

REFERENCES = ["The ferry leaves at 9:15.", "Bring a coat, please.", "No one was hurt in the fire."]
ADDED = [
    ["The ferry departs at 9:15.", "It sails at 9:15."],
    ["Please bring a coat."],
    ["Nobody was hurt in the fire."],
]
GOOD = ["The ferry departs at 9:15.", "Please bring a coat with you.", "No one was hurt in the fire."]
POOR = ["Ferry 9.15", "coat", "The fire was hurt."]
SYSTEMS = {"good": GOOD, "poor": POOR}


@pytest.fixture
def refset() -> ReferenceSet:
    return ReferenceSet.from_texts([[text] for text in REFERENCES], paraphrases=ADDED)


def test_scores_are_those_of_the_metrics(refset: ReferenceSet) -> None:
    table = polyref.score(SYSTEMS, refset, ["bleu", "chrf++"], [0, 1])
    assert [(row["system"], row["metric"], row["k"]) for row in table.rows] == [
        (system, metric, k) for metric in ("bleu", "chrf++") for k in (0, 1) for system in SYSTEMS
    ]
    for row in table.rows:
        metric = get_metric(row["metric"])
        scores = metric.aggregate(metric.statistics(SYSTEMS, refset), k=row["k"])
        place = list(SYSTEMS).index(row["system"])
        assert (row["score"], row["signature"]) == (scores.system[place], scores.signature)
        found = [one["score"] for one in table.segment.rows if all(one[x] == row[x] for x in ("system", "metric", "k"))]
        assert found == scores.segment[place].tolist()


def test_signatures_of_inputs_hold_the_texts_of_the_references() -> None:
    def signed(texts: list[list[str]], added: list[list[str]] = ADDED, **options: Any) -> str:
        return inputs_signature(ReferenceSet.from_texts(texts, paraphrases=added), ["bleu"], [0], **options)

    texts = [[text] for text in REFERENCES]
    swapped = [texts[1], texts[0], texts[2]]
    other = [["The ferry leaves at 9:16."], *texts[1:]]  # as many, and as long
    more = [["The ferry departs at 9:15.", "It sails at 9:51."], *ADDED[1:]]
    cut = [["The ferry departs at 9:15.It sails", " at 9:15."], *ADDED[1:]]
    found = [signed(texts), signed(swapped), signed(other), *(signed(texts, added) for added in (more, cut))]
    assert len(set(found)) == len(found)
    assert signed(texts) == found[0]
    # All else is the same.
    assert len({re.sub("sha256:[0-9a-f]{16}", "", one) for one in found}) == 1


def test_signatures_of_inputs_hold_what_counts_beside_the_texts(refset: ReferenceSet) -> None:
    first, *rest = refset.segments

    def signed(weights: tuple[str, ...] = (), sources: bool = False, source: str = "", **changes: Any) -> str:
        refs = (first.refs[0], replace(first.refs[1], **changes), *first.refs[2:])
        segment = replace(first, refs=refs, source=source)
        return inputs_signature(ReferenceSet((segment, *rest)), ["bleu"], [0], weights, sources)

    assert signed() != signed(kind="pseudo")
    for name, weights in (("weight", ("given",)), ("logprob", ("logprob",))):
        assert signed() == signed(**{name: 0.5}), "not weighed by it"
        assert signed(weights) != signed(weights, **{name: 0.5})
    assert signed() == signed(source="Die Fähre"), "not read"
    assert signed(sources=True) != signed(sources=True, source="Die Fähre")


def test_plain_lists_stand_for_sets_and_systems(refset: ReferenceSet) -> None:
    expected = polyref.score({"system": GOOD}, refset.take(0), "bleu", 0)
    assert polyref.score(GOOD, REFERENCES, get_metric("bleu"), 0).rows == expected.rows
    assert polyref.score(GOOD, [[text] for text in REFERENCES]).rows == expected.rows
    several = polyref.score(GOOD, [[one, *more] for one, more in zip(REFERENCES, ADDED, strict=True)])
    assert several.rows[0]["references"] == {"min": 2, "max": 3}


def test_one_metric_in_two_ways(refset: ReferenceSet) -> None:
    uses = {how: get_metric("bleu", combine=how) for how in ("max", "expected")}
    assert [row["metric"] for row in polyref.score(GOOD, refset, uses, 1).rows] == ["max", "expected"]
    with pytest.raises(UsageError, match="two metrics called 'bleu'"):
        polyref.score(GOOD, refset, list(uses.values()))


def test_intervals_and_tests(refset: ReferenceSet) -> None:
    metric = get_metric("bleu")
    stats = metric.statistics(SYSTEMS, refset)
    rows = polyref.score(SYSTEMS, refset, "bleu", 1, test="confidence", trials=50, seed=3).rows
    drawn = confidence(metric, stats, k=1, samples=50, seed=3)
    assert [(row["mean"], row["ci"]) for row in rows] == list(zip(drawn.mean, drawn.half_width, strict=True))
    assert all(row["signature"].endswith("|bs:50|rs:3") for row in rows)
    first, second = polyref.score(SYSTEMS, refset, "bleu", 1, test="paired_bs").rows
    tested = paired_bootstrap(metric, stats, k=1).p_value
    assert tested is not None
    assert (first["p_value"], second["p_value"]) == (None, tested[1])
    (_, second) = polyref.score(SYSTEMS, refset, "bleu", 1, test="paired_ar").rows
    assert second["p_value"] == paired_randomization(metric, stats, k=1)[1]


def test_the_bootstrap_that_holds_its_level() -> None:
    systems = {"A": [*GOOD, *POOR, *GOOD, *POOR], "B": [*POOR, *GOOD, *GOOD, *GOOD[:1], *POOR[1:]]}
    first, second = polyref.score(systems, REFERENCES * 4, "bleu", 0, test="paired_bs_shift").rows
    metric = get_metric("bleu")
    stats = metric.statistics(systems, ReferenceSet.from_texts([[text] for text in REFERENCES * 4]))
    tested = paired_bootstrap(metric, stats, k=0, null="shift")
    assert tested.p_value is not None
    assert (first["p_value"], second["p_value"]) == (None, tested.p_value[1])
    assert second["ci"] == tested.half_width[1]
    assert second["signature"].endswith("|bs:1000|null:shift|rs:12345")
    # sacreBLEU's rejects sooner.
    (_, sacrebleus) = polyref.score(systems, REFERENCES * 4, "bleu", 0, test="paired_bs").rows
    assert sacrebleus["p_value"] < second["p_value"]


def test_the_parts_of_a_score_make_it(refset: ReferenceSet) -> None:
    """Precisions, brevity penalty and lengths are those of the score beside them; a blend of two BLEUs has none."""
    for combine in ("max", "mean", "expected"):
        for row in polyref.score(SYSTEMS, refset, f"bleu(combine={combine})", [0, 1]).rows:
            parts = row["bp"] * math.prod(row["precisions"]) ** 0.25
            assert row["score"] == pytest.approx(parts)
            assert row["ratio"] == row["sys_len"] / row["ref_len"]
    assert all("precisions" not in row for row in polyref.score(SYSTEMS, refset, "bleu(combine=blend)", [0, 1]).rows)


def test_notes_say_what_the_reader_has_to_know(refset: ReferenceSet) -> None:
    assert polyref.score(SYSTEMS, refset).notes == ()
    assert polyref.score({"a": GOOD, "b": ["", *POOR[1:]]}, refset, ks=[0, 2]).notes == (
        "empty lines are scored as they are: 1 in b",
        "some segments have only 1 extra reference: `ks` 2 uses what there is",
    )
    without = ReferenceSet.from_texts([[], *([text] for text in REFERENCES[1:])], paraphrases=ADDED)
    assert polyref.score(GOOD, without, ks=[0, 1], allow_missing=True).notes == (
        "1 of 3 segments have no reference with `ks` 0 and are left out",
    )


@pytest.mark.slow
def test_what_people_see(refset: ReferenceSet) -> None:
    table = polyref.score({"<A>": GOOD, "B": POOR}, refset, ["bleu", "ter"], [0, 1])
    assert repr(table) == "ScoreTable(2 systems: BLEU, parBLEU k=1, TER, parTER k=1)"
    header, _, first, _, _, coverage, hashes = str(table).splitlines()
    # Less is better of an error rate.
    assert header.split() == ["system", "BLEU", "parBLEU", "k=1", "TER", "↓", "parTER", "k=1", "↓"]
    assert coverage.startswith("References a segment: ") and " with k = 0, " in coverage
    full = table.text(full=True)
    *_, signatures = full.split("\n\n")
    assert [f"{digest(text)}" in hashes for text in signatures.splitlines()] == [True] * 4
    assert first.split()[0] == "<A>"
    assert signatures.splitlines() == list(dict.fromkeys(row["signature"] for row in table.rows))
    assert "&lt;A&gt;" in table._repr_html_() and "<A>" not in table._repr_html_()
    assert str(table.segment).splitlines()[0].split()[:2] == ["system", "segment"]
    pandas = pytest.importorskip("pandas")
    assert isinstance(table.to_pandas(), pandas.DataFrame)


def test_a_data_frame_needs_pandas(refset: ReferenceSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UsageError, match=r"pandas is not installed \(pip install pandas, or use \.rows\)"):
        polyref.score(GOOD, refset).to_pandas()


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"systems": "one text"}, UsageError, "`systems` is one string, expected a list of strings"),
        ({"systems": {"A": "one text"}}, UsageError, "`systems`['A'] is one string"),
        ({"systems": {}}, DataError, "0 systems"),
        ({"references": "one text"}, UsageError, "`references` is one string"),
        ({"references": []}, DataError, "no segment"),
        ({"references": REFERENCES[:2]}, DataError, "system has 3 segments, but the references have 2"),
        ({"sources": ["a", "b", "c"]}, UsageError, "`sources` is given, but none of `metrics` bleu reads it"),
        (
            {"metrics": "laser-lm-src"},
            DataError,
            "has no source, which LASER+LM-src reads (give the sources (`sources`)",
        ),
        (
            {"metrics": "laser-lm-src", "sources": ["a"]},
            DataError,
            "`sources` has 1 segments, but the references have 3",
        ),
        ({"metrics": "blue"}, UsageError, "unknown metric 'blue'"),
        ({"metrics": []}, UsageError, "`metrics` is empty"),
        ({"ks": -1}, UsageError, "`ks` is -1, expected 0 or more"),
        ({"test": "t"}, UsageError, "`test` is 't', expected one of confidence, paired_ar, paired_bs_shift, paired_bs"),
        ({"test": "paired_ar"}, UsageError, "`paired_ar` compares systems, but `systems` names one"),
        ({"trials": 5}, UsageError, "`trials` has no use without `test` (add `test`)"),
        ({"seed": 5}, UsageError, "`seed` has no use without `test` (add `test`)"),
        ({"metrics": "bleu(smooth_value=1)"}, UsageError, "`smooth_value` has no use without `smooth_method` floor or"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], kind: type[PolyrefError], message: str) -> None:
    with pytest.raises(kind) as caught:
        polyref.score(**{"systems": GOOD, "references": REFERENCES, **given})
    assert message in str(caught.value)


def test_what_lies_below_the_table_is_shown_in_short(refset: ReferenceSet) -> None:
    metric = get_metric("bleu")
    stats = metric.statistics({"<A>": REFERENCES}, refset)
    scores = metric.aggregate(stats, k=0)
    assert repr(stats) == "Statistics(bleu: 1 systems, 3 segments, k = 0, 1, 2)"
    assert repr(scores) == "Scores(BLEU, k = 0: <A> 100)"
    assert "<td>&lt;A&gt;</td><td>100</td>" in scores._repr_html_()


CHINESE = ["猫坐在垫子上，看着窗外。", "天气很好，我们去公园散步。"]
CHINESE_OUTPUT = ["猫坐在垫子上，看着外面。", "天气不错，我们去公园散步。"]


@pytest.mark.parametrize("language", ["zh", "zho_Hans", "zh-CN"])
def test_the_target_language_chooses_the_tokeniser(language: str) -> None:
    (row,) = polyref.score(CHINESE_OUTPUT, CHINESE, target_lang=language).rows
    assert "|tok:zh|" in row["signature"]
    assert row["score"] == polyref.score(CHINESE_OUTPUT, CHINESE, "bleu(tokenize=zh)").rows[0]["score"] > 50
    (row,) = polyref.score(CHINESE_OUTPUT, CHINESE, "bleu(tokenize=char)", target_lang=language).rows
    assert "|tok:char|" in row["signature"]
    assert "|tok:13a|" in polyref.score(GOOD, REFERENCES, target_lang="de").rows[0]["signature"]


@pytest.mark.parametrize(
    "texts",
    [
        CHINESE,
        ["猫がマットの上に座っている。", "天気がいいので散歩に行く。"],
        ["แมวนั่งอยู่บนเสื่อ", "วันนี้อากาศดีมาก เราไปเดินเล่น"],
    ],
)
def test_text_without_spaces_is_noted(texts: list[str]) -> None:
    table = polyref.score(texts, texts, ["bleu", "chrf"])
    (note,) = table.notes
    assert "written without spaces" in note and "13a" in note and "`target_lang`" in note and "`tokenize`" in note
    assert "tokeniser none" in polyref.score(texts, texts, "bleu(tokenize=none)").notes[0]
    for metric in ("chrf", "bleu(tokenize=char)"):
        assert polyref.score(texts, texts, metric).notes == ()


@pytest.mark.parametrize(
    "text",
    ["猫 坐 在 垫子 上 ， 看 着 窗外 。", "It is called 猫 in China.", "고양이가 매트 위에 앉아 있다.", "1 2 3", ""],
)
def test_text_with_spaces_is_not_noted(text: str) -> None:
    assert not any("without spaces" in note for note in polyref.score([text, "."], [text, "."]).notes)


def test_a_language_that_no_metric_reads_is_refused() -> None:
    for metrics in ("chrf", get_metric("bleu"), {"x": get_metric("bleu")}):
        with pytest.raises(UsageError, match="`target_lang` is given, but none of `metrics`"):
            polyref.score(GOOD, REFERENCES, metrics, target_lang="zh")


def test_references_in_the_order_of_sacrebleu_are_told() -> None:
    with pytest.raises(
        DataError, match=r"has 3 segments, but the references have 2 .* is turned by list\(zip\(\*refs\)\)"
    ):
        polyref.score(["a", "b", "c"], [["a", "b", "c"], ["x", "y", "z"]], "chrf")
    with pytest.raises(DataError, match=r"references have 2$"):
        polyref.score(["a", "b", "c"], [["a"], ["x"]], "chrf")


def test_where_lists_could_be_streams_a_note_says_how_they_were_taken() -> None:
    square = [["It rained.", "Rain fell."], ["No one came.", "Nobody came."]]
    (note,) = polyref.score(["It rained.", "Nobody came."], square, "chrf").notes
    assert "2 lists of 2 texts; each" in note and "list(zip(*refs))" in note
    for other in ([row[:1] for row in square], [*square, ["a", "b"]], [["a"]], ReferenceSet.from_texts(square)):
        assert polyref.score(["It rained."] * len(other), other, "chrf").notes == ()


def test_a_mean_that_falls_for_every_system_says_why() -> None:
    refset = ReferenceSet.from_texts([[text] for text in REFERENCES], paraphrases=[["xyz"] for _ in REFERENCES])
    metrics = ["chrf(combine=mean)", "chrf", "ter(combine=mean)"]
    ((kind, said),) = polyref.score({"a": GOOD}, refset, metrics, [0, 1]).messages
    assert kind == "note" and said.startswith("chrf(combine=mean) k=1: lower than without added references for every")
    found = polyref.score({"a": GOOD, "b": ["xyz"] * len(GOOD)}, refset, metrics, [0, 1])
    assert [*found.messages] == [] == [*found.segment.messages]
    assert [*polyref.score(GOOD, refset, metrics, 1).messages] == []

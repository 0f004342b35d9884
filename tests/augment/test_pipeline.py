from __future__ import annotations

import pytest
from rule_paraphraser import LONGEST, RULES, RuleParaphraser

from polyref.augment import Tally, augment, filter_chain
from polyref.augment.candidates import SHARD_SEGMENTS, Generated
from polyref.augment.pipeline import OVERGENERATE, Augmentation
from polyref.comparison import comparison_key
from polyref.errors import UsageError
from polyref.references import Reference, ReferenceSet, Segment


def test_what_is_kept_and_where_it_came_from() -> None:
    tally = Tally()
    result = augment(ReferenceSet.from_texts([["Ann paid 5 euros."]]), RuleParaphraser(), 4, tally=tally)
    # Of the eight candidates a copy, a louder copy, a duplicate and a new number are dropped: four are left.
    extras = [(ref.text, ref.kind, ref.of, ref.rank, ref.logprob, ref.generator) for ref in result[0].extras]
    assert extras == [
        ("Plainly: Ann paid 5 euros.", "paraphrase", 0, 2, -0.3704, "rules"),
        ("Clearly: Ann paid 5 euros.", "paraphrase", 0, 3, -0.4938, "rules"),
        ("Briefly: Ann paid 5 euros.", "paraphrase", 0, 5, -0.7407, "rules"),
    ]
    assert result[0].originals == (Reference("Ann paid 5 euros."),)
    assert tally == Tally(
        segments=1,
        references=1,
        candidates=8,
        kept=3,
        short=1,
        dropped={"copy": 2, "duplicate": 1, "numbers": 1, "negation": 1},  # type: ignore[arg-type]
    )


def test_no_more_than_k_and_best_first() -> None:
    result = augment(ReferenceSet.from_texts([["Ann paid."]]), RuleParaphraser(), 2)
    assert [ref.rank for ref in result[0].extras] == [2, 3]
    everything = augment(ReferenceSet.from_texts([["Ann paid."]]), RuleParaphraser(), 8, filters="none")
    ranks = [ref.rank for ref in everything[0].extras]
    assert len(ranks) == 8 and ranks == sorted(ranks)


def test_the_paraphraser_is_asked_for_more_than_k() -> None:
    class Asked(RuleParaphraser):
        def generate(self, texts, k, **options):  # type: ignore[no-untyped-def]
            assert k == OVERGENERATE * 3
            return super().generate(texts, k, **options)

    augment(ReferenceSet.from_texts([["Ann paid."]]), Asked(), 3)


def test_several_references_take_turns() -> None:
    references = ReferenceSet.from_texts([["Ann paid.", "Bob left."], ["", "One only."], ["", " "], []])
    tally = Tally()
    result = augment(references, RuleParaphraser(), 3, tally=tally)
    assert [(ref.of, ref.rank, ref.text) for ref in result[0].extras] == [
        (0, 2, "Plainly: Ann paid."),
        (1, 2, "Plainly: Bob left."),
        (0, 3, "Clearly: Ann paid."),
    ]
    assert {ref.of for ref in result[1].extras} == {1}
    # Empty references stay what they are, and nothing is made of them.
    assert result[2] == references[2] and result[3] == references[3]
    assert (tally.empty, tally.references, tally.segments, tally.short) == (3, 3, 4, 0)


def test_what_the_set_holds_already_stays_and_is_not_added_again() -> None:
    before = Segment(
        "s7",
        (
            Reference("Ann paid.", "postedit"),
            Reference("plainly: ann paid", "pseudo", weight=0.5),
            Reference("Clearly: Ann paid.", "paraphrase", of=0, generator="other"),
        ),
        source="Ann hat bezahlt.",
        doc="d",
        extra={"genre": "news"},
    )
    tally = Tally()
    result = augment(ReferenceSet((before,), {"licence": "CC0"}), RuleParaphraser(), 4, tally=tally)
    assert result[0].refs[:3] == before.refs
    assert (result[0].id, result[0].source, result[0].doc, result[0].extra) == ("s7", before.source, "d", before.extra)
    assert tally.dropped["duplicate"] == 3
    assert len({comparison_key(ref.text) for ref in result[0].refs}) == len(result[0].refs)
    assert result.meta["licence"] == "CC0"


def test_a_long_reference_is_kept_whole_and_counted() -> None:
    long = " ".join(f"word{chr(97 + n % 26)}" for n in range(LONGEST + 3))
    tally = Tally()
    result = augment(ReferenceSet.from_texts([[long]]), RuleParaphraser(), 2, tally=tally)
    assert result[0].originals[0].text == long
    assert tally.truncated == 1
    assert result[0].extras[0].text == "Plainly: " + " ".join(long.split()[:LONGEST])


def test_the_header_says_how_it_was_made() -> None:
    references = ReferenceSet.from_texts([["Ann paid."]])
    meta = augment(references, RuleParaphraser(), 5).meta
    assert meta["generator"] == "rules|sha:0"
    assert meta["decoding"] == "rules(16)"
    assert meta["k"] == 5
    assert meta["filters"] == filter_chain().name.replace("small-model", "small-model(for rules)")
    assert meta["lang"] == "en"
    assert [len(item["sha256"]) for item in meta["inputs"]] == [64]
    assert augment(references, RuleParaphraser(), 5).meta == meta
    assert augment(ReferenceSet.from_texts([["Bob paid."]]), RuleParaphraser(), 5).meta["inputs"] != meta["inputs"]


def test_a_second_and_a_third_generator_are_added_to_the_header() -> None:
    once = augment(ReferenceSet.from_texts([["Ann paid."]]), RuleParaphraser(), 1)
    twice = augment(once, RuleParaphraser(), 2, filters="none")
    thrice = augment(twice, RuleParaphraser(), 3)
    assert twice.meta["k"] == [1, 2]
    assert thrice.meta["k"] == [1, 2, 3]
    assert thrice.meta["generator"] == ["rules|sha:0"] * 3
    assert thrice.meta["filters"][1] == "none"
    assert [len(files) for files in thrice.meta["inputs"]] == [1, 1, 1]
    assert [ref.text for ref in thrice[0].extras] == [
        "Plainly: Ann paid.",
        "Clearly: Ann paid.",
        "Briefly: Ann paid.",
    ]


def test_seeds_are_recorded_only_where_given() -> None:
    def meta(seed: int | None, before: dict[str, object]) -> dict[str, object]:
        return Augmentation(Generated(RuleParaphraser(), 2), 1, filter_chain(), seed=seed).meta(before, [])

    assert "seed" not in meta(None, {})
    assert meta(3, {})["seed"] == 3
    assert meta(3, meta(None, {}))["seed"] == [None, 3]
    assert meta(None, meta(3, {}))["seed"] == [3, None]
    assert meta(4, meta(3, meta(None, meta(None, {}))))["seed"] == [None, None, 3, 4]


def test_a_shard_is_one_call_and_results_do_not_depend_on_it() -> None:
    paraphraser = RuleParaphraser()
    texts = [[f"Sentence {n} is here."] for n in range(2 * SHARD_SEGMENTS + 5)]
    whole = augment(ReferenceSet.from_texts(texts), paraphraser, 2)
    assert [len(call) for call in paraphraser.calls] == [SHARD_SEGMENTS, SHARD_SEGMENTS, 5]
    assert whole[70].refs == augment(ReferenceSet.from_texts(texts[70:71]), RuleParaphraser(), 2)[0].refs


def test_k_must_be_positive() -> None:
    with pytest.raises(UsageError, match="`k` is 0, expected 1 or more"):
        augment(ReferenceSet.from_texts([["x"]]), RuleParaphraser(), 0)


def test_a_paraphraser_that_loses_texts_is_found_out() -> None:
    class Lossy(RuleParaphraser):
        def generate(self, texts, k, **options):  # type: ignore[no-untyped-def]
            return super().generate(list(texts)[1:], k, **options)

    with pytest.raises(RuntimeError, match="rules gave too few results for 2 texts"):
        augment(ReferenceSet.from_texts([["x"], ["y"]]), Lossy(), 1)


def test_rules_cover_every_reason_of_the_default_filter() -> None:
    tally = Tally()
    long_enough = "Ann and her brothers paid for all of it."
    augment(ReferenceSet.from_texts([[long_enough]]), RuleParaphraser(), len(RULES), tally=tally)
    assert set(tally.dropped) == {"empty", "copy", "duplicate", "numbers", "negation", "repetition"}

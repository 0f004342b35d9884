"""Every generator gets the filter that it needs, and the set says which and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment import augment, filter_chain
from polyref.augment.filters import NEEDS, filters_in, fitting_chain
from polyref.augment.writer import journal_path
from polyref.paraphrase import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.sentences import by_sentences
from polyref.paraphrase.tidying import several, talks, tidied
from polyref.references import ReferenceSet
from polyref.store import Journal

REWRITES = Path(__file__).resolve().parent.parent / "data" / "rewrites"
REFERENCE = "Ann paid 5 euros."
#: Each is dropped by `small-model`, and by `good-writer` the second one alone.
BOLD, TALK = "It was five euros that you got from her.", "I'm sorry, but I cannot rewrite this text."


class Writer(Paraphraser):
    """Writes what a good writer would, and once what none should."""

    name = signature = "writer|x"
    need = "good-writer"

    def generate(self, texts: Iterable[str], k: int, **options: Any) -> Iterator[NBest]:
        return (NBest(text, (Hypothesis(BOLD), Hypothesis(TALK))) for text in texts)


def _reasons(name: str, lang: str = "en") -> list[str]:
    offers = filter_chain(name, lang).start([REFERENCE])
    return [offers.offer(REFERENCE, text) or "kept" for text in (BOLD, TALK)]


def test_the_two_presets_drop_what_they_say() -> None:
    assert _reasons("good-writer") == ["kept", "talk"]
    assert _reasons("small-model") == ["numbers", "numbers"] == _reasons("default")


def test_of_what_was_read_in_part_the_beginning_is_a_copy() -> None:
    text = "It rained all day. Then it stopped."
    offers = filter_chain("none").start([text])
    said = [
        offers.offer(text, candidate, beginning=beginning)
        for candidate, beginning in (
            ("it rained all day.", True),
            ("It rained all day.", False),
            ("It rained all day.", False),
            ("It rained all day.", True),
            ("It poured.", True),
            ("It poured.", True),
            ("", True),
        )
    ]
    assert said == ["copy", None, "duplicate", "copy", None, "duplicate", "empty"]


def test_chains_of_several_needs_stand_in_one_order() -> None:
    needs = {"small-model": "a", "good-writer": "b"}
    chain = fitting_chain("default", "de", needs)
    assert chain.name.startswith("good-writer(for b):talk") and " + small-model(for a):numbers" in chain.name
    assert list(chain.by_need) == list(filters_in("default", needs)) == ["good-writer", "small-model"]
    assert filters_in("strict", needs) == {"strict": "--filter"}
    assert fitting_chain("default", "de", needs, "en").name.count("of translations") == 2
    assert filter_chain().name == filter_chain("small-model", "en-GB").name


ANY = "numbers+links+placeholders+language+form+repetition"
ENGLISH = "amounts+dates+names"
OF_SOURCE = "talk+several+untranslated+numbers+names"


@pytest.mark.parametrize(
    ("preset", "checks"),
    [
        ("none", ("", "", "")),
        (
            "good-writer",
            (
                "talk+several+foreign+length0.05-4",
                "talk+several+foreign+length0.05-4",
                f"{OF_SOURCE}+placeholders+language+length0.1-6",
            ),
        ),
        (
            "small-model",
            (
                f"{ANY}+length0.6-1.6+{ENGLISH}+negation+persons+opening+grammar+vocabulary+echo+omission0.34",
                f"{ANY}+length0.6-1.6",
                f"{OF_SOURCE}+links+placeholders+language+length0.4-2.5",
            ),
        ),
        (
            "strict",
            (
                f"{ANY}+length0.75-1.4+{ENGLISH}+negation-count+persons+opening-ties+grammar+vocabulary+echo+omission",
                f"{ANY}+length0.75-1.4",
                f"{OF_SOURCE}+links+placeholders+language+length0.5-2",
            ),
        ),
    ],
)
def test_presets_run_the_same_checks_in_the_same_order_as_ever(preset: str, checks: tuple[str, str, str]) -> None:
    """In English, in another language, and of translations: sets are signed with these names."""
    found = [filter_chain(preset, *how) for how in (("en-GB",), ("de-AT",))]
    found.append(filter_chain(preset, "de", source_lang="en"))
    labels = [preset, preset, f"{preset}(of translations)"]
    assert [one.name for one in found] == [":".join(filter(None, both)) for both in zip(labels, checks, strict=True)]
    for chain, names in zip(found, checks, strict=True):
        assert chain.reasons == ("empty", "copy", "duplicate", *filter(None, names.split("+")))
    assert all(check.stated for check in found[0].checks) == (preset != "good-writer")


@pytest.mark.parametrize("lang", ["ru", "zh"])
def test_good_rewrites_stay_and_all_others_go(lang: str) -> None:
    chain = filter_chain("good-writer", lang)
    offers: dict[str, Any] = {}
    found, expected = [], []
    for line in (REWRITES / f"{lang}.tsv").read_text("utf-8").splitlines():
        wanted, reference, text = line.split("\t")
        asked = offers.setdefault(reference, chain.start([reference]))
        reason = asked.offer(reference, tidied(text.replace("\\n", "\n"), reference)) or "good"
        found.append((reason.rstrip("0123456789.-"), text))
        expected.append((wanted, text))
    assert found == expected
    assert [wanted == "good" for wanted, _ in expected].count(True) == 40 and len(expected) == 60


@pytest.mark.parametrize(
    ("lang", "reference", "rewrite", "reason"),
    [
        ("en", "Naturally, the number is high.", "Of course, the number is high.", None),
        ("en", "Sure, the number is high.", "Sure, the number is rather high.", None),
        ("en", "The number is high.", "Sure, the number is high.", "talk"),
        ("en", "I am afraid I am unable to help you.", "I'm sorry, but I can't assist you.", None),
        ("en", "The number is high.", "I'm sorry, but I can't assist with that.", "talk"),
        ("en", "He rewrote the text.", "He has rewritten the text.", None),
        ("en", "The number is high.", "The number is large. (Note: I kept the meaning.)", "talk"),
        ("en", "The number is high.", "The number is large / The number is a big one", "several"),
        ("en", "Read and/or write it.", "Read it / write it, or both of them", None),
        ("en", "The number is high.", "Die Zahl ist sehr hoch und das ist nicht gut.", "foreign"),
        ("en", "He likes the film.", "He is fond of the movie «Der Himmel über Berlin».", None),
        ("de", "Er mag den Film.", "He is very fond of it.", "foreign"),
        ("de", "Er mag den Film.", "Ihm gefällt der Film „The Man Who Knew Too Much“.", None),
        (
            "ja",
            "今日はとても暑いので、外に出たくありません。",
            "今天天气非常炎热，所以我一点儿也不想出门走动。",
            "foreign",
        ),
        ("xx", "Er mag den Film.", "He is very fond of it.", None),
        ("en", "Yes.", "Yes, that is right.", None),
        ("en", "Yes.", "Yes, that is right, and I would like to say a little more.", "length0.05-4"),
    ],
)
def test_only_what_is_certain_is_dropped(lang: str, reference: str, rewrite: str, reason: str | None) -> None:
    assert filter_chain("good-writer", lang).start([reference]).offer(reference, rewrite) == reason


def test_a_paraphraser_says_what_it_needs() -> None:
    made = augment([REFERENCE], Writer(), 2, lang="en")
    assert [ref.text for ref in made[0].extras] == [BOLD]
    assert made.meta["filters"] == "good-writer(for writer_x):talk+several+foreign+length0.05-4"
    assert augment([REFERENCE], Writer(), 2, lang="en", filters="small-model")[0].extras == ()
    assert by_sentences(Writer(), "en", "all").need == "good-writer"


def test_sentences_of_paragraphs_are_filtered_as_their_writer_needs() -> None:
    both = f"{REFERENCE} The dog barked."
    made = augment([both], Writer(), 1, lang="en", sentences="all")
    assert [ref.text for ref in made[0].extras] == [f"{BOLD} {BOLD}"]


def test_generators_of_both_kinds_are_filtered_each_by_its_own() -> None:
    made = augment([REFERENCE], [Writer(), RuleParaphraser()], 4, lang="en")
    assert [ref.text for ref in made[0].extras][:2] == [BOLD, f"Plainly: {REFERENCE}"]
    assert {ref.generator for ref in made[0].extras} == {"writer|x", "rules"}
    good, small = made.meta["filters"].split(" + ")
    assert good.startswith("good-writer(for writer_x):") and small.startswith("small-model(for rules):")
    chain = fitting_chain("default", "en", dict.fromkeys(NEEDS, "x"))
    assert {"talk", "echo"} < set(chain.reasons) and len(set(chain.reasons)) == len(chain.reasons)
    assert fitting_chain("strict", "en", dict.fromkeys(NEEDS, "x")).name == filter_chain("strict").name


def test_the_default_of_a_file_is_what_the_generator_needs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "default"\nlinks = true\n')
    made = augment([REFERENCE], Writer(), 2, lang="en", filters=str(tmp_path / "mine.toml"))
    assert made.meta["filters"].endswith(":talk+several+foreign+length0.05-4+links")
    assert [ref.text for ref in made[0].extras] == [BOLD]


def _nbest(path: Path, score: float | None, *texts: str) -> Path:
    rows = [{"text": text, **({} if score is None else {"score": score})} for text in texts]
    path.write_text(json.dumps({"text": REFERENCE, "paraphrases": rows}) + "\n")
    return path


def test_lists_are_filtered_by_who_wrote_them(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text(REFERENCE + "\n")
    out = tmp_path / "out.jsonl"
    scored = _nbest(tmp_path / "scored.jsonl", -1.0, BOLD, f"Plainly: {REFERENCE}", f"1. {REFERENCE[:-1]} now.")
    bare = _nbest(tmp_path / "bare.jsonl", None, BOLD, TALK, f"1. {REFERENCE[:-1]} now.")

    def run(*options: object) -> tuple[Any, list[str], str]:
        result = polyref("augment", tmp_path / "refs.en", "--lang", "en", *options, "-o", out, "--json")
        assert result.code == 0, result.err
        texts = [ref.text for ref in ReferenceSet.load(out)[0].extras]
        return result.json()["rows"][0], texts, result.err

    row, texts, said = run("--candidates", bare)
    # What a list puts before its items is taken off.
    assert texts == [BOLD, "Ann paid 5 euros now."]
    assert row["filter"] == {"good-writer": "lists without scores"} and row["dropped"]["talk"] == 1
    assert "polyref: filter good-writer, for lists without scores (--filter names another)" in said
    assert ReferenceSet.load(out).meta["filters"].startswith("good-writer(for lists without scores):")
    row, texts, _ = run("--candidates", scored)
    assert texts == [f"Plainly: {REFERENCE}"]
    assert row["filter"] == {"small-model": "lists with scores"}
    row, texts, said = run("--candidates", bare, "--filter", "small-model")
    assert texts == ["Ann paid 5 euros now."]
    assert row["filter"] == {"small-model": "--filter"} and "polyref: filter small-model, by --filter\n" in said
    row, texts, _ = run("--candidates", scored, bare)
    assert texts == [f"Plainly: {REFERENCE}", BOLD, "Ann paid 5 euros now."]
    assert row["filter"] == {"good-writer": "lists without scores", "small-model": "lists with scores"}
    # A set says who wrote a reference, whatever else is known of it.
    asked = {"id": "1", "refs": [{"text": REFERENCE}, {"text": BOLD, "kind": "paraphrase", "of": 0, "rank": 0}]}
    asked["refs"][1] |= {"generator": "openai:tiny", "logprob": -1.0}
    (tmp_path / "set.jsonl").write_text(json.dumps(asked) + "\n")
    _, texts, _ = run("--candidates", tmp_path / "set.jsonl")
    assert texts == [BOLD]


def test_lines_of_plain_text_lose_what_a_list_puts_around_them(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs.de").write_text("Am 3. Mai kam er an.\n„Ich komme“, sagte er.\n„Ich komme.“\n")
    (tmp_path / "one.de").write_text('1. Er traf am 3. Mai ein.\n- Er sagte, er komme.\n"Ich komme gern."\n')
    (tmp_path / "two.de").write_text('3. Mai: Er kam an.\n"Er sagte: Ich komme gern."\n„Ich komme gern her.“\n')
    out = tmp_path / "out.jsonl"
    lists = ("--candidates", tmp_path / "one.de", tmp_path / "two.de")
    assert polyref("augment", tmp_path / "refs.de", *lists, "--lang", "de", "-o", out, "--filter", "none").code == 0
    assert [[ref.text for ref in segment.extras] for segment in ReferenceSet.load(out)] == [
        ["Er traf am 3. Mai ein.", "3. Mai: Er kam an."],
        ["Er sagte, er komme.", "Er sagte: Ich komme gern."],
        ['"Ich komme gern."', "„Ich komme gern her.“"],
    ]


def test_outputs_of_systems_stay_as_they_are(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text("It is late.\n")
    (tmp_path / "sys").write_text("1. It is very late.\n")
    out = tmp_path / "out.jsonl"
    assert polyref("augment", tmp_path / "refs.en", "--peers", tmp_path / "sys", "--lang", "en", "-o", out).code == 0
    assert [ref.text for ref in ReferenceSet.load(out)[0].extras] == ["1. It is very late."]


@pytest.mark.parametrize("before", ["default:numbers+links", ["none", "default:numbers+links"]])
def test_work_begun_under_the_old_default_is_not_taken_up(
    polyref: Callable[..., Any], tmp_path: Path, before: object
) -> None:
    (tmp_path / "refs.en").write_text(REFERENCE + "\n")
    bare = _nbest(tmp_path / "bare.jsonl", None, BOLD)
    out = tmp_path / "out.jsonl"
    with Journal.open(journal_path(out), {"filters": before}) as journal:
        journal.append({"lines": []})
    result = polyref("augment", tmp_path / "refs.en", "--candidates", bare, "--lang", "en", "-o", out)
    assert result.code == 1 and not out.exists()
    assert f"{journal_path(out)}: holds work that was begun when" in result.err
    assert "now it is good-writer(for lists without scores):" in result.err and "delete it" in result.err
    assert "--filter small-model is what" in result.err


@pytest.mark.parametrize(("text", "passes"), [("Yes.", False), ("Past tense:", True), ("The old book", True)])
def test_only_a_stub_is_too_short_for_certain(text: str, passes: bool) -> None:
    reference = (
        "The library of the old town had lent the only copy of the book to a reader who never gave it back, and " * 4
    )
    assert (filter_chain("good-writer").start([reference]).offer(reference, text) is None) is passes


@pytest.mark.parametrize(
    ("reference", "rewrite"),
    [
        ("You can ask what it costs.", "Feel free to ask about the price!"),
        ("If anything is unclear, write to our shop.", "Should anything be unclear, feel free to write to the shop."),
        ("Tell me when you get there.", "Let me know if you have arrived."),
        (
            "Of samples from May to June 2, three were bad.",
            "Samples came until June 2. As a result, three failed.",
        ),
        ("The fan is quiet at work, and louder in games.", "At work the fan is quiet. In games it becomes louder."),
        ("It is lonely there (I made that up).", "One gets lonely there (Note: this is invented)."),
    ],
    ids=["feel free", "feel free later", "let me know", "a date", "becomes", "a remark"],
)
def test_what_writers_say_is_no_talk(reference: str, rewrite: str) -> None:
    assert not talks(rewrite, reference) and not several(rewrite, reference)


@pytest.mark.parametrize(
    ("reference", "rewrite"),
    [
        ("The dog barked.", "A dog was barking. Let me know if you would like it rephrased."),
        ("The dog barked.", "A dog was barking. Feel free to ask for another version."),
        ("The dog barked all night.", '"The dog barked all night." becomes "All night long a dog was barking."'),
        ("The dog barked.", "A dog was barking. 2. The dog made a noise."),
        ("The dog barked.", "A dog was barking (Note: the tense was changed)."),
    ],
    ids=["let me know", "feel free", "becomes", "numbered", "note"],
)
def test_what_is_said_of_the_rewriting_is(reference: str, rewrite: str) -> None:
    assert talks(rewrite, reference) or several(rewrite, reference)

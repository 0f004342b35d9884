"""Paragraphs sentence by sentence: what is split, and how sentences come together again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.augment import augment
from polyref.augment.filters import filter_chain
from polyref.augment.pipeline import filtered_sentences
from polyref.errors import UsageError
from polyref.paraphrase import Decoding, Paraphraser, SearchOptions, load_paraphraser
from polyref.paraphrase.paraphraser import Hypothesis, NBest
from polyref.paraphrase.sentences import LONG, Choice, by_sentences, combine

PARAGRAPH = (
    "Dr. Smith opened the meeting at 3 p.m. on Friday.  He thanked the U.S. delegation for coming so early.\n"
    "“Are you ready?” he asked. The committee had twelve questions about the new budget, and nobody left before six."
)


class Numbered(Paraphraser):
    """Three paraphrases of every sentence, which say which one they are."""

    name = signature = "numbered"
    procedure = "numbers"
    single_sentences = True

    def __init__(self, cut: int = 1000) -> None:
        self.seen: list[str] = []
        self.cut = cut

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        for text in texts:
            self.seen.append(text)
            found = (Hypothesis(f"{text[:-1]} ({n}).", -0.1 * n, (7,) * n) for n in range(1, min(k, 3) + 1))
            yield NBest(text, tuple(found), len(text) > self.cut)


def test_a_paragraph_keeps_its_sentences_and_its_space() -> None:
    paraphraser = Numbered()
    (found,) = by_sentences(paraphraser).paraphrase([PARAGRAPH], 3)
    assert paraphraser.seen == [
        "Dr. Smith opened the meeting at 3 p.m. on Friday.",
        "He thanked the U.S. delegation for coming so early.",
        "“Are you ready?” he asked.",
        "The committee had twelve questions about the new budget, and nobody left before six.",
    ]
    assert found.composed and found.text == PARAGRAPH
    # The best of every sentence, then as many other sentences as there are.
    for number, hypothesis in enumerate(found.hypotheses, 1):
        expected = PARAGRAPH
        for sentence in paraphraser.seen:
            expected = expected.replace(sentence, f"{sentence[:-1]} ({number}).")
        assert hypothesis.text == expected
        assert hypothesis.score == pytest.approx(-0.1 * number)


def test_short_texts_and_other_generators_are_left_alone() -> None:
    short = " Two sentences. They are short. "
    paraphraser = Numbered()
    assert list(by_sentences(paraphraser).paraphrase([short], 2)) == list(paraphraser.paraphrase([short], 2))
    assert paraphraser.seen == [short, short]
    list(by_sentences(paraphraser, mode="all").paraphrase([short], 2))
    assert paraphraser.seen[2:] == ["Two sentences.", "They are short."]
    assert by_sentences(paraphraser, mode="whole") is paraphraser
    paraphraser.single_sentences = False
    assert by_sentences(paraphraser) is paraphraser
    with pytest.raises(UsageError, match="`sentences` is 'some', expected one of long, all, whole"):
        by_sentences(paraphraser, mode="some")


def test_the_signature_names_the_splitter_and_its_language() -> None:
    described = by_sentences(Numbered()).describe_decoding(None, 2)
    assert described.startswith(f"numbers+sentences(>{LONG},en,sentencex=1.")
    assert described != by_sentences(Numbered(), "de").describe_decoding(None, 2)


def test_what_is_longer_than_the_model_reads_is_copied() -> None:
    (found,) = by_sentences(Numbered(cut=60)).paraphrase([PARAGRAPH], 2)
    assert not found.truncated
    for hypothesis in found.hypotheses:
        assert hypothesis.text.endswith("and nobody left before six.")
        assert "Friday (" in hypothesis.text


def test_lists_of_many_texts_keep_their_order() -> None:
    texts = ["One.", PARAGRAPH, "", "Two.", PARAGRAPH[:-1] + "!"]
    paraphraser = by_sentences(Numbered())
    alone = [next(iter(paraphraser.paraphrase([text], 2))) for text in texts]
    assert list(paraphraser.paraphrase(texts, 2)) == alone
    assert list(paraphraser.paraphrase(iter(texts), 2)) == alone


def test_an_empty_text_keeps_its_place() -> None:
    texts = ["One. Two.", "", "Three. Four.", " "]
    found = list(by_sentences(Numbered(), mode="all").paraphrase(texts, 2))
    assert [one.text for one in found] == texts


def test_every_sentence_goes_through_the_filter() -> None:
    class Faulty(Numbered):
        def generate(
            self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
        ) -> Iterator[NBest]:
            for text in texts:
                yield NBest(text, (Hypothesis(text.replace("twelve", "ten")), Hypothesis(text.replace(".", ", then."))))

    chain = filter_chain("default", "en")
    (found,) = filtered_sentences(Faulty(), chain, "en", "long").paraphrase([PARAGRAPH], 4)
    assert all("ten questions" not in text and "twelve" in text for text in found.paraphrases)


def test_paragraphs_are_told_apart_by_their_texts() -> None:
    choices = [[Choice("One.", -0.1, 2), Choice("A.", -0.2, 2), Choice("A.", -0.3, 2)], [Choice("Two.", -0.1, 2)]]
    assert [one.text for one in combine(["One. ", "Two."], choices, 9)] == ["A. Two."]


def test_what_has_no_score_or_no_paraphrase_says_so() -> None:
    class Words(Numbered):
        def generate(
            self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
        ) -> Iterator[NBest]:
            for text in texts:
                found = () if "fails" in text else (Hypothesis(""), Hypothesis(f"{text} So."))
                yield NBest(text, found, failure=None if found else "refused")

    some, none = by_sentences(Words(), mode="all")(["It is. It fails.", "It fails. It still fails."], 3)
    assert [(one.text, one.score) for one in some.hypotheses] == [("It is. So. It fails.", None)]
    assert some.failure is None
    assert none.hypotheses == () and none.failure == "refused"


sentences = st.lists(st.lists(st.floats(-3, 0).map(lambda x: round(x, 3)), max_size=3), min_size=2, max_size=4)


@given(sentences, st.integers(1, 12))
def test_paragraphs_are_distinct_and_the_first_is_the_best(scores: list[list[float]], k: int) -> None:
    texts = [f"Sentence {place}. " for place in range(len(scores))]
    choices = [
        [Choice(f"S{place}-{n}.", score, 5) for n, score in enumerate(found)] for place, found in enumerate(scores)
    ]
    made = list(combine(texts, choices, k))
    possible = list(itertools.product(*([None, *found] for found in choices)))[1:]
    assert len(made) == len({one.text for one in made}) == min(k, len(possible))
    original = "".join(texts).strip()
    assert all(one.text != original for one in made)
    if made:
        # The first paraphrase of every sentence that has one, however probable those below it are.
        best = [found[0].score if found else None for found in choices]
        assert made[0].text == " ".join(
            f"S{place}-0." if found else texts[place].strip() for place, found in enumerate(choices)
        )
        assert made[0].score == pytest.approx(sum(filter(None, best)) / sum(one is not None for one in best))


#: What the shipped model finds, not judged: long lists for every sentence.
RAW = SearchOptions(beam=8, groups=2, max_len_a=1.25, max_len_b=5)


@pytest.mark.slow
def test_the_shipped_model_writes_whole_paragraphs() -> None:
    paragraph, model = PARAGRAPH.replace("\n", " "), load_paraphraser("shipped", threads=1)
    judged, made = (augment([paragraph], model, 5, decoding=decoding)[0].extras for decoding in (None, RAW))
    assert judged and len(made) == 5
    assert all(ref.extra == {} for ref in judged + made)
    for ref in judged + made:
        assert "twelve" in ref.text and "Smith" in ref.text and "U.S." in ref.text
    whole = augment([paragraph * 6], model, 2, sentences="whole", filters="none", decoding=RAW)
    assert [ref.extra for ref in whole[0].extras] == [{"truncated": True}] * len(whole[0].extras) != []


@pytest.mark.slow
def test_paragraphs_of_wmt23_get_references(data_dir: Path) -> None:
    lines = (data_dir / "wmt23" / "sources" / "en-de.txt").read_text("utf-8").splitlines()
    paragraphs = [line for line in lines if 25 <= len(line.split()) <= 400][5::12]
    made = augment(paragraphs, load_paraphraser("shipped", threads=1), 10, decoding=RAW)
    counts = [len(segment.extras) for segment in made]
    assert len(counts) == 28
    assert sum(count >= 5 for count in counts) >= 0.9 * len(counts)
    assert not any("truncated" in ref.extra for segment in made for ref in segment.extras)

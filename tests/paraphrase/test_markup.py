"""Tags, placeholders and JSON: they stay, whoever writes the texts between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import RULES, ChatServer
from hypothesis import given
from hypothesis import strategies as st

from polyref.augment import augment
from polyref.augment.filters import filter_chain
from polyref.augment.pipeline import Tally
from polyref.paraphrase import Decoding, Hypothesis, NBest, Paraphraser
from polyref.paraphrase.sentences import markup, pieces
from polyref.references import ReferenceSet

HTML = "<p>The bridge opened in spring.</p><p>Nobody came.<br>It rained.</p>"
SOFTWARE = '{"menu": {"open": "Open the file", "n": [3, "{{count}}"]},\n "say": "He said \\"no\\" to {{name}}"}'
PAIRS = [
    (HTML, HTML.replace("rained", "poured"), True),
    (HTML, HTML.replace("<br>", " "), False),
    (HTML, HTML.replace("<br>", "<br><br>"), False),
    ("<p>One.</p><ul>Two.</ul>", "<ul>One.</ul><p>Two.</p>", False),
    ("{a} before {b}", "{b} after {a}", False),
    ("{a} before {b}", "{a} is before {b}", True),
    (SOFTWARE, SOFTWARE.replace("Open the", "Load a"), True),
    (SOFTWARE, json.dumps(json.loads(SOFTWARE)), True),
    (SOFTWARE, SOFTWARE.replace('"open"', '"load"'), False),
    (SOFTWARE, SOFTWARE.replace("3", "4"), False),
    (SOFTWARE, SOFTWARE.replace("{{count}}", "{{counts}}"), False),
    (SOFTWARE, SOFTWARE.replace('}}"}', '}}"'), False),
    ('{"a": "x", "b": "y"}', '{"b": "x", "a": "y"}', False),
    ("[12] and [b]", "and [b] [12]", True),
]


class Shouting(Paraphraser):
    """Writes two other texts, and loses whatever is no word."""

    name = signature = "shouting"
    procedure = "capitals"

    def __init__(self, *, sentences: bool) -> None:
        self.single_sentences = sentences
        self.seen: list[str] = []

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        for text in texts:
            self.seen.append(text)
            words = "".join(char if char.isalnum() or char in ' ."' else " " for char in text)
            yield NBest(text, tuple(Hypothesis(f"{start} {words}", -1.0, (7,)) for start in ("So", "Now")))


@pytest.mark.parametrize(("reference", "candidate", "kept"), PAIRS)
@pytest.mark.parametrize("preset", ["good-writer", "small-model", "strict"])
def test_presets_ask_for_the_markup_in_number_and_order(
    preset: str, reference: str, candidate: str, kept: bool
) -> None:
    reason = filter_chain(preset, "en").start([]).offer(reference, candidate)
    assert (reason in ("placeholders", "numbers")) is not kept
    assert (markup(reference) == markup(candidate)) is kept


def test_names_of_filters_are_those_of_texts_without_markup() -> None:
    assert filter_chain("good-writer", "en").name == "good-writer:talk+several+foreign+length0.05-4"
    assert "placeholders" not in filter_chain("good-writer", "en").reasons
    assert filter_chain("none", "en").start([]).offer(HTML, "Other.") is None


def test_what_the_filter_drops_is_counted_where_it_drops_something() -> None:
    rows = []
    for text in ("The bridge opened.", "The bridge &amp; road."):
        tally = Tally()
        augment([text], Shouting(sentences=False), 2, filters="good-writer", lang="en", tally=tally)
        rows.append(tally.as_row(filter_chain("good-writer", "en").reasons)["dropped"])
    assert "placeholders" not in rows[0] and rows[1]["placeholders"] == 2


@pytest.mark.parametrize("sentences", [True, False])
@pytest.mark.parametrize("mode", ["long", "all", "whole"])
def test_generators_see_the_text_between_tags(sentences: bool, mode: str) -> None:
    shouting = Shouting(sentences=sentences)
    texts = [HTML, "Plain text.", SOFTWARE, "  <p></p> "]
    made = augment(texts, shouting, 2, sentences=mode, filters="good-writer", lang="en")
    html, plain, software, _ = made
    assert [ref.text for ref in html.extras] == [
        "<p>So The bridge opened in spring.</p><p>So Nobody came.<br>So It rained.</p>",
        "<p>Now The bridge opened in spring.</p><p>Now Nobody came.<br>Now It rained.</p>",
    ]
    assert [ref.text for ref in plain.extras] == ["So Plain text.", "Now Plain text."]
    # A text between that is bad by itself is copied: the placeholder of the last one is lost.
    assert [ref.text for ref in software.extras] == [SOFTWARE.replace("Open", f"{word} Open") for word in ("So", "Now")]
    assert shouting.seen[:6] == [
        "The bridge opened in spring.",
        "Nobody came.",
        "It rained.",
        "Plain text.",
        "Open the file",
        'He said "no" to {{name}}',
    ]
    assert made.meta["decoding"].partition("+")[0] == "capitals"
    assert ("sentences(" in made.meta["decoding"]) is (mode == "all" or (mode == "long" and sentences))


def test_paragraphs_between_tags_are_cut_into_sentences() -> None:
    long = "The first sentence has some words. " * 5 + "The last one too."
    shouting = Shouting(sentences=True)
    augment([f"<p>{long}</p><p>One. Two.</p>"], shouting, 1, filters="none", lang="en")
    assert shouting.seen == [*["The first sentence has some words."] * 5, "The last one too.", "One. Two."]


parts = st.sampled_from(["<p>", "</p>", "<br/>", "<b>", " ", "\n", "Word.", "{x}", "%s", '"', "\\", "é", "<", "&amp;"])


@given(st.lists(parts, max_size=12).map("".join))
def test_pieces_give_the_text_back(text: str) -> None:
    for whole in (text, json.dumps({"key": text, "n": [1, text, None]}, ensure_ascii=False)):
        found = pieces(whole, lambda one: [one])
        assert "".join(piece.with_text(piece.text) for piece in found) == whole
        swapped = "".join(piece.with_text("Other" if piece.text else "") for piece in found)
        if whole != text:
            assert json.loads(swapped).keys() == {"key", "n"}


def test_letters_in_json_are_written_as_there() -> None:
    for text in ('{"a": "caf\\u00e9"}', '{"a": "café"}'):
        (piece,) = pieces(text, lambda one: [one])
        assert piece.text == "café" and piece.with_text("thé") == text.replace("caf", "th")


@pytest.mark.slow
def test_language_models_are_asked_to_keep_it_and_asked_again(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refs = tmp_path / "refs.en"
    refs.write_text(f"{HTML}\nThe bridge opened in spring.\n<p>It never stops.</p>\n")
    server = ChatServer(
        lambda text, attempt, repair: "without tags" if "never" in text or (text == HTML and not repair) else None
    )
    with server.running() as url:
        result = polyref(
            *("augment", refs, "--model", "openai:tiny", "--base-url", url, "-k", "2", "--lang", "en", "--json"),
            *("-o", tmp_path / "out.jsonl"),
        )
    assert result.code == 0, result.err
    html, plain, lost = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [ref.text for ref in html.extras] == [rule.format(HTML) for rule in RULES[:2]]
    assert len(plain.extras) == 2 and not lost.extras
    assert lost.refs[0].extra["failed"] == "other tags, placeholders or keys"
    asked = {len(body["messages"]): body["messages"] for body in server.requests if HTML in str(body)}
    assert asked[2][-1]["content"].endswith("It is: <p>, </p>, <br>")
    assert "cannot be used: other tags, placeholders or keys." in asked[4][-1]["content"]
    assert not any("markup" in str(body) for body in server.requests if "<p>" not in str(body))


@pytest.mark.slow
def test_the_shipped_model_keeps_it_from_the_command_line(polyref: Callable[..., Any], tmp_path: Path) -> None:
    html = HTML.replace("The bridge opened in spring.", "The mayor said that the bridge would be closed until spring.")
    software = SOFTWARE.replace("Open the file", "Many people think that the new law is a big mistake.")
    (tmp_path / "refs.jsonl").write_text(
        "".join(json.dumps({"id": str(n), "refs": [{"text": text}]}) + "\n" for n, text in enumerate((html, software)))
    )
    for preset in ("small-model", "good-writer"):
        out = tmp_path / f"{preset}.jsonl"
        command = ("augment", tmp_path / "refs.jsonl", "--model", "shipped", "-k", "3", "--filter", preset)
        result = polyref(*command, "-o", out, "--lang", "en")
        assert result.code == 0, result.err
        for segment in ReferenceSet.load(out):
            assert segment.extras
            assert {tuple(markup(ref.text)) for ref in segment.refs} == {tuple(markup(segment.refs[0].text))}

"""Which language references are in where nobody says: recorded, told and printed, or asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.augment import augment
from polyref.errors import DataError
from polyref.models.language_recognition import recognised
from polyref.paraphrase.loading import language_of
from polyref.references import ReferenceSet

GERMAN = [
    "Der Rat hat den Plan gestern nicht angenommen.",
    "Die Kinder spielen auf dem Hof, und es regnet.",
    "Sie wollte mit dem Zug nach Hause fahren.",
    "Das ist für die meisten Leute zu teuer.",
]
ENGLISH = [
    "The council did not accept the plan yesterday.",
    "The children are playing in the yard, and it is raining.",
    "She wanted to go home by train.",
    "That is too expensive for most of the people.",
]


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (GERMAN, "de"),
        (ENGLISH, "en"),
        (["Совет не принял этот план, и это было для него не так важно, как все это."], "ru"),
        (["理事会昨天没有通过这个计划。"], "zh"),
        (["理事会は昨日、その計画を承認しませんでした。"], "ja"),
        (["이사회는 어제 계획을 승인하지 않았다."], "ko"),
        (["המועצה לא אישרה את התוכנית של הוועדה, כי הוא לא היה שם על פי זה, גם אם היא כן."], "he"),
        (GERMAN + ENGLISH, None),
        (["Berlin, Hamburg!"], None),
        (["It rains."], None),
        (["12.5 %", ""], None),
        ([], None),
        # Danish and Norwegian have most of these words in common.
        (["Det er en plan som ikke er god for dem."], None),
    ],
    ids=["de", "en", "ru", "zh", "ja", "ko", "he", "mixed", "names", "short", "numbers", "nothing", "alike"],
)
def test_what_is_told_by_texts(texts: list[str], code: str | None) -> None:
    found = recognised(texts)
    assert (found.code if found else None) == code


def test_what_is_recorded_comes_before_what_is_told() -> None:
    german = ReferenceSet.from_texts([[text] for text in GERMAN])
    code, told = language_of(german)
    assert code == "de" and told is not None and told.name == "German"
    assert language_of(german, pair="en-nl") == ("nl", None)
    assert language_of(german, meta={"lang": ["en", "fr"]}) == ("fr", None)
    assert language_of(german, ["shipped", "lexical"]) == ("en", None)
    assert language_of(german, ["shipped", "lexical:table.tsv"])[0] == "de"
    few = ReferenceSet.from_texts([["Es regnet."]])
    for name in ("folder/refs.de", "refs.de.gz", "refs.DE"):
        assert language_of(few, file=name)[0] == "de"
    with pytest.raises(DataError, match=r"refs\.txt: the language of these texts cannot be told.*`lang`"):
        language_of(few, file="refs.txt")
    with pytest.raises(DataError, match="cannot be told"):
        augment(["Es regnet."], "causal:nowhere")


def test_what_was_told_is_said_and_recorded(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text("\n".join(GERMAN) + "\n", "utf-8")
    Path("list").write_text("\n".join(f"Also: {text}" for text in GERMAN) + "\n", "utf-8")
    done = polyref("augment", "refs", "--candidates", "list", "-o", "out.jsonl")
    assert done.code == 0 and "note: refs: taken for German; --lang de says so, or names another language" in done.err
    assert ReferenceSet.load("out.jsonl").meta["lang"] == "de"
    # The set says it from now on.
    again = polyref("augment", "out.jsonl", "--candidates", "list", "-o", "again.jsonl")
    assert again.code == 0 and "taken for" not in again.err
    assert "taken for" not in polyref("augment", "refs", "--candidates", "list", "-q").err
    named = polyref("augment", "refs", "--candidates", "list", "--lang", "de")
    assert named.code == 0 and "taken for" not in named.err


def test_a_language_model_is_told_the_language(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text("\n".join(GERMAN) + "\n", "utf-8")
    assert polyref("augment", "refs", "--model", "openai:m", "-o", "out", "--batch", "write", "asked").code == 0
    requests = [json.loads(line) for line in Path("asked").read_text("utf-8").splitlines()]
    assert len(requests) == len(GERMAN)
    assert all("the language of the text (de)" in json.dumps(request) for request in requests)
    Path("mixed").write_text("\n".join(GERMAN + ENGLISH) + "\n", "utf-8")
    for command in (
        ["augment", "mixed", "--batch", "write", "more"],
        ["paraphrase", "mixed", "--base-url", "http://127.0.0.1:9/v1"],
    ):
        refused = polyref(*command, "--model", "openai:m", "-o", "out.jsonl")
        assert refused.code == 1 and "mixed: the language of these texts cannot be told" in refused.err
        assert "--lang" in refused.err and refused.err.count("\n") == 1
    assert not Path("more").exists() and not Path("out.jsonl").exists()

"""Augmentation with the model in the package, small enough for every run of the tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.augment import Tally, augment
from polyref.comparison import comparison_key, digit_strings
from polyref.paraphrase import Paraphraser, load_paraphraser
from polyref.references import ReferenceSet

SENTENCES = [
    "The bakery on Mill Street said that it had sold 340 loaves before 9:30 this morning.",
    "“I have never seen so much snow in April,” said Tomas Lind.",
    "The phone arrived late, but the seller said that it was not his fault.",
    "Why do many people think that it is a big mistake?",
    "In 2018, about 1,500 people worked in the two factories.",
    "",
    "She asked the committee to look at the plans again, because it was not happy with them.",
    "He said that no trains would run between Gavle and Falun on Sunday.",
]
COMMAND = [sys.executable, "-c", "from polyref.cli.main import main; main()", "augment", "--threads", "1", "--no-cache"]


@pytest.fixture(scope="module")
def shipped() -> Paraphraser:
    return load_paraphraser("shipped", threads=1, cache=False)


@pytest.fixture(scope="module")
def made(shipped: Paraphraser) -> tuple[ReferenceSet, Tally]:
    tally = Tally()
    references = ReferenceSet.from_texts([[sentence] for sentence in SENTENCES])
    return augment(references, shipped, 5, tally=tally), tally


def test_paraphrases_are_usable(made: tuple[ReferenceSet, Tally]) -> None:
    refset, tally = made
    assert [len(segment.extras) > 0 for segment in refset] == [bool(sentence) for sentence in SENTENCES]
    assert tally.kept == sum(len(segment.extras) for segment in refset)
    assert tally.candidates == tally.kept + tally.dropped.total()
    for segment in refset:
        keys = [comparison_key(ref.text) for ref in segment.refs]
        assert len(set(keys)) == len(keys)
        for ref in segment.extras:
            assert digit_strings(ref.text) == digit_strings(segment.refs[0].text)
            assert ref.logprob is not None and ref.logprob <= 0
        assert [ref.rank for ref in segment.extras] == sorted({ref.rank for ref in segment.extras})


def test_paraphrases_look_like_english(made: tuple[ReferenceSet, Tally]) -> None:
    for ref in (ref for segment in made[0] for ref in segment.extras):
        assert not re.search(r"\s\s|\s[,.;:?!]|▁|<unk>|⁇", ref.text), ref.text
        assert ref.text == ref.text.strip()
        assert re.match(r"[“\"'‘(]?[A-Z0-9]", ref.text), ref.text
        assert re.search(r"[a-z]", ref.text), ref.text


@pytest.mark.slow
def test_same_bytes_again(made: tuple[ReferenceSet, Tally], shipped: Paraphraser, tmp_path: Path) -> None:
    again = augment(ReferenceSet.from_texts([[sentence] for sentence in SENTENCES]), shipped, 5)
    made[0].save(tmp_path / "a.jsonl")
    again.save(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["whole", "long"])
def test_a_line_of_10_000_characters(polyref: Callable[..., Any], tmp_path: Path, mode: str) -> None:
    """As a whole it is cut for the model, with a warning; by sentences all of it is read."""
    line = ("The old mill by the river was sold to a family from the next village. " * 200)[:10_000].strip()
    out = tmp_path / "out.jsonl"
    (tmp_path / "refs").write_text(f"{line}\nShort.\n")
    command = ("augment", tmp_path / "refs", "--model", "shipped", "-k", "1", "-o", out)
    result = polyref(*command, "--threads", "1", "--sentences", mode)
    assert result.code == 0
    assert ("1 reference is longer than the model reads" in result.err) == (mode == "whole")
    first = ReferenceSet.load(out)[0]
    assert first.originals[0].text == line
    if mode == "long":
        (paraphrase,) = first.extras
        assert len(paraphrase.text) > 0.5 * len(line)


def test_the_same_command_with_another_filter_searches_nothing_again(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refs.en").write_text("".join(f"{sentence}\n" for sentence in SENTENCES[:3]), "utf-8")
    command = ("augment", tmp_path / "refs.en", "--model", "shipped", "-k", "3", "--threads", "1")
    others = ("--filter", "strict", "--select", "mmr", "--dropped")
    assert polyref(*command, "-o", tmp_path / "first.jsonl").code == 0
    assert polyref(*command, *others, tmp_path / "a", "-o", tmp_path / "searched.jsonl", "--no-cache").code == 0

    def search(*_args: Any, **_options: Any) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr("polyref.paraphrase.search.engine.search", search)
    result = polyref(*command, *others, tmp_path / "b", "-o", tmp_path / "again.jsonl")
    assert result.code == 0, result.err
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "searched.jsonl").read_bytes()
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes() != b""
    with pytest.raises(AssertionError, match="searched again"):
        polyref(*command, "-o", tmp_path / "more.jsonl", "--no-cache")

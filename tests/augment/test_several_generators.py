"""Several generators in one call of ``augment``: they take turns, as they do on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

from polyref import load_paraphraser
from polyref.augment import augment
from polyref.errors import UsageError
from polyref.paraphrase import DiverseBeam, SearchOptions
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.references import ReferenceSet

#: Both the table and the shipped model write something for it.
TEXT = "The committee said that it would look at the 12 plans again, because it was not happy with them."
TEXTS = ["They bought a big house near the sea.", ""]


@pytest.fixture
def tables(tmp_path: Path) -> list[Paraphraser]:
    made = []
    for name, lines in {"a": ("big\tlarge", "big\thuge", "big\tgreat"), "b": ("near\tclose to", "house\thome")}.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"{line}\t0.{9 - n}\n" for n, line in enumerate(lines)), "utf-8")
        made.append(load_paraphraser(f"lexical:{path}", lang="en"))
    return made


def test_they_take_turns(tables: list[Paraphraser]) -> None:
    made = augment(TEXTS, tables, 4)
    assert [ref.text for ref in made[0].extras] == [
        "They bought a large house near the sea.",
        "They bought a big house close to the sea.",
        "They bought a huge house near the sea.",
        "They bought a big home near the sea.",
    ]
    assert not made[1].extras
    assert made.meta["generator"] == f"{tables[0].signature} + {tables[1].signature}"
    # One in a list is as one alone.
    assert augment(TEXTS, tables[:1], 4) == augment(TEXTS, tables[0], 4)


def test_names_and_none() -> None:
    assert augment(TEXTS, ["lexical"], 2) == augment(TEXTS, "lexical", 2)
    with pytest.raises(UsageError, match="`paraphraser` is an empty list"):
        augment(TEXTS, [], 2)


@pytest.mark.slow
def test_options_of_a_search_are_for_those_that_search(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (tmp_path / "refs.en").write_text(f"{TEXT}\n", "utf-8")
    command = ("augment", tmp_path / "refs.en", "-k", "4", "-o", tmp_path / "out.jsonl")
    for options, described in (
        ((), "dbs(beam=8,groups=2,strength=0.5,closeness=3)"),
        (("--beam", "4"), "dbs(beam=4,groups=2,strength=0.5,closeness=3)"),
        (("--beam", "6", "--lenpen", "0.5"), "search(beam=6,groups=1,lenpen=0.5,semantics=paper"),
    ):
        done = polyref(*command, *options)
        assert done.code == 0, done.err
        made = ReferenceSet.load(tmp_path / "out.jsonl")
        assert made.meta["decoding"].startswith(f"one substitution + {described}")
        # Each of the two has written something.
        assert {"said that it would look" in ref.text for ref in made[0].extras} == {True, False}
    (tmp_path / "out.jsonl").unlink()
    refused = polyref(*command, "--model", "lexical", "--beam", "8")
    assert refused.code == 2 and refused.err.count("\n") == 1 and not (tmp_path / "out.jsonl").exists()
    assert "--beam is an option of a search, but lexical does not search" in refused.err


@pytest.mark.slow
def test_a_language_model_beside_a_search(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (tmp_path / "refs.en").write_text(f"{TEXT}\n", "utf-8")
    server = ChatServer()
    with server.running() as url:
        command = ("augment", tmp_path / "refs.en", "-k", "1", "-o", tmp_path / "out.jsonl", "--base-url", url)
        for models, options, described in (
            (("lexical", "shipped"), ("--beam", "4"), "one substitution + dbs(beam=4,"),
            (("shipped",), ("--beam", "4", "--temperature", "0.5"), "search(beam=4,groups=1,temperature=0.5,"),
            (("lexical",), ("--temperature", "0.5"), "one substitution + rewriting("),
        ):
            several = [word for model in (*models, "openai:tiny") for word in ("--model", model)]
            done = polyref(*command, *several, *options)
            assert done.code == 0, done.err
            made = ReferenceSet.load(tmp_path / "out.jsonl").meta
            assert made["decoding"].startswith(described)
            assert ("temperature:0.5" in made["generator"]) == ("--temperature" in options)
        several = ["--model", "lexical", "--model", "openai:tiny"]
        refused = polyref(*command, *several, "--beam", "4")
        assert refused.code == 2 and "--beam is an option of a search, but a language model does not" in refused.err
        rewriting = RewritingOptions(base_url=url)
        found = augment([TEXT], ["shipped", "openai:tiny"], 1, decoding=DiverseBeam(beam=4), rewriting=rewriting)
        assert found.meta["decoding"].startswith("dbs(beam=4,")
        with pytest.raises(UsageError, match="does not search"):
            augment([TEXT], ["lexical", "openai:tiny"], 1, decoding=DiverseBeam(beam=4), rewriting=rewriting, lang="en")


@pytest.mark.slow
def test_a_decoding_is_for_those_that_search() -> None:
    assert augment([TEXT], k=3) == augment([TEXT], ["lexical", "shipped"], 3)
    decoding = SearchOptions(beam=6, lenpen=0.5)
    made = augment([TEXT], None, 3, decoding=decoding)
    assert made.meta["decoding"].startswith(f"one substitution + {decoding.describe()}")
    with pytest.raises(UsageError, match="lexical does not search"):
        augment([TEXT], "lexical", 3, decoding=decoding)

"""Several generators in one call of ``augment``: they take turns, as they do on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyref import load_paraphraser
from polyref.augment import augment
from polyref.errors import UsageError
from polyref.paraphrase.paraphraser import Paraphraser

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

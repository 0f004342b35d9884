"""Checks take time in proportion to the text, whatever is in it."""

from __future__ import annotations

import time

import pytest

from polyref.augment.filters import filter_chain

LENGTH = 400_000


@pytest.mark.parametrize("part", [".", '."', "?!…"])
def test_the_names_of_a_long_text(part: str) -> None:
    (check,) = (check for check in filter_chain("strict", "en").checks if check.name == "names")
    text = (part * LENGTH)[:LENGTH]
    start = time.process_time()
    assert check.accepts(text, text)
    assert time.process_time() - start < 5  # the square of its length would take far longer


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("He came... And Anna saw.", "anna"),
        ('He came?!") The end of Rome.', "rome"),
        ("A.b.C d: Eve", None),
    ],
)
def test_sentences_begin_where_they_did(text: str, name: str | None) -> None:
    (check,) = (check for check in filter_chain("strict", "en").checks if check.name == "names")
    if name is not None:
        assert not check.accepts(text, "nobody")
        assert check.accepts(text, name)

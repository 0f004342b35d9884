"""The generator ``lexical``: substitutions of a table, and the table of the package."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref import load_paraphraser
from polyref.errors import DataError, ModelError, UsageError
from polyref.paraphrase import DiverseBeam
from polyref.paraphrase.lexical import SHIPPED, LexicalParaphraser, Substitutions, form, tokens
from polyref.paraphrase.paraphraser import Paraphraser

LINES = [
    "big\tlarge\t0.2",
    "big\thuge\t0.1",
    "a big house\ta great house\t0.3",
    "house\tbuilding\t0.25",
    "old house\tancient house\t0.05",
    "prior to\tbefore\t0.4",
    "fire brigade\tfire department\t0.35",
    "fire brigade\tfirefighters\t0.15",
    "us\tpeople\t0.3",
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.tsv").write_text("\n".join(LINES) + "\n", "utf-8")
    return tmp_path / "table.tsv"


@pytest.fixture
def small(table: Path) -> Paraphraser:
    return load_paraphraser(f"lexical:{table}", lang="en")


def texts(paraphraser: Paraphraser, text: str, k: int = 20) -> list[str]:
    return paraphraser(text, k).paraphrases


def test_one_substitution_each_the_surest_first(small: Paraphraser) -> None:
    found = small("They own a big house.", 10)
    assert [(one.text, one.score) for one in found.hypotheses] == [
        ("They own a great house.", math.log(0.3)),
        ("They own a big building.", math.log(0.25)),
        ("They own a large house.", math.log(0.2)),
        ("They own a huge house.", math.log(0.1)),
    ]
    assert small("They own a big house.", 2).hypotheses == found.hypotheses[:2]
    assert small("Nothing here.", 5).hypotheses == small("", 5).hypotheses == ()


def test_context_is_not_replaced_and_the_larger_share_counts(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("old\tancient\t0.1\nold house\tancient house\t0.3\n", "utf-8")
    edits = list(Substitutions.load(tmp_path / "t.tsv").edits("The old house, the old man."))
    assert sorted(edits) == [(4, 7, "ancient", 0.3), (19, 22, "ancient", 0.1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Prior to this, we left.", ["Before this, we left."]),
        ("He said: “Prior to this.”", ["He said: “Before this.”"]),
        # Names and titles, abbreviations, parts of compounds.
        ("The Big apple", []),
        ("US firms", []),
        ("a big-name firm", []),
        ("the fire brigade’s car", []),
        ("the fire  brigade", ["the fire  department", "the firefighters"]),
        # An article that would be wrong.
        ("an old house", ["an old building", "an ancient house"]),
        ("a house", ["a building"]),
        # What is said already.
        ("a large, big thing", ["a large, huge thing"]),
    ],
)
def test_where_words_are_exchanged(small: Paraphraser, text: str, expected: list[str]) -> None:
    assert texts(small, text) == expected


def test_a_wrong_article_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("accurate\tprecise\t0.3\nan accurate\ta precise\t0.2\n", "utf-8")
    english = load_paraphraser(f"lexical:{tmp_path / 't.tsv'}", lang="en")
    assert texts(english, "An accurate count") == ["A precise count"]
    # A table of an unknown language has no articles, and its lists are others.
    plain = load_paraphraser(f"lexical:{tmp_path / 't.tsv'}")
    assert "An precise count" in texts(plain, "An accurate count")
    assert plain.signature == f"{english.signature}|no articles"


@given(st.text(max_size=80))
def test_tokens_cover_all_but_spaces(text: str) -> None:
    found = tokens(text)
    spans = [0, *itertools.chain.from_iterable((one.start, one.end) for one in found), len(text)]
    assert spans == sorted(spans)
    gaps = "".join(text[a:b] for a, b in zip(spans[::2], spans[1::2], strict=True))
    assert not gaps.strip()
    assert form(found) == form(tokens(form(found)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("big large 0.2", "line 2: 1 columns, expected source, target and share"),
        ("big\tlarge\tmuch", "line 2: the share is 'much', expected a number above 0, at most 1"),
        ("big\tlarge\t0", "line 2: the share is '0', expected"),
        ("big\tlarge\tnan", "line 2: the share is 'nan', expected"),
        ("big\tbig\t0.1", "line 2: 'big' for 'big' replaces nothing"),
        ("\tbig\t0.1", "line 2: '' for 'big' replaces nothing"),
        # It would never be found.
        ("Big  house\thome\t0.1", "line 2: the source is 'Big  house', expected 'big house'"),
    ],
)
def test_broken_tables_are_refused(tmp_path: Path, line: str, message: str, polyref: Callable[..., Any]) -> None:
    (tmp_path / "t.tsv").write_text(f"old\tancient\t0.1\n{line}\n", "utf-8")
    (tmp_path / "in.txt").write_text("An old man.\n", "utf-8")
    result = polyref("paraphrase", tmp_path / "in.txt", "--lang", "en", "--model", f"lexical:{tmp_path / 't.tsv'}")
    assert result.code == 1 and message.split(": ", 1)[1] in result.err and "t.tsv:2" in result.err
    assert "scripts/mine_substitutions.py writes such tables" in result.err


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        load_paraphraser(f"lexical:{tmp_path / 'none.tsv'}")
    with pytest.raises(ModelError, match="there is no such file"):
        load_paraphraser("lexical:")
    (tmp_path / "empty.tsv").write_text("", "utf-8")
    with pytest.raises(DataError, match=r"empty|no substitutions"):
        load_paraphraser(f"lexical:{tmp_path / 'empty.tsv'}")
    with pytest.raises(UsageError, match=r"lexical writes en, not 'de' \(choose another `model`, or lexical:FILE\)"):
        load_paraphraser("lexical", lang="de")
    with pytest.raises(UsageError, match="lexical does not search: it has one substitution"):
        load_paraphraser("lexical")("A text.", decoding=DiverseBeam(beam=8))


# -- the table of the package ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> Paraphraser:
    return load_paraphraser("lexical")


def test_what_it_knows(shipped: Paraphraser) -> None:
    found = texts(shipped, "Tickets can be bought online before the performance begins.")
    assert "Tickets can be purchased online before the performance begins." in found[:3]
    assert "Tickets can be bought online before the performance starts." in found[:3]
    found = texts(shipped, "The fire brigade was called out.")
    assert found[0] == "The fire department was called out."


def test_its_lines_are_as_the_program_writes_them() -> None:
    lines = gzip.decompress(SHIPPED.read_bytes()).decode().splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows == sorted(rows, key=lambda row: (row[0], -float(row[2]), row[1]))
    assert len({(source, target) for source, target, _ in rows}) == len(rows) > 50_000
    for source, target, share in rows:
        assert source == source.lower() and target == target.lower()
        assert 0.07 <= float(share) <= 1


def test_signature(shipped: Paraphraser, tmp_path: Path) -> None:
    assert isinstance(shipped, LexicalParaphraser) and shipped.languages == ("en",)
    # The same lines have the same signature, packed or not; other lines have another one.
    lines = gzip.decompress(SHIPPED.read_bytes())
    digest = hashlib.sha256(lines).hexdigest()
    assert shipped.signature == f"lexical|sha:{digest[:12]}"
    assert digest in SHIPPED.with_name("TABLE_CARD.md").read_text("utf-8")
    (tmp_path / "plain.tsv").write_bytes(lines)
    assert load_paraphraser(f"lexical:{tmp_path / 'plain.tsv'}", lang="en").signature == shipped.signature
    (tmp_path / "less.tsv").write_bytes(lines[: lines.rindex(b"\n", 0, -1) + 1])
    assert load_paraphraser(f"lexical:{tmp_path / 'less.tsv'}").signature != shipped.signature
    assert shipped.describe_decoding(None, 10) == "one substitution"


def test_augment_with_it_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text("The fire brigade was called out.\nTickets can be bought online.\n", "utf-8")
    arguments = ["augment", "refs.en", "--model", "lexical", "-k", "1", "-o", "out.jsonl"]
    program = f"""
import sys
from polyref.cli.main import main
try:
    main({arguments!r})
except SystemExit as end:
    assert not end.code, end.code
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    header, *segments = map(json.loads, (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert header["meta"]["decoding"] == "one substitution" and header["meta"]["generator"].startswith("lexical|sha:")
    added = [ref for segment in segments for ref in segment["refs"][1:]]
    assert len(added) == 2
    assert {ref["generator"] for ref in added} == {"lexical"}

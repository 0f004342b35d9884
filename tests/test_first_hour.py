"""The fifteen likeliest mistakes of the first hour: one line names the remedy, or polyref does what is meant.

1. an XML file of references as text         9. a file with the line ends of Windows
2. references in German                     10. a file in UTF-16
3. an n-best list of `paraphrase` in `score` 11. a folder instead of a file
4. a table (TSV) as text                    12. a model that is not there
5. -k without added references              13. metrics with a comma: -m bleu,chrf
6. references and systems swapped           14. a .gz file that is none
7. a system with one line more              15. standard input for two files
8. an empty file
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

REFERENCES = [
    "The museum is closed on Mondays & costs 12 euros.",
    "He did not want to comment on the report.",
    "The storm destroyed the roof of the old school.",
]
OUTPUTS = [
    "The museum does not open on Mondays and costs 12 euros.",
    "He refused to comment on the report.",
    "The roof of the old school was destroyed by the storm.",
]
GERMAN = [
    "Das Museum ist am Montag geschlossen, und der Eintritt kostet 12 Euro.",
    "Er wollte sich nicht zu dem Bericht äußern, der in der Zeitung stand.",
    "Der Sturm hat das Dach der alten Schule zerstört, aber niemand wurde verletzt.",
]
NBEST = [
    {"id": number, "text": text, "paraphrases": [{"text": output, "score": -0.5}]}
    for number, (text, output) in enumerate(zip(REFERENCES, OUTPUTS, strict=True), 1)
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files as people have them."""
    monkeypatch.chdir(tmp_path)
    plain = "".join(f"{line}\n" for line in REFERENCES)
    segments = "".join(f'<seg id="{n}">{escape(line)}</seg>\n' for n, line in enumerate(REFERENCES, 1))
    document = f'<doc origlang="de" id="d"><ref lang="en" translator="A"><p>\n{segments}</p></ref></doc>'
    Path("refs.en").write_text(plain, "utf-8")
    Path("sys.en").write_text("".join(f"{line}\n" for line in OUTPUTS), "utf-8")
    Path("refs.xml").write_text(f'<?xml version="1.0"?>\n<dataset id="t">\n{document}\n</dataset>\n', "utf-8")
    Path("refs.de").write_text("".join(f"{line}\n" for line in GERMAN), "utf-8")
    Path("nbest.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in NBEST), "utf-8")
    Path("refs.tsv").write_text("id\treference\n" + "".join(f"{n}\t{t}\n" for n, t in enumerate(REFERENCES)), "utf-8")
    rows = [{"id": row["id"], "reference": row["text"], "paraphrases": [OUTPUTS[0]]} for row in NBEST]
    Path("set.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    Path("more.en").write_text("".join(f"{line}\n" for line in [*OUTPUTS, "One more."]), "utf-8")
    Path("empty.en").touch()
    Path("crlf.en").write_bytes(plain.replace("\n", "\r\n").encode())
    Path("utf16.en").write_bytes(plain.encode("utf-16"))
    Path("refs.en.gz").write_text(plain, "utf-8")
    Path("folder").mkdir()
    return tmp_path


@pytest.fixture
def refused(polyref: Callable[..., Any]) -> Callable[..., None]:
    """Check that a command ends with a code and one line on stderr that holds some words, and prints nothing else."""

    def check(code: int, words: list[str], *args: str) -> None:
        outcome = polyref(*args)
        assert (outcome.code, outcome.out) == (code, ""), outcome.err
        assert outcome.err.startswith("polyref: error: ") and outcome.err.count("\n") == 1, outcome.err
        for word in words:
            assert word in outcome.err

    return check


@pytest.fixture
def as_plain(polyref: Callable[..., Any]) -> Callable[..., None]:
    """Check that references in some form score as the plain text of the same references."""

    def check(*args: str) -> None:
        found, expected = (
            polyref("score", *args, "-i", "sys.en", "-k", "0", "-b"),
            polyref("score", "refs.en", "-i", "sys.en", "-b"),
        )
        assert found.code == 0, found.err
        assert found.out == expected.out != ""

    return check


def test_1_xml(as_plain: Callable[..., None]) -> None:
    as_plain("refs.xml")


@pytest.mark.slow
def test_2_german_references(refused: Callable[..., None], polyref: Callable[..., Any]) -> None:
    words = ["refs.de: the text is German", "is to write English", "--model", "--force"]
    refused(1, words, "augment", "refs.de", "-o", "out.jsonl")
    refused(1, words, "paraphrase", "refs.de")
    assert not Path("out.jsonl").exists()
    words = ["the references are German", "is for English", "--target-lang de", "chrf", "--force"]
    refused(1, words, "score", "refs.de", "-i", "sys.en", "-m", "bertscore")
    assert polyref("score", "refs.de", "-i", "sys.en", "-m", "chrf").code == 0


def test_3_nbest_list(as_plain: Callable[..., None], polyref: Callable[..., Any]) -> None:
    as_plain("nbest.jsonl")
    assert polyref("score", "nbest.jsonl", "-i", "sys.en", "-k", "1", "-b").out == "100.0\n"


def test_4_table(as_plain: Callable[..., None]) -> None:
    as_plain("refs.tsv")


def test_5_k_without_added_references(refused: Callable[..., None]) -> None:
    words = ["-k asks for 10 added references", "the references have none", "polyref augment"]
    refused(2, words, "score", "refs.en", "-i", "sys.en", "-k", "10")


def test_6_swapped(refused: Callable[..., None], polyref: Callable[..., Any]) -> None:
    refused(
        2,
        ["set.jsonl", "holds references, not the outputs of a system", "name a file of outputs"],
        "score",
        "sys.en",
        "-i",
        "set.jsonl",
    )
    outcome = polyref("score", "refs.en", "-i", "refs.en", "sys.en")
    assert outcome.code == 1 or "equals the reference line for line" in outcome.err


def test_7_one_line_more(refused: Callable[..., None]) -> None:
    words = ["more.en: has 4 segments, but refs.en has 3", "one line a segment"]
    refused(1, words, "score", "refs.en", "-i", "more.en")


def test_8_empty_file(refused: Callable[..., None]) -> None:
    words = ["empty.en: the file is empty, expected one segment a line", "check how it was made"]
    refused(1, words, "score", "refs.en", "-i", "empty.en")
    refused(1, words, "score", "empty.en", "-i", "sys.en")
    refused(1, words, "augment", "empty.en")
    refused(1, words, "paraphrase", "empty.en")


def test_9_line_ends_of_windows(as_plain: Callable[..., None]) -> None:
    as_plain("crlf.en")


def test_10_utf16(refused: Callable[..., None]) -> None:
    words = ["utf16.en: is UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"]
    refused(1, words, "score", "utf16.en", "-i", "sys.en")
    refused(1, words, "score", "refs.en", "-i", "utf16.en")
    refused(1, words, "augment", "utf16.en")


def test_11_folder(refused: Callable[..., None]) -> None:
    refused(
        1, ["folder: is a directory", "expected a text file", "name a file in it"], "score", "refs.en", "-i", "folder"
    )
    refused(1, ["folder: is a directory", "expected a"], "augment", "folder")


def test_12_missing_model(refused: Callable[..., None]) -> None:
    words = ["prism-m39: no such model folder", "give a folder, `shipped`, or a hub name"]
    refused(1, words, "augment", "refs.en", "--model", "prism-m39")
    refused(
        1, ["prism-m39", "`shipped`, `minilm`"], "score", "refs.en", "-i", "sys.en", "-m", "bertscore(model=prism-m39)"
    )


def test_13_metrics_with_a_comma(polyref: Callable[..., Any]) -> None:
    comma = polyref("score", "refs.en", "-i", "sys.en", "-m", "bleu,chrf", "-b")
    assert comma.out == polyref("score", "refs.en", "-i", "sys.en", "-m", "bleu", "chrf", "-b").out
    assert comma.out.count("\n") == 2


def test_14_gz_that_is_none(refused: Callable[..., None]) -> None:
    words = ["refs.en.gz: is no gzip file, although its name says so", "rename it without .gz"]
    refused(1, words, "score", "refs.en.gz", "-i", "sys.en")
    refused(1, words, "augment", "refs.en.gz")


def test_15_standard_input_twice(refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("refs.en").read_bytes())))
    words = ["standard input (-) is named twice", "it can be read once"]
    refused(2, words, "score", "-", "-i", "-")
    refused(2, words, "augment", "-", "-")

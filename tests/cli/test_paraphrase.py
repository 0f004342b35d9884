"""``polyref paraphrase`` as people use it, on the shipped model."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SENTENCES = ["The new bridge was opened on 14 March 2019.", "", "She did not want to talk about it."]


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(SENTENCES) + "\n", "utf-8")
    return path


def test_one_object_a_sentence(polyref: Callable[..., Any], sentences: Path) -> None:
    result = polyref("paraphrase", sentences, "-k", "4", "--quiet")
    assert result.code == 0
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert [row["text"] for row in rows] == SENTENCES
    assert rows[1]["paraphrases"] == []
    for row in (rows[0], rows[2]):
        scores = [p["score"] for p in row["paraphrases"]]
        texts = [p["text"] for p in row["paraphrases"]]
        assert 1 <= len(texts) == len(set(texts)) <= 4
        assert scores == sorted(scores, reverse=True)
        assert all(score <= 0 for score in scores)
        assert set(row["paraphrases"][0]) == {"text", "score"}
    assert "1 empty line" in result.err


def test_json_is_one_object_with_signature_and_tokens(polyref: Callable[..., Any], sentences: Path) -> None:
    result = polyref("paraphrase", sentences, "-k", "2", "--json", "--tokens", "--quiet")
    printed = result.json()
    assert set(printed) == {"signature", "rows"}
    assert printed["signature"].startswith("polyref-en|sha:")
    assert "dbs(beam=4,groups=1,strength=" in printed["signature"]
    tokens = printed["rows"][0]["paraphrases"][0]["tokens"]
    assert tokens
    assert all(isinstance(token, int) for token in tokens)


def test_same_bytes_again_in_any_order_and_from_stdin(
    polyref: Callable[..., Any], sentences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = polyref("paraphrase", sentences, "-k", "3", "--quiet").out
    assert polyref("paraphrase", sentences, "-k", "3", "--quiet", "-o", tmp_path / "out.jsonl").out == ""
    assert (tmp_path / "out.jsonl").read_text("utf-8") == first
    turned = "\n".join(reversed(SENTENCES)) + "\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(turned.encode())))
    second = polyref("paraphrase", "-", "-k", "3", "--quiet").out

    def by_text(out: str) -> dict[str, list[str]]:
        return {row["text"]: [p["text"] for p in row["paraphrases"]] for row in map(json.loads, out.splitlines())}

    assert by_text(first) == by_text(second)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-k", "0"], 2, "k is 0, expected 1 or more"),
        (["--beam", "5", "--groups", "2"], 2, "expected a multiple of --groups"),
        (["--closeness", "9"], 2, "expected 0 to 3"),
        (["--model", "shipped/xx"], 1, "expected one of shipped/en"),
        (["--model", "no-such-folder"], 1, "no such model folder"),
        (["--device", "nonsense"], 2, "cannot be used"),
        (["--threads", "0"], 2, "0 is not in the range x>=1"),
        (["-o", "no/such/dir/out.jsonl"], 1, "no directory"),
    ],
)
def test_bad_options_are_one_line(
    polyref: Callable[..., Any], sentences: Path, options: list[str], code: int, message: str
) -> None:
    result = polyref("paraphrase", sentences, *options)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"good\nbad \xff\n", ":2: invalid UTF-8"),
        (b"a\0b\n", ":1: NUL byte at column 2"),
        (None, "no such file"),
    ],
)
def test_bad_input_is_one_line(
    polyref: Callable[..., Any], tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    result = polyref("paraphrase", path, "-o", tmp_path / "out.jsonl")
    assert result.code == 1
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_a_very_long_line_is_cut_and_counted(polyref: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("The old town was quiet at night. " * 310 + "\n", "utf-8")
    assert len(path.read_text("utf-8")) > 10_000
    result = polyref("paraphrase", path, "-k", "1", "--quiet")
    assert result.code == 0
    assert "1 line is longer than the model reads" in result.err
    assert json.loads(result.out)["text"] == path.read_text("utf-8").rstrip("\n")


@pytest.mark.data
@pytest.mark.parametrize(("model", "name"), [("pre", "dbs12"), ("post", "dbs12"), ("pre", "beam5")])
def test_fairseq_checkpoints_give_fairseqs_lists(
    polyref: Callable[..., Any], data_dir: Path, tmp_path: Path, model: str, name: str
) -> None:
    """Golden lists of fairseq 0.12.2's own command line, from raw text; the last sentence has unknown pieces."""
    golden = data_dir / "fairseq-golden"
    with gzip.open(golden / model / f"{name}.json.gz", "rt", encoding="utf-8") as stream:
        wanted = sorted(json.load(stream)["sentences"], key=lambda sentence: sentence["id"])
    for file in ("dict.src.txt", "dict.tgt.txt", "spm.model", f"{model}/checkpoint.pt"):
        shutil.copy(golden / file, tmp_path)
    diverse = ["--groups", "3", "--strength", "0.5"] if name == "dbs12" else []
    size = "12" if name == "dbs12" else "5"
    result = polyref(
        "paraphrase", golden / "sents.txt", "--model", tmp_path, "--lang", "en", "--semantics", "fairseq", "-k", size,
        *diverse, "--max-len-a", "1.3", "--max-len-b", "10", "--tokens", "--quiet", "--threads", "1",
    )  # fmt: skip
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert len(rows) == len(wanted) == 20
    for row, sentence in zip(rows, wanted, strict=True):
        got, expected = row["paraphrases"], sentence["nbest"]
        assert [h["score"] for h in got] == pytest.approx([h["score"] for h in expected], abs=1e-5)
        for mine, theirs in zip(got, expected, strict=True):
            near = [h["tokens"] for h in expected if abs(h["score"] - mine["score"]) < 1e-5]
            assert mine["tokens"] == theirs["tokens"] or mine["tokens"] in near


def test_models_of_several_kinds_are_told_apart(polyref: Callable[..., Any], sentences: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = polyref("paraphrase", sentences, "--model", tmp_path / "empty")
    assert (result.code, result.out) == (1, "")
    assert "neither checkpoint.pt (fairseq) nor config.json (Hugging Face)" in result.err
    result = polyref("paraphrase", sentences, "--lang", "de")
    assert (result.code, result.out) == (2, "")
    assert "polyref-en writes en, not 'de'" in result.err


def test_sampling_is_seeded(polyref: Callable[..., Any], sentences: Path) -> None:
    options = ("-k", "3", "--sampling-topk", "10", "--quiet")
    first = polyref("paraphrase", sentences, *options, "--seed", "1")
    assert first.code == 0, first.err
    assert polyref("paraphrase", sentences, *options, "--seed", "1").out == first.out
    assert polyref("paraphrase", sentences, *options, "--seed", "2").out != first.out

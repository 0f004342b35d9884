"""``polyref paraphrase`` as people use it, on the shipped model."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SENTENCES = [
    "The new bridge was opened on 14 March 2019.",
    "",
    "Prices rose by 3 percent last year because of the strike.",
]


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(SENTENCES) + "\n", "utf-8")
    return path


@pytest.mark.slow
def test_one_object_a_sentence(polyref: Callable[..., Any], sentences: Path) -> None:
    result = polyref("paraphrase", sentences, "-k", "4", "--quiet")
    assert result.code == 0
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert [row["text"] for row in rows] == SENTENCES
    assert rows[1]["paraphrases"] == []
    for row in (rows[0], rows[2]):
        texts = [p["text"] for p in row["paraphrases"]]
        assert 1 <= len(texts) == len(set(texts)) <= 4
        assert row["text"] not in texts
        assert all(p["score"] <= 0 and set(p) == {"text", "score"} for p in row["paraphrases"])
    assert "1 empty line" in result.err


@pytest.mark.slow
def test_json_is_one_object_with_signature_and_tokens(polyref: Callable[..., Any], sentences: Path) -> None:
    result = polyref("paraphrase", sentences, "-k", "2", "--json", "--tokens", "--quiet")
    printed = result.json()
    assert set(printed) == {"signature", "rows"}
    assert printed["signature"].startswith("polyref-en|sha:")
    assert "|equivalence>=0|dbs(beam=8,groups=2,strength=" in printed["signature"]
    tokens = printed["rows"][0]["paraphrases"][0]["tokens"]
    assert tokens
    assert all(isinstance(token, int) for token in tokens)


@pytest.mark.slow
def test_json_goes_to_the_output_too(polyref: Callable[..., Any], sentences: Path, tmp_path: Path) -> None:
    options = ("-k", "2", "--json", "--quiet")
    printed = polyref("paraphrase", sentences, *options).out
    result = polyref("paraphrase", sentences, *options, "-o", tmp_path / "out.json")
    assert (result.code, result.out) == (0, "")
    assert (tmp_path / "out.json").read_text("utf-8") == printed


@pytest.mark.slow
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
        (["-k", "3", "--nbest", "3"], 2, "-k and --nbest both say"),
        (["--nbest", "0"], 2, "--nbest is 0, expected 1 or more"),
        (["--nbest-per-group"], 2, "--nbest-per-group needs --nbest"),
        (["--nbest", "2", "--nbest-per-group", "--semantics", "fairseq"], 2, "mixes its groups"),
        (["--lenpen", "nan"], 2, "--lenpen is nan, expected a finite number"),
        (["--temperature", "0"], 2, "--temperature is 0.0, expected more than 0"),
        (["--min-len", "9", "--max-len-b", "8"], 2, "--min-len is 9, expected at most the greatest length, 8"),
        (["--max-len-a", "-1"], 2, "--max-len-a is -1.0, expected 0 or more"),
        (["--no-repeat-ngram", "-1"], 2, "--no-repeat-ngram is -1"),
        (["--early-stopping", "true", "--semantics", "fairseq"], 2, "--early-stopping has no use with --sem"),
        (["--sampling-topp", "1.5"], 2, "--sampling-topp is 1.5"),
        (["--sampling-topp", "0"], 2, "--sampling-topp is 0.0, expected more than 0 (leave it out to draw from all"),
        (["--sampling-topp", "nan"], 2, "--sampling-topp is nan, expected a finite number"),
        (["--sampling", "--sampling-topk", "0"], 2, "--sampling-topk is 0, expected more than 0"),
        (["--sampling-topk", "-1"], 2, "--sampling-topk is -1, expected more than 0"),
        (["--sampling", "--strength", "1"], 2, "--strength is an option of the search"),
        (["-k", "100000"], 2, "a beam of 100000 hypotheses is asked for, expected at most 5000"),
        (["--beam", "0"], 2, "--beam is 0, expected 1 or more"),
        (["--sampling", "--groups", "2"], 2, "--sampling draws independently"),
        (["--semantics", "hf", "--groups", "3", "--beam", "2"], 2, "--groups is 3, expected at most the beam, 2"),
        (["--prism-a", "-0.1"], 2, "--prism-a is -0.1, expected 0 or more"),
        (["--prism-a", "0.1", "--prism-b", "inf"], 2, "--prism-b is inf, expected a finite number"),
        (["--prism-b", "3"], 2, "--prism-b needs --prism-a"),
        (["--prefix", "<en>"], 2, "--prefix is '<en>', but the generator shipped takes no such option"),
        (["--backend", "fairseq", "--prism-a", "0.1"], 2, "--prism-a is an option of polyref's own search"),
        (["--backend", "fairseq", "--semantics", "hf"], 2, "--backend fairseq searches as fairseq does"),
        (["--closeness", "1", "--lenpen", "1"], 2, "--closeness does not go with options of the search itself"),
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


def test_an_input_is_never_overwritten(polyref: Callable[..., Any], sentences: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(sentences)
    before = sentences.read_bytes()
    for output in (sentences, tmp_path / "link", f"{tmp_path}/./in.txt"):
        result = polyref("paraphrase", sentences, "-k", "2", "--model", "no-such-folder", "-o", output)
        assert (result.code, result.out) == (2, "")
        assert result.err == f"polyref: error: {output} is also an input (choose another output)\n"
    assert sentences.read_bytes() == before


@pytest.mark.slow
def test_a_very_long_line_is_cut_and_counted(polyref: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("The old town was quiet at night. " * 310 + "\n", "utf-8")
    assert len(path.read_text("utf-8")) > 10_000
    result = polyref("paraphrase", path, "-k", "1", "--quiet", "--sentences", "whole")
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


def test_settings_are_refused_before_any_model_loads(
    polyref: Callable[..., Any], sentences: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("a model is being loaded")

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)
    for options in (
        ["--beam", "5", "--groups", "2"],
        ["--nbest", "0"],
        ["--strength", "-1"],
        ["--prism-a", "-1"],
        ["--backend", "fairseq", "--semantics", "paper"],
        ["--sampling", "--groups", "2"],
    ):
        assert polyref("paraphrase", sentences, *options).code == 2
    with pytest.raises(AssertionError, match="being loaded"):
        polyref("paraphrase", sentences)


@pytest.mark.slow
def test_nbest_over_all_groups_and_of_every_group(polyref: Callable[..., Any], sentences: Path) -> None:
    options = ("--groups", "3", "--strength", "1", "--quiet", "--tokens")
    overall = polyref("paraphrase", sentences, "--nbest", "4", "--beam", "6", *options)
    assert overall.code == 0, overall.err
    per_group = polyref("paraphrase", sentences, "--nbest", "2", "--nbest-per-group", *options)
    assert per_group.code == 0, per_group.err
    for mine, theirs in zip(overall.out.splitlines(), per_group.out.splitlines(), strict=True):
        best, grouped = json.loads(mine)["paraphrases"], json.loads(theirs)["paraphrases"]
        if not best:
            assert not grouped
            continue
        assert 2 <= len(best) <= 4
        assert [p["score"] for p in best] == sorted((p["score"] for p in best), reverse=True)
        groups = [p["group"] for p in grouped]  # equal hypotheses of two groups are merged, so one may have fewer
        assert groups == sorted(groups) and {0, 2} <= set(groups) and max(map(groups.count, groups)) == 2
        # The same search: a beam of six either way.
        assert best[0]["tokens"] in [p["tokens"] for p in grouped]


@pytest.mark.slow
def test_the_copy_penalty_copies_less(polyref: Callable[..., Any], sentences: Path) -> None:
    def copied(*options: str) -> int:
        # An option of the search itself: the lists are as long as they are asked for.
        result = polyref("paraphrase", sentences, "-k", "3", "--lenpen", "1", "--quiet", *options)
        assert result.code == 0, result.err
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert [len(row["paraphrases"]) for row in rows] == [3, 0, 3]
        return sum(
            word in row["text"].split() for row in rows for p in row["paraphrases"] for word in p["text"].split()
        )

    assert copied("--prism-a", "1", "--prism-b", "1") < copied()
    signature = polyref("paraphrase", sentences, "-k", "1", "--prism-a", "0.5", "--json", "--quiet").json()["signature"]
    assert "|rules:digits,noaddedrepeat4,copy(a=0.5,b=4)|" in signature


@pytest.mark.slow
def test_sampling_is_seeded(polyref: Callable[..., Any], sentences: Path) -> None:
    options = ("-k", "3", "--sampling-topk", "10", "--quiet")
    first = polyref("paraphrase", sentences, *options, "--seed", "1")
    assert first.code == 0, first.err
    assert polyref("paraphrase", sentences, *options, "--seed", "1").out == first.out
    assert polyref("paraphrase", sentences, *options, "--seed", "2").out != first.out


@pytest.mark.slow
def test_a_terminated_run_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The old town was quiet at night, and nobody was there.\n" * 500)
    program = "from polyref.cli.main import main; main()"
    arguments = ["paraphrase", "in.txt", "-k", "40", "--beam", "40", "-o", "out.jsonl", "--quiet", "--threads", "1"]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=tmp_path, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.jsonl.*.tmp")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_folder_with_two_pairs(polyref: Callable[..., Any], tmp_path: Path) -> None:
    refs = tmp_path / "set" / "references"
    refs.mkdir(parents=True)
    (refs / "cs-en.refA.txt").write_text("The house is big.\nThe car is fast.\n")
    (refs / "de-en.refA.txt").write_text("The film was good.\n")
    (refs / "de-en.paraphrase1.txt").write_text("The movie was good.\n")
    unsaid = polyref("paraphrase", tmp_path / "set", "--model", "lexical")
    assert unsaid.code == 2 and "several language pairs: cs-en, de-en (choose one: --language-pair)" in unsaid.err
    for pair, texts in (("cs-en", ["The house is big.", "The car is fast."]), ("de-en", ["The film was good."])):
        done = polyref("paraphrase", tmp_path / "set", "--model", "lexical", "-l", pair)
        assert done.code == 0, done.err
        assert [json.loads(line)["text"] for line in done.out.splitlines()] == texts
    # A folder of candidates has the pair of the references.
    (tmp_path / "refs").write_text("The film was good.\n")
    made = polyref("augment", tmp_path / "refs", "--candidates", tmp_path / "set", "-l", "de-en", "--filter", "none")
    assert made.code == 0, made.err
    assert [ref["text"] for ref in json.loads(made.out.splitlines()[1])["refs"]][1:] == ["The movie was good."]

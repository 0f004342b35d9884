"""``polyref augment`` at the command line; a paraphraser of fixed rules stands behind it unless a test says so."""

from __future__ import annotations

import gzip
import io
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from polyref.augment import filter_chain
from polyref.chat.answers import Answer, Answers
from polyref.references import ReferenceSet

RULES = runpy.run_path(str(Path(__file__).parent.parent / "shared" / "rule_paraphraser.py"))


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Any:
    paraphraser = RULES["RuleParaphraser"]()
    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", lambda name, **options: paraphraser)
    return paraphraser


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a model is loaded: what is wrong must be said before the work starts."""

    def load(*args: Any, **options: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    path = tmp_path / "refs.en"
    path.write_text("Ann paid 5 euros.\n\nThe dog barked.\n", "utf-8")
    return path


def test_to_a_file(polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path) -> None:
    result = polyref("augment", refs, "--model", "shipped", "-k", "2", "-o", tmp_path / "out.jsonl")
    assert (result.code, result.out) == (0, "")
    made = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [segment.id for segment in made] == ["1", "2", "3"]
    assert [ref.text for ref in made[0].refs] == [
        "Ann paid 5 euros.",
        "Plainly: Ann paid 5 euros.",
        "Clearly: Ann paid 5 euros.",
    ]
    assert made[1].refs[0].text == "" and len(made[1].refs) == 1
    assert made.meta == {
        "generator": "rules|sha:0",
        "decoding": "rules(16)",
        "k": 2,
        "filters": filter_chain().name.replace("small-model", "small-model(for rules)"),
        "lang": "en",
        "inputs": [{"name": "refs.en", "sha256": sha256(refs.read_bytes()).hexdigest()}],
        "polyref": made.meta["polyref"],
    }
    counts = [line.split() for line in result.err.split("\n")]
    assert ["kept", "4", "50.0"] in counts
    assert ["dropped:", "copy", "4", "50.0"] in counts
    assert "polyref: warning: 1 reference is empty: kept, without paraphrases" in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "refs.en"]


def test_the_folder_of_the_files_leaves_no_trace(
    polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    polyref("augment", refs, "-k", "2", "-o", tmp_path / "a.jsonl")
    outputs.append((tmp_path / "a.jsonl").read_text())
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "refs.en").write_bytes(refs.read_bytes())
    monkeypatch.chdir(tmp_path / "deep")
    outputs.append(polyref("augment", "refs.en", "-k", "2").out)
    polyref("augment", "refs.en", "-k", "2", "-o", "b.jsonl.gz")
    outputs.append(gzip.decompress(Path("b.jsonl.gz").read_bytes()).decode())
    assert outputs[0] == outputs[1] == outputs[2]


def test_standard_input_and_pipes(
    polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polyref("augment", refs, "-k", "2", "-o", tmp_path / "a.jsonl")
    whole = (tmp_path / "a.jsonl").read_text().split("\n", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(refs.read_bytes())))
    head, rest = polyref("augment", "-", "-k", "2").out.split("\n", 1)
    assert rest == whole[1]
    assert json.loads(head)["meta"]["inputs"] == [{"name": "<stdin>", "sha256": sha256(refs.read_bytes()).hexdigest()}]
    # A pipe can be read only once.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["cp", refs, fifo]):
        assert polyref("augment", fifo, "-k", "2").out.split("\n", 1)[1] == whole[1]


def test_errors_about_standard_input_name_it(
    polyref: Callable[..., Any], no_model: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\n")))
    result = polyref("augment", "-")
    assert result.err == (
        "polyref: error: <stdin>:2: invalid UTF-8: byte 0xff at column 1 (convert the file to UTF-8)\n"
    )


def test_several_files_are_several_references(
    polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.en"
    other.write_text("5 euros were paid by Ann.\nMore.\nA dog was barking.\n")
    polyref("augment", refs, other, "-k", "3", "-o", tmp_path / "out.jsonl")
    made = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [(ref.of, ref.rank) for ref in made[0].extras] == [(0, 2), (1, 2), (0, 3)]
    assert [item["name"] for item in made.meta["inputs"]] == ["refs.en", "other.en"]


def test_a_set_is_augmented_further(polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path) -> None:
    polyref("augment", refs, "-k", "2", "-o", tmp_path / "a.jsonl")
    polyref("augment", tmp_path / "a.jsonl", "-k", "4", "--filter", "none", "-o", tmp_path / "b.jsonl")
    first, second = ReferenceSet.load(tmp_path / "a.jsonl"), ReferenceSet.load(tmp_path / "b.jsonl")
    assert second[0].refs[:3] == first[0].refs
    assert second.meta["k"] == [2, 4]


def test_json_summary(polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path) -> None:
    given = ("--model", "shipped", "-k", "2", "-o", tmp_path / "out.jsonl")
    result = polyref("augment", refs, *given, "--json", "--seed", "7", "--quiet")
    printed = result.json()
    assert set(printed) == {"signature", "rows"}
    assert printed["signature"].startswith("rules|sha:0|rules(16)|k:2|filters:small-model(for rules):")
    (row,) = printed["rows"]
    assert (row["segments"], row["references"], row["candidates"], row["kept"]) == (3, 2, 8, 4)
    assert row["dropped"]["copy"] == 4 and sum(row["dropped"].values()) == 4
    assert (row["empty"], row["truncated"], row["short"]) == (1, 0, 0)
    assert result.err == "polyref: warning: 1 reference is empty: kept, without paraphrases\n"


def test_dropped_candidates_with_reasons(polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path) -> None:
    out, notes = tmp_path / "out.jsonl", tmp_path / "dropped.jsonl"
    given = ("--model", "shipped", "-k", "4", "--quiet")
    assert polyref("augment", refs, *given, "-o", out, "--dropped", notes).code == 0
    rows = [json.loads(line) for line in notes.read_text("utf-8").splitlines()]
    assert rows[:5] == [
        {"id": "1", "of": 0, "rank": 0, "text": "Ann paid 5 euros.", "reason": "copy"},
        {"id": "1", "of": 0, "rank": 1, "text": "ANN PAID 5 EUROS. !", "reason": "copy"},
        {"id": "1", "of": 0, "rank": 4, "text": "plainly Ann paid 5 euros.", "reason": "duplicate"},
        {"id": "1", "of": 0, "rank": 6, "text": "Ann paid 5 euros. 99", "reason": "numbers"},
        {"id": "1", "of": 0, "rank": 7, "text": "It is not so that Ann paid 5 euros.", "reason": "negation"},
    ]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    # To stdout as well, and the same whether or not the set goes to a pipe.
    written = polyref("augment", refs, *given, "-o", out, "--dropped", "-").out
    assert written == notes.read_text("utf-8")
    (tmp_path / "again").write_bytes(b"old")
    polyref("augment", refs, *given, "--dropped", tmp_path / "again")
    assert (tmp_path / "again").read_text("utf-8") == written


def test_dropped_candidates_go_to_a_file_of_their_own(
    polyref: Callable[..., Any], no_model: None, refs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    for options, message in (
        (["-o", out, "--dropped", out], "is named for two outputs"),
        (["-o", out, "--dropped", f"{out}.partial"], "is named for two outputs"),
        (["--dropped", "-"], "where the reference set goes"),
        (["-o", out, "--dropped", refs], "is also an input"),
        (["-o", out, "--dropped", "-", "--json"], "where --dropped goes"),
        (["-o", out, "--dropped", tmp_path / "absent" / "d"], "no directory"),
    ):
        result = polyref("augment", refs, *options)
        assert result.code in (1, 2) and message in result.err and result.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["refs.en"]


def test_a_long_line_is_counted_and_kept(polyref: Callable[..., Any], rules: Any, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("Word after word was said. " * 400 + "\n")
    result = polyref("augment", tmp_path / "long", "-k", "2", "-o", tmp_path / "out.jsonl")
    assert result.code == 0
    # Another generator may have read all of it.
    said = "1 reference is longer than the model reads: kept whole, what the model writes is of the beginning"
    assert said in result.err
    assert len(ReferenceSet.load(tmp_path / "out.jsonl")[0].originals[0].text) == 10_400


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent", None, "absent: no such file"),
        ("empty", b"", "empty: the file is empty"),
        ("latin", b"good\nna\xefve\n", "latin:2: invalid UTF-8: byte 0xef at column 3"),
        ("nul", b"good\ngood\nb\0d\n", "nul:3: NUL byte at column 2"),
        ("broken.jsonl", b'{"polyref": 1}\n{"id": "1", "refs": [}\n', "broken.jsonl:2: not valid JSON"),
        ("torn.gz", gzip.compress(b"good\n" * 999)[:-9], ": broken gzip data: Compressed file ended before"),
    ],
)
def test_bad_input_is_one_line(
    polyref: Callable[..., Any], no_model: None, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = polyref("augment", tmp_path / name, "-o", tmp_path / "out.jsonl")
    assert (result.code, result.out) == (1, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.glob("out*"))


def test_files_of_different_length(polyref: Callable[..., Any], no_model: None, refs: Path, tmp_path: Path) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    result = polyref("augment", refs, tmp_path / "two")
    assert result.code == 1
    assert f"{tmp_path / 'two'}: has 2 segments, but {refs} has 3" in result.err


def test_outputs_that_cannot_be_written(
    polyref: Callable[..., Any], no_model: None, refs: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken.jsonl.partial").mkdir()
    for output, message in [
        (tmp_path / "absent" / "out.jsonl", "no directory"),
        (tmp_path, "is a directory"),
        (tmp_path / "taken.jsonl", "taken.jsonl.partial: is a directory"),
        ("/proc/out.jsonl", "/proc/out.jsonl: cannot be written"),
    ]:
        result = polyref("augment", refs, "-o", output)
        assert (result.code, result.out) == (1, "")
        assert message in result.err and result.err.count("\n") == 1


def test_something_else_where_the_journal_goes(
    polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.jsonl.partial").write_text("mine\n")
    result = polyref("augment", refs, "-o", tmp_path / "out.jsonl", "--quiet")
    assert result.code == 1
    assert "out.jsonl.partial: is in the way and no journal" in result.err
    assert (tmp_path / "out.jsonl.partial").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "0"], "-k is 0, expected 1 or more"),
        (["--beam", "7", "--groups", "2"], "expected a multiple of --groups"),
        (["--strength", "-1"], "--strength is -1"),
        (["--closeness", "9"], "--closeness is 9, expected 0 to 3"),
        (
            ["--filter", "loose"],
            "no filter 'loose', expected one of default, good-writer, small-model, strict, none, or a TOML file",
        ),
        (["--json"], "--json prints the summary on stdout"),
        (["-"], "several"),
        (["-", "-"], "named twice"),
        (["--nonsense"], "no such option"),
    ],
)
def test_bad_usage(
    polyref: Callable[..., Any],
    no_model: None,
    refs: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"polyref": 1}\n{"id": "1", "refs": []}\n')))
    result = polyref("augment", refs, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_broken_filter_file_is_one_line_before_any_work(
    polyref: Callable[..., Any], no_model: None, refs: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text("numbers = true\nnonsense = true\n")
    result = polyref("augment", refs, "--filter", tmp_path / "mine.toml", "-o", tmp_path / "out.jsonl")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(
        f"polyref: error: {tmp_path}/mine.toml: unknown key 'nonsense', expected some of base,"
    )
    assert result.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.toml", "refs.en"]


def test_filter_file_and_selection(polyref: Callable[..., Any], rules: Any, refs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("numbers = true\n")
    out = tmp_path / "out.jsonl"
    given = ("--model", "shipped", "-k", "2", "-o", out)
    result = polyref("augment", refs, *given, "--filter", tmp_path / "mine.toml", "--select", "mmr")
    assert result.code == 0
    meta = ReferenceSet.load(out).meta
    assert meta["filters"].startswith("mine#") and meta["select"] == "mmr:0.5"
    # Every candidate is accounted for: 2 references, 4 candidates each.
    counts = {line.rsplit(None, 2)[0]: int(line.split()[-2]) for line in result.err.split("\n") if line[-2:-1] == "."}
    assert counts == {"kept": 4, "dropped: copy": 4}


def test_an_input_is_never_overwritten(polyref: Callable[..., Any], no_model: None, refs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(refs)
    before = refs.read_bytes()
    for output in (refs, tmp_path / "link"):
        result = polyref("augment", refs, "-o", output)
        assert result.code == 2
        assert "is also an input" in result.err
    assert refs.read_bytes() == before
    rules = tmp_path / "rules.toml"
    rules.write_text("[numbers]\n")
    result = polyref("augment", refs, "--filter", rules, "-o", tmp_path / "." / "rules.toml")
    assert (result.code, rules.read_text()) == (2, "[numbers]\n")
    assert "is also an input" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "X", "--batch", "write", "X.answers"], "X.answers holds finished work"),
        (["-o", "Y", "--batch", "write", "Y.answers"], "Y.answers is named for two outputs"),
        (["-o", "Y", "--batch", "write", "Y"], "Y is named for two outputs"),
        (["-o", "Y", "--answers", "Y"], "Y is named for two outputs"),
        (["-o", "Y", "--answers", "A", "--dropped", "./A"], "A is named for two outputs"),
        (["-o", "Y", "--answers", "Y.partial"], "Y.partial is named for two outputs"),
        (["-o", "X.answers"], "X.answers holds finished work"),
        (["-o", "Y", "--dropped", "link"], "link holds finished work"),
        (["-o", "Y", "--answers", "settings.json"], "settings.json: is in the way and no journal"),
        (["-o", "Y", "--answers", "planted"], "planted: is a link"),
    ],
)
def test_answers_that_were_paid_for_are_never_overwritten(
    polyref: Callable[..., Any], refs: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(refs.parent)
    Answers("X.answers").add("key", Answer("text"))
    Path("settings.json").write_text("{}")
    Path("link").symlink_to("X.answers")
    Path("planted").symlink_to("settings.json")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    # Nobody listens there: what is not refused would fail otherwise.
    server = [] if "--batch" in options else ["--base-url", "http://127.0.0.1:9/v1", "--retries", "0"]
    result = polyref("augment", refs, "--model", "openai:tiny", *server, *options)
    assert result.code and message in result.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_no_output_is_a_part_of_the_model(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    for name in (tmp_path / "model", f"hf:{tmp_path}/model"):
        for command in ("augment", "paraphrase"):
            result = polyref(command, refs, "--model", name, "-o", tmp_path / "model" / "config.json")
            assert result.code == 2 and "config.json is part of a model" in result.err
    assert (tmp_path / "model" / "config.json").read_text() == "{}"


def test_a_folder_with_the_name_of_a_generator_is_no_model(
    polyref: Callable[..., Any], refs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lexical").mkdir()
    for _ in range(2):  # the second run writes the file anew
        assert polyref("augment", refs, "--model", "lexical", "-o", "lexical/refs.jsonl").code == 0
    result = polyref("paraphrase", refs, "--model", "./lexical", "-o", "lexical/refs.jsonl")
    assert result.code == 2 and "lexical/refs.jsonl is part of a model" in result.err


@pytest.mark.slow
def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    refs = tmp_path / "refs"
    refs.write_text("".join(f"Sentence {n} is here.\n" for n in range(5000)))
    program = [sys.executable, RULES["__file__"], tmp_path / "log", "0", "augment", refs, "--quiet"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (1, 141)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_output_that_takes_nothing(refs: Path, tmp_path: Path) -> None:
    rules = [sys.executable, RULES["__file__"], tmp_path / "log", "0"]
    for name, command in (
        ("/dev/full", [*rules, "augment", refs, "-k", "2", "--quiet", "-o", "/dev/full"]),
        ("<stdout>", [*rules, "augment", refs, "-k", "2", "--quiet"]),
        ("<stdout>", [*rules, "augment", refs, "-k", "2", "--quiet", "--json", "-o", tmp_path / "out.jsonl"]),
        ("<stdout>", [sys.executable, "-m", "polyref", "--help"]),
    ):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        errors = [line for line in done.stderr.split("\n") if not line.startswith("polyref: warning")]
        assert (done.returncode, errors) == (
            1,
            [f"polyref: error: {name}: cannot be written: No space left on device", ""],
        )


@pytest.mark.slow
def test_two_generators_take_turns_by_default(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text("Prices rose by 3 percent last year.\nIt rained.\n", "utf-8")
    out = tmp_path / "out.jsonl"
    result = polyref("augment", tmp_path / "refs.en", "-k", "3", "-o", out, "--json", "--quiet", "--beam", "6")
    assert result.code == 0, result.err
    made = ReferenceSet.load(out)
    first, *others = [ref.generator for ref in made[0].extras]
    assert first == "lexical" and set(others) == {"polyref-en"} and not made[1].extras
    lexical, shipped = made.meta["generator"].split(" + ")
    assert lexical.startswith("lexical|") and shipped.startswith("polyref-en|")
    # Options of the search are for the one that searches.
    assert made.meta["decoding"].startswith("one substitution + dbs(beam=6,groups=2,")
    (row,) = result.json()["rows"]
    assert (row["segments"], row["references"], row["kept"]) == (2, 2, len(made[0].extras))


@pytest.mark.slow
def test_options_of_the_search_itself(polyref: Callable[..., Any], tmp_path: Path) -> None:
    refs = tmp_path / "refs.en"
    refs.write_text("The ferry left the harbour on time.\nShe lost her keys.\n", "utf-8")

    def header(*options: str) -> tuple[dict[str, Any], list[str]]:
        result = polyref("augment", refs, "-k", "2", "--filter", "none", "--quiet", *options)
        assert result.code == 0, result.err
        first, *rest = result.out.splitlines()
        return json.loads(first), rest

    described, _ = header("--semantics", "hf", "--groups", "2", "--lenpen", "0.5", "--prism-a", "0.1")
    assert "search(beam=4,groups=2,lenpen=0.5,semantics=hf)" in json.dumps(described)
    assert "copy(a=0.1,b=4)" in json.dumps(described)
    sampled = [header("--sampling-topk", "20", "--seed", seed)[1] for seed in ("1", "1", "2")]
    assert sampled[0] == sampled[1] != sampled[2]
    for options, message in (
        (["--lenpen", "nan"], "--lenpen is nan"),
        (["--sampling", "--groups", "2"], "--sampling draws independently"),
        (["--prism-b", "1"], "--prism-b needs --prism-a"),
        (["--backend", "fairseq", "--semantics", "hf"], "--backend fairseq searches as fairseq does"),
    ):
        result = polyref("augment", refs, *options)
        assert result.code == 2 and message in result.err and result.err.count("\n") == 1

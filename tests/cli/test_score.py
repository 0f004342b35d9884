"""``polyref score`` as users run it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU

SEGMENTS = [
    {
        "id": "a",
        "reference": "The ferry leaves at 9:15.",
        "paraphrases": ["The ferry departs at 9:15.", "It sails at 9:15."],
    },
    {"id": "b", "reference": "Bring a coat, please.", "paraphrases": ["Please bring a coat."]},
    {
        "id": "c",
        "reference": "No one was hurt in the fire.",
        "paraphrases": ["Nobody was hurt in the fire.", "The fire hurt no one.", "Nobody got hurt."],
    },
]
GOOD = ["The ferry departs at 9:15.", "Please bring a coat with you.", "No one was hurt in the fire."]
POOR = ["Ferry 9.15", "coat", "The fire was hurt."]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("refs.jsonl").write_text("".join(json.dumps(segment) + "\n" for segment in SEGMENTS))
    Path("refA.en").write_text("".join(str(segment["reference"]) + "\n" for segment in SEGMENTS))
    Path("refB.en").write_text("The boat goes at 9:15.\nTake a coat.\nThe fire harmed nobody.\n")
    Path("good.v1.en").write_text("\n".join(GOOD) + "\n")
    Path("poor.en").write_text("\n".join(POOR) + "\n")
    return tmp_path


def sacrebleu(*args: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *args], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_k0_prints_what_sacrebleu_prints(files: Path, polyref: Callable[..., Any]) -> None:
    for options, ours in [
        (["-m", "bleu"], ["-m", "bleu"]),
        (["-m", "bleu", "-lc", "--tokenize", "intl"], ["-m", "bleu", "-lc", "--tokenize", "intl"]),
        (["-m", "bleu", "-s", "floor"], ["-m", "bleu", "--smooth-method", "floor"]),
        (["-m", "chrf"], ["-m", "chrf"]),
        (["-m", "ter", "--ter-no-punct"], ["-m", "ter", "--ter-no-punct"]),
        (["-m", "chrf", "--chrf-word-order", "2"], ["-m", "chrf", "-cw", "2"]),
        (
            ["-m", "chrf", "--chrf-word-order", "1", "--chrf-beta", "3"],
            ["-m", "chrf", "--chrf-word-order", "1", "--chrf-beta", "3"],
        ),
    ]:
        for refs in (["refA.en"], ["refA.en", "refB.en"]):
            for level, flag in (([], []), (["-sl"], ["--sentence"])):
                theirs = sacrebleu(*refs, "-i", "good.v1.en", *options, *level, "-b", "-w", "14")
                outcome = polyref("score", *refs, "-i", "good.v1.en", *ours, *flag, "-k", "0", "-b", "-w", "14")
                assert outcome.code == 0
                assert outcome.out.split() == theirs.split()


def test_other_weights_are_another_signature(files: Path, polyref: Callable[..., Any]) -> None:
    """But only where they are read."""

    def signed(weight: float, *options: str) -> tuple[str, float]:
        added = {"text": "A dog sleeps here.", "kind": "paraphrase", "logprob": -1.0}
        refs = [
            {"text": "The dog is asleep."},
            {**added, "weight": weight},
            {**added, "text": "It rains.", "weight": 0.5},
        ]
        (files / "weighed.jsonl").write_text(json.dumps({"refs": refs}) + "\n", "utf-8")
        (files / "one.en").write_text("A dog is sleeping here.\n", "utf-8")
        result = polyref("score", "weighed.jsonl", "-i", "one.en", "-m", "chrf", "-k", "2", "--json", *options).json()
        return result["signature"], result["rows"][0]["score"]

    expected = ("--combine", "expected")
    (first, low), (second, high) = (signed(weight, *expected, "--weights", "given") for weight in (0.1, 0.9))
    assert low != high and first != second
    assert signed(0.1, *expected) == signed(0.9, *expected)
    assert signed(0.1) == signed(0.9)


def test_json_rows(files: Path, polyref: Callable[..., Any]) -> None:
    outcome = polyref(
        "score", "refs.jsonl", "-i", "good.v1.en", "poor.en", "-m", "bleu", "chrf++", "-k", "0", "1", "--json"
    )
    result = outcome.json()
    assert outcome.out.count("\n") == 1
    assert set(result) == {"signature", "rows", "circular"}
    assert result["signature"].startswith("metrics:bleu,chrf++|k:0,1|segments:3|refs:2..4|sha256:")
    keys = [(row["metric"], row["k"], row["system"]) for row in result["rows"]]
    systems = ("good.v1.en", "poor.en")
    assert keys == [(m, k, s) for m in ("bleu", "chrf++") for k in (0, 1) for s in systems]
    row = result["rows"][2]
    assert (row["name"], row["references"]) == ("parBLEU", {"min": 2, "max": 2})
    assert row["signature"].startswith("parBLEU|nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert result["rows"][0]["name"] == "BLEU"
    assert row["score"] > result["rows"][0]["score"]
    again = polyref(
        "score", "refs.jsonl", "-i", "good.v1.en", "poor.en", "-m", "bleu", "chrf++", "-k", "0", "1", "--json"
    )
    assert again.out == outcome.out


def test_sentence_rows(files: Path, polyref: Callable[..., Any]) -> None:
    rows = polyref("score", "refs.jsonl", "-i", "good.v1.en", "-k", "0", "--sentence", "--json").json()["rows"]
    assert [row["segment"] for row in rows] == ["a", "b", "c"]
    assert rows[2]["score"] == pytest.approx(100)
    assert "eff:yes" in rows[0]["signature"]


def test_table_for_people(files: Path, polyref: Callable[..., Any]) -> None:
    outcome = polyref("score", "refs.jsonl", "-i", "good.v1.en", "poor.en", "-m", "bleu", "chrf", "chrf++")
    lines = outcome.out.splitlines()
    reached = "k=3 (2.0 on average)"
    assert re.split("  +", lines[0])[1:] == [
        *("BLEU", f"parBLEU {reached}", "chrF", f"parCHRF {reached}", "chrF++", f"parCHRF++ {reached}"),
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["good.v1.en", "poor.en"]
    assert lines[5] == "References a segment: 1 with k = 0, 3 with k = 3"
    # Hashes that polyref info tells in full, as --verbose and files do.
    hashes = re.findall(r"(\S+(?: k=3)?) ([0-9a-f]{10})[, ]", lines[6])
    assert [title for title, _ in hashes][:2] == ["BLEU", "parBLEU k=3"] and len(hashes) == 6
    *_, first, second = [polyref("info", name).out.strip() for _, name in hashes[:2]]
    assert first.startswith("BLEU|nrefs:1|")
    assert second.startswith("parBLEU|nrefs:var|") and "|k:3|available:1..3|refs:2..4|" in second
    for more in (["--verbose"], ["-o", "scores.txt"]):
        told = polyref("score", "refs.jsonl", "-i", "good.v1.en", "poor.en", "-m", "bleu", *more).out
        told = told or Path("scores.txt").read_text("utf-8")
        assert {first, second} <= set(told.splitlines())
    assert json.loads(polyref("info", hashes[0][1], "--json").out)["signature"] == first
    unknown = polyref("info", "0123456789")
    assert unknown.code == 1 and "0123456789" in unknown.err
    assert outcome.err == ""
    sentences = polyref("score", "refs.jsonl", "-i", "good.v1.en", "-k", "0", "--sentence").out.splitlines()
    assert sentences[4].split() == ["good.v1.en", "c", "100.0"]


def test_output_file(files: Path, polyref: Callable[..., Any]) -> None:
    outcome = polyref("score", "refA.en", "-i", "poor.en", "-o", "out.json", "--json")
    assert (outcome.code, outcome.out) == (0, "")
    assert json.loads(Path("out.json").read_text())["rows"][0]["system"] == "poor.en"


@pytest.mark.parametrize("name", ["refs.jsonl", "good.v1.en", "poor.en", "sources"])
def test_an_input_is_never_overwritten(files: Path, polyref: Callable[..., Any], name: str) -> None:
    Path("sources").write_text("one\ntwo\nthree\n")
    (files / "link").symlink_to(name)
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    for output in (name, f"./{name}", files / name, "link"):
        result = polyref(
            "score", "refs.jsonl", "-i", "good.v1.en", "poor.en", "-m", "peer", "--source", "sources",
            "--peer-model", "no/such/folder", "-o", output,
        )  # fmt: skip
        assert (result.code, result.out) == (2, "")
        assert result.err == f"polyref: error: {output} is also an input (choose another output)\n"
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_the_baseline_of_a_metric_is_never_overwritten(files: Path, polyref: Callable[..., Any]) -> None:
    Path("baseline.tsv").write_text("LAYER,P,R,F\n0,0.1,0.2,0.3\n")
    for given in (["bertscore(baseline=baseline.tsv)"], ["bertscore", "--bertscore-rescale", "baseline.tsv"]):
        result = polyref("score", "refA.en", "-i", "poor.en", "-m", *given, "-o", "baseline.tsv")
        assert result.code == 2 and "baseline.tsv is also an input" in result.err
    assert Path("baseline.tsv").read_text() == "LAYER,P,R,F\n0,0.1,0.2,0.3\n"


def test_a_device_may_be_read_and_written(files: Path, polyref: Callable[..., Any]) -> None:
    result = polyref("score", "refA.en", "-i", "/dev/null", "-o", "/dev/null")
    assert result.code == 1
    assert "the file is empty" in result.err


def test_standard_input(files: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    named = polyref("score", "refA.en", "-i", "poor.en", "-m", "chrf", "--json").json()["rows"][0]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("poor.en").read_bytes())))
    piped = polyref("score", "refA.en", "-i", "-", "-m", "chrf", "--json").json()["rows"][0]
    assert piped == {**named, "system": "<stdin>"}


def test_more_references_than_there_are(files: Path, polyref: Callable[..., Any]) -> None:
    outcome = polyref("score", "refs.jsonl", "-i", "good.v1.en", "-k", "3", "50", "--json")
    three, fifty = outcome.json()["rows"]
    assert three["score"] == fifty["score"]
    huge = polyref("score", "refs.jsonl", "-i", "good.v1.en", "-k", str(10**30), "--json")
    assert huge.json()["rows"][0]["score"] == three["score"]
    assert "|k:50|available:1..3|refs:2..4|" in fifty["signature"]
    assert "some segments have only 1 extra reference: -k 50 uses what there is" in outcome.err


def test_empty_lines_are_scored_and_counted(files: Path, polyref: Callable[..., Any]) -> None:
    Path("gap.en").write_text(f"{GOOD[0]}\n\n \n")
    Path("refC.en").write_text("One\n\nThree\n")
    outcome = polyref("score", "refC.en", "-i", "gap.en", "--sentence", "--json")
    assert [row["score"] for row in outcome.json()["rows"]] == [0, 0, 0]
    assert outcome.err == "polyref: warning: empty lines are scored as they are: 2 in gap.en, 1 in the references\n"


def test_a_byte_order_mark_is_left_out_and_reported(files: Path, polyref: Callable[..., Any]) -> None:
    Path("mark.en").write_bytes(b"\xef\xbb\xbf" + Path("poor.en").read_bytes())
    outcome = polyref("score", "refA.en", "-i", "poor.en", "mark.en", "-m", "chrf", "--json")
    plain, marked = outcome.json()["rows"]
    assert plain["score"] == marked["score"]
    assert "mark.en starts with a byte order mark" in outcome.err


def test_a_very_long_line(files: Path, polyref: Callable[..., Any]) -> None:
    Path("long.en").write_text(f"{GOOD[0]}\n{'word ' * 2000}\n{'x' * 10000}\n")
    ours = polyref("score", "refA.en", "refB.en", "-i", "long.en", "-m", "chrf", "-k", "0", "-b", "-w", "12")
    assert ours.out.split() == sacrebleu("refA.en", "refB.en", "-i", "long.en", "-m", "chrf", "-b", "-w", "12").split()


def test_intervals_and_paired_tests(files: Path, polyref: Callable[..., Any]) -> None:
    Path("copy.en").write_text(Path("good.v1.en").read_text())
    args = ["score", "refs.jsonl", "-i", "good.v1.en", "poor.en", "copy.en", "-m", "chrf", "-k", "0", "2", "--json"]
    alone = polyref(*args, "--confidence", "--confidence-n", "100").json()["rows"]
    assert all(row["ci"] > 0 and row["mean"] > 0 and "p_value" not in row for row in alone)
    assert alone[0]["signature"].endswith("|bs:100|rs:12345")
    paired = polyref(*args, "--paired-bs", "--paired-bs-n", "100", "--seed", "3").json()["rows"]
    assert [row["p_value"] for row in paired][::3] == [None, None]
    assert [row["p_value"] for row in paired][2::3] == [1, 1]
    assert paired[0]["signature"].endswith("|bs:100|rs:3")
    shuffled = polyref(*args, "--paired-ar", "--paired-ar-n", "200").json()["rows"]
    assert shuffled[2]["p_value"] == 1
    assert "ci" not in shuffled[0]
    assert shuffled[0]["signature"].endswith("|ar:200|rs:12345")
    shifted = polyref(*args, "--paired-bs-shift", "--paired-bs-n", "100", "--seed", "3").json()["rows"]
    assert [row["p_value"] for row in shifted][2::3] == [1, 1]
    assert [row["ci"] for row in shifted] == [row["ci"] for row in paired]
    assert shifted[0]["signature"].endswith("|bs:100|null:shift|rs:3")
    people = polyref(*args[:-1], "--paired-bs").out.splitlines()
    assert people[2].count("±") == 2 and "p =" not in people[2]
    assert people[4].count("p = 1.0000") == 2
    assert {row["p_sides"] for row in (*paired, *shuffled, *shifted)} == {"two"} and "p_sides" not in alone[0]
    told = "p-values are two-sided, against good.v1.en"
    assert told in people and told not in polyref(*args[:-1], "--confidence").out


def test_expected_credit(files: Path, polyref: Callable[..., Any]) -> None:
    args = ["score", "refs.jsonl", "-i", "poor.en", "good.v1.en", "-m", "bleu", "chrf", "-k", "0", "3", "--json"]
    best = polyref(*args).json()["rows"]
    expected = polyref(*args, "--combine", "expected", "--alpha", "0.5").json()["rows"]
    assert "|combine:expected|alpha:0.5|weights:uniform|" in expected[2]["signature"]
    assert [row["score"] for row in expected[0:2] + expected[4:6]] == [row["score"] for row in best[0:2] + best[4:6]]
    assert best[0]["score"] <= expected[2]["score"] < best[2]["score"]


def test_uses_of_one_metric_in_one_run(files: Path, polyref: Callable[..., Any]) -> None:
    base = ["score", "refs.jsonl", "-i", "poor.en", "good.v1.en", "-k", "0", "3"]
    uses = ["chrf( alpha=.5,combine=expected )", "chrf(combine=max)", "BLEU,ter"]
    rows = polyref(*base, "-m", *uses, "--json").json()["rows"]
    names = ["chrf(combine=expected, alpha=0.5)", "chrf(combine=max)", "bleu", "ter"]
    assert [row["metric"] for row in rows[::4]] == names
    alone = [
        (["chrf"], ["--combine", "expected", "--alpha", "0.5"]), (["chrf"], []), (["bleu"], []), (["ter"], [])
    ]  # fmt: skip
    found = [polyref(*base, "-m", *metric, *options, "--json").json()["rows"] for metric, options in alone]
    for row, other in zip(rows, [row for part in found for row in part], strict=True):
        assert {**row, "metric": ""} == {**other, "metric": ""}
    people = polyref(*base, "-m", *uses).out.splitlines()
    assert [name for name in names[:2] if f"{name} k=3" in people[0]] == names[:2] and "parBLEU k=3" in people[0]
    # Flags are defaults: what is written in brackets goes before them.
    both = polyref(*base, "-m", "chrf", "chrf(combine=max)", "--combine", "mean", "--json").json()["rows"]
    assert ["|combine:mean|" in row["signature"] for row in both] == [True] * 4 + [False] * 4


def test_help_shows_the_common_options_first(polyref: Callable[..., Any]) -> None:
    text = polyref("score", "--help").out
    common, *rest = text.split("\nOptions:\n")[1].split("\n\n")
    flags = [line.split()[0].rstrip(",") for line in common.splitlines() if line.startswith("  -")]
    assert flags == [
        "-i", "-m", "-k", "-sl", "--json", "-f", "-o", "--allow-missing", "--force", "--combine", "-lc", "-tok",
        "--target-lang", "-h",
    ]  # fmt: skip
    headings = [part.splitlines()[0] for part in rest if part.strip()]
    assert headings[:6] == ["Making added references:", "Files:", "How it runs:", "How references combine:",
                            "Intervals and tests:", "Options of bleu:"]  # fmt: skip
    (chrf,) = (part for part in rest if part.startswith("Options of chrf"))
    assert re.search(r"--chrf-beta N +Weight of recall. \[default: 2\] +\[x>=1\]", chrf)


def test_chinese_needs_its_tokeniser_and_the_command_says_so(files: Path, polyref: Callable[..., Any]) -> None:
    Path("zh").write_text("猫坐在垫子上，看着窗外。\n天气很好，我们去公园散步。\n")
    Path("out").write_text("猫坐在垫子上，看着外面。\n天气不错，我们去公园散步。\n")
    plain = polyref("score", "zh", "-i", "out", "-b")
    assert plain.out == "0.0\n"
    assert plain.err.count("\n") == 1 and plain.err.startswith("polyref: warning: the references are written without")
    assert "(--target-lang: zh, ja, ko)" in plain.err and "(--tokenize: char, flores200)" in plain.err
    for language in ("zh", "zh_CN"):
        told = polyref("score", "zh", "-i", "out", "-b", "--target-lang", language)
        assert (told.out, told.err) == (sacrebleu("zh", "-i", "out", "-b", "-tok", "zh"), "")
    refused = polyref("score", "zh", "-i", "out", "-m", "chrf", "--target-lang", "zh")
    assert refused.code == 2 and "--target-lang is given, but none of chrf takes it" in refused.err


def test_help_recommends_the_test_that_holds_its_level(polyref: Callable[..., Any]) -> None:
    text = " ".join(polyref("score", "--help").out.split())
    first, rest = text.index("--paired-ar "), text.index("--paired-bs-shift ")
    assert first < text.index("the test to prefer") < rest < text.index("that holds its level")
    assert "10 % of test sets instead of 5 %" in text


def test_systems_with_one_file_name(files: Path, polyref: Callable[..., Any]) -> None:
    Path("other").mkdir()
    Path("other/poor.en").write_text("\n".join(GOOD))
    rows = polyref("score", "refA.en", "-i", "poor.en", "other/poor.en", "good.v1.en", "--json").json()["rows"]
    assert [row["system"] for row in rows] == ["poor.en", "other/poor.en", "good.v1.en"]


def test_missing_references(files: Path, polyref: Callable[..., Any]) -> None:
    Path("some.jsonl").write_text(
        '{"id": "1", "refs": [{"text": "One two."}]}\n'
        '{"id": "2", "refs": [{"text": "Two.", "kind": "paraphrase"}]}\n'
        '{"id": "3", "refs": []}\n'
    )
    refused = polyref("score", "some.jsonl", "-i", "good.v1.en", "-k", "0")
    assert refused.code == 1
    assert "segment 2 has no reference with k = 0" in refused.err
    assert "2 of 3 segments have none (give it one, ask for larger k, or allow missing references (" in refused.err
    done = polyref("score", "some.jsonl", "-i", "good.v1.en", "--allow-missing", "--sentence", "--json")
    rows = done.json()["rows"]
    assert [row["score"] is None for row in rows] == [False, True, True, False, False, True]
    assert [row["missing"] for row in rows] == [2, 2, 2, 1, 1, 1]
    assert "|refs:0..1|missing:2|" in rows[0]["signature"] and "|refs:0..1|missing:1|" in rows[3]["signature"]
    for k, count in ((0, 2), (1, 1)):
        assert f"{count} of 3 segments have no reference with -k {k} and are left out" in done.err


def test_digits(files: Path, polyref: Callable[..., Any]) -> None:
    command = ("score", "refA.en", "-i", "poor.en", "-m", "bleu", "bertscore", "--score-only", "--no-cache")
    bleu, bertscore = polyref(*command).out.split()
    assert len(bleu.partition(".")[2]) == 1 and len(bertscore.partition(".")[2]) == 4
    assert [len(score.partition(".")[2]) for score in polyref(*command, "-w", "2").out.split()] == [2, 2]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("-m bleu -tok intl", "-m bleu --tokenize intl"),
        ("-m bleu -s floor -sv 0.2", "-m bleu --smooth-method floor --smooth-value 0.2"),
        ("-m bleu chrf ter -lc", "-m bleu chrf ter --lowercase"),
        ("-m chrf -cc 4", "-m chrf --chrf-char-order 4"),
        ("-m bleu -sl", "-m bleu --sentence"),
        ("-m bleu --sentence-level", "-m bleu --sentence"),
        ("-m bleu -ci -cin 50", "-m bleu --confidence --confidence-n 50"),
        ("-m bleu -par -parn 50", "-m bleu --paired-ar --paired-ar-n 50"),
        ("-m bleu -pbs -pbsn 50", "-m bleu --paired-bs --paired-bs-n 50"),
        ("-m bleu -b", "-m bleu --score-only"),
        ("-m chrf++ -cw 1 -w 4", "-m chrf++ --chrf-word-order 1 --width 4"),
        ("-m bleu -f json", "-m bleu --json"),
        ("-m bleu --format text", "-m bleu"),
    ],
)
def test_the_spellings_of_sacrebleu(files: Path, polyref: Callable[..., Any], theirs: str, ours: str) -> None:
    base = ("score", "refA.en", "refB.en", "-i", "good.v1.en", "poor.en", "-k", "0")
    found, expected = polyref(*base, *theirs.split()), polyref(*base, *ours.split())
    assert (found.code, found.out, found.err) == (0, expected.out, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["-m", "bleu"], ["-m", "bleu", "-tok", "char", "-lc"], ["-m", "bleu", "-s", "add-k"], ["-m", "chrf"],
     ["-m", "ter"]],
)  # fmt: skip
def test_short_signatures_have_the_keys_of_sacrebleu(
    files: Path, polyref: Callable[..., Any], options: list[str]
) -> None:
    theirs = sacrebleu("refA.en", "refB.en", "-i", "good.v1.en", *options, "-f", "text", "-sh").partition(" = ")[0]
    base = ("score", "refA.en", "refB.en", "-i", "good.v1.en", *options)
    for short in ("-sh", "--short"):
        ours = polyref(*base, short).out.splitlines()[-1].split("|")
        assert set(theirs.split("|")[1:]) <= set(ours)
        row = polyref(*base, short, "--json").json()["rows"][0]
        assert row["signature"] == "|".join(ours)


def test_what_bleu_is_made_of(files: Path, polyref: Callable[..., Any]) -> None:
    Path("zero.en").write_text("x\ny\nz\n")
    for options in ([], ["--smooth-method", "none"], ["-s", "add-k"], ["-lc"]):
        base = ("score", "refA.en", "refB.en", "-i", "poor.en", "good.v1.en", "zero.en", "-k", "0", *options)
        rows = polyref(*base, "--json", "-m", "bleu", "chrf").json()["rows"]
        assert "bp" not in rows[-1] and "bp" not in polyref(*base, "--json", "--sentence").json()["rows"][0]
        peer = BLEU(smooth_method=options[1] if len(options) > 1 else "exp", lowercase="-lc" in options)
        references = [Path(name).read_text().splitlines() for name in ("refA.en", "refB.en")]
        shown = polyref(*base, "-v").out
        for row in rows[:3]:
            theirs = peer.corpus_score(Path(row["system"]).read_text().splitlines(), references)
            assert row["precisions"] == pytest.approx(theirs.precisions, rel=1e-15)
            for key in ("bp", "ratio", "sys_len", "ref_len"):
                assert row[key] == getattr(theirs, key), key
            (line,) = (line for line in shown.splitlines()[6:] if line.startswith(row["system"]))
            _, name, precisions, bp, ratio, hyp_len, ref_len = line.split()
            written = f"{precisions} (BP = {bp} ratio = {ratio} hyp_len = {hyp_len} ref_len = {ref_len})"
            assert (name, written) == ("BLEU", theirs._verbose.strip())
        assert "BP" not in polyref(*base).out
    extra = polyref("score", "refs.jsonl", "-i", "good.v1.en", "-k", "1", "-v", "-m", "bleu(combine=mean)").out
    assert "bleu(combine=mean) k=1  " in extra.splitlines()[6]


def test_quiet(files: Path, polyref: Callable[..., Any]) -> None:
    Path("gap.en").write_bytes(b"\xef\xbb\xbfone\n\nthree\n")
    loud = polyref("score", "refA.en", "-i", "gap.en")
    assert loud.err.count("warning: ") == 2
    for flag in ("-qq",):
        quiet = polyref("score", "refA.en", "-i", "gap.en", flag)
        assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")
    assert "no such file" in polyref("score", "none", "-i", "gap.en", "-qq").err


@pytest.mark.parametrize(("lines", "options", "warned"), [
    (100, [], True), (99, [], False), (100, ["-m", "chrf"], False), (100, ["-tok", "none"], False),
])  # fmt: skip
def test_tokenised_text_is_named_as_by_sacrebleu(
    files: Path, polyref: Callable[..., Any], lines: int, options: list[str], warned: bool
) -> None:
    Path("many.ref").write_text("The ferry leaves.\n" * 120)
    Path("tokenised.en").write_text("The ferry leaves .\n" * lines + "The ferry leaves.\n" * (120 - lines))
    err = polyref("score", "many.ref", "-i", "tokenised.en", "many.ref", *options).err
    assert ("100 in tokenised.en" in err and "look tokenised" in err) is warned
    assert "in many.ref" not in err


BAD: list[tuple[str, list[str], int, list[str]]] = [
    ("missing references", ["none.en", "-i", "poor.en"], 1, ["none.en: no such file"]),
    ("missing system", ["refA.en", "-i", "none.en"], 1, ["none.en: no such file"]),
    ("empty references", ["empty", "-i", "poor.en"], 1, ["empty: the file is empty"]),
    ("empty system", ["refA.en", "-i", "empty"], 1, ["empty: the file is empty"]),
    ("lengths", ["refA.en", "-i", "poor.en", "two"], 1, ["two: has 2 segments", "refA.en has 3"]),
    ("lengths of references", ["refA.en", "two", "-i", "poor.en"], 1, ["two: has 2 segments", "refA.en has 3"]),
    ("not UTF-8", ["refA.en", "-i", "latin1"], 1, ["latin1:2: invalid UTF-8: byte 0xe9 at column 4"]),
    ("NUL", ["refA.en", "-i", "nul"], 1, ["nul:1: NUL byte at column 3"]),
    ("broken JSONL", ["broken.jsonl", "-i", "poor.en"], 1, ["broken.jsonl:2: not valid JSON"]),
    (
        "output folder",
        ["refA.en", "-i", "poor.en", "-o", "none/out"],
        1,
        ["none/out: cannot be written", "no directory"],
    ),
    ("output is a folder", ["refA.en", "-i", "poor.en", "-o", "."], 1, ["is a directory"]),
    ("twice", ["refA.en", "-i", "poor.en", "poor.en"], 2, ["-i names poor.en twice"]),
    ("standard input twice", ["-", "-i", "-"], 2, ["standard input (-) is named twice"]),
    ("no system", ["refA.en"], 2, ["missing option '-i'"]),
    ("no references", ["-i", "poor.en"], 2, ["Missing argument 'REFS...'"]),
    ("unknown metric", ["refA.en", "-i", "poor.en", "-m", "blue"], 2, ["unknown metric 'blue', did you mean bleu?"]),
    ("unknown option", ["refA.en", "-i", "poor.en", "-m", "chrf(combin=max)"], 2, ["did you mean combine?"]),
    (
        "metric with added references",
        ["refA.en", "-i", "poor.en", "-m", "parchrf++"],
        2,
        [
            "parchrf++ is chrf++ with added references, but the references have none",
            "polyref augment",
            "ask for chrf++",
        ],
    ),
    (
        "metric without its added references",
        ["refs.jsonl", "-i", "poor.en", "-m", "parbleu", "-k", "0"],
        2,
        ["parbleu is bleu with added references, but -k is 0 (ask for more; or ask for bleu)"],
    ),
    (
        "k without added references",
        ["refA.en", "refB.en", "-i", "poor.en", "-k", "0", "10"],
        2,
        ["-k asks for 10 added references, but the references have none", "polyref augment"],
    ),
    (
        "a reference set as a system",
        ["refA.en", "-i", "refs.jsonl"],
        2,
        ["refs.jsonl: is in the simple form, which holds references", "name a file of outputs"],
    ),
    ("negative k", ["refA.en", "-i", "poor.en", "-k", "-1"], 2, ["-1 is not in the range"]),
    ("tokeniser", ["refA.en", "-i", "poor.en", "--tokenize", "moses"], 2, ["'moses' is not one of 'none'"]),
    ("smoothing", ["refA.en", "-i", "poor.en", "--smooth-method", "x"], 2, ["'x' is not one of 'none'"]),
    ("combination", ["refA.en", "-i", "poor.en", "--combine", "sum"], 2, ["'sum' is not one of 'max'"]),
    (
        "no log-probability",
        ["refs.jsonl", "-i", "poor.en", "--combine", "mean", "--weights", "logprob"],
        1,
        ["segment a"],
    ),
    ("two tests", ["refA.en", "-i", "poor.en", "good.v1.en", "--paired-bs", "--paired-ar"], 2, ["choose one of"]),
    (
        "two layouts",
        ["refA.en", "-i", "poor.en", "--json", "-f", "text"],
        2,
        ["--json and --format text contradict each other"],
    ),
    ("test of one", ["refA.en", "-i", "poor.en", "--paired-ar"], 2, ["--paired-ar compares systems, but -i names one"]),
    (
        "test of sentences",
        ["refA.en", "-i", "poor.en", "--confidence", "--sentence"],
        2,
        ["has no use with --sentence"],
    ),
    (
        "idle option",
        ["refA.en", "-i", "poor.en", "--chrf-beta", "3"],
        2,
        ["--chrf-beta is given, but none of bleu takes it (it is for chrf)"],
    ),
]


@pytest.mark.parametrize(("args", "code", "messages"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input(args: list[str], code: int, messages: list[str], files: Path, polyref: Callable[..., Any]) -> None:
    Path("empty").touch()
    Path("two").write_text("one\ntwo\n")
    Path("latin1").write_bytes("fine\ncafé\nfine\n".encode("latin-1"))
    Path("nul").write_bytes(b"ab\0c\nfine\nfine\n")
    Path("broken.jsonl").write_text(json.dumps(SEGMENTS[0]) + '\n{"id": 2, "reference": "cut\n')
    before = sorted(path.name for path in files.iterdir())
    outcome = polyref("score", *args)
    assert outcome.code == code
    assert outcome.out == ""
    for message in messages:
        assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert sorted(path.name for path in files.iterdir()) == before


def test_wmt22_as_the_command_prints_it(data_dir: Path, polyref: Callable[..., Any]) -> None:
    home = data_dir / "wmt22"
    outputs = [str(path) for path in sorted((home / "system-outputs" / "zh-en").glob("*.txt"))[:2]]
    refs = home / "references" / "zh-en.refA.txt"
    simple = home / "paraphrases" / "zh-en.refA.jsonl"
    ours = polyref("score", simple, "-i", *outputs, "-m", "bleu", "-k", "0", "-w", "10", "-b").out.split()
    theirs = [sacrebleu(str(refs), "-i", output, "-b", "-w", "10").strip() for output in outputs]
    assert ours == theirs


@pytest.mark.parametrize(
    ("flags", "option"),
    [
        (["--alpha", "0.5"], "--alpha"),
        (["--weights", "given"], "--weights"),
        (["--combine", "expected", "--gamma", "3"], "--gamma"),
    ],
)
def test_options_that_change_nothing_are_refused(
    files: Path, polyref: Callable[..., Any], flags: list[str], option: str
) -> None:
    found = polyref("score", "refs.jsonl", "-i", "good.v1.en", "-m", "bleu", *flags)
    assert found.code == 2
    assert f"{option} is given, but has no use" in found.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_read_once(files: Path, polyref: Callable[..., Any]) -> None:
    os.mkfifo("outputs")
    with subprocess.Popen(["sh", "-c", "cat good.v1.en > outputs"]) as writer:
        found = polyref("score", "refA.en", "-i", "outputs", "-m", "bleu")
        writer.wait(timeout=10)
    assert found.code == 0, found.err


@pytest.mark.slow
def test_references_between_tabs(files: Path, polyref: Callable[..., Any]) -> None:
    columns = [Path(name).read_text("utf-8").splitlines() for name in ("refA.en", "refB.en")]
    Path("both.tsv").write_text("".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)), "utf-8")
    both = polyref("score", "both.tsv", "-nr", "2", "-i", "good.v1.en", "-k", "0", "--json")
    assert both.out == polyref("score", "refA.en", "refB.en", "-i", "good.v1.en", "-k", "0", "--json").out
    theirs = sacrebleu("both.tsv", "-nr", "2", "-i", "good.v1.en", "-b", "-w", "10").strip()
    assert (
        polyref("score", "both.tsv", "-nr", "2", "-i", "good.v1.en", "-k", "0", "-b", "-w", "10").out.strip() == theirs
    )
    run = polyref("score", "both.tsv", "-nr", "3", "-i", "good.v1.en", "-k", "0")
    assert (run.code, "both.tsv:1: 2 references in the line, expected 3 with tabs" in run.err) == (1, True)
    run = polyref("score", "refA.en", "refB.en", "-nr", "2", "-i", "good.v1.en", "-k", "0")
    assert (run.code, "--num-refs splits the lines of one file, but there are 2" in run.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "gb18030", "utf-8"])
def test_other_encodings(files: Path, polyref: Callable[..., Any], encoding: str) -> None:
    texts = {"ref": "Müller öffnet die Tür heute\n", "out": "Müller öffnet eine Tür heute\n"}
    for name, text in texts.items():
        Path(name).write_text(text, "utf-8")
        Path(f"{name}.old").write_text(text, encoding)
    options = ("-m", "chrf", "-k", "0", "-b", "-w", "10")
    found = polyref("score", "ref.old", "-i", "out.old", "-e", encoding, *options)
    assert found.out == polyref("score", "ref", "-i", "out", *options).out
    assert (
        found.out.strip() == sacrebleu("ref.old", "-i", "out.old", "-e", encoding, *options[:2], *options[4:]).strip()
    )


SGML = '<refset setid="t" srclang="any" trglang="en"><doc docid="d">\n{}</doc></refset>\n'


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "latin-1"])
def test_an_encoding_leaves_the_form_alone(files: Path, polyref: Callable[..., Any], encoding: str) -> None:
    texts = ["Müller öffnet die Tür heute", "Nimm einen Mantel mit"]
    Path("plain").write_text("".join(f"{text}\n" for text in texts), encoding)
    segments = "".join(f'<seg id="{number}">{text}</seg>\n' for number, text in enumerate(texts, 1))
    Path("refs.sgm").write_text(SGML.format(segments), encoding)
    table = "".join(f"{number}\t{text}\n" for number, text in enumerate(texts, 1))
    Path("refs.tsv").write_text(f"mine\ttheirs\n{table}", encoding)
    Path("data").write_text(f"id\treference\n{table}", encoding)
    base = ("-i", "plain", "-m", "chrf", "-k", "0", "-b", "-e", encoding)
    for given in (["plain"], ["refs.sgm"], ["refs.tsv", "--fields", "theirs=reference"],
                  ["data", "--refs-format", "tsv"]):  # fmt: skip
        run = polyref("score", *given, *base)
        assert (run.code, run.out) == (0, "100.0\n"), run.err


def test_splitting_lines_is_for_plain_text(files: Path, polyref: Callable[..., Any]) -> None:
    Path("refs.sgm").write_text(SGML.format('<seg id="1">a b</seg>\n'))
    for given, why in (
        (["refs.sgm"], "refs.sgm is no plain text"),
        (["refA.en", "--refs-format", "tsv"], "not for the tsv form"),
        (["refA.en", "--fields", "a=reference"], "which has no --fields"),
    ):
        run = polyref("score", *given, "-i", "good.v1.en", "-nr", "1", "-k", "0")
        assert run.code == 2 and why in run.err


def test_encodings_that_cannot_be_read(files: Path, polyref: Callable[..., Any]) -> None:
    Path("ref").write_bytes(b"a\n\xff\xff\xff\n")
    base = ("score", "ref", "-i", "ref", "-k", "0")
    run = polyref(*base, "-e", "shift_jis")
    assert (run.code, "ref:2: invalid shift_jis: byte 0xff at column 1" in run.err) == (1, True)
    for name, why in (
        ("nonsense", "which Python does not know"),
        ("base64", "does not know"),
        ("utf-16", "cannot be told"),
    ):
        run = polyref(*base, "-e", name)
        assert (run.code, f"--encoding is '{name}'" in run.err and why in run.err) == (2, True), run.err
    run = polyref("score", "refs.jsonl", "-i", "ref", "-e", "latin-1")
    assert (run.code, "refs.jsonl is a reference set: --encoding is for plain text" in run.err) == (2, True)
    Path("half").write_bytes(b"+2AA-\n")
    run = polyref("score", "half", "-i", "half", "-e", "utf-7", "-k", "0")
    assert (run.code, "half:1: invalid utf-7: half of a surrogate pair" in run.err) == (1, True)


def test_a_table_for_latex(files: Path, polyref: Callable[..., Any]) -> None:
    Path("a_b&c%").write_text(Path("good.v1.en").read_text("utf-8"), "utf-8")
    base = ("score", "refA.en", "-i", "good.v1.en", "a_b&c%", "-m", "bleu", "chrf", "-k", "0")
    lines = polyref(*base, "-f", "latex").out.splitlines()
    assert lines[:2] == [r"\begin{tabular}{lrr}", r"\toprule"]
    bleu = polyref(*base, "-f", "text").out.splitlines()[2].split()[1]
    assert lines[4].startswith(f"good.v1.en & {bleu} & ") and lines[5].startswith(rf"a\_b\&c\% & {bleu} & ")
    assert lines[6:8] == [r"\bottomrule", r"\end{tabular}"]
    assert [line.split("|")[0] for line in lines[8:]] == ["% BLEU", "% chrF"]
    tested = polyref(*base, "-f", "latex", "--paired-bs-shift").out
    assert r"$\pm$" in tested and "±" not in tested
    run = polyref(*base, "-f", "latex", "--json")
    assert (run.code, "contradict each other" in run.err) == (2, True)


def test_a_reference_as_a_system_is_noticed(files: Path, polyref: Callable[..., Any]) -> None:
    outcome = polyref("score", "refA.en", "refB.en", "-i", "good.v1.en", "refB.en", "-w", "1")
    assert outcome.code == 0
    assert outcome.err == "polyref: note: refB.en equals reference 2 line for line: is it the output of a system?\n"
    one = polyref("score", "refs.jsonl", "-i", "refA.en", "-k", "0")
    assert "note: refA.en equals the reference line for line" in one.err
    assert polyref("score", "refs.jsonl", "-i", "refA.en", "-k", "0", "-q").err == ""
    assert polyref("score", "refs.jsonl", "-i", "good.v1.en", "-k", "0").err == ""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
KEYS = ["set", "pair", "generator", "originals", "gold", "level", "metric", "k", "statistic", "value", "gain", "ci",
        "gain_ci", "n", "segments", "p", "p_perm_both", "p_adjusted", "signature"]  # fmt: skip


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIMAL, tmp_path / "minimal"))


@pytest.fixture
def augmented(minimal: Path) -> list[str]:
    return [str(minimal), "-l", "de-en", "--ref", "refA", "--refs", str(minimal / "paraphrases/de-en.refA.jsonl")]


def _row(rows: list[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


def test_json(polyref: Callable[..., Any], augmented: list[str]) -> None:
    run = polyref("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "chrf++", "length", "-k", "0", "1", "--json")
    assert run.code == 0
    answer = run.json()
    assert list(answer) == ["signature", "rows"]
    for part in ("set:minimal", "pair:de-en", "gold:mqm", "ref:refA", "seed:1", "bootstrap:segments*1000"):
        assert part in answer["signature"].split("|")
    rows = answer["rows"]
    assert all(list(row) == KEYS for row in rows)
    assert {(row["level"], row["metric"], row["k"]) for row in rows} == {
        (level, metric, k)
        for level in ("sys", "seg")
        for metric, k in [("bleu", 0), ("bleu", 1), ("chrf++", 0), ("chrf++", 1), ("length", None)]
    }
    base, more = (_row(rows, level="seg", metric="bleu", k=k) for k in (0, 1))
    assert base["statistic"] == "kendall-tau-b"
    assert more["gain"] == pytest.approx(more["value"] - base["value"])
    assert more["gain_ci"][0] <= more["gain"] <= more["gain_ci"][1]
    assert base["ci"][0] <= base["value"] <= base["ci"][1]
    assert (base["gain"], base["gain_ci"], base["n"]) == (0, [0, 0], 14)
    assert base["signature"].startswith("BLEU|nrefs:1|")
    assert more["signature"].startswith("parBLEU|nrefs:2|")
    assert "left out: refB" in run.err


def test_the_gain_is_over_k_0_even_when_it_is_not_printed(polyref: Callable[..., Any], augmented: list[str]) -> None:
    arguments = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "--json", "-n", "50")
    alone = polyref(*arguments, "-k", "2").json()["rows"]
    both = polyref(*arguments, "-k", "0", "2").json()["rows"]
    assert {row["k"] for row in alone} == {2}
    assert alone == [row for row in both if row["k"] == 2]
    # The default: the plain metric and everything there is.
    assert polyref(*arguments).json()["rows"] == both


def test_same_command_same_bytes(augmented: list[str]) -> None:
    arguments = [*augmented, "--gold", "darr", "-m", "chrf", "--json", "-n", "100"]
    command = [sys.executable, "-c", "from polyref.cli.main import main; main()", "evaluate", *arguments]
    first, second = (subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2))
    assert first == second
    seeded = subprocess.run([*command, "--seed", "2"], check=True, capture_output=True).stdout
    assert json.loads(seeded)["rows"][0]["ci"] != json.loads(first)["rows"][0]["ci"]


def test_table(polyref: Callable[..., Any], augmented: list[str]) -> None:
    run = polyref("evaluate", *augmented, "-m", "chrf", "-k", "0", "1", "-n", "20")
    assert run.code == 0
    header, _, first, *_ = run.out.splitlines()
    assert header.split()[:6] == ["gold", "level", "metric", "k", "statistic", "value"]
    # Relative rankings are the default where there are any.
    assert first.split()[:5] == ["wmt-z", "sys", "chrf", "0", "pearson"]
    for statistic in ("kendall-darr ", "kendall-darr-without-ties", "tie-rate"):
        assert run.out.count(statistic) == 2
    assert "parCHRF|" in run.out


def test_options_reach_the_metric(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "--json")
    options = ("--chrf-word-order", "1", "--chrf-beta", "3", "--tokenize", "char", "-lc", "--smooth-method", "floor")
    rows = polyref(*base, "-m", "chrf++", "bleu", *options).json()["rows"]
    assert all(part in rows[0]["signature"] for part in ("nw:1", "beta:3", "case:lc"))
    assert all(part in rows[1]["signature"] for part in ("tok:char", "case:lc", "smooth:floor[0.10]"))


def test_the_tokeniser_follows_the_target_language(polyref: Callable[..., Any], minimal: Path) -> None:
    for path in sorted(minimal.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", "en-zh")))
    run = polyref(
        "evaluate", minimal, "-l", "en-zh", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0", "--json"
    )
    assert "|tok:zh|" in run.json()["rows"][0]["signature"]


def test_people_can_be_systems(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0", "--json")
    assert {row["n"] for row in polyref(*base).json()["rows"]} == {3, 14}
    assert {row["n"] for row in polyref(*base, "--include-human").json()["rows"]} == {4, 19}


def test_score_files(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--gold", "wmt-z", "--json")
    (row,) = polyref(*base, "-m", "Adequacy-2", "--ref", "refB").json()["rows"]
    assert (row["k"], row["gain"], row["ci"], row["segments"]) == (None, None, None, None)
    (minimal / "metric-scores/de-en/bleu-refA.sys.score").write_text("Alpha 1\nBeta.1 2\nGamma-2 3\n")
    (row,) = polyref(*base, "-m", "stored:bleu").json()["rows"]
    assert row["value"] == pytest.approx(-0.9177, abs=1e-4)
    shutil.rmtree(minimal / "system-outputs")
    shutil.rmtree(minimal / "references")
    (minimal / "darr/de-en.tsv").unlink()
    # Without texts there are only score files: the name alone is enough.
    (again,) = polyref(*base, "-m", "bleu").json()["rows"]
    assert again["value"] == row["value"]
    run = polyref(*base, "-m", "chrf")
    assert run.code == 2
    assert "no stored scores of 'chrf'" in run.err


def _append(name: str, text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with (root / name).open("a") as stream:
            stream.write(text)

    return change


def _replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new, 1))

    return change


def _rename(old: str, new: str) -> Callable[[Path], None]:
    return lambda root: (root / old).rename(root / new) and None


SYS, SEG = "human-scores/de-en.mqm.sys.score", "human-scores/de-en.mqm.seg.score"
REFERENCE, OTHER = "references/de-en.refA.txt", "system-outputs/de-en/Beta.1.txt"
BAD_INPUT = {
    "unknown system judged": (_append(SYS, "Delta\t1\n"), "mqm.sys.score: judges the unknown system 'Delta'"),
    "duplicate row": (_append(SYS, "Alpha\t1\n"), "mqm.sys.score:5: system 'Alpha' has a second score"),
    "NaN": (_replace(SYS, "-0.4", "nan"), "mqm.sys.score:1: the score is 'nan'"),
    "missing judgement": (
        _replace(SEG, "Beta.1\t-2\n", ""),
        "mqm.seg.score:9: system 'Beta.1' has 4 segments, expected 5",
    ),
    "not judged but not None": (_replace(SEG, "\tNone", "\t"), "mqm.seg.score:12: 1 columns, expected 2"),
    "wrong columns": (_replace(SYS, "Alpha\t", "Alpha\trefA\t"), "mqm.sys.score:1: 3 columns, expected 2"),
    "dot in a reference's name": (
        _rename(REFERENCE, "references/de-en.ref.A.txt"),
        "the reference name 'ref.A' is not allowed",
    ),
    "dash in a reference's name": (
        _rename(REFERENCE, "references/de-en.ref-A.txt"),
        "the reference name 'ref-A' is not allowed",
    ),
    "short output": (
        _replace(OTHER, "Tomorrow it rains.\n", ""),
        "Beta.1.txt: has 4 segments, but",
    ),
    "short reference": (
        _replace(REFERENCE, "It will rain tomorrow.\n", ""),
        "refB.txt: has 5 segments, but",
    ),
    "short source": (_replace("sources/de-en.txt", "Morgen regnet es.\n", ""), "sources/de-en.txt: has 4 segments, but"),
    "missing output": (
        lambda root: (root / OTHER).unlink(),
        "judges the unknown system 'Beta.1'",
    ),
    "invalid UTF-8": (
        lambda root: (root / "system-outputs/de-en/Alpha.txt").write_bytes(b"a\n\xff\n") and None,
        "Alpha.txt:2: invalid UTF-8",
    ),
    "NUL": (_append(REFERENCE, "a\0b\n"), "refA.txt:6: NUL byte"),
    "empty file": (lambda root: (root / SYS).write_text("") and None, "mqm.sys.score: the file is empty"),
    "broken JSONL": (_append("paraphrases/de-en.refA.jsonl", "{\n"), "refA.jsonl:6:"),
    "more segments": (
        _append("paraphrases/de-en.refA.jsonl", '{"id": 6, "reference": "a", "paraphrases": []}\n'),
        "has 6 segments, but",
    ),
}


@pytest.mark.parametrize("fault", BAD_INPUT)
def test_bad_input(polyref: Callable[..., Any], minimal: Path, augmented: list[str], fault: str) -> None:
    change, message = BAD_INPUT[fault]
    change(minimal)
    run = polyref("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-n", "10", "--json")
    assert run.code == 1
    assert run.out == ""
    (line,) = [line for line in run.err.splitlines() if "note:" not in line]
    assert line.startswith("polyref: error: ")
    assert message in line


def test_windows_line_ends_change_nothing(polyref: Callable[..., Any], minimal: Path, augmented: list[str]) -> None:
    arguments = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-n", "10", "--json")
    before = polyref(*arguments)
    for path in minimal.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert polyref(*arguments).out == before.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-l", "fr-en"], "nothing for the pair 'fr-en'; pairs found: de-en"),
        (["-l", "de-en", "--gold", "esa"], "no judgement 'esa' for de-en, there are: darr, mqm, wmt-z"),
        (["-l", "de-en"], "de-en has several references: refA, refB (choose with --ref)"),
        (["-l", "de-en", "--ref", "refC"], "no reference 'refC'"),
        (["-l", "de-en", "--ref", "refA", "-k", "3"], "k = 3 without added references (give them with --refs)"),
        (["-l", "de-en", "--ref", "refA", "-m", "COMET"], "no stored scores of 'COMET' for de-en, there are:"),
        (["-l", "de-en", "--ref", "refA", "-m", "bleu", "--chrf-beta", "3"], "--chrf-beta is given, but none of"),
        (["-l", "de-en", "-m", "length", "-lc"], "have no use"),
        (["-l", "de-en", "--ref", "refA", "--sys-gold", "esa"], "no system-level judgement 'esa'"),
        (["-l", "de-en", "--ref", "refA", "-k", "-1"], "-1 is not in the range"),
        (["-l", "de-en", "--ref", "refA", "--confidence", "1"], "1.0 is not in the range"),
    ],
)
def test_bad_usage(polyref: Callable[..., Any], minimal: Path, arguments: list[str], message: str) -> None:
    run = polyref("evaluate", minimal, *arguments)
    assert run.code == (1 if "fr-en" in arguments else 2)
    assert message in run.err
    assert "Traceback" not in run.err
    assert run.out == ""


def test_no_directory(polyref: Callable[..., Any], tmp_path: Path) -> None:
    run = polyref("evaluate", tmp_path / "nowhere", "-l", "de-en")
    assert (run.code, run.out) == (1, "")
    assert "nowhere: no such directory" in run.err


def test_several_judgements_and_none_chosen(polyref: Callable[..., Any], minimal: Path) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA")
    assert run.code == 2
    assert "de-en has several judgements: mqm, wmt-z (choose with --gold)" in run.err
    shutil.rmtree(minimal / "human-scores")
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA")
    assert run.code == 2
    assert "no human judgements" in run.err


def test_more_references_than_there_are(polyref: Callable[..., Any], augmented: list[str]) -> None:
    run = polyref("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-k", "2", "9", "-n", "10", "--json")
    assert run.code == 0
    assert "warning: some segments have only 1 extra references: -k 9 uses what there is" in run.err
    rows = run.json()["rows"]
    two, nine = (_row(rows, level="sys", k=k) for k in (2, 9))
    assert two["value"] == nine["value"]
    assert "available:1..2" in nine["signature"]


def test_partly_unknown_outputs_are_mentioned(polyref: Callable[..., Any], minimal: Path) -> None:
    _replace(OTHER, "Tomorrow it rains.", "")(minimal)
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "10", "--json")
    assert "systems are scored on the 4 segments whose outputs are all known" in run.err
    assert _row(run.json()["rows"], level="sys")["segments"] == 4
    # A ranking of an unknown output is a fault of the data.
    _append("darr/de-en.tsv", "4\tBeta.1\tGamma-2\n")(minimal)
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "10", "--json")
    assert run.code == 1
    assert "segment 4" in run.err and "Beta.1" in run.err


def test_the_best_systems(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "chrf", "-n", "0", "--json")
    answer = polyref(*base, "--top", "2").json()
    assert {row["n"] for row in answer["rows"]} == {2, 10}
    assert "without:Gamma-2" in answer["signature"]
    run = polyref(*base, "--top", "4")
    assert (run.code, "--top 4, but 3 systems have a human score" in run.err) == (2, True)

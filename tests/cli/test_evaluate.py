from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wmt_json

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
KEYS = ["set", "pair", "generator", "originals", "gold", "level", "metric", "k", "statistic", "value", "gain", "ci",
        "gain_ci", "n", "segments", "references", "without_added", "p", "p_williams", "p_perm_both", "p_adjusted",
        "p_sides", "redrawn", "verdict", "signature"]  # fmt: skip


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
    assert list(answer) == ["signature", "rows", "circular"]
    for part in ("set:minimal", "pair:de-en", "gold:mqm", "ref:refA", "seed:1", "bootstrap:segments*1000"):
        assert part in answer["signature"].split("|")
    rows = answer["rows"]
    assert all(list(row) == KEYS for row in rows)
    assert {(row["level"], row["metric"], row["k"]) for row in rows} == {
        (level, metric, k)
        for level in ("sys", "seg")
        for metric, k in [("bleu", 0), ("bleu", 1), ("chrf++", 0), ("chrf++", 1), ("length", None)]
    }
    base, more = (_row(rows, statistic="kendall-tau-b", metric="bleu", k=k) for k in (0, 1))
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


@pytest.mark.slow
def test_same_command_same_bytes(augmented: list[str]) -> None:
    arguments = [*augmented, "--gold", "darr", "-m", "chrf", "--json", "-n", "100"]
    command = [sys.executable, "-c", "from polyref.cli.main import main; main()", "evaluate", *arguments]
    first, second = (subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2))
    assert first == second
    seeded = subprocess.run([*command, "--seed", "2"], check=True, capture_output=True).stdout
    one, other = (_row(json.loads(out)["rows"], level="sys", k=2)["ci"] for out in (seeded, first))
    assert one != other


def test_table(polyref: Callable[..., Any], augmented: list[str]) -> None:
    run = polyref("evaluate", *augmented, "-m", "chrf", "-k", "0", "1", "-n", "20")
    assert run.code == 0
    headline, _, title, header, _, first, *_ = run.out.splitlines()
    assert headline == (
        "Agreement with people: minimal de-en; 95 % intervals: segments redrawn 20 times; gains over the same metric "
        "with k = 0; p-values are one-sided, verdicts two-sided at 5 %."
    )
    # Relative rankings are the default where there are any; the rate of ties stands beside what leaves them out.
    assert title == "Kendall's τ (without ties) within segments ↑, DARR, 7 rankings"
    assert re.split(" {2,}", header)[:7] == ["metric", "k", "refs", "value", "95 %", "ties", "gain"]
    assert first.split()[:3] == ["chrF", "0", "1"]
    titles = [block.splitlines()[0] for block in run.out.split("\n\n")[1:-2]]
    assert "\n\nThe control was not run: " in run.out
    assert [one.split(",")[0] for one in titles] == [
        "Kendall's τ (without ties) within segments ↑",
        "Kendall's τ (ties discordant) within segments ↑",
        "Pearson's r of systems ↑",
    ]
    (found,) = re.findall("Signature: ([0-9a-f]{10}) ", run.out)
    told = polyref("info", found).out
    assert told.startswith("set:minimal|") and "\nparCHRF|" in told
    full = polyref("evaluate", *augmented, "-m", "chrf", "-k", "0", "1", "-n", "20", "-v").out
    assert told.splitlines() == full.splitlines()[-3:]


def test_options_reach_the_metric(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "--json")
    options = ("--chrf-word-order", "1", "--chrf-beta", "3", "--tokenize", "char", "-lc", "--smooth-method", "floor")
    rows = polyref(*base, "-m", "chrf++", "bleu", *options).json()["rows"]
    chrf, bleu = (_row(rows, level="sys", metric=name)["signature"] for name in ("chrf++", "bleu"))
    assert all(part in chrf for part in ("nw:1", "beta:3", "case:lc"))
    assert all(part in bleu for part in ("tok:char", "case:lc", "smooth:floor[0.10]"))


def test_uses_of_one_metric_in_one_run(polyref: Callable[..., Any], augmented: list[str]) -> None:
    base = ("evaluate", *augmented, "--gold", "mqm", "-n", "0", "-k", "0", "1", "--json")
    rows = polyref(*base, "-m", "chrf( beta=3,combine=expected )", "bleu,chrf", "-lc").json()["rows"]
    assert list(dict.fromkeys(row["metric"] for row in rows)) == ["chrf(combine=expected, beta=3)", "bleu", "chrf"]
    alone = polyref(*base, "-m", "chrf", "--combine", "expected", "--chrf-beta", "3", "-lc").json()["rows"]
    ours = [row for row in rows if row["metric"].startswith("chrf(")]
    assert [{**row, "metric": "chrf"} for row in ours] == alone
    compared = polyref(*base, "-m", "chrf(combine=expected)", "chrf", "--baseline", "chrf( combine = expected )")
    assert compared.code == 0, compared.err
    refused = polyref(*base, "-m", "chrf(betta=3)")
    assert refused.code == 2 and "chrf has no option 'betta'" in refused.err


@pytest.mark.parametrize("pair", ["en-zh", "en-zh_CN", "en-zh-Hans-CN", "eng-zho_Hans"])
def test_the_tokeniser_follows_the_target_language(polyref: Callable[..., Any], minimal: Path, pair: str) -> None:
    for path in sorted(minimal.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", pair)))
    run = polyref("evaluate", minimal, "-l", pair, "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0", "--json")
    assert "|tok:zh|" in run.json()["rows"][0]["signature"]
    base = ("evaluate", minimal, "-l", pair, "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0", "--json")
    named = polyref(*base, "--target-lang", "ja", "-tok", "char").json()["rows"][0]
    assert "|tok:char|" in named["signature"]
    assert "|tok:13a|" in polyref(*base, "--target-lang", "en").json()["rows"][0]["signature"]


def test_people_can_be_systems(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0", "--json")
    assert {row["n"] for row in polyref(*base).json()["rows"]} == {3, 14}
    assert {row["n"] for row in polyref(*base, "--include-human").json()["rows"]} == {4, 19}


def test_no_reference_is_scored_against_itself(polyref: Callable[..., Any], minimal: Path) -> None:
    """refB is judged and among the outputs."""
    path = minimal / "references/de-en.refB.txt"
    path.write_text(path.read_text().replace("NO TRANSLATION AVAILABLE", "It has one now."))
    base = ("evaluate", minimal, "-l", "de-en", "--gold", "mqm", "-m", "bleu", "-n", "0", "--include-human")
    assert {row["n"] for row in polyref(*base, "--ref", "refB", "--json").json()["rows"]} == {3, 14}
    assert "scored against, left out: refB" in polyref(*base, "--ref", "refB").err


def test_the_output_of_a_reference_has_another_name(polyref: Callable[..., Any], minimal: Path) -> None:
    """``ref-B`` is the output, ``refB`` the reference, as in WMT's text releases."""
    path = minimal / "references/de-en.refB.txt"
    path.write_text(path.read_text().replace("NO TRANSLATION AVAILABLE", "It has one now."))
    (minimal / "system-outputs/de-en/refB.txt").unlink()
    shutil.copy(path, minimal / "system-outputs/de-en/ref-B.txt")
    for file in (minimal / "human-scores").iterdir():
        file.write_text(file.read_text().replace("refB", "ref-B"))
    base = ("evaluate", minimal, "-l", "de-en", "--gold", "mqm", "-m", "bleu", "-n", "0", "--include-human")
    run = polyref(*base, "--ref", "refB", "--json")
    assert {row["n"] for row in run.json()["rows"]} == {3, 14}
    assert "scored against, left out: ref-B" in run.err
    (minimal / "darr/de-en.tsv").unlink()
    submitted = ("submit", minimal, "-l", "de-en", "--ref", "refB", "-m", "bleu", "--name", "x", "--testset", "t",
                 "--year", "2023", "-o", minimal.parent / "out")  # fmt: skip
    assert "3 systems" in polyref(*submitted).err
    assert "2 systems" in polyref(*submitted, "--exclude", "Alpha").err
    assert "no system 'Delta' to leave out" in polyref(*submitted, "--exclude", "Delta").err


def test_judgements_of_one_kind_are_named_once(polyref: Callable[..., Any], minimal: Path) -> None:
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--judgements", "mqm=a", "mqm=b")
    assert run.code == 2 and "--judgements mqm is given twice" in run.err


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
    "short source": (
        _replace("sources/de-en.txt", "Morgen regnet es.\n", ""),
        "sources/de-en.txt: has 4 segments, but",
    ),
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
        (["-l", "de-en", "--ref", "refA", "-m", "parbleu"], "parbleu without added references (give them with --refs)"),
        (["-l", "de-en", "--ref", "refA", "-m", "YiSi"], "no stored scores of 'YiSi' for de-en, there are in"),
        (["-l", "de-en", "--ref", "refA", "-m", "bleu", "--chrf-beta", "3"], "--chrf-beta is given, but none of"),
        (["-l", "de-en", "-m", "length", "-lc"], "--lowercase has no use"),
        (["-l", "de-en", "--ref", "refA", "--sys-gold", "esa"], "no system-level judgement 'esa'"),
        (["-l", "de-en", "--ref", "refA", "-k", "-1"], "-1 is not in the range"),
        (["-l", "de-en", "--ref", "refA", "--confidence", "1"], "1.0 is not in the range"),
        (
            ["-l", "de-en", "--ref", "refA", "--gold", "mqm", "--exclude", "Alpha", "Beta.1", "Gamma-2"],
            "every judged system is left out",
        ),
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
    assert "warning: some segments have only 1 extra reference: -k 9 uses what there is" in run.err
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


@pytest.mark.parametrize("options", [["--perm-both", "99"], ["--pairwise"]])
def test_unknown_outputs_are_no_empty_texts(polyref: Callable[..., Any], minimal: Path, options: list[str]) -> None:
    """What people say of a segment, and what is unknown in it, changes nothing where one output is unknown."""
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "chrf", "bleu",
             "--baseline", "bleu", "-n", "0", "--json", *options)  # fmt: skip
    found = []
    for line in ("Rain is tomorrow.", "It will rain tomorrow."):
        _replace(OTHER, "Tomorrow it rains.", "")(minimal)
        alpha = minimal / "system-outputs/de-en/Gamma-2.txt"
        alpha.write_text(alpha.read_text().replace("Rain is tomorrow.", line))
        rows = polyref(*base).json()["rows"]
        found.append([(row["p_perm_both"], row["value"]) for row in rows
                      if row["p_perm_both"] is not None or row["statistic"].startswith("pairs-")])  # fmt: skip
        (minimal / OTHER).write_text((minimal / OTHER).read_text().replace("\n\n", "\nTomorrow it rains.\n"))
    assert found[0] and found[0] == found[1]


def test_systems_that_only_rankings_judge_are_left_out(polyref: Callable[..., Any], minimal: Path) -> None:
    _replace("human-scores/de-en.wmt-z.sys.score", "Gamma-2\t-0.5\n", "")(minimal)
    other = Path(shutil.copytree(minimal, minimal.parent / "second"))
    base = ("evaluate", minimal, other, "-l", "de-en", "--ref", "refA", "--gold", "darr", "-m", "chrf", "-n", "0",
            "--json")  # fmt: skip
    for options in (["--exclude", "Gamma-2"], ["--top", "2"]):
        answer = polyref(*base, *options).json()
        assert all("|without:Gamma-2|" in one for one in answer["signature"])


def test_signatures_say_what_changes_numbers(polyref: Callable[..., Any], augmented: list[str], minimal: Path) -> None:
    test_judgements_from_files(polyref, minimal)
    marks = minimal / "de-en.marks.tsv"
    base = ("evaluate", *augmented, "-m", "bleu", "chrf", "-k", "0", "1", "-n", "0", "--json")
    mqm = (*base, "--mqm", marks)
    made = [(*mqm, *options) for options in (
        (), ("--mqm-weight", "Minor=5"), ("--baseline", "bleu"), ("--placebo", "2"), ("--placebo", "2", "--seed", "2"),
        ("--perm-both", "9"), ("--perm-both", "9", "--seed", "2"))]  # fmt: skip
    found = [polyref(*one).json()["signature"] for one in made]
    marks.write_text(marks.read_text().replace("Minor", "Major", 1))
    found.append(polyref(*mqm).json()["signature"])
    assert len({str(one) for one in found}) == len(found)


def test_the_best_systems(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "chrf", "-n", "0", "--json")
    answer = polyref(*base, "--top", "2").json()
    assert {row["n"] for row in answer["rows"]} == {2, 10}
    assert "without:Gamma-2" in answer["signature"]
    run = polyref(*base, "--top", "4")
    assert (run.code, "--top 4, but 3 systems have a human score" in run.err) == (2, True)


STATISTICS = ["spearman", "kendall-tau-b", "kendall-tau-c", "pairwise-accuracy", "soft-pairwise-accuracy", "acc23",
              "pearson", "kendall-tau-b-items", "pearson-items"]  # fmt: skip


def test_further_statistics(polyref: Callable[..., Any], augmented: list[str]) -> None:
    base = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-n", "20")
    rows = polyref(*base, "--statistic", *STATISTICS, "--json").json()["rows"]
    found = {(row["level"], row["statistic"]) for row in rows}
    both = {"pearson", "spearman", "kendall-tau-b", "kendall-tau-c"}
    assert found == {
        *((level, name) for level in ("sys", "seg") for name in both),
        ("sys", "pairwise-accuracy"),
        ("sys", "soft-pairwise-accuracy"),
        *(("seg", name) for name in ("kendall-without-ties", "acc23", "tie-rate")),
        *(("seg", name) for name in ("kendall-tau-b-items", "pearson-items")),
    }
    assert all(row["value"] is not None and row["gain"] is not None for row in rows)
    # Permutations are not made anew for redrawn segments.
    soft = [row for row in rows if row["statistic"] == "soft-pairwise-accuracy"]
    assert all(row["redrawn"] == "systems" and row["ci"] is not None for row in soft)
    # What is always printed stays as it is.
    usual = polyref(*base, "--json").json()["rows"]
    assert [(row["level"], row["statistic"]) for row in usual if row["k"] == 0] == [
        ("seg", "kendall-without-ties"),
        ("seg", "acc23"),
        ("seg", "tie-rate"),
        ("sys", "pearson"),
        ("seg", "kendall-tau-b"),
    ]
    assert [row for row in rows if row in usual] == usual
    run = polyref(*base, "--statistic", "tau")
    assert (run.code, "unknown statistic 'tau'" in run.err) == (2, True)
    run = polyref("evaluate", *augmented, "--gold", "darr", "-m", "bleu", "--statistic", "acc23")
    assert (run.code, "acc23 needs scores of segments" in run.err) == (2, True)


@pytest.mark.slow
def test_perm_both_and_correction(polyref: Callable[..., Any], augmented: list[str]) -> None:
    from polyref.eval.statistics.significance import adjusted

    base = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "chrf", "-k", "0", "1", "2", "-n", "0")
    options = ("--statistic", "pearson", "--perm-both", "99", "--correction", "holm")
    rows = polyref(*base, *options, "--json").json()["rows"]
    tested = [row for row in rows if row["statistic"] == "pearson"]
    assert len(tested) == 2 * 2 * 3
    for row in tested:
        assert row["p_perm_both"] * 100 == pytest.approx(round(row["p_perm_both"] * 100))
        assert row["k"] or row["p_perm_both"] == 1
    assert all(row["p_perm_both"] is None for row in rows if row["statistic"] != "pearson")
    family = [row for row in tested if row["gain"] != 0]
    assert [row["p_adjusted"] for row in family] == pytest.approx(
        adjusted([row["p_perm_both"] for row in family], "holm")
    )
    assert "p (PERM-BOTH)" in polyref(*base, *options).out and "p (holm)" in polyref(*base, *options).out
    run = polyref("evaluate", *augmented, "--gold", "darr", "-m", "bleu", "--perm-both", "9")
    assert (run.code, "--perm-both needs scores of segments" in run.err) == (2, True)


def test_undefined_correlations_have_no_p_value(polyref: Callable[..., Any], augmented: list[str]) -> None:
    base = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "chrf", "-k", "0", "1", "-n", "0", "--json")
    path = Path(augmented[0]) / "human-scores/de-en.mqm.sys.score"
    path.write_text("".join(f"{line.split()[0]}\t5\n" for line in path.read_text().splitlines()))
    rows = polyref(*base, "--perm-both", "9", "--correction", "holm").json()["rows"]
    systems = [row for row in rows if row["level"] == "sys"]
    assert len(systems) == 4
    for row in systems:
        assert [row[key] for key in ("value", "gain", "p", "p_williams", "p_perm_both", "p_adjusted")] == [None] * 6


def test_pairs_of_systems(polyref: Callable[..., Any], augmented: list[str]) -> None:
    base = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-k", "0", "2", "-n", "0", "--json")
    rows = polyref(*base, "--pairwise").json()["rows"]
    for k in (0, 2):
        counts = [_row(rows, statistic=f"pairs-{name}", k=k) for name in ("correct", "incorrect", "not-significant")]
        assert sum(row["value"] for row in counts) == counts[0]["n"] > 0


def test_no_outliers_without_scores_of_systems(polyref: Callable[..., Any], augmented: list[str]) -> None:
    (Path(augmented[0]) / "human-scores/de-en.mqm.sys.score").unlink()
    base = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-n", "0")
    assert polyref(*base).code == 0
    run = polyref(*base, "--exclude-outliers")
    assert (run.code, "--exclude-outliers needs scores of systems" in run.err) == (2, True)
    run = polyref(*base, "--exclude-outliers", "--exclude", "Alpha")
    assert (run.code, "outliers, left out" in run.err) == (2, False)


@pytest.mark.slow
def test_one_baseline_in_all_rows(polyref: Callable[..., Any], augmented: list[str]) -> None:
    base = ("evaluate", *augmented, "--gold", "mqm", "-k", "0", "2", "-n", "0", "--json")
    rows = polyref(*base, "-m", "bleu", "chrf", "--pairwise", "--baseline", "BLEU").json()["rows"]
    assert {row["statistic"] for row in rows} >= {"pairs-correct", "kendall-tau-b"}
    for row in rows:
        like = {key: row[key] for key in ("level", "statistic", "segments")}
        start = _row(rows, metric="bleu", k=0, **like)
        assert row["gain"] == row["value"] - start["value"], row
    # A score file has pairs to measure from, too.
    rows = polyref(*base, "-m", "length", "chrf", "--pairwise", "--baseline", "length").json()["rows"]
    assert all(row["gain"] is not None for row in rows)
    # Without a baseline it has no gain, and the others theirs.
    rows = polyref(*base, "-m", "length", "chrf", "--pairwise").json()["rows"]
    assert all((row["gain"] is None) == (row["metric"] == "length") for row in rows)


@pytest.mark.slow
def test_several_sets_pairs_and_generators(polyref: Callable[..., Any], minimal: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(minimal, tmp_path / "second"))
    for path in sorted(other.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", "fi-en")))
    (other / "references/fi-en.refA.txt").rename(other / "references/fi-en.refC.txt")
    lines = (minimal / "paraphrases/de-en.refA.jsonl").read_text().splitlines()
    for folder, pair in ((minimal, "de-en"), (other, "fi-en")):
        (folder / f"{pair}.jsonl").write_text("\n".join(lines) + "\n")
        turned = [json.loads(line) for line in lines]
        for one in turned:
            one["paraphrases"].reverse()
        (folder / f"{pair}.turned.jsonl").write_text("".join(json.dumps(one) + "\n" for one in turned))
    pattern = str(minimal.parent / "{set}/{pair}.jsonl")
    base = ("evaluate", minimal, other, "-l", "de-en", "fi-en", "--ref", "refA", "refC", "--gold", "mqm", "-n", "0")
    both = ("--refs", f"given={pattern}", f"turned={pattern.replace('.jsonl', '.turned.jsonl')}", "--originals", "kept",
            "replaced")  # fmt: skip
    answer = polyref(*base, *both, "-m", "chrf", "-k", "0", "1", "--json").json()
    rows = [row for row in answer["rows"] if row["pair"] != "average"]
    assert len(answer["signature"]) == 2 * 2 * 2
    assert {(row["set"], row["pair"]) for row in rows} == {("minimal", "de-en"), ("second", "fi-en")}
    assert {(row["generator"], row["originals"]) for row in rows} == {
        (generator, originals) for generator in ("given", "turned") for originals in ("kept", "replaced")
    }
    # The same data under two names: the same numbers, and those of a run of its own.
    (one,) = [row for row in rows if row["pair"] == "de-en" and (row["generator"], row["originals"], row["k"]) == (
        "given", "kept", 1) and row["level"] == "sys"]  # fmt: skip
    single = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--refs", minimal / "de-en.jsonl", "--gold", "mqm")
    alone = polyref(*single, "-n", "0", "-m", "chrf", "-k", "0", "1", "--json").json()["rows"]
    assert _row(alone, level="sys", k=1)["value"] == one["value"]
    # Three systems are too few for Fisher's z.
    assert not [row for row in answer["rows"] if row["pair"] == "average"]
    header = polyref(*base, *both, "-m", "chrf").out.splitlines()[3].split()
    assert header[:5] == ["set", "pair", "generator", "originals", "metric"]
    for arguments, message in (
        ((*base[:2], other, "-l", "de-en", "fi-en", "cs-en", *base[6:]), "nothing for the pair 'cs-en'"),
        ((*base, "--refs", str(minimal / "de-en.jsonl")), "one --refs file for several sets or language pairs"),
        ((*base, "--refs", pattern, pattern), "two --refs are called"),
        (("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "wmt-z"), "one set has one --gold"),
        (("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--originals", "replaced"), "without added references"),
        ((*base, "--exclude", "Delta", "-m", "chrf"), "no set has a judged system 'Delta' to leave out"),
        ((*base[:8], "refX", *base[8:]), "no set has the reference 'refX', there are: refA, refB, refC"),
        ((*base, "--gold", "esa"), "no set has the judgement 'esa', there are: darr, mqm, wmt-z"),
        (
            ("evaluate", minimal, "-l", "de-en", "--gold", "mqm", "-m", "length", "--originals", "replaced"),
            "has no use",
        ),
        (("evaluate", minimal, "-l", "de-en", "--gold", "mqm", "--mqm", "x"), "are alternatives"),
        (("evaluate", minimal, "-l", "de-en", "--gold", "mqm", "--mqm-weight", "a=1"), "has no use without --mqm"),
    ):
        run = polyref(*arguments)
        assert run.code in {1, 2} and message in run.err, run.err


def test_averages_over_pairs(polyref: Callable[..., Any], data_dir: Path) -> None:
    from polyref.eval.evaluation_table import fisher_average

    base = ("evaluate", data_dir / "wmt20-metrics", "-l", "de-en", "iu-en", "--gold", "darr", "-m", "BLEU", "parbleu")
    rows = polyref(*base, "--baseline", "BLEU", "-n", "0", "--json").json()["rows"]
    mean = {row["metric"]: row for row in rows if row["pair"] == "average"}
    for metric in ("BLEU", "parbleu"):
        single = [row for row in rows if row["pair"] != "average" and (row["metric"], row["level"]) == (metric, "sys")]
        expected = fisher_average([row["value"] for row in single], [row["n"] for row in single])
        assert mean[metric]["value"] == pytest.approx(expected)
        assert mean[metric]["n"] == sum(row["n"] for row in single)
    assert mean["parbleu"]["gain"] == pytest.approx(mean["parbleu"]["value"] - mean["BLEU"]["value"])


def test_the_cache_changes_nothing(polyref: Callable[..., Any], augmented: list[str]) -> None:
    base = ("evaluate", *augmented, "--gold", "mqm", "-m", "bleu", "-n", "20", "-k", "0", "1")
    plain = polyref(*base, "--no-cache").out
    assert polyref(*base).out == plain
    assert polyref(*base).out == plain


def test_judgements_from_files(polyref: Callable[..., Any], minimal: Path) -> None:
    header = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n"
    source = (minimal / "sources/de-en.txt").read_text("utf-8").splitlines()
    lines = [f"{system}\td\t1\t{segment}\tr\t{source[segment - 1]}\tt\tStyle\t{severity}\n"
             for system, severity in (("Alpha", "no-error"), ("Beta.1", "Minor"), ("Gamma-2", "Major"))
             for segment in range(1, 6)]  # fmt: skip
    (minimal / "de-en.marks.tsv").write_text(header + "".join(lines), "utf-8")
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "0", "--json")
    rows = polyref(*base, "--mqm", str(minimal / "{pair}.marks.tsv")).json()["rows"]
    assert {(row["gold"], row["level"], row["n"]) for row in rows} == {("mqm", "sys", 3), ("mqm", "seg", 15)}
    heavy = polyref(*base, "--mqm", minimal / "de-en.marks.tsv", "--mqm-weight", "Minor=5").json()["rows"]
    assert _row(heavy, level="sys")["value"] != _row(rows, level="sys")["value"]
    (minimal / "darr.csv").write_text("LP DATA SID BETTER WORSE\nde-en s 1 Alpha Gamma-2\n")
    ranked = polyref(*base, "--darr", minimal / "darr.csv").json()["rows"]
    assert {row["statistic"] for row in ranked if row["level"] == "seg"} >= {"kendall-darr", "tie-rate"}
    run = polyref(*base, "--da", minimal / "darr.csv")
    assert run.code == 1 and "darr.csv:1: 1 comma-separated fields" in run.err


@pytest.mark.data
def test_official_gains_of_parbleu(polyref: Callable[..., Any], data_dir: Path) -> None:
    """WMT20: the gain of the official parBLEU over BLEU and its p-value, for each pair; p below 0.05 was published."""
    pairs = ["de-en", "en-zh", "iu-en", "ja-en"]
    archive = data_dir / "wmt20-metrics"
    base = (
        "evaluate",
        archive,
        "-l",
        *pairs,
        "--gold",
        "wmt-z",
        "-m",
        "BLEU",
        "parbleu",
        "--baseline",
        "BLEU",
        "-n",
        "0",
    )
    rows = [
        row for row in polyref(*base, "--json").json()["rows"] if (row["metric"], row["level"]) == ("parbleu", "sys")
    ]
    assert [row["pair"] for row in rows] == [*pairs, "average"]
    for row in rows[:-1]:
        assert row["gain"] > 0
        (path,) = (archive / "expected/system-level").glob(f"DA-{row['pair'].replace('-', '')}-sig.csv")
        header, *lines = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
        (published,) = [float(line[header.index("BLEU")]) for line in lines if line[0] == "parbleu"]
        if row["p_williams"] < 0.05:
            assert row["p_williams"] == pytest.approx(published, abs=1e-4)
        else:
            assert published == 0.12  # what the tables write for all others
    assert [row["p_williams"] < 0.05 for row in rows[:-1]] == [False, True, True, False]


def test_translations_where_there_is_no_reference(polyref: Callable[..., Any], minimal: Path, tmp_path: Path) -> None:
    names = ("refA", "refB")
    texts = [(minimal / f"references/de-en.{name}.txt").read_text("utf-8").splitlines() for name in names]
    translated = wmt_json.translations(tmp_path / "t.jsonl", *texts)
    asked = ("-l", "de-en", "--gold", "mqm", "-m", "chrf", "-n", "20")
    expected = polyref("evaluate", minimal, *asked, "--ref", "refA", "--refs", "ref:refB", "--json").json()["rows"]
    shutil.rmtree(minimal / "references")
    run = polyref("evaluate", minimal, *asked, "--refs", translated, "--json")
    assert run.code == 0, run.err
    none = "no human reference: all are added ones, and k counts them from the first"
    assert f"note: {none}" in run.err and run.json()["notes"] == [f"minimal de-en: {none}"]
    assert [(row["k"], row["value"]) for row in run.json()["rows"]] == [
        (row["k"] + 1, row["value"]) for row in expected
    ]
    run = polyref("evaluate", minimal, *asked, "--refs", translated, "-o", tmp_path / "report")
    assert f"minimal de-en: {none}" in run.out and none in (tmp_path / "report/index.html").read_text()
    for more, message in (
        (["-k", "0"], "-k 0 is the human references alone, and there is no human reference"),
        (["--placebo", "2"], "--placebo has no use: there is no human reference"),
        (["--originals", "replaced"], "--originals has no use: there is no human reference"),
    ):
        run = polyref("evaluate", minimal, *asked, "--refs", translated, *more)
        assert (run.code, message in run.err) == (2, True), run.err

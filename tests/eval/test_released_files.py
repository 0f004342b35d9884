"""What released files hold beside what their formats promise: it is read as it is meant, and told."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref.errors import DataError, UsageError
from polyref.eval.agreement import Row, agreement
from polyref.eval.api import evaluate
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.data.releases import XmlRelease
from polyref.eval.judged import gold_from_file
from polyref.eval.series import ComputedSeries
from polyref.eval.statistics.base import Bootstrap
from polyref.metrics.registry import get_metric

HEADER = "LP DATA SID BETTER WORSE\n"


def _pairs(minimal: Path, lines: list[str], pairs: str) -> tuple[list[tuple[int, int, int]], tuple[str, ...]]:
    (minimal / "darr/de-en.tsv").write_text("seg_id\tbetter\tworse\n" + "".join(line + "\n" for line in lines))
    gold = EvalSet(minimal, "de-en").gold("darr", pairs=pairs)
    assert gold.pairs is not None
    found = zip(gold.pairs.segment.tolist(), gold.pairs.better.tolist(), gold.pairs.worse.tolist(), strict=True)
    return list(found), gold.notes


#: One pair, then one that is repeated, one with a majority, and one that is evenly divided.
RANKED = ["1\tAlpha\tBeta.1", *["2\tAlpha\tBeta.1"] * 2, *["3\tAlpha\tGamma-2"] * 2, "3\tGamma-2\tAlpha",
          "4\tBeta.1\tAlpha", "4\tAlpha\tBeta.1"]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("count", [(0, 0, 1), (1, 0, 1), (1, 0, 1), (2, 0, 2), (2, 0, 2), (2, 2, 0), (3, 1, 0), (3, 0, 1)]),
        ("merge", [(0, 0, 1), (1, 0, 1), (2, 0, 2)]),
        ("drop", [(0, 0, 1)]),
    ],
)
def test_repeated_and_contradicting_rankings(
    minimal: Path, pairs: str, expected: list[tuple[int, int, int]]
) -> None:  # fmt: skip
    found, notes = _pairs(minimal, RANKED, pairs)
    assert found == expected
    done = "every line counts, as released" if pairs == "count" else f"pairs left: {len(expected)}"
    assert notes == (
        "de-en.tsv: lines that repeat a pair: 2, pairs ranked in both directions: 2 (from line 4); "
        f"{done} (pairs: {pairs})",
    )
    # The task's own file is read alike.
    path = minimal / "DArr-seglevel.csv"
    path.write_text(HEADER + "".join(f"de-en set {line}\n".replace("\t", " ") for line in RANKED) + "\n")
    gold = gold_from_file(EvalSet(minimal, "de-en"), "darr", path, pairs=pairs)
    assert gold.pairs is not None and gold.pairs.segment.tolist() == [segment for segment, _, _ in expected]
    assert gold.notes == tuple(note.replace("de-en.tsv", "DArr-seglevel.csv") for note in notes)


def test_rankings_without_repeats_are_the_same_whatever_is_asked_for(minimal: Path) -> None:
    lines = (minimal / "darr/de-en.tsv").read_text().splitlines()[1:]
    found = [_pairs(minimal, lines, pairs) for pairs in ("count", "merge", "drop")]
    assert found[0] == found[1] == found[2] and found[0][1] == ()
    with pytest.raises(UsageError, match="`repeated_pairs` is 'all', expected one of count, merge, drop"):
        evaluate(minimal, "de-en", repeated_pairs="all")


def test_kinds_of_judgements_are_named(polyref: Callable[..., Any], minimal: Path) -> None:
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "0", "--json")
    path = _marks(minimal / "marks.tsv", *[(s, n, "Style", w) for s, w in WORST.items() for n in (1, 2, 3)])
    assert polyref(*base, "--judgements", f"mqm={path}").json()["rows"] == polyref(*base, "--mqm", path).json()["rows"]
    assert evaluate(minimal, "de-en", ref="refA", metrics="chrf", judgements={"mqm": path}, resamples=0).rows
    for judgements, message in (
        (("mqm",), "--judgements 'mqm', expected KIND=FILE"),
        ((f"stars={path}",), "unknown kind of judgements 'stars', expected one of mqm, da, darr"),
        ((f"mqm={path}", "--gold", "mqm"), "--gold, --mqm, --da, --darr and --judgements are alternatives"),
        ((f"mqm={path}", f"da={path}"), "--gold, --mqm, --da, --darr and --judgements are alternatives"),
    ):
        run = polyref(*base, "--judgements", *judgements)
        assert (run.code, message in run.err) == (2, True), run.err


def test_the_command_line_says_what_became_of_rankings(polyref: Callable[..., Any], minimal: Path) -> None:
    (minimal / "darr/de-en.tsv").write_text("seg_id\tbetter\tworse\n" + "".join(line + "\n" for line in RANKED))
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "darr", "-m", "chrf", "-n", "0", "--json")
    for asked, n in (((), 8), (("--pairs", "merge"), 3), (("--pairs", "drop"), 1)):
        run = polyref(*base, *asked)
        assert {row["n"] for row in run.json()["rows"] if row["level"] == "seg"} == {n}
        assert "polyref: note: de-en.tsv: lines that repeat a pair: 2, " in run.err
        assert ("pairs:" in run.json()["signature"]) == bool(asked)


# ESA of 2024: user, system, line from 0 after the canary line, type, score, document, time.

ESA = [
    ("u1", "de-tutorial1", "1000001", "TGT", "0", "de-tutorial1", "1"),
    ("u1", "Alpha", "1", "TGT", "80", "home", "2"),
    ("u1", "Alpha", "2", "TGT", "60", "home", "3"),
    ("u1", "Beta.1", "1", "TGT", "20", "home", "4"),
    ("u1", "Beta.1", "1", "TGT", "50", "home", "6"),  # A changed mind: the latest counts.
    ("u1", "Beta.1", "1", "TGT", "30", "home", "5"),
    ("u1", "Alpha", "4", "TGT", "1", "weather#incomplete", "6"),
    ("u1", "Alpha", "1", "TGT", "1", "home#dup1", "7"),
    ("u1", "Gamma-2", "5", "TGT", "20", "weather", "8"),
    ("u1", "Gamma-2", "5", "BAD", "3", "weather#bad", "9"),
    ("u2", "Alpha", "1", "TGT", "90", "home", "2"),
    ("u2", "Secret", "3", "TGT", "70", "market", "2"),
]


def _esa(path: Path) -> Path:
    stream = io.StringIO()
    for user, system, line, kind, score, document, end in ESA:
        spans = json.dumps([{"start_i": 1, "end_i": 3, "severity": "minor", "error_type": None}])
        csv.writer(stream).writerow(
            [user, system, line, kind, "deu", "eng", score, document, "False", spans, "1.5", end]
        )  # fmt: skip
    path.write_text(stream.getvalue() + "\n", "utf-8")
    return path


@pytest.mark.parametrize("canary", [True, False])
def test_esa_counts_the_lines_of_the_set(minimal: Path, canary: bool) -> None:
    if canary:
        for path in minimal.rglob("de-en*.txt"):
            path.write_text("canary\n" + path.read_text("utf-8"), "utf-8")
        for path in (minimal / "system-outputs/de-en").iterdir():
            path.write_text("canary\n" + path.read_text("utf-8"), "utf-8")
        path = minimal / "documents/de-en.docs"
        path.write_text("canary canary\n" + path.read_text())
    gold = gold_from_file(EvalSet(minimal, "de-en"), "da", _esa(minimal / "esa.csv"))
    own = {name: np.flatnonzero(~np.isnan(scores)) - canary for name, scores in gold.segment.items()}
    assert {name: at.tolist() for name, at in own.items()} == {"Alpha": [0, 1], "Beta.1": [0], "Gamma-2": [4]}
    # Annotator 1 gave 80, 60, 50 and 20; annotator 2 90 and 70, one of them to a system without output.
    spread = math.sqrt(sum((x - 52.5) ** 2 for x in (80, 60, 50, 20)) / 3)
    first = [(80 - 52.5) / spread, 10 / math.sqrt(200)]
    assert gold.segment["Alpha"][int(canary)] == pytest.approx(sum(first) / 2)
    assert gold.segment["Beta.1"][int(canary)] == pytest.approx((50 - 52.5) / spread)
    assert gold.notes == (
        "esa.csv: judgements of systems without output passed over: Secret (1)",
        "esa.csv: rows of tutorials passed over: 1",
        "esa.csv: rows of documents that fill up an annotator's work (#dup, #incomplete) passed over: 2",
        "esa.csv: scores that their annotator gave anew passed over: 2",
    )


def test_scores_of_documents_are_not_those_of_their_last_segment(minimal: Path) -> None:
    rows = [
        ["u", "Alpha", "1", "TGT", "deu", "eng", "80", "home", "False", "1", "2"],
        ["u", "Alpha", "2", "TGT", "deu", "eng", "60", "home", "False", "2", "3"],
        ["u", "Alpha", "2", "TGT", "deu", "eng", "10", "home", "True", "3", "4"],
        ["u", "Alpha", "2", "TGT", "deu", "eng", "60", "home", "False", "2", "3"],
    ]
    path = minimal / "da.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    gold = gold_from_file(EvalSet(minimal, "de-en"), "da", path)
    half = math.sqrt(0.5)
    assert np.allclose(gold.segment["Alpha"], [half, -half, *[math.nan] * 3], equal_nan=True)
    assert gold.notes == (
        "da.csv: scores of whole documents passed over: 1",
        "da.csv: rows that repeat another one passed over: 1",
    )


WORST = {"Alpha": "Neutral", "Beta.1": "Minor", "Gamma-2": "Major"}
SOURCE = ["Der Hund schläft.", "Sie öffnet das Fenster.", "Wir haben 3 Äpfel gekauft.", "Morgen regnet es."]


def _marks(path: Path, *marks: tuple[str, int, str, str], shift: int = 0, source: list[str] = SOURCE) -> Path:
    lines = ["system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\tmetadata"]
    lines += [
        f"{system}\thome\t1\t{number + shift}\tr\t{source[number - 1]}\tThe <v>dog</v>\t{category}\t{severity}\t{{}}"
        for system, number, category, severity in marks
    ]
    path.write_text("".join(line + "\n" for line in lines) + "\n", "utf-8")
    return path


def test_marks_of_mqm_as_they_are_released(minimal: Path) -> None:
    path = _marks(
        minimal / "mqm.tsv",
        ("Alpha", 1, "Style/Awkward", "Minor"),
        ("Alpha", 1, "Style/Awkward", "Minor"),
        ("Alpha", 2, "HOTW-test", "HOTW-test"),
        ("Alpha", 3, "No-error", ""),
        ("metricsystem1", 1, "Style/Awkward", "Major"),
        ("Nemo", 1, "Style/Awkward", "Grave"),
        ("ref-B", 1, "Style/Awkward", "Major"),
        source=["<v>Der</v>  Hund schläft.", *SOURCE[1:]],
    )
    gold = gold_from_file(EvalSet(minimal, "de-en"), "mqm", path, include_human=True)
    assert np.array_equal(gold.segment["Alpha"], [-2, 0, 0, math.nan, math.nan], equal_nan=True)
    # ref-A to ref-D are the set's refA to refD.
    assert gold.system == {"Alpha": pytest.approx(-2 / 3), "refB": -5}
    assert gold.notes == (
        "mqm.tsv: judgements of systems without output passed over: Nemo (1), metricsystem1 (1)",
        "mqm.tsv: errors of the severity 'HOTW-test', which has no weight and counts 0 (`mqm_weights` gives it one): 1",
    )


def test_averages_of_mqm_with_further_columns(minimal: Path) -> None:
    path = minimal / "averages.tsv"
    path.write_text(
        "system\tdoc\tglobalSegId\tmqm_score\nAlpha\thome\t1\t-1e-1\nNemo\thome\t1\t-2\nAlpha\thome\t2\tNone\n\n"
    )
    gold = gold_from_file(EvalSet(minimal, "de-en"), "mqm", path)
    assert gold.system == {"Alpha": -0.1}
    assert gold.notes == ("averages.tsv: judgements of systems without output passed over: Nemo (1)",)


def test_mqm_with_other_numbers_is_refused(minimal: Path) -> None:
    marks = [("Alpha", number, "Style/Awkward", "Minor") for number in (1, 2, 3)]
    with pytest.raises(DataError, match=r"mqm.tsv:2: the source of segment 2 is that of segment 1 of the set"):
        gold_from_file(EvalSet(minimal, "de-en"), "mqm", _marks(minimal / "mqm.tsv", *marks, shift=1))
    elsewhere = [*SOURCE[:1], "Ein anderer Satz.", "Noch einer."]
    with pytest.raises(DataError, match=r"mqm.tsv:3: the sources of 2 of 3 lines are not those of the set"):
        gold_from_file(EvalSet(minimal, "de-en"), "mqm", _marks(minimal / "mqm.tsv", *marks, source=elsewhere))
    respelt = [*SOURCE[:2], "Wir haben drei Äpfel gekauft."]
    gold = gold_from_file(EvalSet(minimal, "de-en"), "mqm", _marks(minimal / "mqm.tsv", *marks, source=respelt))
    assert gold.notes == ("mqm.tsv: lines whose source differs from that of their segment: 1",)


def test_documents_of_another_length(minimal: Path) -> None:
    path = minimal / "documents/de-en.docs"
    text = path.read_text()
    path.write_text(text + "\n")
    assert len(EvalSet(minimal, "de-en").documents or ()) == 5
    path.write_text(text.replace(" ", "\t").replace("weather", "the weather"))
    assert (EvalSet(minimal, "de-en").documents or ())[4] == ("talk", "the weather")
    for wrong in (text + "talk weather\n", text.partition("\n")[2]):
        path.write_text(wrong)
        with pytest.raises(DataError, match=r"de-en.docs: has [46] lines, but the set has 5 segments \(one line a"):
            EvalSet(minimal, "de-en").documents  # noqa: B018


@pytest.mark.parametrize("mark", ["NO TRANSLATION AVAILABLE", "[No translation supplied]"])
def test_marks_of_missing_references(minimal: Path, mark: str) -> None:
    path = minimal / "references/de-en.refA.txt"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("".join(line + "\n" for line in [mark, *lines[1:]]), "utf-8")
    assert EvalSet(minimal, "de-en").reference("refA")[:2] == (None, lines[1])


def test_what_editors_leave_in_files(polyref: Callable[..., Any], minimal: Path, tmp_path: Path) -> None:
    """Carriage returns, byte order marks and blank last lines change no number, and are told where they were."""
    base = ("-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "20", "--json")
    for gold in ("mqm", "darr"):
        plain = polyref("evaluate", minimal, *base, "--gold", gold)
        edited = Path(shutil.copytree(minimal, tmp_path / gold / "minimal"))
        for path in edited.rglob("*"):
            if path.is_file() and path.suffix != ".jsonl":
                path.write_bytes(codecs.BOM_UTF8 + path.read_bytes().replace(b"\n", b"\r\n"))
                if path.name in {"Alpha.txt", "de-en.txt"} or path.suffix in {".score", ".tsv", ".docs"}:
                    path.write_bytes(path.read_bytes() + b"\r\n")
        found = polyref("evaluate", edited, *base, "--gold", gold)
        assert found.out == plain.out
        assert "begins with a byte order mark, left out (sacreBLEU scores it as text): de-en.refA.txt," in found.err
        assert "ends in a blank line more than the others, left out: Alpha.txt, de-en.txt\n" in found.err


XML = """<?xml version="1.0" encoding="utf-8"?>
<dataset id="set">
<doc id="empty" origlang="de"><src lang="de"><p/></src><ref lang="en" translator="refA"><p/></ref>
<hyp system="Alpha"><p></p></hyp></doc>
<doc id="home" origlang="de"><src lang="de"><p><seg id="1">Eins.</seg></p></src>
<ref lang="en" translator="refA"><p><seg id="1">One.</seg></p></ref>
<hyp lang="en" system="Alpha"><p><seg id="1">One.</seg></p></hyp></doc>
</dataset>
"""


def test_empty_documents_of_xml(tmp_path: Path) -> None:
    path = tmp_path / "set.de-en.xml"
    path.write_text(XML)
    release = XmlRelease(path, "de-en")
    assert release.source == ("Eins.",) and release.documents == (("all", "home"),) and release.segments == 1
    assert release.reference("refA") == ("One.",)
    for old, new, message in (
        ('<src lang="de"><p/></src>', "", "set.de-en.xml:4: document 'empty' has no source"),
        ("<p/></ref>", '<p><seg id="1">One.</seg></p></ref>', "reference 'refA' has segment 1 of document 'empty'"),
        ('<seg id="1">', f'<seg id="{"9" * 5000}">', f"the segment id is '{'9' * 59}…', expected a number from 1"),
        ("utf-8", "klingon", "set.de-en.xml:1: cannot be decoded: unknown encoding: klingon"),
        ("utf-8", "utf-7", "set.de-en.xml:1: cannot be decoded: "),
        ("utf-8", "euc-jp", "set.de-en.xml:1: cannot be decoded: "),
    ):
        path.write_text(XML.replace(old, new, 1))
        with pytest.raises(DataError) as caught:
            XmlRelease(path, "de-en")
        assert message in str(caught.value)


def test_broken_gzip(tmp_path: Path) -> None:
    whole = gzip.compress((XML * 50).encode())
    path = tmp_path / "set.de-en.xml.gz"
    for broken in (whole[: len(whole) // 2], whole[:-4], b"no gzip", whole[:40] + b"\xff" * 40 + whole[80:]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"set.de-en.xml.gz:\d+: broken (gzip data|XML)"):
            XmlRelease(path, "de-en")


def test_carriage_returns_within_fields(minimal: Path) -> None:
    path = minimal / "da.csv"
    for text, line in (('a,"b\rc"\rd\n', 1), ("a\rb,c\n", 1), ('"a,b\n', 1), ('a,b\n"c\n\nd"e,f\n', 4)):
        path.write_bytes(text.encode())
        with pytest.raises(DataError, match=rf"da.csv:{line}: (broken CSV|\d comma-separated fields)"):
            gold_from_file(EvalSet(minimal, "de-en"), "da", path)
    row = 'u,Alpha,1,TGT,deu,eng,{},home,False,"[{{""note"": ""a\rb""}}]",1,2\n'
    path.write_bytes("".join(row.format(score) for score in (80, 60)).replace("u,Alpha", "u,Alpha").encode())
    assert gold_from_file(EvalSet(minimal, "de-en"), "da", path).system == {"Alpha": 0.0}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"target": ' + "9" * 5000 + "}", '{"target"', "1", '{"target": 1}'])
def test_broken_json_in_texts(minimal: Path, text: str) -> None:
    (minimal / "references/de-en.refC.jsonl").write_text('{"target": "One."}\n' + text + "\n")
    with pytest.raises(DataError, match=r"de-en.refC.jsonl:2: "):
        EvalSet(minimal, "de-en").reference("refC")


def _examples(folder: Path) -> dict[str, tuple[str, bytes]]:
    """A sound file of every kind: name -> kind and content."""
    table = "SYS SEGID RAW.SCR Z.SCR N SID\nAlpha home::2 80 0.5 1 7\nBeta.1 weather::1 20 -0.5 1 3\n"
    rows = [
        {"langs": "de-en", "line_id": i, "src": SOURCE[i], "system": "Alpha", "esa_score": 50 + i, "annotator": "a"}
        for i in (0, 1)
    ]
    files = {
        "darr.csv": ("darr", f"{HEADER}de-en set 1 Beta.1 Gamma-2\nde-en set home::2 Alpha Beta.1\n"),
        "table.csv": ("da", table),
        "dump.jsonl": ("da", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)),
        "esa.csv": ("da", _esa(folder / "esa.csv").read_text("utf-8")),
        "mqm.tsv": ("mqm", _marks(folder / "mqm.tsv", ("Alpha", 1, "Style", "Minor")).read_text("utf-8")),
        "averages.tsv": ("mqm", "Alpha -1.5 1\nBeta.1 None 2\n"),
        "ratings.tsv": ("mqm", 'Alpha\t{"errors": [{"severity": "major", "category": "style"}]}\n' * 5),
    }
    return {name: (kind, text.encode()) for name, (kind, text) in files.items()}


PIECES = [b"\t", b"\n", b"\r", b",", b'"', b" ", b"None", b"-1", b"0", b"nan", b"1e3", b"9" * 400, b"9" * 4301,
          b"[" * 9999, b"\xef\xbb\xbf", b"\xff", b"\0", "é".encode(), b"::", b"True",
          b"{}", b"\xe2\x80\xa8"]  # fmt: skip


@pytest.mark.slow
def test_no_file_gives_anything_but_a_result_or_one_error(minimal: Path) -> None:
    """Whatever is put into the files, or cut out of them."""
    chance = random.Random(7)
    evalset = EvalSet(minimal, "de-en")
    refused = read = 0
    for name, (kind, content) in _examples(minimal).items():
        path = minimal / name
        path.write_bytes(content)
        assert gold_from_file(evalset, kind, path).name
        for _ in range(150):
            at, end = sorted(chance.choices(range(len(content) + 1), k=2))
            cut = content[min(end, at + chance.choice([0, 1, 8])) :]
            path.write_bytes(content[:at] + chance.choice(PIECES) * chance.choice([0, 1, 2]) + cut)
            try:
                gold_from_file(evalset, kind, path)
                read += 1
            except DataError as error:
                assert name in str(error)
                refused += 1
    assert refused > 100 and read > 100


def _agreement(folder: Path, pair: str, pairs: str = "count") -> tuple[list[Row], tuple[str, ...]]:
    """The rows of chrF as ``polyref evaluate`` has them."""
    evalset = EvalSet(folder, pair)
    gold = evalset.gold("darr", pairs=pairs)
    systems = list(dict.fromkeys([*gold.system, *(gold.pairs.systems if gold.pairs else ())]))
    texts = evalset.outputs(systems)
    series = ComputedSeries(
        get_metric("chrf"), dict(zip(systems, texts, strict=True)), reference_set(evalset, ["ref"]), [0]
    )
    known = evalset.known(texts)
    return agreement([series], gold, known=known, systems=systems, bootstrap=Bootstrap(0)), gold.notes


@pytest.mark.data
@pytest.mark.parametrize("pair", ["lt-en", "gu-en"])
def test_wmt19_as_editors_leave_it(data_dir: Path, tmp_path: Path, pair: str) -> None:
    """Carriage returns, byte order marks, blank last lines, a repeated and a contradicting pair, in the real sets."""
    plain, notes = _agreement(data_dir / "wmt19", pair)
    assert notes == ()
    edited = Path(shutil.copytree(data_dir / "wmt19", tmp_path / "wmt19"))
    for path in edited.rglob("*"):
        if path.is_file() and path.suffix != ".jsonl":
            end = b"\r\n" if path.parent.name != pair or path.name.startswith("o") else b""
            path.write_bytes(codecs.BOM_UTF8 + path.read_bytes().replace(b"\n", b"\r\n") + end)
    assert _agreement(edited, pair)[0] == plain
    rankings = edited / "darr" / f"{pair}.tsv"
    segment, better, worse = (first := rankings.read_bytes().split(b"\r\n")[1]).split(b"\t")
    rankings.write_bytes(rankings.read_bytes().removesuffix(b"\r\n") + first + b"\r\n")
    (tau,) = [row for row in plain if row.statistic == "kendall-darr"]
    # The metric orders the repeated pair as people do or not.
    (repeated,) = [row for row in _agreement(edited, pair)[0] if row.statistic == "kendall-darr"]
    assert repeated.n == tau.n + 1
    balance = repeated.value * repeated.n - tau.value * tau.n
    assert abs(balance) == pytest.approx(1)
    rankings.write_bytes(rankings.read_bytes() + b"\t".join([segment, worse, better]) + b"\r\n")
    (both,) = [row for row in _agreement(edited, pair)[0] if row.statistic == "kendall-darr"]
    assert both.n == tau.n + 2
    assert both.value * both.n == pytest.approx(tau.value * tau.n)
    for choice, left in (("merge", 0), ("drop", 1)):
        rows, notes = _agreement(edited, pair, choice)
        (found,) = [row for row in rows if row.statistic == "kendall-darr"]
        # Two lines against one: merged, the pair is as it was; dropped, it is gone.
        assert found.n == tau.n - left
        assert found.value * found.n == pytest.approx(tau.value * tau.n - left * balance)
        assert f"{pair}.tsv: lines that repeat a pair: 1, pairs ranked in both directions: 1 " in notes[-1]

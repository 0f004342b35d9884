"""Judgements from raw files. The files are made here: their forms are those of docs/how-to/add-judgements.md."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref import evaluate
from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.judged import gold_from_file
from polyref.eval.judgements.base import Place
from polyref.eval.judgements.direct_assessment import Judgement, read_direct, standardised
from polyref.eval.judgements.mqm import WEIGHTS, parse_weights, read_mqm

HEADER = "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity"
#: system, segment, rater, category, severity
MARKS = [
    ("Alpha", 1, "rater1", "Accuracy/Mistranslation", "Major"),
    ("Alpha", 1, "rater1", "Fluency/Punctuation", "Minor"),
    ("Alpha", 1, "rater2", "No-error", "no-error"),
    ("Alpha", 2, "rater1", "No-error", "No-error"),
    ("Beta.1", 1, "rater1", "Non-translation!", "Major"),
    ("Beta.1", 3, "rater2", "Style/Awkward", "Minor"),
    ("Beta.1", 3, "rater2", "Style/Awkward", "Neutral"),
    ("refB", 1, "rater1", "No-error", "no-error"),
    ("Human-A.0", 1, "rater1", "No-error", "no-error"),
]


SOURCE = ["Der Hund schläft.", "Sie öffnet das Fenster.", "Wir haben 3 Äpfel gekauft."]


def _place(*systems: str, segments: int = 5) -> Place:
    return Place("de-en", systems, segments)


def _marks(path: Path, marks: list[tuple[str, int, str, str, str]], end: str = "\n") -> Path:
    lines = [HEADER]
    lines += [f'{s}\tdoc\t1\t{n}\t{r}\t{(SOURCE * 2)[n - 1]}\tThe <v>text</v> {i}\t{c}\t{e}'
              for i, (s, n, r, c, e) in enumerate(marks)]  # fmt: skip
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def test_mqm_marks(minimal: Path) -> None:
    path = _marks(minimal / "marks.tsv", MARKS)
    scores = read_mqm(path, _place("Alpha", "Beta.1", "refB")).segment
    # Rater 1: 5 + 0.1, rater 2: 0.
    assert scores["Alpha"][:2].tolist() == [pytest.approx(-2.55), 0.0]
    assert not np.signbit(scores["Alpha"][1])
    assert np.isnan(scores["Alpha"][2:]).all()
    assert scores["Beta.1"][0] == -25 and scores["Beta.1"][2] == -1
    gold = gold_from_file(EvalSet(minimal, "de-en"), "mqm", path)
    assert (gold.name, gold.system_name) == ("mqm", "mqm")
    assert gold.system == {"Alpha": pytest.approx(-1.275), "Beta.1": -13.0}
    assert gold.unjudged == ("Gamma-2",)
    with_people = gold_from_file(EvalSet(minimal, "de-en"), "mqm", path, include_human=True)
    assert set(with_people.system) == {"Alpha", "Beta.1", "refB"}
    assert gold_from_file(EvalSet(minimal, "de-en"), "mqm", path, system_gold="wmt-z").system_name == "wmt-z"
    windows = read_mqm(_marks(minimal / "crlf.tsv", MARKS, "\r\n"), _place("Alpha", "Beta.1", "refB")).segment
    assert all(np.array_equal(windows[name], scores[name], equal_nan=True) for name in scores)


def test_mqm_weights(minimal: Path) -> None:
    path = _marks(minimal / "marks.tsv", MARKS)
    weights = parse_weights(["Major=10", "minor/Style/Awkward=0.5"])
    scores = read_mqm(path, _place("Alpha", "Beta.1", "refB"), weights=weights).segment
    assert scores["Alpha"][0] == pytest.approx(-(10.1 / 2))
    # The most specific entry counts: the category of the usual weights, and one of one's own.
    assert (scores["Beta.1"][0], scores["Beta.1"][2]) == (-25, -0.5)
    assert WEIGHTS["major"] == 5
    for wrong in ("Major", "Major=", "Major=x", "Major=-1", "=1", "Major=nan", "Major=inf", "Major=None"):
        with pytest.raises(DataError) as caught:
            parse_weights([wrong])
        assert str(caught.value).startswith(f"`mqm_weights` has '{wrong}', expected SEVERITY=NUMBER or ")


def test_mqm_averages(minimal: Path) -> None:
    path = minimal / "avg.tsv"
    path.write_text("system mqm_avg_score seg_id\nAlpha\t-1.5\t1\nAlpha None 2\nBeta.1 0 2\n")
    scores = read_mqm(path, _place("Alpha", "Beta.1", segments=3)).segment
    assert np.array_equal(scores["Alpha"], [-1.5, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(scores["Beta.1"], [np.nan, 0, np.nan], equal_nan=True)


def test_mqm_ratings(minimal: Path) -> None:
    path = minimal / "ratings"
    marks = [{"start": 0, "end": 3, "category": c, "severity": s, "score": 0, "is_source_error": False}
             for c, s in (("accuracy/omission", "major"), ("fluency/punctuation", "minor"))]  # fmt: skip
    lines = ["None", json.dumps({"errors": []}), json.dumps({"errors": marks}) + "\trater1"]
    path.write_text("".join(f"{system}\t{line}\n" for system in ("Alpha", "Beta.1") for line in lines))
    scores = read_mqm(path, _place("Alpha", "Beta.1", segments=3)).segment
    assert np.array_equal(scores["Beta.1"], [np.nan, 0, -5.1], equal_nan=True)
    for old, new, message in (
        (f"Alpha\t{lines[1]}\n", "", ":2: system 'Alpha' has 2 segments, expected 3"),
        ('{"errors": []}', '{"errors": [{}]}', ':2: expected {"errors":'),
        ('{"errors": []}', '{"errors"', ":2: not valid JSON: Expecting"),
        (
            '{"errors": []}',
            '{"errors": ' + "[" * 100_000 + "]" * 100_000 + "}",
            ":2: not valid JSON: nested more than",
        ),
        ('"start": 0', '"start": ' + "9" * 4301, ":3: not valid JSON: a number of too many digits"),
        ("\trater1", "\trater1\tx", ":3: 4 columns, expected 2 or 3"),
    ):
        bad = minimal / "bad"
        bad.write_text(path.read_text().replace(old, new, 1))
        with pytest.raises(DataError) as caught:
            read_mqm(bad, _place("Alpha", "Beta.1", segments=3))
        assert f"bad{message}" in str(caught.value)
    (minimal / "bad").write_text(path.read_text() + path.read_text())
    with pytest.raises(DataError, match=r"bad:7: system 'Alpha' starts a second block"):
        read_mqm(minimal / "bad", _place("Alpha", "Beta.1", segments=3))


BAD_MARKS = {
    "no output": (
        [("Delta", 1, "r", "Style", "Minor")],
        ": judges no output of the set, only Delta (1) (outputs there",
    ),
    "segment out of range": ([("Alpha", 6, "r", "Style", "Minor")], ":2: segment '6', expected a number from 1 to 5"),
}


@pytest.mark.parametrize("fault", BAD_MARKS)
def test_bad_marks(minimal: Path, fault: str) -> None:
    marks, message = BAD_MARKS[fault]
    with pytest.raises(DataError) as caught:
        gold_from_file(EvalSet(minimal, "de-en"), "mqm", _marks(minimal / "marks.tsv", marks))
    assert f"marks.tsv{message}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEADER}\n", "no marks"),
        ("", "the file is empty"),
        ("system\tseverity\n", ":1: the header has no column 'rater'"),
        (f"{HEADER}\nAlpha\td\t1\t1\tr\ts\tt\tStyle\n", ":2: 8 columns, expected 9"),
        (f"{HEADER}\nAlpha\td\t1\t1\tr\ts\tt\tStyle\tMinor\n", "the sources of 1 of 1 lines are not those of the set"),
        (f"{HEADER}\nAlpha\td\t1\t{'9' * 5000}\tr\ts\tt\tStyle\tMinor\n", f":2: segment '{'9' * 59}…', expected"),
        ("system\tdoc\tscore\tglobalSegId\nAlpha\td\t1\n", ":2: 3 columns, expected 4: as in the header"),
        ("system\tdoc\tscore\tz_score\tseg_id\nAlpha\td\t1\t1\t1\n", ":1: the header is 'system doc"),
        ("Alpha -1 1\nAlpha -2 1\n", ":2: 'Alpha' has a second score of segment 1; the first: line 1"),
        ("Alpha nan 1\n", ":1: the score is 'nan'"),
        ("Alpha 1\n", ":1: 2 columns, expected 3"),
        ("Alpha -1 0\n", ":1: segment '0', expected a number from 1 to 5"),
        ("Alpha -1 1.0\nBeta.1 -1 1\n", ":1: segment '1.0', expected a number from 1 to 5"),
        ("Alpha None one\nBeta.1 -1 1\n", ":1: segment 'one', expected a number from 1 to 5"),
        ("Delta -1 1\n", "judges no output of the set, only Delta (1)"),
        ("system score seg\n", "no scores"),
        ("Alpha 1_0 1\n", ":1: the score is '1_0', expected a number"),
    ],
)
def test_bad_mqm_files(minimal: Path, text: str, message: str) -> None:
    path = minimal / "bad.tsv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        gold_from_file(EvalSet(minimal, "de-en"), "mqm", path)
    assert "bad.tsv" in str(caught.value) and message in str(caught.value)


# Direct assessments: user, system, segment in document, type, source, target, score, document, flag, start, end.

ROWS = [
    ["deueng01", "Alpha", "1", "TGT", "deu", "eng", "80", "home", "False", "1.0", "2.0"],
    ["deueng01", "Beta.1", "1", "TGT", "deu", "eng", "60", "home", "False", "2.0", "3.0"],
    ["deueng01", "Gamma-2", "2", "TGT", "deu", "eng", "10", "home", "False", "3.0", "4.0"],
    ["deueng02", "Alpha", "1", "TGT", "deu", "eng", "100", "home", "False", "1.0", "2.0"],
    ["deueng02", "Beta.1", "2", "TGT", "deu", "eng", "98", "weather", "False", "2.0", "3.0"],
    ["deueng02", "Alpha", "1", "BAD", "deu", "eng", "0", "home", "False", "2.0", "3.0"],
    ["engces01", "Other", "9", "TGT", "eng", "ces", "50", "elsewhere", "False", "2.0", "3.0"],
]


def _csv(path: Path, rows: list[list[str]], end: str = "\n") -> Path:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end).writerows(rows)
    path.write_bytes(stream.getvalue().encode())
    return path


def _esa(rows: list[list[str]]) -> list[list[str]]:
    """The rows of DA as ESA has them: with spans, and the line of the set from 0 after a canary line."""
    spans = json.dumps([{"start_i": 0, "end_i": 3, "severity": "minor", "error_type": 'a, "b"'}])
    first = {"home": 1, "market": 3, "weather": 4, "elsewhere": 1}
    return [[*row[:2], str(first[row[7]] + int(row[2]) - 1), *row[3:9], spans, *row[9:]] for row in rows]


@pytest.mark.parametrize(("name", "rows"), [("da-z", ROWS), ("esa-z", _esa(ROWS))])
def test_direct_assessments(minimal: Path, name: str, rows: list[list[str]]) -> None:
    gold = gold_from_file(EvalSet(minimal, "de-en"), "da", _csv(minimal / "da.csv", rows))
    assert gold.name == name
    one, other = [80.0, 60.0, 10.0], [100.0, 98.0]
    z = [(80 - statistics.mean(one)) / statistics.stdev(one), (100 - 99) / statistics.stdev(other)]
    # The second segment of the document "home" is the second line; "weather" begins on the fourth.
    assert gold.segment["Alpha"][0] == pytest.approx(statistics.mean(z))
    assert gold.segment["Gamma-2"][1] == pytest.approx((10 - 50) / statistics.stdev(one))
    assert gold.segment["Beta.1"][4] == pytest.approx(-1 / statistics.stdev(other))
    assert sum(int((~np.isnan(values)).sum()) for values in gold.segment.values()) == 4
    assert gold.system["Alpha"] == gold.segment["Alpha"][0]
    windows = gold_from_file(EvalSet(minimal, "de-en"), "da", _csv(minimal / "crlf.csv", [*rows, []], "\r\n"))
    assert windows.system == gold.system
    assert gold.notes == ()


def test_annotators_without_spread_say_nothing() -> None:
    found = standardised([Judgement("a", "x", 0, 50), Judgement("b", "x", 1, 70), Judgement("b", "y", 1, 70)], 2)
    assert found["x"].tolist() == [0, 0]
    assert math.isnan(found["y"][0]) and found["y"][1] == 0


def _changed(field: int, value: str) -> list[list[str]]:
    return [ROWS[0], [value if i == field else old for i, old in enumerate(ROWS[1])]]


BAD_ROWS = {
    "no output": ([_changed(1, "Delta")[1]], ": judges no output of the set, only Delta (1) (outputs there are"),
    "unknown document": (_changed(7, "nowhere"), ":2: the set has no document 'nowhere'"),
    "segment out of range": (_changed(2, "3"), ":2: segment '3', expected a number from 1 to 2"),
    "no number": (_changed(6, "NaN"), ":2: the score is 'NaN', expected a finite number"),
    "missing": (_changed(6, ""), ":2: the score is '', expected a number"),
    "above the scale": (_changed(6, "101"), ":2: the score is 101, expected 0 to 100"),
    "unknown type": (_changed(3, "XYZ"), ":2: field 4 is 'XYZ'"),
    "columns": ([ROWS[0], ROWS[1][:-1]], ":2: 10 comma-separated fields, expected 11"),
    "other form": ([ROWS[0][:5]], ":1: 5 comma-separated fields, expected 11"),
    "no flag": (_changed(8, "?"), ":2: field 9 is '?', expected True or False"),
    "digits": (_changed(2, "9" * 5000), f":2: segment '{'9' * 59}…', expected a number from 1 to 2"),
    "large": (_changed(6, "9" * 400), f":2: the score is '{'9' * 59}…', expected a finite number"),
    "ESA: no number": (
        [*_esa(ROWS[:1]), ["u", "Alpha", "1.5", *_esa(ROWS)[0][3:]]],
        ":2: segment '1.5', expected a line",
    ),
    "ESA: other document": (
        [*_esa(ROWS[:2]), *_esa(_changed(2, "3"))[1:]],
        ":3: line 3 (from 0, after the canary line) is not in the document 'home' of the set",
    ),
    "other pair": ([ROWS[-1]], "judges nothing of de-en, only en-cs"),
    "checks alone": (_changed(3, "BAD")[1:], "judges nothing of de-en: its lines only check annotators (BAD, BAD.REF,"),
}


@pytest.mark.parametrize("fault", BAD_ROWS)
def test_bad_direct_assessments(minimal: Path, fault: str) -> None:
    rows, message = BAD_ROWS[fault]
    with pytest.raises(DataError) as caught:
        gold_from_file(EvalSet(minimal, "de-en"), "da", _csv(minimal / "da.csv", rows))
    assert "da.csv" in str(caught.value) and message in str(caught.value)


def test_without_documents(minimal: Path) -> None:
    (minimal / "documents/de-en.docs").unlink()
    with pytest.raises(DataError, match=r"da.csv: names segments by document, but .* \(add documents/de-en.docs\)"):
        gold_from_file(EvalSet(minimal, "de-en"), "da", _csv(minimal / "da.csv", ROWS))


def test_broken_quotes(minimal: Path) -> None:
    (minimal / "da.csv").write_text(",".join(ROWS[0]) + '\na,"b"c,' + "x," * 8 + "\n")
    with pytest.raises(DataError, match=r"da.csv:2: broken CSV"):
        gold_from_file(EvalSet(minimal, "de-en"), "da", minimal / "da.csv")


def test_raw_exports_number_the_items_of_a_part_from_0(minimal: Path) -> None:
    """As the calibration exports of WMT22: what the script of the release makes of them is the published form."""
    parts = {"home": "home#1-2", "weather": "weather#2-2", "market": "market.0"}
    starts = {"home": 1, "weather": 2, "market": 1}
    raw = [[*row[:2], str(int(row[2]) - starts.get(row[7], 1)), *row[3:7], parts.get(row[7], row[7]), *row[8:]]
           for row in ROWS]  # fmt: skip
    raw.append([*raw[0][:2], "9", *raw[0][3:8], "True", *raw[0][9:]])
    evalset = EvalSet(minimal, "de-en")
    found = gold_from_file(evalset, "da", _csv(minimal / "raw.csv", raw))
    expected = gold_from_file(evalset, "da", _csv(minimal / "da.csv", ROWS))
    assert found.notes == ("raw.csv: scores of whole documents passed over: 1",)
    for name, values in expected.segment.items():
        assert np.array_equal(found.segment[name], values, equal_nan=True)
    # Whole documents count from 0 where an item 0 says so.
    zero = [[*row[:2], str(int(row[2]) - 1), *row[3:]] for row in ROWS]
    again = gold_from_file(evalset, "da", _csv(minimal / "zero.csv", zero))
    assert again.system == expected.system
    for part, item, message in (
        ("home#1-2", "2", ":2: segment '2', expected a number from 0 to 1"),
        ("home#2-9", "5", ":2: segment '6', expected a number from 0 to 1"),
        ("home#0-1", "0", ":2: segment '-1', expected a number from 0 to 1"),
        ("home.1", "0", ":2: segment '10', expected a number from 0 to 1"),
        ("away.0", "0", ":2: the set has no document 'away.0'"),
    ):
        bad = [raw[0], [*raw[0][:2], item, *raw[0][3:7], part, *raw[0][8:]]]
        with pytest.raises(DataError) as caught:
            gold_from_file(evalset, "da", _csv(minimal / "bad.csv", bad))
        assert f"bad.csv{message}" in str(caught.value)


#: Rows without documents, as WMT22's of Livonian: systems are called by the files of their outputs.
LINES = [
    [user, f"generaltest2022.de-en.{name}.en.txt", str(line), kind, "deu", "eng", str(score), "1.5", "2.5"]
    for user, name, line, kind, score in (
        ("a", "hyp.Alpha", 1, "TGT", 80), ("a", "hyp.Beta.1", 5, "TGT", 60), ("a", "hyp.Alpha", 2, "BAD", 0),
        ("a", "ref.B", 3, "TGT", 100), ("b", "hyp.Gamma-2", 5, "TGT", 5), ("b", "hyp.Gamma-2", 4, "TGT", 15),
    )
]  # fmt: skip


@pytest.mark.parametrize("first", [0, 1])
def test_rows_without_documents(minimal: Path, first: int) -> None:
    rows = [[*row[:2], str(int(row[2]) - 1 + first), *row[3:]] for row in LINES]
    (minimal / "documents/de-en.docs").unlink()
    evalset = EvalSet(minimal, "de-en")
    gold = gold_from_file(evalset, "da", _csv(minimal / "lines.csv", rows), include_human=True)
    one, other = [80.0, 60.0, 100.0], [5.0, 15.0]
    assert gold.name == "da-z" and gold.notes == ()
    assert {name: np.flatnonzero(~np.isnan(values)).tolist() for name, values in gold.segment.items()} == {
        "Alpha": [0], "Beta.1": [4], "Gamma-2": [3, 4], "refB": [2],
    }  # fmt: skip
    assert gold.segment["refB"][2] == pytest.approx((100 - 80) / statistics.stdev(one))
    assert gold.segment["Gamma-2"][3] == pytest.approx((15 - 10) / statistics.stdev(other))
    rows[1][2] = str(5 + first)
    with pytest.raises(DataError, match=rf"lines.csv:2: segment '{5 + first}', expected a number from {first} to"):
        gold_from_file(evalset, "da", _csv(minimal / "lines.csv", rows))
    with pytest.raises(DataError, match=r"names segments by document, but the evaluation set has no documents"):
        gold_from_file(evalset, "da", _csv(minimal / "da.csv", ROWS))


LIST = "HITId WorkerId Input.src Input.trg Input.item hit sys_id rid type sid score time"
#: Worker, system, what was shown together, type, segment with the documents in the order of their names, score.
LISTED = [
    ("w1", "Alpha.7", "1", "SYSTEM", 1, 0.5), ("w1", "Alpha.7", "1", "SYSTEM", 2, -0.25),
    ("w1", "Alpha.7", "2", "REPEAT", 1, 0.1), ("w1", "Alpha.7", "2", "BAD_REF", 2, -3.5),
    ("w1", "Beta.1", "3", "SYSTEM", 3, 7.0), ("w1", "Beta.1", "3", "SYSTEM", 4, 1.5),
    ("w1", "Beta.1", "3", "SYSTEM", 5, -1.5),
    ("w2", "Beta.1", "4", "SYSTEM", 4, 0.5), ("w2", "HUMAN-B", "5", "SYSTEM", 3, 2.0),
    ("w2", "Delta.3", "6", "REF", 3, 9.0),
]  # fmt: skip


def _list(path: Path, rows: list[tuple[str, str, str, str, int, float]], pair: str = "de en", tab: str = "\t") -> Path:
    lines = [f"h {w} {pair} ad 1 {system} {run} {kind} {sid} {score} 60.0".replace(" ", tab)
             for w, system, run, kind, sid, score in rows]  # fmt: skip
    path.write_text("\n".join([LIST, *lines]) + "\n")
    return path


@pytest.mark.parametrize("tab", ["\t", " "])
def test_lists_of_good_standing(minimal: Path, tab: str) -> None:
    # By name, "away" comes before "home", whose three segments are the first of the set.
    documents = [("news", "home")] * 3 + [("talk", "away")] * 2
    (minimal / "documents/de-en.docs").write_text("".join(f"{a}\t{b}\n" for a, b in documents))
    evalset = EvalSet(minimal, "de-en")
    path = _list(minimal / "ad-deen-good-stnd.csv", LISTED, tab=tab)
    gold = gold_from_file(evalset, "da", path, include_human=True)
    nan = np.nan
    assert gold.name == "da-z" and gold.notes == ()
    # Scores are standardised already: as in the published averages, those of an output that was shown again count.
    assert np.allclose(gold.segment["Alpha"], [nan, nan, nan, 0.3, -0.25], equal_nan=True)
    assert np.allclose(gold.segment["Beta.1"], [7.0, 1.0, -1.5, nan, nan], equal_nan=True)
    assert np.allclose(gold.segment["refB"], [2.0, nan, nan, nan, nan], equal_nan=True)
    # What was shown together is of one document: here the lines are meant.
    lines = [(*row[:4], row[4] - 2 if row[4] > 2 else row[4] + 3, row[5]) for row in LISTED]
    again = gold_from_file(evalset, "da", _list(minimal / "lines.csv", lines), include_human=True)
    assert again.system == gold.system
    for rows, message in (
        ([("w", "Alpha", run, "SYSTEM", n, 0.5) for run, n in (("1", 1), ("1", 3), ("2", 2), ("2", 4))],
         "what was judged together is of several documents of the set"),
        ([("w", "Alpha", "1", "OTHER", 1, 0.5)], ":2: the type is 'OTHER', expected one of BAD_REF, REF, REPEAT, SYS"),
        ([("w", "Alpha", "1", "SYSTEM", 6, 0.5)], ":2: segment '6', expected a number from 1 to 5"),
        ([("w", "Alpha", "1", "SYSTEM", 1, -1e300)], ":2: the score is -1e+300, expected at most 1e+06"),
        ([("w", "Alpha", "1", "SYSTEM", 1, math.nan)], ":2: the score is 'nan', expected a finite number"),
        ([("w", "Al pha", "1", "SYSTEM", 1, 1.0)], ":2: 13 columns, expected 12: HITId WorkerId"),
        ([("w", "Delta", "1", "SYSTEM", 1, 1.0)], ": judges no output of the set, only Delta (1)"),
    ):  # fmt: skip
        with pytest.raises(DataError) as caught:
            gold_from_file(evalset, "da", _list(minimal / "bad.csv", rows))
        assert message in str(caught.value)
    with pytest.raises(DataError, match="judges nothing of de-en"):
        gold_from_file(evalset, "da", _list(minimal / "bad.csv", LISTED, pair="cs en"))
    (minimal / "documents/de-en.docs").unlink()
    with pytest.raises(DataError, match=r"an order that only documents tell, .* \(add documents/de-en.docs\)"):
        gold_from_file(EvalSet(minimal, "de-en"), "da", path)


@pytest.mark.parametrize("rows", [ROWS, _esa(ROWS)], ids=["da", "esa"])
def test_waves_are_one_file(minimal: Path, rows: list[list[str]], polyref: Callable[..., Any]) -> None:
    evalset = EvalSet(minimal, "de-en")
    whole = _csv(minimal / "whole.csv", rows)
    # The second wave repeats a row of the first; the third is of another pair.
    waves = [
        _csv(minimal / "one.csv", rows[:2]),
        _csv(minimal / "two.csv", rows[1:6]),
        _csv(minimal / "3.csv", rows[6:]),
    ]
    found, expected = gold_from_file(evalset, "da", waves), gold_from_file(evalset, "da", whole)
    for name, values in expected.segment.items():
        assert np.array_equal(found.segment[name], values, equal_nan=True)
    anew = "rows that repeat another one" if len(rows[0]) == 11 else "scores that their annotator gave anew"
    assert found.notes == (f"two.csv: {anew} passed over: 1", "3.csv: judges nothing of de-en, only en-cs")
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "0", "--json")
    run = polyref(*base, "--da", *waves)
    assert run.json()["rows"] == polyref(*base, "--da", whole).json()["rows"]
    assert polyref(*base, "--judgements", *(f"da={one}" for one in waves)).json()["rows"] == run.json()["rows"]
    signature = run.json()["signature"]
    assert signature.count("judgements:da#") == 3 and "note: two.csv: " in run.err
    table = evaluate(minimal, "de-en", ref="refA", metrics="chrf", da=waves, resamples=0)
    assert [row["value"] for row in table.rows] == [row["value"] for row in run.json()["rows"]]
    with pytest.raises(DataError, match="judges nothing of de-en"):
        gold_from_file(evalset, "da", waves[2:] * 2)
    other = _csv(minimal / "other.csv", _esa(ROWS) if rows is ROWS else ROWS)
    with pytest.raises(DataError, match=rf"other.csv:1: 1[12] comma-separated fields, and .* has {len(rows[0])}"):
        gold_from_file(evalset, "da", [waves[0], other])
    lines = _dump(minimal / "esa.jsonl", 0)
    message = r"esa.jsonl: is ESA as JSON lines, and .*one.csv is an export of Appraise \(give them apart"
    with pytest.raises(DataError, match=message):
        gold_from_file(evalset, "da", [waves[0], lines])
    with pytest.raises(UsageError, match="judgements of the kind 'mqm' are one file, not 3"):
        gold_from_file(evalset, "mqm", waves)


@pytest.mark.parametrize("order", [1, -1])
def test_the_latest_of_two_scores_counts_whichever_file_it_is_in(minimal: Path, order: int) -> None:
    rows = _esa(ROWS[:3])
    anew = [*rows[0][:6], "20", *rows[0][7:11], "9.5"]
    waves = [_csv(minimal / "one.csv", rows), _csv(minimal / "two.csv", [anew])][::order]
    gold = gold_from_file(EvalSet(minimal, "de-en"), "da", waves)
    given = [20.0, 60.0, 10.0]
    assert gold.segment["Alpha"][0] == pytest.approx((20 - statistics.mean(given)) / statistics.stdev(given))
    assert gold.notes == (f"{waves[1].name}: scores that their annotator gave anew passed over: 1",)


def test_references_are_called_as_people_call_translators(minimal: Path) -> None:
    for name in ("translator-B", "ref.B", "HUMAN-B", "Human-B.0", "refb"):
        rows = [[*row[:1], name if row[1] == "Alpha" else row[1], *row[2:]] for row in ROWS]
        gold = gold_from_file(EvalSet(minimal, "de-en"), "da", _csv(minimal / "da.csv", rows), include_human=True)
        assert "refB" in gold.segment and gold.notes == ()


def test_marks_of_sources_are_said_to_be_that(minimal: Path, polyref: Callable[..., Any]) -> None:
    marks = [("Alpha", 1, "r", "Source error/-", "Minor"), ("Beta.1", 3, "r", "Source issue", "Major")]
    path = _marks(minimal / "source-errors.tsv", marks)
    note = "source-errors.tsv: every mark is an error of the source: the file judges sources, not outputs"
    assert note in gold_from_file(EvalSet(minimal, "de-en"), "mqm", path).notes
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "0", "--mqm", path)
    assert f"note: {note}" in run.err
    marks.append(("Beta.1", 3, "r", "Style/Awkward", "Minor"))
    assert gold_from_file(EvalSet(minimal, "de-en"), "mqm", _marks(path, marks)).notes == ()


def _dump(path: Path, first: int, **changes: object) -> Path:
    source = ["Der Hund schläft.", "Sie öffnet das Fenster.", "Wir haben 3 Äpfel gekauft."]
    judged = ((0, "Alpha", 90, "a"), (2, "Alpha", 70, "a"), (0, "Beta.1", 50.5, "b"), (1, "Beta.1", 40, "b"))
    rows: list[dict[str, object]] = [
        {"langs": "de-en", "line_id": first + i, "src": source[i], "system": s, "esa_score": str(score), "annotator": a}
        for i, s, score, a in judged
    ]
    rows[1].update(changes)
    rows.append({"langs": "en-cs", "line_id": 99, "src": "x", "system": "z", "esa_score": "1", "annotator": "c"})
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("first", [0, 1])
def test_esa_as_json_lines(minimal: Path, first: int) -> None:
    gold = gold_from_file(EvalSet(minimal, "de-en"), "da", _dump(minimal / "esa.jsonl", first))
    half = math.sqrt(0.5)
    assert gold.name == "esa-z"
    assert np.allclose(gold.segment["Alpha"], [half, np.nan, -half, np.nan, np.nan], equal_nan=True)
    assert np.allclose(gold.segment["Beta.1"], [half, -half, np.nan, np.nan, np.nan], equal_nan=True)


RULE = "every line is a judgement: leave out what was not judged"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": "Ein anderer Satz."}, "esa.jsonl:1: the text of line_id"),
        ({"esa_score": "None"}, f"esa.jsonl:2: the score is None, but {RULE}"),
        ({"esa_score": None}, f"esa.jsonl:2: esa_score is null, but {RULE}"),
        ({"esa_score": math.nan}, f"esa.jsonl:2: the score is 'nan', expected a finite number ({RULE})"),
        ({"line_id": True}, "esa.jsonl:1: the text of line_id '0' is not"),
        ({"line_id": 10**4000}, "esa.jsonl:1: the text of line_id"),
    ],
)
def test_bad_json_lines(minimal: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        gold_from_file(EvalSet(minimal, "de-en"), "da", _dump(minimal / "esa.jsonl", 0, **changes))
    assert message in str(caught.value)


def test_tables_of_2020(minimal: Path) -> None:
    path = minimal / "seg.csv"
    path.write_text("SYS SEGID RAW.SCR Z.SCR N SID\nAlpha home::2 80 0.5 1 7\nBeta.1 weather::1 20 -0.5 1 3\n")
    gold = gold_from_file(EvalSet(minimal, "de-en"), "da", path)
    assert (gold.segment["Alpha"][1], gold.segment["Beta.1"][3]) == (0.5, -0.5)
    path.write_text(path.read_text() + "Alpha home::2 80 0.5 1 7\n")
    with pytest.raises(DataError, match=r"seg.csv:4: 'Alpha' has a second score of home::2"):
        gold_from_file(EvalSet(minimal, "de-en"), "da", path)
    # Numbers that are not lines are refused, not misread.
    path.write_text("SYS SID RAW.SCR Z.SCR N\nAlpha 1 80 0.5 1\n")
    with pytest.raises(DataError, match="which is not the line"):
        gold_from_file(EvalSet(minimal, "de-en"), "da", path)


def test_rankings_of_the_task(minimal: Path) -> None:
    path = minimal / "DArr-seglevel.csv"
    path.write_text("LP DATA SID BETTER WORSE\nde-en set 1 Beta.1 Gamma-2\nfi-en set 1 X Y\n"
                    "de-en set home::2 Alpha Beta.1\nde-en set 2 refB Beta.1\n")  # fmt: skip
    gold = gold_from_file(EvalSet(minimal, "de-en"), "darr", path)
    assert gold.pairs is not None
    named = [(int(s), gold.pairs.systems[b], gold.pairs.systems[w])
             for s, b, w in zip(gold.pairs.segment, gold.pairs.better, gold.pairs.worse, strict=True)]  # fmt: skip
    # The ranking of a translation by people is left out.
    assert named == [(0, "Beta.1", "Gamma-2"), (1, "Alpha", "Beta.1")]
    assert gold.system_name == "wmt-z"
    # Who has a score as a system is judged, though no ranking that counts names it; who has neither is not.
    path.write_text("LP DATA SID BETTER WORSE\nde-en set 1 Alpha Beta.1\n")
    assert gold_from_file(EvalSet(minimal, "de-en"), "darr", path).unjudged == ()
    scores = minimal / "human-scores/de-en.wmt-z.sys.score"
    scores.write_text("".join(line for line in scores.read_text().splitlines(True) if not line.startswith("Gamma-2")))
    assert gold_from_file(EvalSet(minimal, "de-en"), "darr", path).unjudged == ("Gamma-2",)
    for text, message in (
        ("de-en set 1 Beta.1 Beta.1", ":2: system 'Beta.1' is compared with itself"),
        ("de-en set 1 Beta.1", ":2: 4 columns, expected 5"),
        ("de-en set 6 Alpha Beta.1", ":2: segment '6'"),
        ("de-en set there::1 Alpha Beta.1", ":2: the set has no document 'there'"),
        ("de-en set 1 Alpha Delta\nde-en set 1 Delta Delta", ":3: system 'Delta' is compared with itself"),
        ("de-en set 1 Omega Delta", ": judges no output of the set, only Delta (1), Omega (1)"),
        ("fi-en set 1 Alpha Delta", "no rankings of de-en"),
    ):
        path.write_text(f"LP DATA SID BETTER WORSE\n{text}\n")
        with pytest.raises(DataError) as caught:
            gold_from_file(EvalSet(minimal, "de-en"), "darr", path)
        assert message in str(caught.value)


def test_what_cannot_be_judged(minimal: Path) -> None:
    with pytest.raises(UsageError, match="unknown kind of judgements 'esa', expected one of mqm, da, darr"):
        gold_from_file(EvalSet(minimal, "de-en"), "esa", minimal / "x")
    for path in sorted((minimal / "system-outputs/de-en").iterdir()):
        path.unlink()
    with pytest.raises(UsageError, match="judgements of the kind 'mqm' need a set with outputs"):
        gold_from_file(EvalSet(minimal, "de-en"), "mqm", minimal / "x")


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        ("en-ta", "tam"), ("en-iu", "iku"), ("en-kk", "kaz"), ("en-gu", "guj"), ("en-tr", "tur"), ("en-lv", "lav"),
        ("en-ro", "ron"), ("en-ro", "rum"), ("en-km", "khm"), ("en-ps", "pus"), ("en-mr", "mar"), ("en-sr", "srp"),
        ("en-is", "ice"), ("en-zh", "zho_Hans"), ("en-zh_TW", "zho_Hant"), ("en-sr_Latn_RS", "srp_Latn"),
    ],
)  # fmt: skip
def test_codes_of_all_languages(minimal: Path, pair: str, code: str) -> None:
    rows = [[*row[:4], "eng", code, *row[6:]] for row in ROWS[:5]]
    path = minimal / "da.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    documents = EvalSet(minimal, "de-en").documents or ()
    place = Place(pair, ("Alpha", "Beta.1", "Gamma-2"), 5, [name for _, name in documents])
    assert set(read_direct(path, place).segment) == {"Alpha", "Beta.1", "Gamma-2"}
    with pytest.raises(DataError, match=r"judges nothing of en-fi, only en-"):
        read_direct(path, replace(place, pair="en-fi"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Alpha\tNone\t1\nAlpha\t-1\t2\n", [np.nan, -1]),
        ("Alpha\tNone\t1\nAlpha\tNone\t2\n", [np.nan, np.nan]),
        ("Alpha\tNone\nAlpha\t{}\n".format('{"errors": []}'), [np.nan, 0]),
        ("Alpha\tNone\tr1\nAlpha\t{}\tr1\n".format('{"errors": []}'), [np.nan, 0]),
        ("Alpha\tNone\tr1\nAlpha\tNone\tr1\n", [np.nan, np.nan]),
    ],
    ids=["averages", "averages-of-none", "ratings", "ratings-with-raters", "ratings-of-none"],
)
def test_files_of_mqm_that_begin_with_none(minimal: Path, text: str, expected: list[float]) -> None:
    path = minimal / "mqm.tsv"
    path.write_text(text)
    found = read_mqm(path, _place("Alpha", segments=2)).segment["Alpha"]
    assert np.array_equal(found, expected, equal_nan=True)

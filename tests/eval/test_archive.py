from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref.errors import DataError, UsageError
from polyref.eval.data.archive import MetricsTaskArchive
from polyref.eval.data.releases import is_archive
from polyref.eval.data.task_files import TaskRow, fields, file_name, read_rows, write_rows

CELLS = {
    ("Alpha.1", "doc-a::1"): 80.0,
    ("Beta_x.2", "doc-a::1"): 55.0,
    ("Human-A.0", "doc-a::1"): 10.0,
    ("Alpha.1", "doc-a::2"): 50.0,
    ("Gamma.3", "doc-a::2"): 74.9,
    ("Alpha.1", "doc-b::1"): 20.0,
    ("Beta_x.2", "doc-b::1"): 60.0,
    ("Gamma.3", "doc-b::1"): 85.0,
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    root = tmp_path / "archive"
    (root / "da").mkdir(parents=True)
    (root / "scores").mkdir()
    lines = [f"{s} {i} {raw} {raw / 10 - 5} 1 {n}\n" for n, ((s, i), raw) in enumerate(CELLS.items())]
    (root / "da/metrics-ad-seg-scores-de-en.csv").write_text("SYS SEGID RAW.SCR Z.SCR N SID\n" + "".join(lines))
    # The same system, spelt with a dash here.
    (root / "da/ad-sys-scores-de-en.csv").write_text(
        "RAW.SCR Z.SCR N SYS N.ALL \n70 0.2 9 Alpha.1 9 \n60 0.1 9 Beta-x.2 9\n50 -0.1 9 Gamma.3 9\n40 -1 9 HUMAN.0 9\n"
    )
    _scores(root, "Good", {"Alpha.1": 3.0, "Beta_x.2": 2.0, "Gamma.3": 1.0, "Human-A.0": 9.0})
    rows = [
        ("Good", "de-en", "newstest2020", "newstest2020", s, *i.split("::"), raw / 7) for (s, i), raw in CELLS.items()
    ]
    _write(root / "scores/Good.seg.score.gz", rows)
    return root


def _scores(root: Path, metric: str, scores: dict[str, float], reference: str = "newstest2020") -> None:
    rows = [(metric, pair, "newstest2020", reference, s, v) for pair in ("de-en", "en-de") for s, v in scores.items()]
    _write(root / f"scores/{metric}.sys.score.gz", rows)


def _write(path: Path, rows: list[tuple[Any, ...]]) -> None:
    with gzip.open(path, "wt") as stream:
        stream.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def test_judgements(archive: Path) -> None:
    assert is_archive(archive)
    opened = MetricsTaskArchive(archive, "de-en")
    assert opened.segment_ids == ("doc-a::1", "doc-a::2", "doc-b::1")
    gold = opened.gold("wmt-z")
    assert gold.system == {"Alpha.1": 0.2, "Beta_x.2": 0.1, "Gamma.3": -0.1}
    assert np.array_equal(gold.segment["Beta_x.2"], [0.5, np.nan, 1.0], equal_nan=True)
    assert opened.gold("wmt-raw").segment["Alpha.1"].tolist() == [80, 50, 20]
    assert "HUMAN.0" in opened.gold("wmt-z", include_human=True).system


def test_rankings_are_25_points_apart_and_without_people(archive: Path) -> None:
    pairs = MetricsTaskArchive(archive, "de-en").gold("darr").pairs
    assert pairs is not None
    named = {
        (int(segment), pairs.systems[better], pairs.systems[worse])
        for segment, better, worse in zip(pairs.segment, pairs.better, pairs.worse, strict=True)
    }
    # 80 - 55 is just enough, 74.9 - 50 just not.
    assert named == {
        (0, "Alpha.1", "Beta_x.2"),
        (2, "Beta_x.2", "Alpha.1"),
        (2, "Gamma.3", "Alpha.1"),
        (2, "Gamma.3", "Beta_x.2"),
    }


def test_scores(archive: Path) -> None:
    opened = MetricsTaskArchive(archive, "de-en")
    stored = opened.stored("good")
    assert (stored.name, stored.reference, stored.system["Gamma.3"]) == ("Good", "newstest2020", 1.0)
    assert stored.segment["Beta_x.2"][2] == pytest.approx(60 / 7)
    _scores(archive, "GOOD", {"Alpha.1": 1.0})
    assert opened.stored("GOOD").system == {"Alpha.1": 1.0}
    with pytest.raises(UsageError, match="no scores of 'good', there are: GOOD, Good"):
        opened.stored("good")
    with pytest.raises(UsageError, match="with 'newstestB2020' for de-en, there are: newstest2020"):
        opened.stored("Good", ["newstestB2020"])
    with pytest.raises(UsageError, match="one reference set"):
        opened.stored("Good", ["a", "b"])


def test_command(polyref: Callable[..., Any], archive: Path) -> None:
    _scores(archive, "Poor", {"Alpha.1": 2.0, "Beta_x.2": 1.0, "Gamma.3": 3.0})
    arguments = ("evaluate", archive, "-l", "de-en", "-n", "20", "--json")
    rows = polyref(*arguments, "-m", "Poor", "good", "--baseline", "Poor").json()["rows"]
    assert [(row["metric"], row["level"], row["statistic"]) for row in rows] == [
        ("good", "seg", "kendall-darr-without-ties"),
        ("good", "seg", "kendall-darr"),
        ("good", "seg", "tie-rate"),
        ("Poor", "sys", "pearson"),
        ("good", "sys", "pearson"),
    ]
    poor, good = rows[3:]
    assert good["gain"] == pytest.approx(good["value"] - poor["value"])
    assert poor["gain"] == 0
    assert (rows[1]["value"], rows[1]["n"]) == (1.0, 4)
    alone = polyref(*arguments, "-m", "good", "--exclude", "Gamma.3").json()
    assert {(row["level"], row["n"]) for row in alone["rows"]} == {("seg", 2), ("sys", 2)}
    assert "without:Gamma.3" in alone["signature"]
    run = polyref(*arguments, "-m", "good", "--exclude", "Delta")
    assert (run.code, "no judged system 'Delta'" in run.err) == (2, True)
    run = polyref(*arguments, "-m", "good", "--baseline", "BLEU")
    assert (run.code, "the baseline 'BLEU' is not among the metrics" in run.err) == (2, True)
    run = polyref(*arguments, "-m", "good", "--exclude-outliers")
    assert "outliers, left out: none" in run.err
    run = polyref("evaluate", archive, "-l", "fr-en")
    assert (run.code, "pairs found: de-en" in run.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("metrics-ad-seg-scores", "Alpha.1 doc-a::1 1 1 1 1", ":10: 'Alpha.1' has a second score of doc-a::1"),
        ("metrics-ad-seg-scores", "Alpha.1 doc-c::1 nan 1 1 1", ":10: the score is 'nan'"),
        ("metrics-ad-seg-scores", "Alpha.1 doc-c::1 1 1 1", ":10: 5 columns, expected 6"),
        ("metrics-ad-seg-scores", "Alpha.1 doc-c::1 1 1 1 1", "no score of 'Alpha.1' for the judged segment doc-c::1"),
        ("ad-sys-scores", "1 1 1 Alpha.1 1", ":6: system 'Alpha.1' has a second score"),
        ("ad-sys-scores", "1 1 1 Delta.7 1", "no score of the judged system 'Delta.7'"),
    ],
)
def test_bad_judgements(polyref: Callable[..., Any], archive: Path, name: str, line: str, message: str) -> None:
    with (archive / f"da/{name}-de-en.csv").open("a") as stream:
        stream.write(line + "\n")
    run = polyref("evaluate", archive, "-l", "de-en", "-m", "Good", "-n", "0")
    assert run.code == 1
    assert message in run.err
    assert run.out == ""


def test_bad_header(archive: Path) -> None:
    (archive / "da/ad-sys-scores-de-en.csv").write_text("RAW Z N SYS\n")
    with pytest.raises(DataError, match=r"de-en\.csv:1: the header is"):
        MetricsTaskArchive(archive, "de-en").gold("darr")


# The task's files, whatever the year.

ROW_2020 = TaskRow({"metric": "m", "pair": "de-en", "testset": "t", "reference": "r", "system": "s"}, 1.5)


def test_columns_of_every_year() -> None:
    assert len(fields(2020, "sys")) == len(fields(2021, "sys")) == 6
    assert (len(fields(2020, "seg")), len(fields(2021, "seg"))) == (8, 7)
    for year in (2022, 2023, 2024):
        assert (len(fields(year, "sys")), len(fields(year, "seg"))) == (7, 9)
    assert len(fields(2025, "seg")) == 9
    with pytest.raises(UsageError, match="there are 2020 to 2025"):
        fields(2019, "seg")


def test_file_names() -> None:
    assert file_name(2020, "sys", "parBLEU") == "parBLEU.sys.score.gz"
    assert file_name(2023, "seg", "parBLEU") == "parBLEU.seg.score"
    assert (file_name(2025, "sys", "x"), file_name(2025, "seg", "x")) == ("systems.tsv", "segments.tsv")
    with pytest.raises(UsageError, match="'a/b'"):
        file_name(2020, "sys", "a/b")


def test_scores_keep_every_digit(tmp_path: Path) -> None:
    path = tmp_path / "m.sys.score"
    rows = [
        TaskRow({**ROW_2020.fields, "system": f"s{i}"}, value) for i, value in enumerate([0.1, 1 / 3, -1e-17, 38.0])
    ]
    write_rows(path, 2020, "sys", rows)
    assert [row.score for row in read_rows(path, 2020, "sys")] == [0.1, 1 / 3, -1e-17, 38.0]
    assert [row.line for row in read_rows(path, 2020, "sys")] == [1, 2, 3, 4]
    write_rows(path, 2020, "sys", rows, digits=4)
    assert [line.split("\t")[-1] for line in path.read_text().splitlines()] == [
        "0.1000",
        "0.3333",
        "-0.0000",
        "38.0000",
    ]


@pytest.mark.parametrize("broken", [{"system": "a\tb"}, {"system": ""}, {"system": "a\nb"}, {"system": " a"}])
def test_a_field_that_cannot_be_written(tmp_path: Path, broken: dict[str, str]) -> None:
    path = tmp_path / "m.sys.score"
    with pytest.raises(DataError, match="field 'system'"):
        write_rows(path, 2020, "sys", [ROW_2020, TaskRow({**ROW_2020.fields, **broken}, 1.0)])
    with pytest.raises(DataError, match="score of m de-en t r s is nan"):
        write_rows(path, 2020, "sys", [TaskRow(ROW_2020.fields, float("nan"))])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m\tde-en\tt\tr\ts\n", ":1: 5 columns, expected 6: metric pair testset reference system score"),
        ("m\tde-en\tt\tr\ts\tx\n", ":1: field 'score' is 'x', expected a number"),
        ("m\tde-en\tt\tr\ts\tinf\n", ":1: field 'score' is 'inf', expected a finite number"),
        ("m\tde-en\tt\tr\t\t1\n", ":1: field 'system' is ''"),
        ("m\tde-en\tt\tr \ts\t1\n", ":1: field 'reference' is 'r '"),
        ("m\tde-en\tt\tr\ts\t1\nm\tde-en\tt\tr\ts\t2\n", ":2: repeats the item of line 1"),
        ("", "no scores"),
    ],
)
def test_bad_submission_lines(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.sys.score"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        list(read_rows(path, 2020, "sys"))
    assert message in str(caught.value)

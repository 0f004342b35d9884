"""The benchmarks' raw tables: columns are those of docs/benchmarks, and rows hold what was measured."""

from __future__ import annotations

import csv
import importlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
BENCH = REPOSITORY / "scripts" / "bench"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (BENCH, *(BENCH / name for name in ("quality", "speed", "exactness"))):
        monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("module", "name", "file"),
    [
        ("looks", "LOOK", "ledger"),
        ("tasks", "COLUMNS", "tasks"),
        ("tasks", "COLUMNS", "pseudo-references"),
        ("long_texts", "COLUMNS", "long-texts"),
        ("interval_levels", "COLUMNS", "interval_levels"),
        ("length_only", "COLUMNS", "length_only"),
        ("metrics", "COLUMNS", "speed-metrics"),
        ("bertscore", "COLUMNS", "speed-bertscore"),
        ("seqscore", "COLUMNS", "speed-likelihood"),
        ("search", "COLUMNS", "speed-search"),
        ("search", "PARTS_COLUMNS", "speed-search-parts"),
        ("augment", "COLUMNS", "speed-augment"),
        ("jobs", "COLUMNS", "speed-jobs"),
        ("memory", "COLUMNS", "speed-memory"),
        ("search_lists", "COLUMNS", "search-lists"),
    ],
)
def test_columns_are_those_of_the_table(module: str, name: str, file: str) -> None:
    assert header(file) == list(getattr(importlib.import_module(module), name))


def test_columns_of_the_evidence() -> None:
    from evidence import PARTS
    from looks import ORIGIN

    for part in PARTS.values():
        assert header(part.file.removesuffix(".csv")) == [*part.columns, *ORIGIN]


def test_times_say_what_they_were_measured_with() -> None:
    from raw_tables import MACHINE, measured_with

    for path in (REPOSITORY / "docs" / "benchmarks").glob("*.csv"):
        if path.name.startswith("speed-") or path.name == "cost.csv":
            assert set(MACHINE) <= set(header(path.stem)), path.name
    here = measured_with("polyref", "numpy")
    assert here["versions"].startswith(f"polyref {version('polyref')}, numpy {version('numpy')}, Python 3.")
    assert re.fullmatch(r".+, \d+ cores", here["processor"])


def header(file: str) -> list[str]:
    with (REPOSITORY / "docs" / "benchmarks" / f"{file}.csv").open(encoding="utf-8", newline="") as stream:
        return next(csv.reader(stream))


def test_an_update_keeps_what_was_not_measured_again(tmp_path: Path) -> None:
    from raw_tables import read, update

    path = tmp_path / "table.csv"
    update(path, ("k", "gain"), ("k",), [{"k": 1, "gain": "+0.1"}, {"k": 5, "gain": "+0.2"}])
    update(path, ("k", "gain"), ("k",), [{"k": 5, "gain": "+0.3"}, {"k": 10, "gain": "a, b"}])
    assert path.read_text() == 'k,gain\n1,+0.1\n5,+0.3\n10,"a, b"\n'
    assert [row["k"] for row in read(path)] == ["1", "5", "10"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_commit_is_that_of_all_files_but_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import looks

    from polyref.errors import UsageError

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    script, table = tmp_path / "scripts" / "bench" / "looks.py", tmp_path / "docs" / "benchmarks" / "ledger.csv"
    for path in (script, table):
        path.parent.mkdir(parents=True)
        path.write_text("")
    monkeypatch.setattr(looks, "__file__", str(script))
    git("init")
    assert looks.commit() == ""
    git("add", ".")
    git("commit", "-m", "first")
    head = looks.clean_commit()
    assert len(head) >= 7 and "+" not in head
    table.write_text("a look")
    assert looks.clean_commit() == head
    for path in (script, tmp_path / "new.py"):  # changed, and not yet known to git
        path.write_text("changed")
        assert looks.commit() == f"{head}+"
        with pytest.raises(UsageError, match="the checkout has changes"):
            looks.clean_commit()
        git("stash")


@pytest.mark.parametrize("file", ["tasks", "pseudo-references"])
def test_rows_of_test_sets_are_from_commits_in_the_ledger(file: str) -> None:
    from looks import TEST_SETS
    from raw_tables import read
    from tasks import RUNS

    known = {row["commit"] for row in read(REPOSITORY / "docs" / "benchmarks" / "ledger.csv") if row["part"] == "tasks"}
    development = {run.name for run in RUNS if (run.folder, run.pair) not in TEST_SETS} | {"en-de"}
    rows = read(REPOSITORY / "docs" / "benchmarks" / f"{file}.csv")
    looks = [row for row in rows if row["run"] not in development and not row["run"].startswith("en-de, ")]
    assert looks and {row["commit"] for row in looks} <= known


@pytest.mark.slow
def test_rows_of_the_search(tmp_path: Path) -> None:
    table = tmp_path / "speed.csv"
    command = [sys.executable, str(BENCH / "speed" / "search.py"), "--shapes", "small", "--repeat", "1"]
    only = ["--only", "polyref", "products", "profile", "--csv", str(table)]
    done = subprocess.run([*command, *only], check=True, capture_output=True, text=True)
    with table.open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["shape"], first["threads"], first["program"]) == ("small", "1", "polyref")
    assert first["against_polyref"] == ""
    assert f"| products | {second['cpu_seconds_a_sentence']} |" in done.stdout
    assert f"| {second['against_polyref']}x |" in done.stdout
    parts = (tmp_path / "speed-parts.csv").read_text().splitlines()
    assert any(line.startswith("small,1,selection,") for line in parts)


def test_rows_of_bertscore() -> None:
    from bertscore import cells

    there = {"seconds": 4.0, "megabytes": 900.4}
    here = {"seconds": 2.0, "cached": 3.0, "later": 0.5, "later_encoded": 7, "encoded": 70, "megabytes": 800.4}
    row = cells(11, there, here, 1e-7)
    assert (row["references"], row["bert_score_cpu_seconds"], row["polyref_cpu_seconds"]) == ("11", "4.0", "2.0")
    assert (row["ratio"], row["polyref_filling_the_cache"], row["one_more_system_later"]) == ("2.0", "3.0", "0.50")
    assert (row["texts_it_encodes"], row["of_all_texts"], row["largest_difference"]) == ("7", "70", "1e-07")
    assert (row["peak_memory_mb"], row["bert_score_peak_memory_mb"]) == ("800", "900")


def test_rows_of_long_texts_are_from_commits_in_the_ledger() -> None:
    from raw_tables import read

    looks = {(row["part"], row["commit"]) for row in read(REPOSITORY / "docs" / "benchmarks" / "ledger.csv")}
    rows = [row for row in read(REPOSITORY / "docs" / "benchmarks" / "long-texts.csv") if row["set"] == "summeval"]
    assert rows and all(("long texts", row["commit"]) in looks for row in rows)

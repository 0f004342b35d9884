"""What people see on a terminal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from polyref.cli.main import cli
from polyref.tables import Cell, Column, Table, latex_table, shown, text_table, written
from polyref.values import html_table


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain Ünïcode 中文", "plain Ünïcode 中文"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r\t", r"two\nlines\r\t"),
        ("\x9b2J", r"\x9b2J"),
        ("a\u2028b\u202ec", r"a\u2028b\u202ec"),
        # A byte of a file name that is not UTF-8, and half of a surrogate pair.
        ("\udcff", r"\xff"),
        ("\ud800", r"\ud800"),
        # Joiners belong to words of some languages.
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_rows_of_a_table_stay_one_line_each() -> None:
    lines = text_table(["system", "sco\nre"], [["a\nb\x1b[2J", "1.5"], ["c", "2"]]).splitlines()
    assert lines == [
        r"system       sco\nre",
        "-----------  -------",
        r"a\nb\x1b[2J      1.5",
        "c                  2",
    ]


def test_what_turns_the_direction_of_writing_is_shown_on_pages() -> None:
    text = "\u202egnp.exe\u2066"
    assert html_table((text,), [(text,)], caption=text).count(r"\u202egnp.exe\u2066") == 3
    assert "\u202e" not in html_table((text,), [(text,)], caption=text) + latex_table((text,), [(text,)])
    assert html_table(("\u200fעברית",), []).count("\u200fעברית") == 1


def test_names_of_systems(tmp_path: Path) -> None:
    (tmp_path / "ref.txt").write_text("a b c d\n")
    system = tmp_path / "sys\x1b[2J\nB.txt"
    system.write_text("a b c d\n")
    run = CliRunner().invoke(cli, ["score", str(tmp_path / "ref.txt"), "-i", str(system), "-m", "bleu"])
    assert run.exit_code == 0, run.output
    assert "\x1b" not in run.output
    assert any(line.startswith(r"sys\x1b[2J\nB") and "100" in line for line in run.output.splitlines())


def test_a_column_is_said_once_for_texts_and_pages() -> None:
    columns: list[Column[dict[str, Any]]] = [
        Column("name", lambda one: one["name"]),
        Column("", lambda one: one["name"].upper(), page="place"),
        Column("gain", lambda one: one.get("gain"), 3, "+"),
        Column("p", lambda one: one.get("p"), 4, p=True, page="p, one-sided"),
        Column("n", lambda one: one["n"], sign=",", whole=True),
        Column("refs", lambda one: one.get("refs"), 1, page="", form=".3g"),
        Column("nothing", lambda one: None),
    ]
    rows = [{"name": "a-b", "gain": -0.0004, "p": 0.0, "n": 1200}, {"name": "c", "refs": 10.84, "n": 3, "p": math.nan}]
    table = Table("title", columns, rows)
    text = table.in_text.filled()
    assert text.header == ["name", "gain", "p", "n", "refs"]
    assert text.texts() == [["a-b", "+0.000", "<0.0001", "1,200", "-"], ["c", "-", "-", "3", "10.8"]]
    assert text.texts(1)[0][1:3] == ["+0.0", "<0.1"]
    page = table.on_page.filled("nothing").without("n")
    assert page.header == ["name", "place", "gain", "p, one-sided", "nothing"]
    assert page.rows[0] == [Cell("a-b"), Cell("A-B"), Cell("+0.000", -0.0004), Cell("<0.0001", 0.0), Cell("–")]
    assert page.rows[1][2:] == [Cell("–")] * 3
    assert [one.number for one in page.columns] == [False, False, True, True, False]


def test_values_as_people_read_them() -> None:
    assert (written(-0.00001, 4), written(-0.5, 1), written(1234.5, 0, ",")) == ("0.0000", "-0.5", "1,234")
    assert written((-0.25, math.nan), 2, "+", nothing="–") == "[-0.25, –]"
    assert (written("text"), written(None), written(7)) == ("text", "-", "7")
    assert (written(0.00001, 4, p=True), written(0.0, 0, p=True)) == ("<0.0001", "0")

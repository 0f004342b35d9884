"""What people see on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from polyref.cli.main import cli
from polyref.tables import shown, text_table


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


def test_names_of_systems(tmp_path: Path) -> None:
    (tmp_path / "ref.txt").write_text("a b c d\n")
    system = tmp_path / "sys\x1b[2J\nB.txt"
    system.write_text("a b c d\n")
    run = CliRunner().invoke(cli, ["score", str(tmp_path / "ref.txt"), "-i", str(system), "-m", "bleu"])
    assert run.exit_code == 0, run.output
    assert "\x1b" not in run.output
    assert any(line.startswith(r"sys\x1b[2J\nB") and "100" in line for line in run.output.splitlines())

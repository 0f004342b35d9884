"""Several processes: the same bytes as one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from polyref.augment import augment
from polyref.cli.augment import command as augment_command
from polyref.cli.paraphrase import command as paraphrase_command
from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.in_processes import InProcesses
from polyref.paraphrase.lexical import LexicalParaphraser
from polyref.paraphrase.loading import processes_for
from polyref.processes import available

PLACES = ("Harbour", "Station", "Market", "Mill", "Garden", "Bridge", "Castle")
LINES = [f"The {PLACES[n % 7].lower()} opens at {n % 9 + 2} and has room for {n + 20} people." for n in range(70)]

LOADING = {"jobs": None, "threads": None, "device": "cpu", "backend": "polyref"}


def test_one_process_a_core_where_there_are_texts_for_it() -> None:
    assert processes_for(LOADING, 100) == {"jobs": 1, "threads": None}
    assert processes_for(LOADING, 100_000)["jobs"] == available()
    assert processes_for({**LOADING, "jobs": 3}, 1) == {"jobs": 3, "threads": 1}
    assert processes_for({**LOADING, "jobs": 1}, 100_000) == {"jobs": 1, "threads": 1}
    assert processes_for({**LOADING, "threads": 2}, 100_000) == {"jobs": 1, "threads": 2}
    assert processes_for({**LOADING, "device": "cuda"}, 100_000) == {"jobs": 1, "threads": None}


@pytest.mark.slow
def test_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    for command, made in ((augment_command, "set"), (paraphrase_command, "lists")):
        for jobs in ("1", "2"):
            arguments = [
                str(tmp_path / "refs.en"),
                "-k",
                "2",
                "--jobs",
                jobs,
                "--no-cache",
                "-o",
                str(tmp_path / (made + jobs)),
            ]
            result = CliRunner().invoke(command, [*arguments, "--quiet"], catch_exceptions=False)
            assert result.exit_code == 0, result.output
        assert (tmp_path / f"{made}1").read_bytes() == (tmp_path / f"{made}2").read_bytes()


@pytest.mark.slow
def test_from_python() -> None:
    several = load_paraphraser("shipped", jobs=2, cache=False)
    assert isinstance(several, InProcesses)
    one = load_paraphraser("shipped", threads=1, cache=False)
    assert several.describe(None, 4) == one.describe(None, 4)
    text = "She said that the ferry left on time."
    assert several(text, 3) == one(text, 3) and one(text, 3).hypotheses
    assert augment(LINES, several, 2) == augment(LINES, one, 2)
    several.close()


def test_a_table_begins_no_process() -> None:
    """It is done before one has begun, and would have as many as the model beside it."""
    table = load_paraphraser("lexical", jobs=2)
    assert isinstance(table, LexicalParaphraser) and table.reload is not None

"""The tutorials of plug-ins: what their pages say is built as a package, installed and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs/how-to"
#: A line that names a file, and the block that follows it.
_FILE = re.compile(r"^`([\w.-]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Installed:
    """A package in a directory of its own, and commands that see it."""

    def __init__(self, page: str, folder: Path) -> None:
        self.text = (PAGES / page).read_text("utf-8")
        self.files = dict(_FILE.findall(self.text))
        self.home = folder / "installed"
        project = folder / "project"
        project.mkdir()
        for name, content in self.files.items():
            (project / name).write_text(content, "utf-8")
        self.run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project))
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(self.home)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.home)}
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8", env=environment
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.mark.slow
def test_a_statistic(minimal: Path, tmp_path: Path) -> None:
    package = Installed("add-a-statistic.md", tmp_path)
    # Ties count on neither side.
    call = "gamma(np.array([[1.0, 2, 2, 0], [3, 2, 1, 1]]), np.array([1.0, 2, 3, 3])).tolist()"
    done = package.run("-c", f"import numpy as np; from agreement_gamma import gamma; print({call})")
    assert done.stdout.split() == ["[0.0,", "-1.0]"]
    asked = ["-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "chrf", "--statistic", "gamma", "--json"]
    done = package.run("-m", "polyref", "evaluate", str(minimal), *asked, "-n", "50")
    rows = [row for row in json.loads(done.stdout)["rows"] if row["statistic"] == "gamma"]
    assert [(row["level"], row["metric"]) for row in rows] == [
        (level, metric) for level in ("seg", "sys") for metric in ("bleu", "chrf")
    ]
    for row in rows:
        assert -1 <= row["value"] <= 1 and row["ci"][0] <= row["ci"][1] and row["gain"] == 0
    assert " gamma" in " ".join(package.run("-m", "polyref", "evaluate", "--help").stdout.split())


@pytest.mark.slow
def test_a_gold_reader(minimal: Path, tmp_path: Path) -> None:
    package = Installed("add-a-gold-reader.md", tmp_path)
    ratings = tmp_path / "ratings.tsv"
    ratings.write_text(package.files["ratings.tsv"], "utf-8")
    asked = ["-l", "de-en", "--ref", "refA", "--judgements", f"stars={ratings}", "-m", "bleu", "--json", "-n", "0"]
    done = package.run("-m", "polyref", "evaluate", str(minimal), *asked)
    rows = json.loads(done.stdout)["rows"]
    assert {(row["gold"], row["level"], row["n"]) for row in rows} == {("stars", "sys", 3), ("stars", "seg", 9)}
    assert "ratings.tsv: judgements of systems without output passed over: Secret (1)" in done.stderr
    assert "stars" in package.run("-m", "polyref", "evaluate", "--help").stdout

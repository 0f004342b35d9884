"""The page about file formats names every form, and its commands run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.cli.files import FORMS
from polyref.formats import FORMATS
from polyref.formats.columns import ROLES, role_of
from polyref.formats.writing import WRITTEN
from polyref.references import Reference, ReferenceSet, Segment

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "file-formats.md").read_text("utf-8")
READ = list(FORMATS.own)


def test_every_form_is_on_the_page_and_in_the_help() -> None:
    table = PAGE.split("| `--format` |")[1].split("\n\n")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert set(re.findall(r"`([\w-]+)`", first)) == set(READ)
    assert all(f"`{name}`" in PAGE or f"`--to {name}`" in PAGE for name in WRITTEN)
    outputs = {name for line in table.splitlines() for name in re.findall(r"`([\w-]+)` †", line.split("|")[1])}
    assert outputs == {name for name in READ if FORMATS.load_own(name).outputs is not None}
    named = FORMS.split(" or a")[0].split(", ")
    assert set(named) == set(READ) - {"mt-metrics-eval"}


def test_names_of_columns_mean_what_the_page_says() -> None:
    table = PAGE.split("| Role | Names |")[1].split("\n\n")[0].splitlines()[2:]
    rows = {line.split("|")[1].strip(" `"): re.findall(r"`(\w+)`", line.split("|")[2]) for line in table}
    assert list(rows) == list(ROLES)
    for role, names in rows.items():
        for name in names:
            assert role_of(name) == (None if name in {"text", "texts", "sentence"} else role), name


@pytest.mark.slow
def test_the_commands_run(tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = Segment("1", (Reference("Ann paid the bill."), Reference("Ann has paid.", "paraphrase", of=0, rank=0)))
    made = ReferenceSet((one, Segment("2", (Reference("Bob left."),))))
    made.save("refs.polyref.jsonl")
    made.export("newstest2021.zh-en.xml")
    Path("table.tsv").write_text("x\tAnn paid.\tAnn has paid.\ny\tBob left.\tBob left.\n")
    ran = 0
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            command = shlex.split(line, comments=True)
            if command[0] != "polyref":
                continue
            if command[1] == "augment":
                Path("refs.jsonl").write_text('{"number": 1, "english": "Ann paid the bill."}\n')
                command += ["-k", "1", "--quiet"]
            result = polyref(*command[1:])
            assert result.code == 0, (line, result.err)
            ran += 1
    assert ran == 6

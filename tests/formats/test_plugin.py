"""File formats of other packages: the one of the tutorial, built and used as it stands there, and broken ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built_package import blocks, build

from polyref.errors import DataError, UsageError
from polyref.references import Reference, ReferenceSet

GUIDE = (Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "add-a-format.md").read_text("utf-8")
BARS = "7 ||| Ann paid. ||| Ann has paid. ||| It was Ann who paid.\n8 ||| Bob left.\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(GUIDE, tmp_path_factory.mktemp("polyref-bars"))


@pytest.fixture
def refs(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """References with bars in the working folder, and the package on the path."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refs.txt").write_text(BARS, "utf-8")
    return tmp_path / "refs.txt"


def test_the_examples_run(refs: Path, polyref: Callable[..., Any]) -> None:
    names: dict[str, Any] = {}
    exec(blocks(GUIDE, "python")[1], names)
    made = names["references"]
    assert [segment.id for segment in made] == ["7", "8"]
    assert made[0].refs == (
        Reference("Ann paid."),
        Reference("Ann has paid.", kind="paraphrase", of=0, rank=0),
        Reference("It was Ann who paid.", kind="paraphrase", of=0, rank=1),
    )
    assert ReferenceSet.load("refs.jsonl") == made
    Path("system.txt").write_text("Ann has paid.\nBob left.\n", "utf-8")
    (command,) = blocks(GUIDE, "sh")
    result = polyref(*command.split()[1:])
    assert result.code == 0, result.err
    assert "100.0" in result.out


def test_faults_name_file_and_line(refs: Path) -> None:
    refs.write_text(BARS + "9\n", "utf-8")
    with pytest.raises(DataError, match=r"refs\.txt:3: one part, expected an id and a reference"):
        ReferenceSet.load(refs)
    refs.write_text(BARS + "7 ||| Again.\n", "utf-8")
    with pytest.raises(DataError, match=r"refs\.txt:3: the id '7' was already used on line 1"):
        ReferenceSet.load(refs)


def test_other_files_stay_what_they_are(refs: Path) -> None:
    Path("plain.txt").write_text("Ann paid.\nBob left.\n", "utf-8")
    assert ReferenceSet.load("plain.txt").texts() == [["Ann paid."], ["Bob left."]]
    with pytest.raises(UsageError, match="is in the bars form: several reference files must all be plain text"):
        ReferenceSet.load("refs.txt", "plain.txt")


def test_the_format_by_name(refs: Path) -> None:
    Path("odd").write_text("plain\n", "utf-8")
    with pytest.raises(DataError, match="odd:1: one part"):
        ReferenceSet.load("odd", form="bars")
    assert len(ReferenceSet.load("refs.txt", form="plain")) == 2

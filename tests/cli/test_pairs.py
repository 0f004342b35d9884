"""Language pairs as people type them: every command and every kind of set knows one pair by many names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzed_sets import archive_files, text_release_files, xml_release

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
TYPED = ("de-en", "de-en_US", "deu-eng", "deu_Latn-eng_Latn", "DE-EN")
EVALUATED = ("--ref", "refA", "--gold", "mqm", "-n", "0", "-m", "bleu", "--json")


def _renamed(folder: Path, pair: str) -> Path:
    """The small set under another name of its pair."""
    shutil.copytree(MINIMAL, folder)
    for path in sorted(folder.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", pair)))
    return folder


def _rows(run: Any) -> list[dict[str, Any]]:
    assert run.code == 0, run.err
    return [{key: value for key, value in row.items() if key not in ("pair", "set")} for row in run.json()["rows"]]


@pytest.mark.parametrize("named", ["de-en", "deu_Latn-eng_Latn", "de-en_GB"])
def test_a_folder_is_evaluated_whatever_its_pair_is_called(
    polyref: Callable[..., Any], tmp_path: Path, named: str
) -> None:
    added = (*EVALUATED, "--refs", "{}/paraphrases/{{pair}}.refA.jsonl")
    whole = _rows(polyref("evaluate", MINIMAL, "-l", "de-en", *(one.format(MINIMAL) for one in added)))
    assert any(row["k"] for row in whole)
    folder = _renamed(tmp_path / "set", named)
    for typed in TYPED:
        if named == "de-en_GB" and typed == "de-en_US":
            continue
        run = polyref("evaluate", folder, "-l", typed, *(one.format(folder) for one in added))
        assert _rows(run) == whole
        assert {row["pair"] for row in run.json()["rows"]} == {named}
    twice = polyref("evaluate", folder, "-l", "de-en", "deu_Latn-eng_Latn", *(one.format(folder) for one in added))
    assert _rows(twice) == whole


def test_releases_and_archives(polyref: Callable[..., Any], tmp_path: Path) -> None:
    for name, files in (("text", text_release_files(MINIMAL)), ("archive", archive_files())):
        for path, content in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(content)
    (tmp_path / "xml").mkdir()
    (tmp_path / "xml/t.de-en.all.xml").write_text(xml_release(MINIMAL), "utf-8")
    shutil.copytree(MINIMAL / "human-scores", tmp_path / "xml/human-scores")
    shutil.copytree(MINIMAL / "human-scores", tmp_path / "text/human-scores", dirs_exist_ok=True)
    one = ("-n", "0", "--json")
    for where, options in (
        ("text", EVALUATED),
        ("xml", (*EVALUATED, "--test-suites")),
        ("xml/t.de-en.all.xml", (*EVALUATED, "--test-suites")),
        ("archive", ("-m", "M", "--gold", "darr", *one)),
    ):
        expected = polyref("evaluate", tmp_path / where, "-l", "de-en", *options)
        assert expected.code == 0, expected.err
        found = polyref("evaluate", tmp_path / where, "-l", "deu_Latn-eng_Latn", *options)
        assert found.out == expected.out


def test_references_of_a_folder_and_of_the_general_task(polyref: Callable[..., Any], tmp_path: Path) -> None:
    folder = _renamed(tmp_path / "set", "deu_Latn-eng_Latn")
    shutil.copy(folder / "references/deu_Latn-eng_Latn.refA.txt", folder / "references/deu_Latn-ces_Latn.refA.txt")
    output = folder / "system-outputs/deu_Latn-eng_Latn/Alpha.txt"
    found = {
        typed: polyref("score", folder, "-l", typed, "-i", output, "--fields", "refA=reference") for typed in TYPED
    }
    assert all(run.code == 0 for run in found.values())
    assert len({run.out for run in found.values()}) == 1
    run = polyref("score", folder, "-l", "de-fr", "-i", output)
    assert run.code == 1
    assert "no references for de-fr, there are: deu_Latn-ces_Latn, deu_Latn-eng_Latn" in run.err


def test_several_pairs_that_fit_are_listed(polyref: Callable[..., Any], tmp_path: Path) -> None:
    folder = _renamed(tmp_path / "set", "en-zh_CN")
    for kind in ("system-outputs", "references"):
        for path in sorted((folder / kind).glob("en-zh_CN*")):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, path.with_name(path.name.replace("en-zh_CN", "en-zh_TW")))
    for arguments in (
        ("evaluate", folder, "-l", "en-zh", *EVALUATED),
        ("score", folder, "-l", "en-zh", "-i", folder / "system-outputs/en-zh_CN/Alpha.txt"),
        ("submit", folder, "-l", "en-zh", "--ref", "refA", "-m", "bleu", "--name", "x", "--testset", "t", "--year",
         "2024", "-o", tmp_path / "out"),
    ):  # fmt: skip
        run = polyref(*arguments)
        assert run.code == 2
        assert run.err.startswith(
            f"polyref: error: {folder}: en-zh may be any of en-zh_CN, en-zh_TW (name one of them)"
        )
    assert polyref("evaluate", folder, "-l", "eng_Latn-zho_Hans", *EVALUATED).code == 0

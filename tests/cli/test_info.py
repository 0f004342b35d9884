"""``polyref info`` as people use it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from polyref.models.checkpoints.seq2seq import PRISM_LANGUAGES
from polyref.models.language_recognition import language_name


@pytest.mark.slow
def test_the_shipped_model_in_words(polyref: Callable[..., Any]) -> None:
    result = polyref("info")
    assert result.code == 0, result.err
    lines = dict(line.split(maxsplit=1) for line in result.out.splitlines() if not line.startswith(" "))
    assert lines["name"] == "polyref-en"
    assert lines["family"] == "polyref, pointer"
    assert lines["languages"] == "en"
    assert lines["signature"].startswith("polyref-en|sha:") and max(map(len, result.out.splitlines())) <= 100
    assert lines["decoding"] == "dbs(beam=8,groups=2,strength=0.5,closeness=3)" and lines["precision"] == "int8"
    assert lines["generators"].startswith("shipped, checkpoint, fairseq")
    assert lines["products"].split(maxsplit=1)[0] in ("onednn", "default")


@pytest.mark.slow
def test_json_agrees_with_the_signature_of_results(polyref: Callable[..., Any], tmp_path: Path) -> None:
    printed = polyref("info", "shipped/en", "--json").json()
    (row,) = printed["rows"]
    (tmp_path / "in.txt").write_text("It rained.\n", "utf-8")
    for mode, split in (("whole", ""), ("long", f"+sentences(>30,en,sentencex={version('sentencex')})")):
        result = polyref("paraphrase", tmp_path / "in.txt", "--json", "--quiet", "--sentences", mode).json()
        assert result["signature"] == f"{printed['signature']}|{row['decoding']}{split}|k:10"
    assert row["hash"] in printed["signature"]
    assert row["products"]["library"] in ("onednn", "default") and row["products"]["reason"]


@pytest.mark.slow
def test_a_library_that_does_not_exist_is_one_line(
    polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYREF_PRODUCTS", "fast")
    result = polyref("info")
    assert (result.code, result.out) == (2, "")
    assert "POLYREF_PRODUCTS is 'fast', expected one of auto, onednn, default" in result.err


def test_what_is_no_model_is_one_line(polyref: Callable[..., Any], tmp_path: Path) -> None:
    for name, message in (
        ("nothing-here", "no such model folder"),
        ("0123456789", "0123456789: no signature with this hash is kept here (score or evaluate again"),
        (tmp_path, "neither checkpoint.pt"),
    ):
        result = polyref("info", name)
        assert (result.code, result.out) == (1, "")
        assert message in result.err and result.err.count("\n") == 1


@pytest.mark.slow
def test_what_a_model_says_of_itself_is_shown_and_not_obeyed(polyref: Callable[..., Any], tmp_path: Path) -> None:
    from polyref.models.opening import SHIPPED

    folder = Path(shutil.copytree(SHIPPED / "en", tmp_path / "m\x1b[31m"))
    run = polyref("info", folder)
    assert run.code == 0 and "\x1b" not in run.out and r"m\x1b[31m" in run.out.replace("\n            ", "")
    (row,) = polyref("info", folder, "--json").json()["rows"]
    assert row["path"] == str(folder)


def test_the_table_of_languages_is_that_of_the_models() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use-other-models.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| the other languages of Prism")]
    named = {name.strip() for name in row.split(":", 1)[1].split("|")[0].split(",")}
    assert named == {language_name(code) for code in PRISM_LANGUAGES} - {"English"}

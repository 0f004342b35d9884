"""Checks and measures of other packages, in filter files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from polyref.augment.filters import filter_chain, fitting_chain, read_filter
from polyref.errors import DataError, UsageError

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
GUIDE = (DOCS / "how-to" / "add-a-filter.md").read_text("utf-8")
CODE = next(block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "def shouting" in block)
MEASURES = """
class Shorter:
    signature = "shorter"
    most = 0.0

    def __init__(self, lang: str, times: float = 1.0) -> None:
        self.times = times

    def score(self, pairs):
        return [-self.times * len(candidate) for _, candidate in pairs]

    def weight(self, value):
        return 1.0


def nothing():
    return 3
"""
NAMES = ("shouting", "Shorter", "nothing")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    (tmp_path / "my_filters.py").write_text(CODE + MEASURES, "utf-8")
    about = tmp_path / "my_filters-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-filters\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[polyref.filters]\n" + "".join(f"{name.lower()} = my_filters:{name}\n" for name in NAMES)
    )
    monkeypatch.syspath_prepend(tmp_path)

    def written(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text, "utf-8")
        return path

    return written


def test_a_check_of_the_guide(write: Callable[[str], Path]) -> None:
    (check,) = read_filter(write("shouting = true")).checks
    assert check.name == "shouting0.5" and check.accepts("", "NO one") and not check.accepts("", "NOT")
    assert [one.name for one in read_filter(write("links = true\n[shouting]\nallowed = 1")).checks][-1] == "shouting1"
    with pytest.raises(DataError, match=r"\[shouting\]: unknown key 'x', expected some of allowed"):
        read_filter(write("[shouting]\nx = 1"))
    with pytest.raises(
        DataError, match=r"unknown key 'shout', expected some of base, numbers.*, nothing, shorter, sho"
    ):
        read_filter(write("shout = true"))


def test_a_measure(write: Callable[[str], Path]) -> None:
    (measure,) = read_filter(write("[shorter]\ntimes = 2\nmin = -9")).measures
    assert measure.name == "shorter>=-9" and measure.scorer.score([("", "abc")]) == [-6.0]
    with pytest.raises(DataError, match=r"\[shorter\]: 'min' is 1, expected a number of at most 0"):
        read_filter(write("[shorter]\nmin = 1"))


def test_models_are_loaded_once_and_only_where_they_are_asked_for(write: Callable[[str], Path], tmp_path: Path) -> None:
    path = str(write('base = "default"\n[shorter]\nmin = -9'))
    assert [one.name for one in filter_chain(path).measures] == ["shorter>=-9"]
    assert filter_chain(path, models=False).measures == ()
    chain = fitting_chain(path, "en", {"small-model": "a", "good-writer": "b"})
    assert [one.name for one in chain.measures] == ["shorter>=-9"], "those of the first chain"
    assert [bool(one.measures) for one in chain.by_need.values()] == [True, False]
    Path(path).rename(tmp_path / "mine")
    assert filter_chain(str(tmp_path / "mine")).reasons[-1] == "shorter>=-9", "it is a file, whatever its name"
    with pytest.raises(UsageError, match=r"there is no filter 'absent', expected one of default, .*, or a TOML file$"):
        filter_chain("absent")
    told = r"mine compares with references, .* \(name one of default, good-writer, small-model, strict, none\)$"
    with pytest.raises(UsageError, match=told):
        filter_chain(str(tmp_path / "mine"), source_lang="de")


def test_what_is_no_check(write: Callable[[str], Path]) -> None:
    with pytest.raises(UsageError, match=r"mine.toml: \[nothing\]: gave 3, expected a Check"):
        read_filter(write("nothing = true"))

"""Faults of score and ranking files: every one is named with its file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyref.errors import DataError
from polyref.eval.data.score_files import read_segment_scores, read_system_scores
from polyref.eval.judgements.rankings import read_pairs


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "scores"
    path.write_text(text)
    return path


def test_any_white_space_separates(tmp_path: Path) -> None:
    path = _write(tmp_path, "a 1\nb\t2e-3\n c   None \r\n")
    scores = read_system_scores(path, allow_missing=True)
    assert list(scores) == ["a", "b", "c"]
    assert np.array_equal(list(scores.values()), [1, 0.002, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1\na 2\n", "scores:2: system 'a' has a second score, the first is on line 1"),
        ("a 1\nb\n", "scores:2: 1 columns, expected 2: SYSTEM SCORE"),
        ("a 1\n\nb 2\n", "scores:2: 0 columns"),
        ("a ١\n", "scores:1: the score is '١', expected a number"),
        ("a 1 2\n", "scores:1: 3 columns"),
        ("a nan\n", "scores:1: the score is 'nan', expected a finite number"),
        ("a -inf\n", "scores:1: the score is '-inf', expected a finite number"),
        ("a 1,5\n", "scores:1: the score is '1,5', expected a number"),
        ("a none\n", "scores:1: the score is 'none', expected a number"),
        ("", "the file is empty"),
    ],
)
def test_faults_of_system_scores(tmp_path: Path, text: str, message: str) -> None:
    for allow in (True, False):
        with pytest.raises(DataError) as caught:
            read_system_scores(_write(tmp_path, text), allow_missing=allow)
        assert message in str(caught.value)


def test_metrics_may_not_leave_scores_out(tmp_path: Path) -> None:
    path = _write(tmp_path, "a None\n")
    with pytest.raises(DataError, match="scores:1: the score is None, but a metric must score everything"):
        read_system_scores(path, allow_missing=False)
    with pytest.raises(DataError, match="scores:1"):
        read_segment_scores(path, 1, allow_missing=False)


def test_segment_scores(tmp_path: Path) -> None:
    scores = read_segment_scores(_write(tmp_path, "a 1\na None\nb 3\nb 4\n"), None, allow_missing=True)
    assert np.array_equal(scores["a"], [1, np.nan], equal_nan=True)
    assert scores["b"].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1\na 2\nb 3\n", "scores:3: system 'b' has 1 segments, expected 2"),
        ("a 1\nb 3\nb 3\n", "scores:1: system 'a' has 1 segments, expected 2"),
        ("a 1\na 2\na 2\nb 3\nb 3\n", "scores:3: system 'a' has 3 segments, expected 2"),
        ("a 1\na 2\nb 3\nb 4\na 5\na 6\n", "scores:5: system 'a' starts a second block"),
        ("a 1\na x\n", "scores:2: the score is 'x'"),
        ("", "the file is empty"),
    ],
)
def test_faults_of_segment_scores(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_segment_scores(_write(tmp_path, text), 2, allow_missing=True)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0\ta\tb", ":2: segment '0', expected a number from 1 to 3"),
        ("4\ta\tb", ":2: segment '4', expected a number from 1 to 3"),
        ("1.0\ta\tb", ":2: segment '1.0'"),
        ("1\ta\tc", ":2: unknown system 'c', expected one of a, b"),
        ("1\ta\ta", ":2: system 'a' is compared with itself"),
        ("9" * 5000 + "\ta\tb", f":2: segment '{'9' * 59}…', expected"),
        ("1\ta", ":2: 2 columns, expected 3"),
        ("1 a b", ":2: 1 columns, expected 3"),
    ],
)
def test_faults_of_rankings(tmp_path: Path, rows: str, message: str) -> None:
    path = _write(tmp_path, f"seg_id\tbetter\tworse\n{rows}\n")
    with pytest.raises(DataError) as caught:
        read_pairs(path, ["a", "b"], 3)
    assert message in str(caught.value)


def test_rankings_need_their_header_and_a_pair(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=":1: the header is"):
        read_pairs(_write(tmp_path, "1\ta\tb\n"), ["a", "b"], 3)
    with pytest.raises(DataError, match="no pairs"):
        read_pairs(_write(tmp_path, "seg_id\tbetter\tworse\n"), ["a", "b"], 3)

"""A second human reference as the added one: a file of it, or one of the set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref import evaluate
from polyref.errors import DataError, UsageError


def _values(rows: list[dict[str, Any]], k: int) -> dict[tuple[str, str, str], Any]:
    return {(row["level"], row["metric"], row["statistic"]): row["value"] for row in rows if row["k"] == k}


def test_it_counts_as_added(minimal: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"pairs": "de-en", "gold": "mqm", "metrics": ["bleu", "chrf"], "resamples": 0}
    both = evaluate(minimal, ref=["refA", "refB"], **asked).rows
    file = minimal / "references" / "de-en.refB.txt"
    table = tmp_path / "second.tsv"
    table.write_text("reference\n" + file.read_text("utf-8"), "utf-8")
    for references in ("ref:refB", str(file), table):
        found = evaluate(minimal, ref="refA", references=references, ks=[0, 1], **asked)
        assert _values(found.rows, 1) == _values(both, 0), references
        (one,) = found.evaluations
        # One segment has no second reference.
        assert one.references is not None and one.coverage(1) == (1.8, 1)
        assert {ref.kind for segment in one.references for ref in segment.extras} == {"human"}
    with pytest.raises(UsageError, match="no reference 'refC'"):
        evaluate(minimal, ref="refA", references="ref:refC", **asked)
    with pytest.raises(UsageError, match="'refA' is given twice"):
        evaluate(minimal, ref="refA", references="ref:refA", **asked)
    with pytest.raises(DataError, match="holds no added reference: its texts are those of refA"):
        evaluate(minimal, ref="refA", references=minimal / "references" / "de-en.refA.txt", **asked)


def test_at_the_command_line(minimal: Path, polyref: Callable[..., Any]) -> None:
    shared = ["evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0", "--json"]
    several = polyref(
        *shared, "--refs", "human=ref:refB", f"file={minimal / 'references' / 'de-en.refB.txt'}", "-k", "1"
    )
    assert several.code == 0, several.err
    rows = several.json()["rows"]
    values = [[row["value"] for row in rows if row["generator"] == name] for name in ("human", "file")]
    assert values[0] == values[1] and values[0]

"""Every system against the outputs of the others, held against judgements within segments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import polyref
from polyref.errors import UsageError

MINIMAL = Path(__file__).parent / "minimal"
METRICS = ["chrf(combine=mean)", "ter(combine=blend)"]


def _evaluated(**given: Any) -> Any:
    usual = {"ref": "refA", "gold": "mqm", "metrics": METRICS, "peers": "leave-one-out", "resamples": 50}
    return polyref.evaluate(MINIMAL, "de-en", **{**usual, **given})


def _lines(name: str) -> list[str]:
    return (MINIMAL / name).read_text().splitlines()


def test_rows_are_those_of_the_scores_of_segments() -> None:
    table = _evaluated()
    (found,) = table.evaluations
    human = found.gold.segment
    outputs = {name: _lines(f"system-outputs/de-en/{name}.txt") for name in human}
    scored = polyref.score(outputs, _lines("references/de-en.refA.txt"), METRICS, peers="leave-one-out")
    for metric, sign in zip(METRICS, (1, -1), strict=True):
        scores = {
            (row["system"], int(row["segment"]) - 1): sign * row["score"]
            for row in scored.rows
            if row["metric"] == metric
        }
        both = [
            (scores[one, n] - scores[other, n]) * (human[one][n] - human[other][n])
            for one, other in combinations(human, 2)
            for n in range(len(human[one]))
        ]
        told = [value for value in both if value == value and value != 0]
        expected = sum(1 if value > 0 else -1 for value in told) / len(told)
        (row,) = [
            row for row in table.rows
            if (row["metric"], row["k"], row["statistic"]) == (metric, 2, "kendall-without-ties")
        ]  # fmt: skip
        assert row["value"] == pytest.approx(expected)
        assert row["signature"] == next(one["signature"] for one in scored.rows if one["metric"] == metric)
        # The human reference, and up to two systems.
        assert 1 < row["references"] <= 3


def test_there_are_rows_within_segments_alone_and_no_verdicts() -> None:
    table = _evaluated(statistics="pearson-items")
    assert {(row["level"], row["statistic"]) for row in table.rows} == {
        ("seg", name) for name in ("kendall-without-ties", "acc23", "tie-rate", "pearson-items")
    }
    assert all(row["verdict"] is row["gain_ci"] is row["p"] is None for row in table.rows)
    assert "verdict" not in table.text() and "of gain" not in table.text()
    usual = polyref.evaluate(MINIMAL, "de-en", ref="refA", gold="mqm", metrics=METRICS, ks=0, resamples=50)
    values = {(row["metric"], row["statistic"]): row["value"] for row in usual.rows if row["level"] == "seg"}
    humans = [row for row in table.rows if row["k"] == 0 and row["statistic"] != "pearson-items"]
    assert humans and all(row["value"] == values[row["metric"], row["statistic"]] for row in humans)
    assert "|peers:leave-one-out|" in table.signature and "it ranks no systems" in table.notes[-1]
    with pytest.raises(UsageError, match="a report is about systems"):
        table.report("report")


def test_rankings() -> None:
    rows = _evaluated(gold="darr").rows
    assert {row["statistic"] for row in rows} == {"kendall-darr", "kendall-darr-without-ties", "tie-rate"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"peers": "pool.en"}, "`peers` is 'pool.en', expected leave-one-out"),
        ({"metrics": "bleu"}, "but bleu combines them by max"),
        ({"metrics": ["chrf(combine=mean)", "length"]}, "`peers` needs metrics that are computed here"),
        ({"top": 2}, "needs 3 systems or more, but there are 2"),
        ({"ks": 1}, "`ks` is of no use with `peers`"),
        ({"references": str(MINIMAL / "paraphrases/de-en.refA.jsonl")}, "`references` is of no use with `peers`"),
        ({"originals": "replaced"}, "`originals` is of no use with `peers`"),
        ({"over": "both"}, "`over` is of no use with `peers`"),
        ({"pairwise": True}, "`pairwise` is of no use with `peers`"),
        ({"perm_both": 10}, "`perm_both` is of no use with `peers`"),
        ({"statistics": "spearman"}, "spearman does not compare outputs within segments"),
        ({"statistics": "soft-pairwise-accuracy"}, "does not compare outputs within segments"),
    ],
)
def test_what_it_is_not_for_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        _evaluated(**given)
    assert "\n" not in str(refused.value)


def test_the_command(polyref: Callable[..., Any], tmp_path: Path) -> None:
    command = ["evaluate", MINIMAL, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "chrf", "-n", "50"]
    command += ["--peers", "leave-one-out"]
    found = polyref(*command, "--combine", "mean", "--json")
    assert found.code == 0 and "--peers leave-one-out measures how far outputs agree" in found.err
    assert {(row["level"], row["k"]) for row in found.json()["rows"]} == {("seg", 0), ("seg", 2)}
    for options, message in (
        ((), "but chrf combines them by max (set --combine to one of mean, expected, blend)"),
        (("--combine", "mean", "-k", "1"), "-k is of no use with --peers"),
        (("--combine", "mean", "-o", tmp_path / "report"), "--peers is about segments alone"),
    ):
        refused = polyref(*command, *options)
        assert (refused.code, refused.out) == (2, "") and message in refused.err.splitlines()[-1]

"""The rows of evidence.csv, which the README's numbers are from, are those of ``polyref evaluate`` for the same set."""

from __future__ import annotations

import json
import math
import shutil
from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import polyref
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.series import series_of
from polyref.eval.statistics.significance import williams_test
from polyref.metrics.registry import get_metric

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MINIMAL = REPOSITORY / "tests" / "eval" / "minimal"
#: Systems that make five of three, so that scores of systems can be tested: outputs, and people's scores of them.
MORE = {
    "Delta": (
        ["A dog is sleeping.", "She opens it.", "Three apples, we bought.", "It rains.", "He reads."],
        "-2 -1 0 0 -3",
    ),
    "Epsilon": (["The dog is asleep.", "He shut a window.", "We had 3 pears.", "Rain.", "He is old."], "0 -5 -4 -3 -6"),
}
#: Two more references for every segment: of one length, so that placebos are drawn.
ADDED = (
    ("The dog sleeps", "A dog is sleeping"),
    ("She opens a window", "The window is opened"),
    ("We have bought three apples", "Three apples were bought"),
    ("Tomorrow it will rain", "There will be rain"),
    ("He reads an old book", "An old book is what he reads"),
)
USES, KS, SETS, SEED, RESAMPLES = ("max", "blend"), (0, 1, 2), ("here", "there"), 3, 20
LISTS = "paraphrases/de-en.refA.jsonl"
#: Row of evidence.csv -> what `evaluate` calls it.
CONTROLS = {"real": "real", "placebo": "placebo", "difference": "real - placebo"}
Rows = dict[tuple[Any, ...], dict[str, Any]]
Found = tuple[Rows, dict[str, Rows], dict[str, dict[tuple[str, int], float]]]


def made_up(folder: Path, more: Mapping[str, tuple[list[str], str]]) -> None:
    """A set of five systems and five segments, each with two more references."""
    shutil.copytree(MINIMAL, folder)
    refs = (MINIMAL / "references/de-en.refA.txt").read_text().splitlines()
    lists = [[text.ljust(30, "!") for text in texts] for texts in ADDED]
    lines = [{"reference": ref, "paraphrases": texts} for ref, texts in zip(refs, lists, strict=True)]
    (folder / LISTS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, (texts, scores) in more.items():
        (folder / f"system-outputs/de-en/{name}.txt").write_text("".join(f"{text}\n" for text in texts))
        numbers = scores.split()
        with (folder / "human-scores/de-en.mqm.seg.score").open("a") as stream:
            stream.writelines(f"{name}\t{number}\n" for number in numbers)
        with (folder / "human-scores/de-en.mqm.sys.score").open("a") as stream:
            stream.write(f"{name}\t{sum(map(int, numbers)) / 5}\n")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """What the script writes of two sets, which have seeds of their own, and of their average; and what evaluate says.

    In the second set people's scores of the two systems are exchanged.
    """
    folder = tmp_path_factory.mktemp("evidence")
    (first, second), names = MORE.values(), list(MORE)
    made_up(folder / "here", MORE)
    made_up(folder / "there", {names[0]: (first[0], second[1]), names[1]: (second[0], first[1])})
    with pytest.MonkeyPatch.context() as patch:
        for scripts in (REPOSITORY / "scripts" / "bench", REPOSITORY / "scripts" / "bench" / "quality"):
            patch.syspath_prepend(scripts)
        import material
        from parts import gains
        from sets import Set

        for name in SETS:
            patch.setitem(material.SETS, name, Set(name, name, "de-en", "refA", "mqm"))
            patch.setitem(material.LISTS, name, f"{name}/{LISTS}")
        patch.setitem(material.AVERAGES, "both", SETS)
        args = Namespace(
            data=folder, work=folder / "work", references=["llm"], metrics=["chrf"], uses=USES, k=[*KS],
            placebo=2, resamples=RESAMPLES, seed=SEED,
        )  # fmt: skip
        table = list(gains.table(SETS, args))
        assert all(tuple(row) == gains.COLUMNS for row in table)
        rows = {tuple(row[name] for name in ("set", "use", "k", "level", "statistic", "row")): row for row in table}
        assert len(rows) == len(table)
        said = {name: evaluated(folder / name, SEED + gains.offset(name)) for name in SETS}
        yield rows, said, {name: over_maximum(folder / name) for name in SETS}


def evaluated(folder: Path, seed: int) -> Rows:
    """What ``polyref.evaluate`` says of the set."""
    table = polyref.evaluate(
        folder, "de-en", ref="refA", references=folder / LISTS, gold="mqm",
        metrics=[f"chrf(combine={use})" for use in USES], ks=[*KS], statistics=["kendall-tau-b-items"],
        placebo=2, resamples=RESAMPLES, seed=seed,
    )  # fmt: skip
    return {
        (use, row["k"], row["level"], row["statistic"], row["control"]): row
        for use, row in product(USES, table.rows)
        if row["metric"] == f"chrf(combine={use})"
    }


def over_maximum(folder: Path) -> dict[tuple[str, int], float]:
    """P-values of Williams' test that a use agrees better than the maximum of as many references."""
    evalset = EvalSet(folder, "de-en")
    people = evalset.gold("mqm").system
    outputs = dict(zip(people, evalset.outputs(list(people)), strict=True))
    references = reference_set(evalset, ["refA"], folder / LISTS)
    series = series_of({use: get_metric("chrf", combine=use) for use in USES}, outputs, references, KS)
    scores = {(one.metric, k): one.system(list(people), k, None) for one, k in product(series, KS)}
    return {key: williams_test(scores[key], scores["max", key[1]], [*people.values()]) for key in scores}  # type: ignore[arg-type]


def number(text: str) -> float:
    """As it is in the table; NaN where there is nothing."""
    return float(text) if text else math.nan


def printed(value: float | None) -> Any:
    """As a number of four digits."""
    return pytest.approx(math.nan if value is None else value, abs=0.5001e-4, nan_ok=True)


def printed_pair(ends: list[float] | None) -> list[Any]:
    """The ends of an interval as they are in the table."""
    return [printed(end) for end in ends or (None, None)]


def test_gains_are_those_that_evaluate_prints(found: Found) -> None:
    rows, said, _ = found
    compared, tested, unlike = set(), set(), 0
    for name in SETS:
        for (found_in, use, k, level, statistic, kind), row in rows.items():
            if found_in != name or kind not in CONTROLS:
                continue
            one = said[name][use, k, level, statistic, CONTROLS[kind]]
            where = (name, use, k, level, statistic, kind)
            assert number(row["value"]) == printed(one["value"]), where
            assert [number(row["low"]), number(row["high"])] == printed_pair(one["ci"]), where
            # A difference is one already.
            assert number(row["gain"]) == printed(one["gain"]), where
            assert [number(row["gain_low"]), number(row["gain_high"])] == printed_pair(one["gain_ci"]), where
            assert row["n"] == one["n"], where
            if row["p"]:
                assert (level, kind) == ("sys", "real") and number(row["p"]) == printed(one["p_williams"]), where
                tested.add((use, k))
            compared.add((use, k, kind))
            unlike += abs(one["gain"] or 0) > 0.01
    assert compared == {("max", 0, "real"), *product(USES, (1, 2), CONTROLS)}
    assert tested == set(product(USES, (1, 2)))
    assert unlike > 20, "gains of nothing compare nothing"


def test_uses_are_held_against_the_maximum(found: Found) -> None:
    rows, said, p = found
    above = 0
    for name in SETS:
        for (found_in, use, k, level, statistic, kind), row in rows.items():
            control = {"over-max": "real", "difference-over-max": "real - placebo"}.get(kind)
            if found_in == name and control is not None:
                one, most = (said[name][which, k, level, statistic, control]["value"] for which in (use, "max"))
                assert number(row["value"]) == printed(one - most) and row["gain"] == ""
                assert use != "max" and k
                tested = level == "sys" and kind == "over-max"
                assert number(row["p"]) == printed(p[name][use, k] if tested else None)
                above += abs(one - most) > 0.01
    assert above > 10


def test_an_average_is_that_of_its_sets(found: Found) -> None:
    rows, *_ = found
    unlike = 0
    averages = {key[1:]: row for key, row in rows.items() if key[0] == "both"}
    assert set(averages) == {key[1:] for key in rows if key[0] == "here"}
    for rest, row in averages.items():
        parts = [rows[(name, *rest)] for name in SETS]
        for column in ("value", "gain"):
            one, other = (number(part[column]) for part in parts)
            assert number(row[column]) == pytest.approx((one + other) / 2, abs=1.01e-4, nan_ok=True), (rest, column)
            unlike += abs(one - other) > 0.01
    assert unlike > 20

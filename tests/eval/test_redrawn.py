"""Intervals that redraw segments, systems or both: what is redrawn, what it is called, and how often it misleads."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from polyref.errors import UsageError
from polyref.eval.agreement import Row, Verdict, verdict
from polyref.eval.api import evaluate
from polyref.eval.data.reference_sets import LengthLeft
from polyref.eval.data.score_files import Gold, RankingPairs
from polyref.eval.evaluation import NO_PLACEBO, Evaluation
from polyref.eval.statistics import named
from polyref.eval.statistics.base import Bootstrap, People, Statistic
from polyref.eval.statistics.correlation import kendall_tau_b, pearson
from polyref.eval.statistics.within_segments import tie_threshold
from polyref.metrics.api import NO_HUMAN
from polyref.references import Reference, ReferenceSet, Segment

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/bench/exactness/interval_levels.py"
OVER = ["segments", "systems", "both"]


@pytest.fixture
def cells() -> tuple[np.ndarray, np.ndarray]:
    """Scores and human scores of 6 systems and 30 segments, with ties and unjudged cells."""
    generator = np.random.default_rng(5)
    human = np.round(generator.normal(size=(6, 30)))
    scores = np.round(human + generator.normal(size=human.shape), 1)
    human[generator.random(human.shape) < 0.2] = np.nan
    return scores, human


def _people(human: np.ndarray, over: str, resamples: int = 8) -> People:
    return People(human, np.ones(human.shape[-1], dtype=np.bool_), Bootstrap(resamples, over=over))


def _drawn(people: People, number: int, segments: int) -> tuple[list[int], list[int]]:
    """Rows and columns of one redrawn test set."""
    systems = len(people.scores)
    rows = np.ones(systems) if people.system_draws is None else people.system_draws[number]
    columns = np.ones(segments) if people.draws is None else people.draws[number]
    return [i for i, count in enumerate(rows) for _ in range(int(count))], [
        i for i, count in enumerate(columns) for _ in range(int(count))
    ]


def _pairs(scores: np.ndarray, human: np.ndarray, rows: list[int], columns: list[int]) -> list[list[tuple[int, int]]]:
    """Orders by metric and people of every pair of outputs, a list for every drawn segment."""
    found: list[list[tuple[int, int]]] = []
    for s in columns:
        found.append([])
        for place, i in enumerate(rows):
            for j in rows[:place]:
                if i != j and not np.isnan(human[i, s] + human[j, s]):
                    metric, people = scores[i, s] - scores[j, s], human[i, s] - human[j, s]
                    found[-1].append((int(np.sign(metric)), int(np.sign(people))))
    return found


@pytest.mark.parametrize("over", OVER)
def test_within_segments(cells: tuple[np.ndarray, np.ndarray], over: str) -> None:
    scores, human = cells
    people = _people(human, over)
    tau, rate = named.KENDALL_WITHOUT_TIES.against(people)(scores), named.TIE_RATE[1].against(people)(scores)
    assert len(tau) == len(rate) == 9
    every = _pairs(scores, human, list(range(6)), list(range(30)))
    for number in range(-1, 8):
        drawn = every if number < 0 else _pairs(scores, human, *_drawn(people, number, 30))
        ordered = [pair for segment in drawn for pair in segment if pair[1]]
        told = [pair for pair in ordered if pair[0]]
        right = sum(metric == gold for metric, gold in told)
        assert tau[number + 1] == pytest.approx((2 * right - len(told)) / len(told), abs=1e-12)
        assert rate[number + 1] == pytest.approx(1 - len(told) / len(ordered), abs=1e-12)


@pytest.mark.parametrize("over", OVER)
def test_accuracy_with_ties(cells: tuple[np.ndarray, np.ndarray], over: str) -> None:
    scores, human = cells
    people = _people(human, over)
    found = named.ACC23.against(people)(scores)
    threshold = tie_threshold(scores, human)
    # With a difference up to the threshold as a tie.
    coarse = np.where(np.isnan(human), np.nan, scores)
    for number in range(8):
        rows, columns = _drawn(people, number, 30)
        shares = []
        for s in columns:
            right = []
            for place, i in enumerate(rows):
                for j in rows[:place]:
                    if i != j and not np.isnan(coarse[i, s] + coarse[j, s]):
                        difference = scores[i, s] - scores[j, s]
                        order = 0.0 if abs(difference) <= threshold else np.sign(difference)
                        right.append(order == np.sign(human[i, s] - human[j, s]))
            if right:
                shares.append(np.mean(right))
        assert found[number + 1] == pytest.approx(np.mean(shares), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("statistic", [named.KENDALL_TAU_B[1], named.PEARSON[1], named.KENDALL_TAU_B_ITEMS,
                                       named.PEARSON_ITEMS])  # fmt: skip
def test_a_system_drawn_twice_is_there_twice(
    cells: tuple[np.ndarray, np.ndarray], over: str, statistic: Statistic
) -> None:
    scores, human = cells
    people = _people(human, over)
    found = statistic.against(people)(scores)
    correlation = kendall_tau_b if "kendall" in statistic.name else pearson
    for number in range(8):
        x, y = (values[np.ix_(*_drawn(people, number, 30))] for values in (scores, human))
        groups = [(x.ravel(), y.ravel())] if statistic.pooled else list(zip(x.T, y.T, strict=True))
        groups = [(a[~np.isnan(b)], b[~np.isnan(b)]) for a, b in groups]
        values = [correlation(a, b) for a, b in groups if len(a) > 1]
        assert found[number + 1] == pytest.approx(np.nanmean(values), abs=1e-12)


@pytest.mark.parametrize("over", OVER)
def test_rankings(cells: tuple[np.ndarray, np.ndarray], over: str) -> None:
    scores, _ = cells
    generator = np.random.default_rng(2)
    better, worse = generator.integers(0, 3, size=60), generator.integers(3, 6, size=60)
    pairs = RankingPairs(generator.integers(30, size=60), better, worse, tuple("abcdef"))
    universe = np.bincount(pairs.segment, minlength=30).astype(np.bool_)
    people = People(np.zeros(0), universe, Bootstrap(8, over=over), pairs)
    found = named.KENDALL_DARR.against(people)(scores)
    assert len(found) == 9
    for number in range(8):
        systems = np.ones(6) if people.system_draws is None else people.system_draws[number]
        columns = np.ones(30) if people.draws is None else people.draws[number]
        weights = systems[better] * systems[worse] * columns[pairs.segment]
        right = scores[better, pairs.segment] > scores[worse, pairs.segment]
        assert found[number + 1] == pytest.approx((weights @ np.where(right, 1.0, -1.0)) / weights.sum(), abs=1e-12)


@pytest.mark.parametrize("over", OVER)
def test_systems(over: str) -> None:
    generator = np.random.default_rng(3)
    human, scores = generator.normal(size=9), generator.normal(size=(9, 9))
    people = _people(human, over)
    rows = scores if over != "systems" else scores[:1]
    found = named.PEARSON[0].against(people)(rows)
    assert found[0] == pytest.approx(scipy.stats.pearsonr(scores[0], human).statistic, abs=1e-12)
    for number in range(8):
        chosen, _ = _drawn(people, number, 9)
        row = scores[0 if over == "systems" else number + 1]
        expected = scipy.stats.pearsonr(row[chosen], human[chosen]).statistic
        assert found[number + 1] == pytest.approx(expected, abs=1e-12)


def test_segments_and_systems_are_drawn_independently_and_alike_for_all() -> None:
    both, segments, systems = (Bootstrap(50, over=over) for over in ("both", "segments", "systems"))
    everyone = np.ones(7, dtype=np.bool_)
    assert np.array_equal(both.draws(everyone), segments.draws(everyone))  # type: ignore[arg-type]
    assert np.array_equal(both.system_draws(7), systems.system_draws(7))  # type: ignore[arg-type]
    assert segments.system_draws(7) is None and systems.draws(everyone) is None
    drawn = both.system_draws(7)
    assert drawn is not None and (drawn.sum(axis=1) == 7).all()
    assert not np.array_equal(drawn, both.draws(everyone))  # type: ignore[arg-type]
    assert Bootstrap(0, over="both").system_draws(7) is None


@pytest.fixture
def choices(minimal: Path) -> dict[str, Any]:
    return {
        "data": minimal,
        "pairs": "de-en",
        "gold": "mqm",
        "ref": "refA",
        "references": f"{minimal}/paraphrases/de-en.refA.jsonl",
        "metrics": ["bleu", "length"],
        "ks": [0, 2],
        "resamples": 40,
    }


def test_rows_say_what_was_redrawn(choices: dict[str, Any], polyref: Any) -> None:
    names = {}
    for over in OVER:
        table = evaluate(**choices, over=over)
        for row in table.rows:
            assert (row["redrawn"] is None) == (row["ci"] is None)
            names[over, row["level"], row["metric"]] = row["redrawn"]
        assert f"|bootstrap:{'segments+systems' if over == 'both' else over}*40|" in table.signature
    # A file of scores of systems has no segments to redraw.
    assert {key: name for key, name in names.items() if key[1] == "sys"} == {
        ("segments", "sys", "bleu"): "segments",
        ("segments", "sys", "length"): None,
        ("systems", "sys", "bleu"): "systems",
        ("systems", "sys", "length"): "systems",
        ("both", "sys", "bleu"): "segments and systems",
        ("both", "sys", "length"): "systems",
    }
    assert {names[over, "seg", "length"] for over in OVER} == {"segments", "systems", "segments and systems"}
    with pytest.raises(UsageError, match="`over` is 'people', expected one of segments, systems, both"):
        evaluate(**choices, over="people")


NOT_BEYOND = "the gain is significant, the gain beyond the placebo is not"


def _row(level: str, redrawn: str, gain_ci: tuple[float, float] | None, p: float | None = None, **more: Any) -> Row:
    statistic = "pearson" if level == "sys" else "kendall-without-ties"
    given = {"gold": "g", "metric": "m", "k": 5, "statistic": statistic, "value": 0.5, "gain": 0.1, "n": 9, "ci": None}
    return Row(level=level, redrawn=redrawn, gain_ci=gain_ci, p=p, segments=9, **{**given, **more})


def test_verdicts_never_come_from_intervals() -> None:
    above, below, around = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.1)
    for interval, level in itertools.product((above, below, around), ("sys", "seg")):
        assert verdict(_row(level, "segments", interval)).word == ""
        assert verdict(_row(level, "segments", interval, 0.01)).word == "gains"
        assert verdict(_row(level, "segments", interval, 0.99, gain=-0.1)).word == "worse"
        assert verdict(_row(level, "segments", interval, 0.04)).word == "unclear"
        # Between metrics no reference is added.
        assert verdict(_row(level, "segments", interval, 0.01, k=0)).word == "better"
    assert verdict(_row("seg", "segments", above, 0.01, statistic="tie-rate")).word == ""
    assert verdict(_row("seg", "segments", above, 0.01, control="placebo")).word == ""
    # Pooled over all segments: no verdict, whatever was redrawn.
    for statistic in ("pearson", "kendall-tau-b"):
        row = _row("seg", "segments and systems", above, 0.01, statistic=statistic)
        assert verdict(row).word == ""


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"k": 0, "p": 0.01}, "better"),
        ({"k": 0, "p": 0.99, "gain": -0.1}, "worse"),
        ({"k": 0, "p": 0.01, "gain": 1.0}, "better"),
        ({"k": 0, "p": 0.5}, "unclear"),
        ({"k": 0, "p": 0.5, "gain": 0.0}, ""),  # it is what others are held against
        ({"k": 5, "p": 0.5, "gain": 0.0}, "unclear"),
        ({"k": 5, "p": 0.01, "gain": float("nan")}, ""),
        ({"k": 5, "p": None}, ""),
        ({"k": 5, "p": float("nan")}, "unclear"),  # of too few systems
        ({"k": 5, "p": 0.001, "gain": 1e-13}, "unclear"),  # equal, but for rounding
        ({"k": 5, "p": 0.025}, "unclear"),
        ({"k": 5, "p": 0.0249}, "gains"),
        ({"k": 5, "p": 0.975, "gain": -0.1}, "unclear"),
        ({"k": 5, "p": 0.01, "statistic": "of another experiment"}, "gains"),
    ],
)
def test_words_at_their_limits(change: dict[str, Any], word: str) -> None:
    assert verdict(_row("sys", "", None, **{"p": 0.5, **change})).word == word


@pytest.mark.parametrize(
    ("gain", "beyond", "word", "reason"),
    [
        (0.01, 0.01, "better", False),
        (0.01, 0.3, "unclear", True),
        (0.3, 0.01, "unclear", True),
        (0.3, 0.3, "unclear", False),
        (0.01, 0.99, "unclear", True),
        (0.99, 0.01, "worse", False),
        (0.99, 0.3, "worse", False),
    ],
    ids=["both", "gain-alone", "beyond-alone", "neither", "placebo-gains-more", "loss-beyond", "loss"],
)
def test_better_needs_the_gain_and_the_gain_beyond_the_placebo(
    gain: float, beyond: float, word: str, reason: bool
) -> None:
    row = _row("seg", "segments", None, gain, gain=0.1 if gain < 0.5 else -0.1)
    told = verdict(row, _row("seg", "segments", None, beyond, gain=None, control="real - placebo"))
    said = "the gain beyond the placebo is significant, the gain is not" if gain > 0.1 else NOT_BEYOND
    assert told == Verdict(word, said if reason else "")


def test_doubts_withhold_every_verdict_on_added_references() -> None:
    doubts = ["circular", "odd"]
    beyond = _row("seg", "segments", None, 0.01, gain=None, control="real - placebo")
    for more in (None, beyond):
        told = verdict(_row("seg", "segments", None, 0.01), more, doubts)
        assert (told.word, told.reason) == ("withheld", "circular; odd")
        assert verdict(_row("seg", "segments", None, 0.3), more, doubts).word == "withheld"
        assert verdict(_row("seg", "segments", None, 0.99, gain=-0.1), more, doubts).word == "withheld"
    # No reference is added.
    assert verdict(_row("seg", "segments", None, 0.01, k=0), None, doubts).word == "better"


@pytest.mark.slow
def test_equal_metrics_are_seldom_called_different() -> None:
    """The level of every way to a verdict, where two metrics are drawn alike."""
    spec = importlib.util.spec_from_file_location("interval_levels", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["interval_levels"] = module
    spec.loader.exec_module(module)
    trial, numbers = partial(module.made_up, 12, 60, 0.3), range(1, 151)
    of_intervals = partial(module.of_intervals, resamples=200)
    found = module.counted(trial, numbers, module.verdicts) | module.counted(trial, numbers, of_intervals)
    wrong = {(statistic, name): count / 150 for (_, statistic, _, name), count in found.items()}
    assert {statistic for statistic, _ in wrong} == {
        one.name for one in module.with_verdict() if one.needs != "rankings"
    }
    # Three standard errors of 150 trials above 5 %.
    from_verdicts = {key: share for key, share in wrong.items() if key[1] in ("jackknife", "PERM-SYSTEMS")}
    assert len(from_verdicts) == 10 and max(from_verdicts.values()) < 0.104, from_verdicts
    both = "segments and systems"
    assert wrong["pearson", "Williams' test"] < 0.104
    assert wrong["pearson", both] < 0.104
    assert wrong["kendall-without-ties", "jackknife"] > 0
    assert wrong["kendall-without-ties", both] < 0.104
    # Over segments alone the systems are held fixed: such intervals say nothing about others.
    assert wrong["pearson", "segments"] > 0.3
    assert wrong["kendall-without-ties", "segments"] > 0.15


def test_doubts_reach_every_row_of_their_k() -> None:
    """What an evaluation says of its rows: table, JSON and report take it from there."""
    real = [_row("seg", "segments", (0.1, 0.3), 0.001, k=k) for k in (5, 10)]
    fake = [_row("seg", "segments", None, control="placebo", k=k) for k in (5, 10)]
    beyond = [_row("seg", "segments", None, 0.001, gain=None, value=0.04, control="real - placebo", k=k)
              for k in (5, 10)]  # fmt: skip
    controls = [row for both in zip(fake, beyond, strict=True) for row in both]
    gold = Gold("g", None, {})
    one = Evaluation(set_name="s", pair="de-en", gold=gold, series=[], systems=[], ks=[5, 10], rows=real, signature="",
                     signatures={("m", 5): "", ("m", 10): ""}, controls=controls,
                     doubts={10: ["circular references"]})  # fmt: skip
    assert [one.verdict(row).word for row in (*real, *beyond)] == ["better", "withheld"] * 2
    assert [one.verdict(row).word for row in fake] == ["", ""]
    # What may be claimed is the smaller of the gain and the gain beyond the placebo.
    assert [one.claim(row) for row in (*real, *beyond)] == [0.04] * 4
    assert one.remarks == ["withheld (1 of 2 rows): circular references"]
    rows = one.row_values()
    assert [row.get("withheld") for row in rows if row["control"] != "placebo"] == [None, "circular references"] * 2
    alone = replace(one, controls=(), doubts={})
    assert [alone.verdict(row).word for row in real] == ["gains"] * 2
    assert [alone.claim(row) for row in real] == [0.1] * 2
    assert alone.remarks[0].startswith("The control was not run: ") and len(alone.remarks) == 1
    assert all("withheld" not in row for row in alone.row_values())


def test_what_is_said_below_a_table_of_verdicts() -> None:
    def said(rows: Sequence[Row], **more: Any) -> list[str]:
        told = Evaluation(set_name="s", pair="de-en", gold=Gold("g", None, {}), series=[], systems=[], ks=[1],
                          rows=rows, signature="", signatures={}, **more)  # fmt: skip
        assert told.claim(_row("sys", "", None, 0.01, metric="of another table")) == 0.1
        return told.remarks

    base = _row("sys", "", None, metric="chrf", k=0, gain=None)
    over_another = _row("sys", "", None, 0.01, metric="ter", k=0)
    gaining = [
        _row("sys", "", None, 0.01, metric=metric, k=1, gain=gain) for metric, gain in (("chrf", 0.2), ("bleu", 0.4))
    ]
    unclear = _row("sys", "", None, 0.3, metric="ter", k=1)
    silent = _row("seg", "", None, 0.01, metric="chrf", k=1, statistic="tie-rate")
    assert said([base, over_another, silent]) == []
    (control,) = said([base, *gaining, unclear, silent])
    assert control.startswith("The control was not run: ")
    left = LengthLeft(0.25, 0.0, 0.01)
    assert said([base, *gaining], length_left=left) == [control, str(left)]
    pseudo = ReferenceSet((Segment("1", (Reference("It is late.", kind="pseudo"),)),))
    assert said([base, *gaining], references=pseudo) == [f"s de-en: {NO_HUMAN}. {NO_PLACEBO}"]

    within = _row("seg", "", None, 0.01, metric="chrf", k=2, gain=0.4)
    blind = [
        _row("sys", "", None, p, metric="length", k=k, gain=0.2, control="length") for k, p in ((1, 0.012), (2, 0.3))
    ]
    blind += [_row("seg", "", None, 0.01, metric="length", k=k, gain=k / 10, control="length") for k in (1, 2, 3)]
    beginning = (
        "Length alone gains as well ({}): a metric that sees only lengths gains 0.2000 (one-sided p = {}) with the "
    )
    of_systems = beginning.format("Pearson's r, systems, k = 1", "0.0120")
    of_segments = beginning.format("Kendall's τ (without ties), within segments, k = 2", "0.0100")
    assert said([base, *gaining, unclear, within], blind=blind[:4]) == [
        control,
        of_systems + "same references, as much as all of the 0.2000 of chrF, 50 % of the 0.4000 of BLEU.",
        of_segments + "same references, as much as 50 % of the 0.4000 of chrF.",
    ]
    assert said([base, within], blind=blind)[1:] == [], "the largest k has no row"

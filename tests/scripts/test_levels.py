"""Tests that polyref recommends hold their level: of two equal things they find a difference in 5 % of the trials.

A smaller form of the table in docs/benchmarks.md, on made-up texts and scores. Trials of a test that holds its level
reject in .05 with a standard deviation of .011 (400 trials) or .015 (200); the seeds are fixed.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from thorough import THOROUGH

from polyref.metrics import get_metric
from polyref.references import ReferenceSet

BENCH = Path(__file__).resolve().parent.parent.parent / "scripts" / "bench"
TRIALS = 400
#: Of tests that compare metrics, which take long.
LONG_TRIALS = 400 if THOROUGH else 200
LOW, HIGH = 0.02, 0.08


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("quality", "exactness"):
        monkeypatch.syspath_prepend(BENCH / folder)


@pytest.mark.slow
def test_corpus_scores_of_two_systems() -> None:
    from parts.levels import corpus_trial, rejected

    rng = np.random.default_rng(1)
    words = np.array(["the", "a", "old", "new", "ship", "house", "sea", "hill", "left", "came", "by", "to"])
    references = [list(rng.choice(words, rng.integers(5, 20))) for _ in range(200)]
    outputs = {}
    for system, spoilt in (("good", 0.1), ("poor", 0.4)):
        changed = [np.where(rng.random(len(r)) < spoilt, rng.choice(words, len(r)), r) for r in references]
        outputs[system] = [" ".join(row) for row in changed]
    metric = get_metric("bleu")
    stats = metric.statistics(outputs, ReferenceSet.from_texts([[" ".join(row)] for row in references]), ks=[0])
    rates = rejected(lambda number: corpus_trial(metric, stats, number, 100, 200), TRIALS)
    assert all(LOW < rates[test] < HIGH for test in ("paired-ar", "paired-bs-shift")), rates
    # What the other one is recommended against, and that these trials can tell.
    assert rates["paired-bs"] > HIGH, rates


@pytest.mark.slow
def test_scores_of_outputs() -> None:
    from parts.levels import output_trial, rejected

    from polyref.eval.system_pairs import paired_t_p, rank_sum_p

    rng = np.random.default_rng(2)
    item = rng.normal(size=500)
    scores = np.stack([item + rng.normal(size=500), 1 + item + 2 * rng.normal(size=500)])
    assert paired_t_p(*scores) < 1e-3  # the two are not equal before their scores are exchanged
    rates = {
        test: rejected(lambda number, t=test: output_trial(scores, t, "p", number, 100), TRIALS)["p"]
        for test in (paired_t_p, rank_sum_p)
    }
    assert LOW < rates[paired_t_p] < HIGH
    # It takes the systems' scores as independent, though a hard segment is hard for both: it finds less than it could.
    assert rates[rank_sum_p] < HIGH


def test_redrawn_segments_tell_a_good_metric_from_a_poor_one() -> None:
    from parts.levels import bootstrap_difference

    rng = np.random.default_rng(0)
    human = rng.normal(size=(8, 1)) + rng.normal(size=(8, 60))
    good, poor = human + rng.normal(size=human.shape), 3 * rng.normal(size=human.shape) + 0.1 * human
    assert bootstrap_difference(good, poor, human, resamples=300, seed=1) < 0.01
    assert bootstrap_difference(poor, good, human, resamples=300, seed=1) > 0.99
    assert bootstrap_difference(good, good, human, resamples=50, seed=1) == 1.0


@pytest.mark.slow
def test_agreement_of_two_metrics() -> None:
    from parts.levels import agreement_trial, rejected, standard

    rng = np.random.default_rng(3)
    human = rng.normal(size=(12, 1)) + rng.normal(size=(12, 300))
    good, poor = (standard(human + noise * rng.normal(size=human.shape)) for noise in (1, 4))

    def of(scores: np.ndarray) -> object:
        return lambda chosen: scores[:, chosen].mean(axis=1)

    rates = rejected(
        lambda number: agreement_trial([good, poor], [of(good), of(poor)], human, number, 60, 99), LONG_TRIALS
    )
    for test in ("PERM-SYSTEMS", "Williams", "PERM-BOTH systems", "PERM-BOTH segments"):
        assert LOW < rates[f"{test}, outputs exchanged"] < HIGH, rates
    # Where metrics are for or against whole systems, what is recommended against does not hold its level.
    assert LOW < rates["PERM-SYSTEMS, systems exchanged"] < HIGH, rates
    assert LOW < rates["PERM-SYSTEMS, means of systems exchanged"] < HIGH, rates
    assert rates["PERM-BOTH systems, systems exchanged"] > HIGH, rates


def _judged(spread: float, noises: tuple[float, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """Metrics that see what people see, with a bias for each system and noise, and people's scores: 12 x 300."""
    from parts.levels import standard

    rng = np.random.default_rng(4)
    human = np.round(rng.normal(size=(12, 1)) + rng.normal(size=(12, 300)), 1)
    cells = [human + spread * rng.normal(size=(12, 1)) + noise * rng.normal(size=human.shape) for noise in noises]
    return [standard(one) for one in cells], human


@pytest.mark.slow
def test_verdicts_hold_their_level_for_outputs_and_for_systems() -> None:
    from interval_levels import counted, exchanged, judged, verdicts, with_verdict

    cells, human = _judged(0.5, (1, 2))
    trials = 300
    found = counted(partial(exchanged, cells, human, 12, 60), range(1, trials + 1), verdicts)
    rates = {(null, name): count / trials for (null, name, _, _), count in found.items()}
    of_scores = {one.name for one in with_verdict() if one.needs != "rankings"}
    assert set(rates) == set(product(("outputs exchanged", "systems exchanged"), of_scores))
    # Three standard errors of 300 trials above 5 %.
    assert max(rates.values()) < 0.088, rates
    for null in ("outputs exchanged", "systems exchanged"):
        for name in ("kendall-without-ties", "pearson", "pearson-items"):
            assert rates[null, name] > 0.01, rates
    # A metric that is better for all systems is found within segments.
    wrong = verdicts(*cells, judged(human, human.mean(axis=1)), 1)
    assert {name for (name, level, _), told in wrong.items() if level == "seg" and told} == {
        "kendall-without-ties", "acc23", "kendall-tau-b-items", "pearson-items",
    }  # fmt: skip


def test_the_script_judges_as_evaluations_do() -> None:
    """P-values and verdicts are those of the rows of ``polyref evaluate`` for the same scores."""
    from interval_levels import judged, verdicts, with_verdict

    from polyref.eval.agreement import agreement, verdict
    from polyref.eval.data.score_files import StoredScores
    from polyref.eval.series import StoredSeries
    from polyref.eval.statistics.base import Bootstrap

    cells, human = _judged(0.2, (0.5, 4))
    gold = judged(human, human.mean(axis=1))
    names = list(gold.segment)
    series = []
    for name, scores in zip(("first", "second"), cells, strict=True):
        of_systems = dict(zip(names, map(float, scores.mean(axis=1)), strict=True))
        of_outputs = dict(zip(names, scores, strict=True))
        series.append(StoredSeries(name, StoredScores(name, "", of_systems, of_outputs, {}), Path()))
    asked = [one.name for one in with_verdict() if one.needs != "rankings"]
    rows = agreement(series, gold, known=None, systems=names, bootstrap=Bootstrap(0), baseline="second",
                     statistics=asked)  # fmt: skip
    told = {(row.statistic, row.level): verdict(row).word for row in rows if row.metric == "first"}
    found = {(name, level): found for (name, level, _), found in verdicts(*cells, gold, 1).items()}
    assert found == {key: told[key] == "better" for key in found}
    assert set(found.values()) == {False, True}
    # Every other row has no verdict.
    assert not any(told[key] for key in told.keys() - found)


@pytest.mark.slow
def test_trials_go_on_where_the_table_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import interval_levels

    def table(folder: Path, *trials: int) -> str:
        for number in trials:
            arguments = ["--scores", "bias 0.3", "--trials", str(number), "--intervals", "2", "--out", str(folder)]
            monkeypatch.setattr("sys.argv", ["interval_levels.py", *arguments])
            interval_levels.main()
        return (folder / "interval_levels.csv").read_text()

    monkeypatch.setattr(interval_levels, "STRETCH", 4)
    at_once, in_parts = table(tmp_path / "one", 9), table(tmp_path / "two", 3, 9)
    assert sorted(at_once.splitlines()) == sorted(in_parts.splitlines())
    assert at_once.splitlines()[0] == ",".join(interval_levels.COLUMNS)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sacrebleu
import scipy.stats

from polyref.errors import DataError, UsageError
from polyref.eval.agreement import Judged, Row, _Measured, agreement
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.data.score_files import Gold, StoredScores
from polyref.eval.series import ComputedSeries, Series, StoredSeries, series_of
from polyref.eval.statistics.base import Bootstrap, People
from polyref.eval.statistics.named import PEARSON, statistics_called
from polyref.eval.statistics.significance import jackknife_p, perm_systems
from polyref.metrics.registry import get_metric

SYSTEMS = ["Alpha", "Beta.1", "Gamma-2"]


def _computed(evalset: EvalSet, *metrics: str, ks: tuple[int, ...] = (0, 1)) -> list[Series]:
    references = reference_set(evalset, ["refA"], evalset.directory / "paraphrases/de-en.refA.jsonl")
    outputs = dict(zip(SYSTEMS, evalset.outputs(SYSTEMS), strict=True))
    return [ComputedSeries(get_metric(name), outputs, references, ks) for name in metrics]


def _rows(evalset: EvalSet, series: list[Series], gold: str, bootstrap: Bootstrap) -> list[Row]:
    known = evalset.known(evalset.outputs(SYSTEMS))
    return agreement(series, evalset.gold(gold), known=known, systems=SYSTEMS, bootstrap=bootstrap)


def _one(rows: list[Row], **wanted: object) -> Row:
    (row,) = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return row


def test_equals_sacrebleu_and_scipy(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    rows = _rows(evalset, _computed(evalset, "bleu"), "mqm", Bootstrap(0))
    outputs = evalset.outputs(SYSTEMS)
    extra = reference_set(evalset, ["refA"], minimal / "paraphrases/de-en.refA.jsonl").take(1).texts()
    gold = evalset.gold("mqm")
    for k in (0, 1):
        streams = [list(column) for column in zip(*extra, strict=True)][: k + 1]
        bleu = sacrebleu.BLEU()
        system = [bleu.corpus_score(texts, streams).score for texts in outputs]
        row = _one(rows, level="sys", k=k)
        expected = scipy.stats.pearsonr(system, [gold.system[name] for name in SYSTEMS]).statistic
        assert row.value == pytest.approx(expected, abs=1e-12)
        assert (row.statistic, row.n, row.segments) == ("pearson", 3, 5)
        sentence = sacrebleu.BLEU(effective_order=True)
        metric, human = [], []
        for name, texts in zip(SYSTEMS, outputs, strict=True):
            for i, text in enumerate(texts):
                if not np.isnan(gold.segment[name][i]):
                    metric.append(sentence.sentence_score(text, extra[i][: k + 1]).score)
                    human.append(gold.segment[name][i])
        row = _one(rows, statistic="kendall-tau-b", k=k)
        assert row.value == pytest.approx(scipy.stats.kendalltau(metric, human).statistic, abs=1e-12)
        assert (row.statistic, row.n, row.segments) == ("kendall-tau-b", 14, 5)


def test_gains_are_over_k_0_and_paired(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    rows = _rows(evalset, _computed(evalset, "bleu", "chrf"), "mqm", Bootstrap(400))
    for metric in ("bleu", "chrf"):
        for statistic in ("pearson", "kendall-tau-b"):
            base, more = (_one(rows, metric=metric, statistic=statistic, k=k) for k in (0, 1))
            assert base.gain == 0
            assert base.gain_ci == (0, 0)
            assert more.gain == pytest.approx(more.value - base.value, abs=1e-12)
            assert base.ci is not None and more.ci is not None and more.gain_ci is not None
            # The same draws on both sides: the gain varies less than unpaired values would.
            assert more.gain_ci[1] - more.gain_ci[0] < (base.ci[1] - base.ci[0]) + (more.ci[1] - more.ci[0])


def test_the_same_seed_gives_the_same_intervals(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    series = _computed(evalset, "chrf")
    first, again, other = (_rows(evalset, series, "mqm", Bootstrap(100, seed=seed)) for seed in (7, 7, 8))
    assert first == again
    assert [row.value for row in first] == [row.value for row in other]
    assert [row.ci for row in first] != [row.ci for row in other]


def test_without_bootstrap_there_is_no_interval(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    for gold in ("mqm", "darr"):
        for row in _rows(evalset, _computed(evalset, "chrf"), gold, Bootstrap(0)):
            assert row.ci is None
            assert row.gain_ci is None


def test_rankings_always_come_in_three_statistics(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    # Two equal outputs tie whatever the metric: pairs 1 and 2 are about one text then.
    outputs = minimal / "system-outputs/de-en"
    (outputs / "Gamma-2.txt").write_text((outputs / "Alpha.txt").read_text())
    rows = _rows(evalset, _computed(evalset, "chrf", ks=(0,)), "darr", Bootstrap(50))
    ties = _one(rows, statistic="tie-rate")
    assert ties.value == pytest.approx(4 / 7)
    assert ties.n == 7
    discordant = _one(rows, statistic="kendall-darr")
    excluded = _one(rows, statistic="kendall-darr-without-ties")
    # (c - d - t) / 7 and (c - d) / 3
    assert discordant.value == pytest.approx((excluded.value * 3 - 4) / 7)
    assert (discordant.gold, _one(rows, level="sys").gold) == ("darr", "wmt-z")


def test_systems_are_scored_on_the_segments_that_all_have(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    path = minimal / "system-outputs/de-en/Alpha.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["", *lines[1:]]) + "\n")
    pairs = minimal / "darr/de-en.tsv"
    pairs.write_text(pairs.read_text().replace("1\tAlpha\tGamma-2\n", ""))
    (row,) = [
        row for row in _rows(evalset, _computed(evalset, "chrf", ks=(0,)), "darr", Bootstrap(20)) if row.level == "sys"
    ]
    assert row.segments == 4
    references = list(evalset.reference("refA"))[1:]
    scores = [sacrebleu.CHRF().corpus_score(texts[1:], [references]).score for texts in evalset.outputs(SYSTEMS)]
    assert row.value == pytest.approx(scipy.stats.pearsonr(scores, [0.3, 0.2, -0.5]).statistic, abs=1e-12)
    for name in SYSTEMS:
        (minimal / f"system-outputs/de-en/{name}.txt").write_text("\n" * 5)
    evalset = EvalSet(minimal, "de-en")
    with pytest.raises(DataError, match="no segment has the outputs of all judged systems"):
        _rows(evalset, _computed(evalset, "chrf", ks=(0,)), "wmt-z", Bootstrap(0))


def test_outputs_that_are_unknown_are_not_scored(minimal: Path) -> None:
    """In a pair with relative rankings an empty line is no text, whichever judgement is asked for."""
    evalset = EvalSet(minimal, "de-en")
    path = minimal / "system-outputs/de-en/Beta.1.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "", *lines[3:]]) + "\n")
    gold = evalset.gold("mqm")
    assert not np.isnan(gold.segment["Beta.1"][2])
    rows = _rows(evalset, _computed(evalset, "chrf", ks=(0,)), "mqm", Bootstrap(0))
    rows = [row for row in rows if row.statistic == "kendall-tau-b"]
    references = list(evalset.reference("refA"))
    cells = [
        (sacrebleu.CHRF().sentence_score(text, [references[i]]).score, gold.segment[name][i])
        for name, texts in zip(SYSTEMS, evalset.outputs(SYSTEMS), strict=True)
        for i, text in enumerate(texts)
        if not np.isnan(gold.segment[name][i]) and text
    ]
    assert [row.n for row in rows] == [len(cells)]
    assert rows[0].value == pytest.approx(scipy.stats.kendalltau(*zip(*cells, strict=True)).statistic, abs=1e-12)


def test_stored_scores(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    series = StoredSeries("length", evalset.stored("length"), minimal)
    gold = evalset.gold("mqm")
    rows = agreement([series], gold, known=None, systems=SYSTEMS, bootstrap=Bootstrap(50))
    assert [(row.level, row.statistic) for row in rows] == [
        ("seg", "kendall-without-ties"),
        ("seg", "acc23"),
        ("seg", "tie-rate"),
        ("sys", "pearson"),
        ("seg", "kendall-tau-b"),
    ]
    assert {(row.k, row.gain, row.gain_ci) for row in rows} == {(None, None, None)}
    of_systems = rows[3]
    assert of_systems.value == pytest.approx(scipy.stats.pearsonr([4.2, 4.0, 3.8], [-0.4, -0.8, -4.0]).statistic)
    assert [row.redrawn for row in rows] == ["segments", "segments", "segments", "", "segments"]
    assert [row.ci is None for row in rows] == [False, False, False, True, False]
    with pytest.raises(UsageError, match="cannot be resampled"):
        series.drawn_system(SYSTEMS, None, np.ones((1, 5)))


def test_a_judged_system_without_score_is_an_error(minimal: Path) -> None:
    for level in ("sys", "seg"):
        path = minimal / f"metric-scores/de-en/length-src.{level}.score"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith("Beta.1")))
        evalset = EvalSet(minimal, "de-en")
        series = StoredSeries("length", evalset.stored("length"), minimal)
        with pytest.raises(DataError, match=rf"length-src\.{level}\.score: no score of the judged system 'Beta\.1'"):
            agreement([series], evalset.gold("mqm"), known=None, systems=SYSTEMS, bootstrap=Bootstrap(0))
        path.write_text("".join(lines))


def test_no_level_in_common(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    (minimal / "human-scores/de-en.mqm.sys.score").unlink()
    evalset = EvalSet(minimal, "de-en")
    series = StoredSeries("Adequacy-2", evalset.stored("Adequacy-2", ["refA"]), minimal)
    with pytest.raises(DataError, match="Adequacy-2 and the judgement 'mqm' have no level"):
        agreement([series], evalset.gold("mqm"), known=None, systems=SYSTEMS, bootstrap=Bootstrap(0))


def test_placebos_follow_their_rows(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    known = evalset.known(evalset.outputs(SYSTEMS))
    real, other = _computed(evalset, "bleu"), _computed(evalset, "chrf")
    references = reference_set(evalset, ["refA"], evalset.directory / "paraphrases/de-en.refA.jsonl")
    outputs = dict(zip(SYSTEMS, evalset.outputs(SYSTEMS), strict=True))
    renamed = [ComputedSeries(get_metric("chrf"), outputs, references, (0, 1), name="bleu")]
    options = {"known": known, "systems": SYSTEMS, "bootstrap": Bootstrap(50)}
    plain = agreement(real, evalset.gold("mqm"), **options)  # type: ignore[arg-type]
    rows = agreement(real, evalset.gold("mqm"), placebos=[real, renamed], **options)  # type: ignore[arg-type]
    assert [row for row in rows if not row.control] == plain
    # By itself the second placebo is chrF under BLEU's name: the mean lies half way.
    chrf = agreement(other, evalset.gold("mqm"), **options)  # type: ignore[arg-type]
    for statistic in ("pearson", "kendall-without-ties", "acc23", "kendall-tau-b"):
        at = {"statistic": statistic, "k": 1}
        bleu = _one(plain, **at)
        placebo, difference = _one(rows, control="placebo", **at), _one(rows, control="real - placebo", **at)
        assert placebo.value == pytest.approx((bleu.value + _one(chrf, **at).value) / 2, abs=1e-12)
        assert difference.value == pytest.approx(bleu.value - placebo.value, abs=1e-12)
        assert difference.ci is not None and difference.ci[0] <= difference.ci[1]
        assert difference.gain is placebo.p is placebo.p_williams is None
    assert not [row for row in rows if row.control and row.k == 0]


def test_a_placebo_like_the_real_one_takes_all_of_its_gain(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    known = evalset.known(evalset.outputs(SYSTEMS))
    real = _computed(evalset, "bleu", "chrf")
    rows = agreement(
        real, evalset.gold("mqm"), known=known, systems=SYSTEMS, bootstrap=Bootstrap(50), placebos=[real, real]
    )
    differences = [row for row in rows if row.control == "real - placebo"]
    assert len(differences) == 2 * 5
    assert {(row.value, row.ci) for row in differences} == {(0.0, (0.0, 0.0))}


def test_placebos_are_not_measured_without_added_references(minimal: Path) -> None:
    """Their k = 0 is that of the references: nothing is computed twice."""
    evalset = EvalSet(minimal, "de-en")
    references = reference_set(evalset, ["refA"], evalset.directory / "paraphrases/de-en.refA.jsonl")
    outputs = dict(zip(SYSTEMS, evalset.outputs(SYSTEMS), strict=True))
    made = {name: get_metric(name) for name in ("bleu", "chrf")}
    for originals in ("kept", "replaced"):
        whole, fakes = (
            series_of(made, outputs, references, [0, 1, 2], originals=originals, base=base) for base in (True, False)
        )
        assert [one.ks for one in whole] == [(0, 1, 2)] * 2 and [one.ks for one in fakes] == [(1, 2)] * 2
        for one, fake in zip(whole, fakes, strict=True):
            expected, found = one.segment(SYSTEMS, 2), fake.segment(SYSTEMS, 2)
            assert expected is not None and np.array_equal(expected, found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("level", "over", "redrawn", "p"),
    [
        ("seg", "segments", "segments", 0.5),
        ("seg", "both", "segments and systems", 0.5),
        ("sys", "systems", "systems", 0.5),
        ("sys", "segments", "segments", None),  # it would speak of these systems alone
    ],
)
def test_intervals_are_of_the_redrawn_sets_alone(level: str, over: str, redrawn: str, p: float | None) -> None:
    (statistic,) = (one for one in statistics_called("pearson") if one.level == level)
    people = People(
        np.zeros((5, 4)) if level == "seg" else np.arange(5.0), np.ones(4, dtype=bool), Bootstrap(3, over=over)
    )
    series: Any = SimpleNamespace(metric="m", resamples=True)

    def measured(*values: float, k: int = 1) -> _Measured:
        judged = Judged("g", "ABCDE", people, cells=20, segments=4)
        scores, without = np.array([0.0, 2.0, 1.0, 4.0, 3.0]) * k, 0.05 + np.array([0.1, 0.2, 0.4, 0.3, 0.3]) * k
        return _Measured(statistic, judged, series, k, np.array(values), scores, without, None)

    base = measured(0.5, 0.2, 0.1, 0.1, k=0)
    row = measured(0.9, 0.1, 0.2, 0.3).row(Bootstrap(3, confidence=0.5), base)
    assert (row.gain, row.n, row.segments, row.redrawn) == (pytest.approx(0.4), 20 if level == "seg" else 5, 4, redrawn)
    assert row.ci == pytest.approx((0.15, 0.25)) and row.gain_ci == pytest.approx((0.0, 0.15))
    assert row.p_bootstrap == p, "one of three gains is none, and the given set counts"
    assert row.p == pytest.approx(jackknife_p(0.4, np.array([0.1, 0.2, 0.4, 0.3, 0.3])))
    assert (row.p_williams is None) == (level == "seg")
    (soft,) = statistics_called("soft-pairwise-accuracy")  # systems, whatever was asked for
    assert replace(base, statistic=soft).redrawn == "systems"
    once = measured(0.9, 0.1).row(Bootstrap(1), measured(0.5, 0.2, k=0))
    assert once.gain_ci == pytest.approx((-0.1, -0.1)) and once.p_bootstrap == (None if p is None else 1.0)
    for other in (base, measured(0.5, k=0)):  # as often as the other, and not at all
        bare = measured(0.9).row(Bootstrap(0), other)
        assert (bare.ci, bare.gain_ci, bare.p_bootstrap, bare.redrawn) == (None, None, None, "")
    alone = measured(0.9, 0.1, 0.2, 0.3).row(Bootstrap(3), None)
    assert (alone.gain, alone.gain_ci, alone.p, alone.p_williams) == (None, None, None, None)


def test_what_is_left_beyond_placebos_is_tested_against_their_mean_or_each_of_them() -> None:
    people, series = People(np.array([0.0, 1.0, 2.0, 4.0, 3.0])), SimpleNamespace(metric="m", resamples=True)

    def measured(value: float, scores: list[float], without: list[float] | None) -> _Measured:
        left = None if without is None else np.array(without)
        return _Measured(
            PEARSON[0], Judged("g", "ABCDE", people), series, 1, np.array([value]), np.array(scores), left, None
        )  # type: ignore[arg-type]

    given = [(0.9, [0.0, 1, 2, 4, 4], [0.9, 0.8, 0.9, 0.7, 0.9]), (0.5, [0.0, 2, 1, 4, 3], [0.4, 0.5, 0.6, 0.5, 0.5])]
    given.append((0.3, [1.0, 3, 0, 2, 4], [0.2, 0.3, 0.3, 0.1, 0.3]))
    real, *placebos = (measured(*one) for one in given)
    fake, beyond = real.controls(placebos, Bootstrap(0), None)
    assert (fake.control, fake.value, fake.p, fake.gain) == ("placebo", pytest.approx(0.4), None, None)
    assert (beyond.control, beyond.value) == ("real - placebo", pytest.approx(0.5))
    mean = np.mean([without for _, _, without in given[1:]], axis=0)
    assert beyond.p == pytest.approx(jackknife_p(0.5, np.array(given[0][2]) - mean))
    bare, *others = (replace(one, without=None) for one in (real, *placebos))
    _, beyond = bare.controls(others, Bootstrap(0), None)
    each = [bare.p_over(one) for one in others]
    assert beyond.p == max(each) > min(each)  # type: ignore[type-var]
    assert bare.p_over(placebos[0]) == real.p_over(others[0]) == each[0], "both or none lack each system in turn"
    assert np.isnan(replace(bare, scores=np.ones(5)).p_over(bare)), "scores that are all the same have no unit"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["computed", "of a file", "of systems alone"])
def test_scores_of_systems_are_exchanged_in_units_of_those_of_outputs(kind: str) -> None:
    """Corpus scores are no means; a file may have scores of systems on another scale, or no scores of outputs."""
    rng = np.random.default_rng(1)
    names = [f"system {number}" for number in range(8)]
    human = rng.normal(size=8)
    series, units = [], {"computed": [], "of a file": [], "of systems alone": []}  # type: ignore[var-annotated]
    for name, noise, spread, scale in (("good", 0.4, 2.0, 1.0), ("poor", 1.2, 0.5, 5.0)):
        system = scale * (human + noise * rng.normal(size=8))
        cells = human[:, None] + spread * rng.normal(size=(8, 1)) + scale * spread * rng.normal(size=(8, 40))
        of_systems = dict(zip(names, system.tolist(), strict=True))
        of_outputs = {} if (kind, name) == ("of systems alone", "poor") else dict(zip(names, cells, strict=True))
        stored = StoredScores(name, "", of_systems, of_outputs, {})
        series.append(StoredSeries(name, stored, Path(), resamples=kind == "computed"))
        within = (cells - cells.mean(axis=1, keepdims=True)).std()
        units["computed"].append(system / within)
        units["of a file"].append(system / within * cells.mean(axis=1).std() / system.std())
        units["of systems alone"].append(system / system.std())
    gold = Gold("mqm", "mqm", dict(zip(names, human.tolist(), strict=True)))
    rows = agreement(series, gold, known=None, systems=names, bootstrap=Bootstrap(0), baseline="poor")
    expected = {unit: perm_systems(*scores, human) for unit, scores in units.items()}
    assert len({round(p, 3) for p in expected.values()}) == 3, "these scores cannot tell the units apart"
    assert _one(rows, metric="good", statistic="pearson").p == pytest.approx(expected[kind], abs=1e-12)

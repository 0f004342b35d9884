from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from esim import state, training
from esim.judgements import Judged, Ranked, TrainingSet, read_training, reliability, standardised
from esim.network import DroppingNetwork, Masks, initialise
from esim.run import EsimRun, partial_path, train_esim
from esim.state import TrainingOptions
from esim.training import agreement, hold_out
from esim_fixtures import judgements, rankings, write_rows
from scipy import stats
from tiny_encoders import bert

from polyref.errors import DataError, PolyrefError, UsageError
from polyref.metrics.esim.card import EsimConfig

# -- data ----------------------------------------------------------------------------------------------------------


def test_reads_judgements(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"ref": "a", "sys": "b", "score": 1.5, "srcsent": "x"},
        {"ref": "a", "sys": "c", "score": math.nan},
        {"ref": "a", "sys": "d", "score": None},
        {"ref": "a", "sys": "b", "score": 0.5},
    ]
    data = read_training([write_rows(tmp_path / "a.jsonl", rows)])
    assert data.judged == (Judged("a", "b", 1.0),)
    assert (data.kind, data.skipped, data.reliability) == ("judgements", 2, None)


def test_reads_rankings_and_counts_contradictions(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"ref": "a", "better": "b", "worse": "c"},
        {"ref": "a", "better": "b", "worse": "c"},
        {"ref": "a", "better": "c", "worse": "b"},
        {"ref": "a", "better": "b", "worse": "d", "weight": 0.5},
    ]
    data = read_training([write_rows(tmp_path / "a.jsonl.gz".removesuffix(".gz"), rows)])
    assert data.ranked == (Ranked("a", "b", "c"), Ranked("a", "c", "b"), Ranked("a", "b", "d", 0.5))
    assert (data.kind, data.contradicted) == ("rankings", 2)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not valid JSON"),
        ("[]", "found a list, expected a JSON object"),
        ('{"ref": "a", "sys": 3, "score": 1}', "no text 'sys'"),
        ('{"ref": "a", "better": "b"}', "no text 'worse'"),
        ('{"ref": "a", "sys": "b"}', "no number 'score'"),
        ('{"ref": "a", "sys": "b", "score": "1"}', "score '1', expected a number"),
        ('{"ref": "a", "sys": "b", "score": Infinity}', "expected a finite number"),
        ('{"ref": "a", "better": "b", "worse": "c", "weight": 0}', "weight 0.0, expected more than 0"),
    ],
)
def test_bad_lines_are_named(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"ref": "a", "sys": "b", "score": 1}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=complaint) as raised:
        read_training([path])
    assert (raised.value.file, raised.value.line) == (str(path), 2)


def test_mixtures_are_refused(tmp_path: Path) -> None:
    judged = write_rows(tmp_path / "j.jsonl", [{"ref": "a", "sys": "b", "score": 1}])
    ranked = write_rows(tmp_path / "r.jsonl", [{"ref": "a", "better": "b", "worse": "c"}])
    named = write_rows(tmp_path / "n.jsonl", [{"ref": "a", "sys": "b", "score": 1, "annotator": "x"}])
    none = write_rows(tmp_path / "none.jsonl", [{"ref": "a", "sys": "b", "score": None}])
    with pytest.raises(UsageError, match="judgements and relative rankings"):
        read_training([judged, ranked])
    with pytest.raises(UsageError, match="1 of 2 judgements name no annotator"):
        read_training([judged, named])
    with pytest.raises(DataError, match="no row with a score"):
        read_training([none])
    with pytest.raises(DataError, match="no annotator gave two different scores"):
        read_training([named])


def _two_annotators(noise: float, count: int = 4000) -> list[Judged]:
    """True qualities of variance 1 plus noise, on each annotator's own scale: r is 1 / (1 + noise^2)."""
    drawn = np.random.default_rng(8)
    quality = drawn.standard_normal(count)
    rows = []
    for annotator, (level, scale) in {"strict": (20.0, 5.0), "lax": (80.0, 15.0)}.items():
        scores = level + scale * (quality + noise * drawn.standard_normal(count))
        rows += [Judged(f"r{i}", "s", float(score), annotator) for i, score in enumerate(scores)]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 1.0, 3.0])
def test_reliability_is_the_correlation_of_two_annotators(noise: float) -> None:
    rows = _two_annotators(noise)
    found, pairs = reliability(standardised(rows))
    assert pairs == 4000
    assert found == pytest.approx(1 / (1 + noise**2), abs=0.04)
    first, second = rows[:4000], rows[4000:]
    expected = stats.pearsonr([row.score for row in first], [row.score for row in second]).statistic
    assert found == pytest.approx(expected, abs=1e-3)


def test_reliability_needs_two_annotators_of_one_output() -> None:
    same = [Judged("r", "s", score, "x") for score in (1.0, 2.0, 3.0, 4.0)]
    assert reliability(same) == (None, 0)
    assert standardised([*same, Judged("r", "t", 5.0, "constant")]) == standardised(same)
    assert [row.score for row in standardised(same)] == pytest.approx(stats.zscore([1, 2, 3, 4]).tolist())


def test_whole_references_are_held_out(tmp_path: Path) -> None:
    data = read_training([write_rows(tmp_path / "a.jsonl", judgements(30))])
    learnt, held = hold_out(data, 0.2, seed=3)
    assert len(held.references()) == 6
    assert not set(learnt.references()) & set(held.references())
    assert len(learnt) + len(held) == len(data)
    assert hold_out(data, 0.2, seed=3) == (learnt, held)
    assert hold_out(data, 0.2, seed=4) != (learnt, held)
    with pytest.raises(DataError, match="1 reference, expected at least 2"):
        hold_out(TrainingSet((Judged("a", "b", 1.0),), ()), 0.5, seed=1)


def test_agreement_equals_scipys() -> None:
    drawn = np.random.default_rng(2)
    judged = tuple(Judged("r", str(i), float(x)) for i, x in enumerate(drawn.standard_normal(20)))
    scores = {("r", str(i)): float(x) for i, x in enumerate(drawn.standard_normal(20))}
    found = agreement(TrainingSet(judged, ()), scores)
    assert found == pytest.approx(stats.pearsonr([row.score for row in judged], list(scores.values())).statistic)
    ranked = tuple(Ranked("r", one.sys, other.sys) for one in judged for other in judged if one.score > other.score)
    tau = stats.kendalltau([row.score for row in judged], list(scores.values())).statistic
    assert agreement(TrainingSet((), ranked), scores) == pytest.approx(tau)
    assert agreement(TrainingSet(judged, ()), dict.fromkeys(scores, 1.0)) == 0
    assert agreement(TrainingSet((), ranked), dict.fromkeys(scores, 1.0)) == -1


def test_losses_are_those_of_the_specification() -> None:
    generator = torch.Generator().manual_seed(1)
    states = {text: torch.randn(1, 3 + i, 8, generator=generator) for i, text in enumerate("abcd")}
    net = DroppingNetwork(EsimConfig(8, 1, 4))
    initialise(net, 1)
    pairs = [("a", "b"), ("a", "c"), ("d", "c")]
    data = TrainingSet(tuple(Judged(*pair, 0.0) for pair in pairs), ())
    s = training.score_all(net, data, states)
    still = Masks(0.0, 1)
    judged = [Judged("a", "b", 0.3), Judged("a", "c", -1.0), Judged("d", "c", 2.0)]
    squares = [(s[row.ref, row.sys] - row.score) ** 2 for row in judged]
    assert training._loss(net, list(judged), states, still).item() == pytest.approx(np.mean(squares), abs=1e-6)
    ranked = [Ranked("a", "b", "c"), Ranked("a", "c", "b", 0.25)]
    gap = s["a", "c"] - s["a", "b"]
    loss = (math.log1p(math.exp(gap)) + 0.25 * math.log1p(math.exp(-gap))) / 2
    pin = 1e-3 * (s["a", "b"] ** 2 + s["a", "c"] ** 2) / 2
    assert training._loss(net, list(ranked), states, still).item() == pytest.approx(loss + pin, abs=1e-6)


def test_batches_hold_every_row_once_and_keep_a_reference_together(tmp_path: Path) -> None:
    for rows in (judgements(30), rankings(30)):
        data = read_training([write_rows(tmp_path / "a.jsonl", rows)])
        lengths = {text: len(text.split()) for text in data.texts()}
        drawn = [list(training._batches(data, lengths, 8, np.random.default_rng(seed))) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        for batches in drawn:
            flat = [row for batch in batches for row in batch]
            assert set(flat) == {*data.judged, *data.ranked}
            assert len(flat) == len(data)
            if data.ranked:
                homes = [{row.ref for row in batch} for batch in batches]
                assert sum(map(len, homes)) == len(set.union(*homes))
            else:
                assert max(map(len, batches)) == 8


# -- training ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(bert(tmp_path_factory.mktemp("encoder") / "bert"))


def run(files: list[Path], encoder: str, **options: Any) -> EsimRun:
    chosen: dict[str, Any] = {"hidden": 16, "dropout": 0.0, "rate": 1e-2, "batch": 16, "epochs": 5, **options}
    return EsimRun(files=files, encoder=encoder, hold_out=0.2, options=TrainingOptions(**chosen))


def card(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "count", "options"),
    [(judgements, 60, {}), (rankings, 100, {"rate": 2e-2, "batch": 8, "epochs": 6})],
    ids=["judgements", "rankings"],
)
def test_learns_what_can_be_learnt(
    make: Callable[..., list[dict[str, Any]]], count: int, options: dict[str, Any], encoder: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "data.jsonl", make(count))
    said: list[str] = []
    train_esim(run([path], encoder, **options), tmp_path / "model", say=said.append)
    valid = card(tmp_path / "model")["validation"]
    assert valid["measure"] == ("pearson" if make is judgements else "kendall")
    assert valid["history"][0]["valid"] < valid["figure"]
    assert valid["figure"] > 0.45
    assert f"{valid['figure']:.4f}" in said[-1]
    # The figure belongs to the weights as they are stored, on references that were not learnt.
    assert valid["references"] == count // 5
    assert not partial_path(tmp_path / "model").exists()


class KilledError(Exception):
    pass


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_same_bytes(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(tmp_path / "data.jsonl", rankings(30))
    settings = run([path], encoder, epochs=3)
    train_esim(settings, tmp_path / "whole", say=lambda _: None, save_every=2)
    learn, steps = state.TrainingState.learn, 0

    def stops(self: Any, loss: torch.Tensor) -> None:
        nonlocal steps
        steps += 1
        if steps % 7 == 0:
            raise KilledError
        learn(self, loss)

    monkeypatch.setattr(state.TrainingState, "learn", stops)
    interruptions = 0
    while not (tmp_path / "model" / "config.json").exists():
        try:
            train_esim(settings, tmp_path / "model", say=lambda _: None, save_every=2)
        except KilledError:
            interruptions += 1
        assert interruptions < 20
    assert interruptions >= 2
    expected, found = card(tmp_path / "whole"), card(tmp_path / "model")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "model")]
    assert weights[0] == weights[1]
    assert {**expected, "name": ""} == {**found, "name": ""}


def test_another_runs_state_is_refused(encoder: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", rankings(6))
    folder = tmp_path / "model"
    partial_path(folder).write_bytes(b"something else")
    with pytest.raises(DataError, match="holds no training run"):
        train_esim(run([path], encoder, epochs=1), folder, say=lambda _: None)
    partial_path(folder).unlink()
    train_esim(run([path], encoder, epochs=1), tmp_path / "first", say=lambda _: None)
    other = {"options": {}, "data": "other"}
    torch.save({"settings": other}, partial_path(folder))
    with pytest.raises(DataError, match="unfinished run with other settings: options, data"):
        train_esim(run([path], encoder, epochs=1), folder, say=lambda _: None)


def test_the_seed_decides(encoder: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "data.jsonl", rankings(6))
    hashes = []
    for n, seed in enumerate((1, 1, 2)):
        train_esim(run([path], encoder, epochs=1, seed=seed), tmp_path / str(n), say=lambda _: None)
        hashes.append(card(tmp_path / str(n))["sha256"])
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.slow
def test_rate_is_halved_and_training_stops_without_improvement(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = iter([0.2, 0.3, 0.1, 0.3, 0.4, 0.4, 0.1, 0.0, 0.9])
    real = state.TrainingState.end_epoch
    monkeypatch.setattr(state.TrainingState, "end_epoch", lambda self, _: real(self, next(figures)))
    path = write_rows(tmp_path / "data.jsonl", rankings(4))
    train_esim(run([path], encoder, rate=0.008, epochs=50, patience=3), tmp_path / "model", say=lambda _: None)
    valid = card(tmp_path / "model")["validation"]
    assert valid["epoch"] == 5
    assert [row["rate"] for row in valid["history"]] == [0.008, 0.008, 0.008, 0.004, 0.002, 0.002, 0.001, 0.0005]


@pytest.mark.slow
def test_unreliable_judgements_are_warned_of(encoder: str, tmp_path: Path) -> None:
    for noise, warned in ((0.5, False), (4.0, True)):
        rows = [vars(row) for row in _two_annotators(noise, 40)]
        said: list[str] = []
        path = write_rows(tmp_path / f"{noise}.jsonl", rows)
        train_esim(run([path], encoder, epochs=1, hidden=2), tmp_path / f"model{noise}", say=said.append)
        assert any(line.startswith("reliability: r = ") and "(40 pairs)" in line for line in said)
        assert any(line.startswith("warning: a reliability under 0.2") for line in said) is warned


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"hidden": 0}, "`hidden` is 0, expected 1 or more"),
        ({"dropout": 1.0}, "`dropout` is 1.0"),
        ({"rate": 0.0}, "learning rate 0.0"),
    ],
)
def test_options_out_of_range(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        TrainingOptions(**change)


def test_what_cannot_be_trained(encoder: str, tmp_path: Path) -> None:
    judged = write_rows(tmp_path / "j.jsonl", judgements(4))
    ranked = write_rows(tmp_path / "r.jsonl", rankings(4))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x", encoding="utf-8")
    cases: list[tuple[EsimRun, str, str]] = [
        (
            EsimRun(files=[judged], valid=[ranked], encoder=encoder),
            "new",
            "training data are judgements, but validation",
        ),
        (EsimRun(files=[judged], encoder=encoder, layers=(4,)), "new", "layer 4, but bert has layers 0 to 3"),
        (EsimRun(files=[judged], encoder=encoder), "full", "is not empty"),
        (EsimRun(files=[judged], encoder=str(tmp_path / "none")), "new", "no such model folder"),
    ]
    for settings, folder, complaint in cases:
        with pytest.raises(PolyrefError, match=complaint):
            train_esim(settings, tmp_path / folder, say=lambda _: None)
    assert not (tmp_path / "new").exists()

"""Recipe, batches, learning rate and loss of the training scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

Training = Callable[[str], ModuleType]
RECIPE = Path(__file__).parents[2] / "scripts" / "training" / "recipe.toml"


@pytest.fixture
def run(training: Training, tmp_path: Path) -> Path:
    """A run's folder with 120 pairs of 30 clusters, and 50 single sentences."""
    save = training("batches").save_ragged
    rng = np.random.default_rng(1)
    rows = [rng.integers(9, 99, rng.integers(3, 12)).tolist() for _ in range(120)]
    for name in ("pairs", "single"):
        (tmp_path / "sources" / name).mkdir(parents=True)
    save(tmp_path / "sources" / "pairs" / "source.npz", rows)
    save(tmp_path / "sources" / "pairs" / "target.npz", rows[::-1])
    np.save(tmp_path / "sources" / "pairs" / "closeness.npy", np.arange(120, dtype=np.uint8) % 4)
    np.save(tmp_path / "sources" / "pairs" / "cluster.npy", np.repeat(np.arange(30), 4))
    save(tmp_path / "sources" / "single" / "target.npz", [*rows[:49], list(range(300))])
    return tmp_path


def test_an_epoch_has_a_part_of_each_cluster_once(training: Training, run: Path) -> None:
    source = training("batches").SourceBatches(run / "sources" / "pairs", 60, 1, 3)
    epochs = [[row for rows in source.epoch(number) for row in rows.tolist()] for number in (0, 1)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == 90
        assert set(np.bincount(np.array(epoch) // 4)) == {3}
    assert epochs[0] != epochs[1]
    assert source.epoch(1) is source.epoch(1)
    sizes = [len(rows) * source.lengths[rows].max() for rows in source.epoch(0)]
    assert max(sizes) <= 60


def test_the_mixture_is_a_function_of_seed_step_and_cursors(training: Training, run: Path) -> None:
    batches = training("batches")
    mix = {"pairs": 0.6, "single": 0.4}

    def mixture() -> object:
        return batches.Mixture(run, {"pairs": 4, "single": 4}, 60, 1)

    def next_of(mixture: Any, step: int) -> tuple[str, Any]:
        name, tokens, make = mixture.next(step, mix)
        rows = make()
        assert tokens == sum(len(target) + 1 for target in rows[1])
        return name, rows

    straight = mixture()
    drawn = [next_of(straight, step) for step in range(60)]
    assert {name for name, _ in drawn} == {"pairs", "single"}
    assert min(epoch for epoch, _ in straight.cursors.values()) >= 1  # each has been gone through
    resumed = mixture()
    resumed.cursors = {}
    for step in range(25):
        resumed.next(step, mix)  # without making them
    again = mixture()
    again.cursors = resumed.cursors
    assert [next_of(again, step) for step in range(25, 60)] == drawn[25:]
    for name, (sources, targets, levels) in drawn:
        assert len(sources) == len(targets) == len(levels)
        assert max(map(len, targets)) <= batches.MAX_PIECES  # the longest sentence is left out
        assert name == "pairs" or set(levels) == {3}


@pytest.mark.parametrize(("name", "tokens"), [("recipe.toml", 118_200_000), ("recipe.teacher.toml", 81_400_000)])
def test_the_recipes_of_the_repository(training: Training, name: str, tokens: int) -> None:
    recipe = training("recipe").read_recipe(RECIPE.with_name(name))
    assert recipe.tokens == tokens
    assert recipe.stages[-1].decay
    for stage in recipe.stages:
        assert sum(stage.mix.values()) == pytest.approx(1)
        assert name == "recipe.toml" or not any(recipe.sources[one].teaching for one in stage.mix)
    assert recipe.stage_at(0) == (0, 0.0)
    assert recipe.stages[recipe.stage_at(recipe.stages[0].tokens)[0]].name == "broad"
    assert recipe.stage_at(10**9) == (len(recipe.stages) - 1, 1.0)
    assert training("recipe").recipe_of(recipe.to_dict()) == recipe
    for source in recipe.sources.values():
        assert source.origin
        assert source.licence


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[network]", "[network]\ndepth = 3", r"unknown in \[network\]: depth"),
        ('action = "drop"', 'action = "keep"', 'expected "fail" or "drop"'),
        ("mix = { wmt = 0.2", "mix = { wmtt = 0.2", "unknown sources: wmtt"),
        ('kind = "sentences"', 'kind = "lines"', 'expected "clusters", "sentences" or "taught"'),
        ('kind = "taught"', 'kind = "taught"\nfile = "x"', "wmt-true needs either a file or"),
        ("of = { wmt-clean", "of = { modern", "wmt-true is made of 'modern', expected a source of the kind clusters"),
        ("share = 0.5", "share = 1.5", "share and top_p must be above 0, at most 1"),
        ("samples = [0", "samples = [4", "expected closeness 0 to 3"),
        ("seed = 1", 'base = "recipe.toml"', "unknown: base"),
        ("seed = 1", "sead = 1", "unknown: sead"),
        ("seed = 1", "seed = ", "nvalid value"),
    ],
)
def test_mistakes_in_a_recipe(training: Training, tmp_path: Path, before: str, after: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.read_text("utf-8").replace(before, after, 1), "utf-8")
    with pytest.raises(SystemExit, match=message):
        training("recipe").read_recipe(path)


def test_learning_rate(training: Training) -> None:
    """Warm-up, level, falling in a stage with ``decay`` and in a cooldown."""
    recipe, loop = training("recipe").read_recipe(RECIPE), training("loop")
    stages = [replace(stage, rate=1.0, decay=stage.name == "true") for stage in recipe.stages]
    recipe = replace(recipe, stages=tuple(stages), training=replace(recipe.training, rate=1.0, warmup=10))

    def at(step: int, tokens: int, cooldown: object = None) -> float:
        rate: float = loop.learning_rate(recipe, loop.Progress(step, tokens), cooldown)
        return rate

    assert at(0, 0) == pytest.approx(0.1)
    assert at(9, 5) == at(5000, 70_000_000) == 1.0
    before_last = recipe.tokens - stages[-1].tokens
    assert at(9000, before_last + stages[-1].tokens // 4) == pytest.approx(0.75)
    assert at(9000, 40_500_000, loop.Cooldown(40_000_000, 2_000_000, 1)) == pytest.approx(0.75)


def test_the_loss_over_the_vocabulary_and_its_gradient(training: Training) -> None:
    torch.manual_seed(1)
    states, table = torch.randn(600, 8, requires_grad=True), torch.randn(30, 8, requires_grad=True)
    targets, weight = torch.randint(0, 30, (600,)), torch.randn(600)
    found = training("optimiser").VocabularyLogProb.apply(states, table, targets)
    expected = torch.log_softmax(states @ table.T, -1).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(found, expected)
    ours = torch.autograd.grad((found * weight).sum(), (states, table))
    theirs = torch.autograd.grad((expected * weight).sum(), (states, table))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)

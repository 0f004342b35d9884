"""The training loop of the shipped paraphraser: stages, learning rate, validation, checkpoints and the log."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import sentencepiece
import torch

from training.batches import Mixture, Rows, tensors, validation_rows
from training.optimiser import Adam, MaskPool, Muon, VocabularyLogProb
from training.package import PointerConfig, PointerTransformer, write_atomically
from training.recipe import Network, Recipe, recipe_of
from training.team import Team, team_of

#: Of the weights in a cooldown: its last steps are its best, and weights from before it should be gone.
COOLDOWN_AVERAGE: Final = 0.98


@dataclass
class Progress:
    """How far a run is: steps, target tokens and seconds, where each source is, and tokens from each."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cursors: dict[str, list[int]] = field(default_factory=dict)
    tokens_of: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cooldown:
    """A branch of a run in which the learning rate falls to zero: from so many tokens, over so many, on a stage."""

    start: int
    tokens: int
    stage: int


def new_network(sizes: Network, pieces: int, **more: Any) -> PointerTransformer:
    """A network of the recipe's sizes with random weights (torch's seed)."""
    width = sizes.width
    network = PointerTransformer(
        PointerConfig(pieces, width, width // 64, 4 * width, sizes.encoder_layers, sizes.decoder_layers, **more)
    )
    for name, weight in network.named_parameters():
        if weight.dim() == 2 and "embedding" not in name:
            torch.nn.init.xavier_uniform_(weight)
    if not sizes.pointer:
        # The vocabulary has the whole of the distribution: the copy shares, and all gradients through them, become 0.
        torch.nn.init.constant_(network.sentinel.bias, 1e4)
    return network


def train(recipe: Recipe, options: argparse.Namespace) -> None:
    """Train, or go on training, in the folder ``options.run`` that ``prepare`` filled."""
    with team_of(options.processes, _train, recipe, options) as team:
        _train(team, recipe, options)


def _train(team: Team, recipe: Recipe, options: argparse.Namespace) -> None:
    """One of the processes that train."""
    run: Path = options.run
    state: Path = options.to or run
    torch.set_num_threads(options.threads)
    torch.manual_seed(recipe.seed)
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    model = new_network(recipe.network, spm.get_piece_size())
    optimiser = {"adam": Adam, "muon": Muon}[recipe.training.optimiser](model, recipe.training.average)
    model.to(getattr(torch, options.precision))
    drop = MaskPool(recipe.training.dropout, recipe.seed) if recipe.training.dropout else None
    found = _start(recipe, run, state, options, optimiser) if team.rank == 0 else ()
    progress, settings = team.tell(*found or (None, None))
    optimiser.join(team)
    cooldown = Cooldown(**settings["cooldown"]) if "cooldown" in settings else None
    if cooldown:
        optimiser.average = min(optimiser.average, COOLDOWN_AVERAGE)
    per_cluster = {name: source.per_cluster for name, source in recipe.sources.items()}
    mixture = Mixture(run, per_cluster, recipe.training.batch, recipe.seed)
    mixture.cursors = progress.cursors
    held = list(validation_rows(run, spm))
    held_words = sum(len(row[1].split()) for row in json.loads((run / "valid.json").read_text("utf-8")))
    end = cooldown.start + cooldown.tokens if cooldown else min(recipe.tokens, options.stop or recipe.tokens)
    losses: dict[str, list[float]] = {}
    stop = False
    with _stop_on_signal() as stopped:
        while progress.tokens < end and not stop:
            began = time.monotonic()
            stage = recipe.stages[cooldown.stage if cooldown else recipe.stage_at(progress.tokens)[0]]
            name, rows = mixture.next(progress.step, stage.mix)
            if drop is not None:
                drop.at(recipe.seed * 1_000_003 + progress.step * team.size + team.rank)
            lengths = torch.tensor([len(target) + 1 for target in rows[1]])  # with the end mark
            counts = torch.ones(len(lengths), dtype=torch.bool)
            mine = team.rows(rows)
            loss = torch.zeros(())
            logprob = _logprob(model, rows, mine, drop)
            if stage.truncate:
                counts = likely(_means(team, logprob, lengths, mine), rows[2], stage.truncate)
            if mine:
                counted = logprob[counts[mine].repeat_interleave(lengths[mine])]
                loss = -counted.sum() / int(lengths[counts].sum())
                loss.backward()
            optimiser.step(progress.step + 1, learning_rate(recipe, progress, cooldown))
            told = torch.stack([loss.detach(), torch.tensor(float(bool(stopped)))])
            team.sum([told])
            stop = bool(told[1])
            progress.step += 1
            progress.tokens += int(lengths.sum())
            progress.tokens_of[name] = progress.tokens_of.get(name, 0) + int(lengths.sum())
            progress.seconds += time.monotonic() - began
            losses.setdefault(name, []).append(float(told[0]))
            last = progress.tokens >= end
            if (progress.step % options.log == 0 or last) and team.rank == 0:
                _log(state, stage.name, progress, losses, _validate_average(model, optimiser, held), held_words)
                losses = {}
            if progress.step % options.save == 0 or last or stop:
                optimiser.gather()
                if team.rank == 0:
                    _save(state, settings, optimiser, progress)


def _logprob(model: PointerTransformer, rows: Rows, mine: list[int], drop: MaskPool | None) -> torch.Tensor:
    """Shape (M,): of the target tokens of these rows, pair by pair."""
    if not mine:
        return torch.zeros(0)
    sources, targets, levels = ([column[row] for row in mine] for column in rows)
    logprob: torch.Tensor = model(*tensors((sources, targets, levels)), VocabularyLogProb.apply, drop)
    return logprob


def _means(team: Team, logprob: torch.Tensor, lengths: torch.Tensor, mine: list[int]) -> torch.Tensor:
    """The mean log-probability of a token, for all pairs of a batch."""
    means = torch.zeros(len(lengths))
    for row, tokens in zip(mine, logprob.detach().split(lengths[mine].tolist()), strict=True):
        means[row] = tokens.mean()
    team.sum([means])
    return means


def learning_rate(recipe: Recipe, progress: Progress, cooldown: Cooldown | None = None) -> float:
    """Linear warm-up, then level; falling to zero in a stage with ``decay``, and in a cooldown."""
    index, share = recipe.stage_at(progress.tokens)
    if cooldown:
        index, share = cooldown.stage, (progress.tokens - cooldown.start) / cooldown.tokens
    stage = recipe.stages[index]
    left = 1 - share if cooldown or stage.decay else 1.0
    warm = min(1.0, (progress.step + 1) / recipe.training.warmup)
    return recipe.training.rate * stage.rate * warm * left


def likely(means: torch.Tensor, closeness: list[int], share: float) -> torch.Tensor:
    """Which pairs of a batch count: not those with the lowest log-probabilities, by closeness.

    Args:
        means: Shape (pairs,): the mean log-probability of a token.
        closeness: Of every pair.
        share: Of the pairs that do not count.
    """
    levels, counts = torch.tensor(closeness), torch.ones(len(means), dtype=torch.bool)
    for level in set(closeness):
        alike = (levels == level).nonzero()[:, 0]
        counts[alike[means[alike].argsort()[: int(share * len(alike))]]] = False
    return counts


@torch.inference_mode()
def validate(model: PointerTransformer, batches: list[Rows]) -> tuple[float, float]:
    """Negative log-likelihood of the held-out targets: total nats, and nats a token."""
    total, count = 0.0, 0
    for rows in batches:
        logprob = model(*tensors(rows), VocabularyLogProb.apply)
        total -= float(logprob.double().sum())
        count += len(logprob)
    return total, total / count


def _validate_average(model: PointerTransformer, optimiser: Adam, held: list[Rows]) -> tuple[float, float]:
    optimiser.show(optimiser.mean)
    result = validate(model, held)
    optimiser.show(optimiser.master)
    return result


def _log(
    state: Path,
    stage: str,
    progress: Progress,
    losses: dict[str, list[float]],
    valid: tuple[float, float],
    held_words: int,
) -> None:
    every = [loss for found in losses.values() for loss in found]
    row = {
        "step": progress.step,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "stage": stage,
        "train": round(sum(every) / len(every), 5),
        "valid": round(valid[1], 5),
        "valid_per_word": round(valid[0] / held_words, 5),
        "train_of": {name: round(sum(found) / len(found), 4) for name, found in sorted(losses.items())},
    }
    with (state / "log.jsonl").open("a") as log:
        log.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


@contextmanager
def _stop_on_signal() -> Iterator[list[int]]:
    """Give a list that gets an entry on SIGTERM or SIGINT: the step is finished, a checkpoint written."""
    got: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: got.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- checkpoints -------------------------------------------------------------------------------------------------


def _save(state: Path, settings: dict[str, Any], optimiser: Adam, progress: Progress) -> None:
    saved = {"settings": settings, "optimiser": optimiser.state(), "progress": asdict(progress)}
    torch.save(saved, state / "checkpoint.tmp")
    (state / "checkpoint.tmp").replace(state / "checkpoint.pt")


def _start(
    recipe: Recipe, run: Path, state: Path, options: argparse.Namespace, optimiser: Adam
) -> tuple[Progress, dict[str, Any]]:
    """Load the checkpoint, if there is one; a cooldown starts from a copy of the run's."""
    if state != run and not (state / "checkpoint.pt").exists():
        if not (run / "checkpoint.pt").exists():
            sys.exit(f"no {run}/checkpoint.pt to cool down from")
        state.mkdir(parents=True, exist_ok=True)
        for file in ("log.jsonl", "checkpoint.pt"):
            if (run / file).exists():
                shutil.copy(run / file, state / f"{file}.tmp")
                (state / f"{file}.tmp").replace(state / file)
    progress = Progress()
    settings: dict[str, Any] = {"recipe": recipe.to_dict(), "changes": []}
    if (state / "checkpoint.pt").exists():
        saved = torch.load(state / "checkpoint.pt", weights_only=True)
        progress = Progress(**saved["progress"])
        settings = _continued(saved["settings"], recipe, progress, state)
        optimiser.load(saved["optimiser"])
    if options.cooldown is not None:
        settings.setdefault("cooldown", _cooldown(recipe, options, progress))
        if settings["cooldown"]["tokens"] != options.cooldown:
            over = settings["cooldown"]["tokens"]
            sys.exit(f"{state}/checkpoint.pt is cooling down over {over} tokens: use another --to")
    elif "cooldown" in settings:
        sys.exit(f"{state}/checkpoint.pt is a cooldown: go on in the run it came from")
    log = state / "log.jsonl"
    if log.exists():
        # Steps after the checkpoint are done again, so their lines leave the log.
        rows = log.read_text("utf-8").splitlines(keepends=True)
        with write_atomically(log) as stream:
            stream.writelines(row for row in rows if json.loads(row)["step"] <= progress.step)
    return progress, settings


def _training(settings: dict[str, Any]) -> dict[str, Any]:
    """Of a checkpoint; the first ones named no optimiser, and were Adam's."""
    return {"optimiser": "adam", **settings["recipe"]["training"]}


def _cooldown(recipe: Recipe, options: argparse.Namespace, progress: Progress) -> dict[str, int]:
    names = [stage.name for stage in recipe.stages]
    if options.stage is not None and options.stage not in names:
        sys.exit(f"--stage {options.stage}: the recipe has {', '.join(names)}")
    stage = recipe.stage_at(progress.tokens)[0] if options.stage is None else names.index(options.stage)
    return asdict(Cooldown(progress.tokens, options.cooldown, stage))


def _continued(settings: dict[str, Any], recipe: Recipe, progress: Progress, state: Path) -> dict[str, Any]:
    """The settings to go on with: the recipe may change in what has not begun, and what changed when is kept.

    So may the optimiser and its rates; what they were before is kept too.
    """
    before, now = recipe_of({**settings["recipe"], "training": _training(settings)}).to_dict(), recipe.to_dict()
    if before == now:
        return settings
    begun = recipe.stage_at(progress.tokens)[0] + 1
    used = {name for stage in before["stages"][:begun] for name in stage["mix"]}

    def fixed(made: dict[str, Any]) -> dict[str, Any]:
        kept = {key: made[key] for key in ("seed", "vocabulary", "network", "leaks", "validation")}
        kept["batch"] = made["training"]["batch"]  # the cursors count batches
        sources = {name: made["sources"].get(name) for name in sorted(used)}
        # The stage that is running may be made longer or shorter.
        stages = [{**stage, "tokens": 0} if n == begun - 1 else stage for n, stage in enumerate(made["stages"][:begun])]
        return {**kept, "sources": sources, "stages": stages}

    if fixed(before) != fixed(now):
        wrong = [key for key, value in fixed(before).items() if fixed(now)[key] != value]
        sys.exit(f"{state}/checkpoint.pt was made with another recipe ({', '.join(wrong)}): use another --run")
    changed = [key for key in ("training", "sources", "stages") if before[key] != now[key]]
    change = {"step": progress.step, "tokens": progress.tokens, "changed": changed}
    if "training" in changed:
        change["before"] = before["training"]
    return {**settings, "recipe": now, "changes": [*settings["changes"], change]}

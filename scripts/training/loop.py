"""The training loop of the shipped paraphraser: stages, learning rate, validation, checkpoints and the log."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import sentencepiece
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training.batches import Mixture, Rows, tensors, validation_rows
from training.optimiser import Adam, MaskPool, Muon, VocabularyLogProb
from training.package import PointerConfig, PointerTransformer, write_atomically
from training.recipe import Network, Recipe, Stage, recipe_of
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


def stage_of(recipe: Recipe, tokens: int, cooldown: Cooldown | None) -> Stage:
    """Whose text is used after so many target tokens."""
    return recipe.stages[cooldown.stage if cooldown else recipe.stage_at(tokens)[0]]


class Batch(NamedTuple):
    """What one step is taken on.

    Attributes:
        name: Its source.
        cursor: Where this source is after it.
        lengths: Shape (pairs,): target tokens, with the end marks.
        closeness: Shape (pairs,).
        mine: Shape (rows,): the pairs that are this process's.
        text: Of these, the padded source, decoder input and decoder output.
    """

    name: str
    cursor: list[int]
    lengths: Tensor
    closeness: Tensor
    mine: Tensor
    text: tuple[Tensor, ...]


class Batches(IterableDataset[Batch]):
    """The batches from here to ``end`` (target tokens). Of several loading processes, each makes every n-th."""

    def __init__(
        self, run: Path, recipe: Recipe, team: Team, progress: Progress, cooldown: Cooldown | None, end: int
    ) -> None:
        self.run, self.recipe, self.team, self.cooldown, self.end = run, recipe, team, cooldown, end
        self.tokens, self.step, self.cursors = progress.tokens, progress.step, dict(progress.cursors)

    def __iter__(self) -> Iterator[Batch]:
        loading = get_worker_info()
        if loading:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # who trains decides when to stop
        per_cluster = {name: source.per_cluster for name, source in self.recipe.sources.items()}
        mixture = Mixture(self.run, per_cluster, self.recipe.training.batch, self.recipe.seed)
        mixture.cursors = self.cursors
        tokens, step = self.tokens, self.step
        while tokens < self.end:
            name, count, make = mixture.next(step, stage_of(self.recipe, tokens, self.cooldown).mix)
            if loading is None or (step - self.step) % loading.num_workers == loading.id:
                yield self._batch(name, mixture.cursors[name], make())
            tokens, step = tokens + count, step + 1

    def _batch(self, name: str, cursor: list[int], rows: Rows) -> Batch:
        mine = self.team.rows(rows)
        sources, targets, levels = ([column[row] for row in mine] for column in rows)
        lengths = torch.tensor([len(target) + 1 for target in rows[1]])
        text = tensors((sources, targets, levels)) if mine else ()
        return Batch(name, cursor, lengths, torch.tensor(rows[2]), torch.tensor(mine, dtype=torch.long), text)


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


def averaged(saved: dict[str, Any], pieces: int, **more: Any) -> PointerTransformer:
    """The network of a checkpoint with its averaged weights."""
    network = new_network(recipe_of(saved["settings"]["recipe"]).network, pieces, **more)
    Adam(network, 0.0).load({"master": saved["optimiser"]["mean"]})
    return network


def check_device(device: str) -> None:
    """End the program if there is no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda: PyTorch finds no GPU here; leave it out to use the CPU")


def train(recipe: Recipe, options: argparse.Namespace) -> None:
    """Train, or go on training, in the folder ``options.run`` that ``prepare`` filled."""
    check_device(options.device)
    if options.loaders is None:
        options.loaders = min(12, max(1, (os.cpu_count() or 2) - 1)) if options.device == "cuda" else 0
    with team_of(options.processes, _train, recipe, options) as team:
        _train(team, recipe, options)


def _train(team: Team, recipe: Recipe, options: argparse.Namespace) -> None:
    """One of the processes that train."""
    run: Path = options.run
    state: Path = options.to or run
    torch.set_num_threads(options.threads)
    torch.manual_seed(recipe.seed)
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    model = new_network(recipe.network, spm.get_piece_size()).place(options.device)
    optimiser = {"adam": Adam, "muon": Muon}[recipe.training.optimiser](model, recipe.training.average)
    model.to(getattr(torch, options.precision))
    drop = MaskPool(recipe.training.dropout, recipe.seed) if recipe.training.dropout else None
    found = _start(recipe, run, state, options, optimiser) if team.rank == 0 else ()
    progress, settings = team.tell(*found or (None, None))
    optimiser.join(team)
    cooldown = Cooldown(**settings["cooldown"]) if "cooldown" in settings else None
    if cooldown:
        optimiser.average = min(optimiser.average, COOLDOWN_AVERAGE)
    held = list(validation_rows(run, spm))
    held_words = sum(len(row[1].split()) for row in json.loads((run / "valid.json").read_text("utf-8")))
    end = cooldown.start + cooldown.tokens if cooldown else min(recipe.tokens, options.stop or recipe.tokens)
    _check_sources(run, recipe, progress, cooldown, end)
    loader = DataLoader(
        Batches(run, recipe, team, progress, cooldown, end),
        batch_size=None,
        num_workers=options.loaders,
        multiprocessing_context="spawn" if options.loaders else None,
        pin_memory=options.device == "cuda",
    )
    losses: dict[str, list[Tensor]] = {}
    with _stop_on_signal() as stopped:
        began = time.monotonic()
        for batch in loader:
            stage = stage_of(recipe, progress.tokens, cooldown)
            if drop is not None:
                drop.at(recipe.seed * 1_000_003 + progress.step * team.size + team.rank)
            tokens = counted = int(batch.lengths.sum())
            loss = torch.zeros(())
            logprob = _logprob(model, batch, drop)
            if stage.truncate:
                counts = likely(_means(team, logprob, batch), batch.closeness.tolist(), stage.truncate)
                counted = int(batch.lengths[counts].sum())
                logprob = logprob[counts[batch.mine].repeat_interleave(batch.lengths[batch.mine])]
            if batch.text:
                loss = -logprob.sum() / counted
                loss.backward()
            optimiser.step(progress.step + 1, learning_rate(recipe, progress, cooldown))
            loss, stopping = loss.detach(), torch.tensor(float(bool(stopped)))
            team.sum([loss, stopping])
            stop = bool(stopping)
            progress.step += 1
            progress.tokens += tokens
            progress.tokens_of[batch.name] = progress.tokens_of.get(batch.name, 0) + tokens
            progress.cursors[batch.name] = batch.cursor
            progress.seconds += time.monotonic() - began
            losses.setdefault(batch.name, []).append(loss)
            last = progress.tokens >= end
            if (progress.step % options.log == 0 or last) and team.rank == 0:
                _log(state, stage.name, progress, losses, _validate_average(model, optimiser, held), held_words)
                losses = {}
            if progress.step % options.save == 0 or last or stop:
                optimiser.gather()
                if team.rank == 0:
                    _save(state, settings, optimiser, progress)
            if stop:
                break
            began = time.monotonic()


def _check_sources(run: Path, recipe: Recipe, progress: Progress, cooldown: Cooldown | None, end: int) -> None:
    """End the program now if text of a later stage is not there."""
    stages = range(recipe.stage_at(progress.tokens)[0], recipe.stage_at(end - 1)[0] + 1)
    for stage in [cooldown.stage] if cooldown else stages:
        for name in recipe.stages[stage].mix:
            command, file = ("teach", "taught.json") if recipe.sources[name].teaching else ("prepare", "target.npz")
            if not (run / "sources" / name / file).exists():
                sys.exit(
                    f"no {run}/sources/{name}, which stage {recipe.stages[stage].name} needs: `{command}` makes it"
                )


def _logprob(model: PointerTransformer, batch: Batch, drop: MaskPool | None) -> Tensor:
    """Shape (M,): of this process's target tokens, pair by pair."""
    if not batch.text:
        return torch.zeros(0)
    text = (one.to(model.device, non_blocking=True) for one in batch.text)
    logprob: Tensor = model(*text, VocabularyLogProb.apply, drop)
    return logprob


def _means(team: Team, logprob: Tensor, batch: Batch) -> Tensor:
    """The mean log-probability of a token, for all pairs of a batch."""
    means = torch.zeros(len(batch.lengths))
    parts = logprob.detach().cpu().split(batch.lengths[batch.mine].tolist())
    for row, tokens in zip(batch.mine.tolist(), parts, strict=True):
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
        logprob = model(*(one.to(model.device) for one in tensors(rows)), VocabularyLogProb.apply)
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
    losses: dict[str, list[Tensor]],
    valid: tuple[float, float],
    held_words: int,
) -> None:
    found = {name: torch.stack(of).tolist() for name, of in losses.items()}
    every = [loss for of in found.values() for loss in of]
    row = {
        "step": progress.step,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "stage": stage,
        "train": round(sum(every) / len(every), 5),
        "valid": round(valid[1], 5),
        "valid_per_word": round(valid[0] / held_words, 5),
        "train_of": {name: round(sum(of) / len(of), 4) for name, of in sorted(found.items())},
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
        saved = torch.load(state / "checkpoint.pt", map_location="cpu", weights_only=True)
        progress = Progress(**saved["progress"])
        settings = _continued(saved["settings"], recipe, progress, state)
        optimiser.load(saved["optimiser"])
    device = torch.cuda.get_device_name() if options.device == "cuda" else "a CPU"
    settings["devices"] = list(dict.fromkeys([*settings.get("devices", ["a CPU"] if progress.step else []), device]))
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

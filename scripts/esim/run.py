"""From files of judgements to a model folder: what ``scripts/esim/train.py`` does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from esim.judgements import RELIABLE, TrainingSet, read_training
from esim.saving import save_model
from esim.state import TrainingOptions
from esim.training import Trained, encode, hold_out, train
from polyref import __version__
from polyref.errors import DataError, UsageError
from polyref.metrics.esim.card import CONFIG, LONGEST, EsimCard
from polyref.metrics.esim.network import Reader
from polyref.models.device import torch_device
from polyref.models.encoders import load_encoder
from polyref.publishing import check_writable
from polyref.store import file_sha256

#: What a validation figure is called, by kind of data.
FIGURES = {"judgements": "pearson", "rankings": "kendall"}


@dataclass(frozen=True)
class EsimRun:
    """What is trained on what.

    Attributes:
        files: Training data, of one kind.
        valid: Validation data; without any, a share of the references is held out.
        hold_out: That share, above 0 and below 1.
        encoder: What :func:`load_encoder` takes.
        layers: Layers to mix; None takes all but the static one.
        lowercase: Whether texts are lowercased.
        longest: Most tokens of a text, without special ones.
        device: Where the frozen encoder runs.
        name: Of the model; None takes that of the folder.
        names: What the card and signatures call the training data; None takes the files' names.
        options: How to train.

    Raises:
        UsageError: An option is out of range.
    """

    files: Sequence[Path]
    valid: Sequence[Path] = ()
    hold_out: float = 0.1
    encoder: str = "shipped"
    layers: Sequence[int] | None = None
    lowercase: bool = False
    longest: int = LONGEST
    device: str = "cpu"
    name: str | None = None
    names: Sequence[str] | None = None
    options: TrainingOptions = field(default_factory=TrainingOptions)

    def __post_init__(self) -> None:
        if not 0 < self.hold_out < 1:
            raise UsageError(f"the share to hold out is {self.hold_out}, expected above 0 and below 1")
        if self.longest < 1:
            raise UsageError(f"most tokens of a text is {self.longest}, expected 1 or more")
        if self.names is not None and len(self.names) != len(self.files):
            raise UsageError(f"{len(self.names)} names for {len(self.files)} training files")


def partial_path(folder: Path) -> Path:
    """Where the state of an unfinished run lies."""
    return folder.with_name(folder.name + ".partial")


def train_esim(
    run: EsimRun, folder: Path, *, say: Callable[[str], None], progress: bool = False, save_every: int = 100
) -> EsimCard:
    """Train and write a model. A run that was killed is taken up where it stopped, and ends with the same bytes.

    Args:
        run: What is trained on what.
        folder: The model folder to write.
        say: Called with what should be known on the way: sizes, reliability, warnings, the figure.
        progress: Whether to show bars on stderr.
        save_every: Steps between two savings.

    Raises:
        PolyrefError: Data, encoder or options cannot be used.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError("is a file, expected the name of a model folder", file=folder)
    full = folder.is_dir() and any(folder.iterdir())
    occupied = DataError("is not empty", file=folder, remedy="name a new folder, or remove this one first")
    if full and not partial_path(folder).exists():
        raise occupied
    check_writable(partial_path(folder))
    torch_device(run.device)
    encoder = load_encoder(run.encoder, run.device)
    layers = tuple(range(1, encoder.layers + 1)) if run.layers is None else tuple(run.layers)
    if not layers:
        raise UsageError("no layer is named, expected at least one")
    for layer in layers:
        encoder.check_layer(layer)
    data = read_training(run.files)
    _report(data, say)
    valid = read_training(run.valid) if run.valid else None
    if valid is not None and valid.kind != data.kind:  # said before hours of encoding
        raise UsageError(f"training data are {data.kind}, but validation data are {valid.kind}")
    learnt, chosen = hold_out(data, run.hold_out, run.options.seed) if valid is None else (data, valid)
    say(f"training: {len(learnt)} {data.kind}, {len(learnt.references())} references")
    say(f"validation: {len(chosen)} {chosen.kind}, {len(chosen.references())} references")
    reader = Reader(encoder, layers, lowercase=run.lowercase, longest=run.longest)
    hashes = [{"name": name, "sha256": file_sha256(file)} for name, file in _named(run)]
    valid_hashes = [{"name": file.name, "sha256": file_sha256(file)} for file in run.valid]
    inputs = {
        "data": hashes,
        "validation data": valid_hashes or run.hold_out,
        "encoder": encoder.digest,
        "layers": list(layers),
        "text": [run.lowercase, run.longest],
        "torch": str(torch.__version__),
        "polyref": __version__,
    }
    # A run that was killed with its model written and its state not yet removed comes to its end by being repeated.
    if full and not _written_by({"data": hashes, "layers": list(layers), "options": asdict(run.options)}, folder):
        raise occupied
    states = encode(reader, list(dict.fromkeys([*learnt.texts(), *chosen.texts()])), progress=progress)
    trained = train(
        learnt,
        chosen,
        states,
        run.options,
        partial=partial_path(folder),
        inputs=inputs,
        save_every=save_every,
        progress=progress,
    )
    facts: dict[str, Any] = {
        "data": hashes,
        "training": {"kind": data.kind, "rows": len(learnt), "references": len(learnt.references())},
        "reliability": None if data.reliability is None else round(data.reliability, 4),
        "validation": _validation(trained, chosen, valid_hashes or f"{run.hold_out:g} of the references"),
        "options": asdict(run.options),
        "versions": {"polyref": __version__, "torch": str(torch.__version__)},
    }
    card = save_model(
        folder,
        trained.network,
        name=run.name or folder.name,
        encoder=encoder,
        load_name=run.encoder,
        layers=layers,
        longest=run.longest,
        lowercase=run.lowercase,
        facts=facts,
        page=lambda made: model_page(made, facts),
    )
    partial_path(folder).unlink(missing_ok=True)
    best = facts["validation"]
    say(f"best epoch {best['epoch']} of {len(trained.history)}: {best['measure']} {best['figure']:.4f} on validation")
    return card


def _written_by(facts: dict[str, Any], folder: Path) -> bool:
    """Whether the folder holds the model of a run, of which its card says these facts."""
    try:
        card = json.loads((folder / CONFIG).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(card, dict) and {key: card.get(key) for key in facts} == facts


def _named(run: EsimRun) -> list[tuple[str, Path]]:
    names = run.names or [file.name.removesuffix(".gz").removesuffix(".jsonl") for file in run.files]
    return list(zip(names, run.files, strict=True))


def _report(data: TrainingSet, say: Callable[[str], None]) -> None:
    if data.skipped:
        say(f"{data.skipped} rows left out: no score, or an annotator whose scores are all the same")
    if data.contradicted:
        say(f"warning: {data.contradicted} of {len(data)} rankings have their opposite in the data")
    if not data.judged:
        return
    if data.reliability is None:
        why = "fewer than 3 outputs have two annotators" if data.repeated else "no output has two known annotators"
        say(f"reliability: unknown ({why})")
        return
    say(f"reliability: r = {data.reliability:.3f} between two annotators of one output ({data.repeated} pairs)")
    if data.reliability < RELIABLE:
        say(
            f"warning: a reliability under {RELIABLE} leaves little to learn; "
            "relative rankings of clear differences carry more"
        )


def _validation(trained: Trained, valid: TrainingSet, source: Any) -> dict[str, Any]:
    best = max(trained.history, key=lambda row: row["valid"])
    return {
        "measure": FIGURES[valid.kind],
        "figure": round(trained.figure, 4),
        "epoch": best["epoch"],
        "rows": len(valid),
        "references": len(valid.references()),
        "data": source,
        "history": [{key: round(value, 6) for key, value in row.items()} for row in trained.history],
    }


def model_page(card: EsimCard, facts: dict[str, Any]) -> str:
    """The model card for people; every number comes from ``facts`` or the model itself."""
    training, valid, options = facts["training"], facts["validation"], facts["options"]
    data = "\n".join(f"- {entry['name']} (SHA-256 `{entry['sha256']}`)" for entry in facts["data"])
    epochs = "\n".join(
        f"| {row['epoch']} | {row['rate']:g} | {row['loss']:.4f} | {row['valid']:.4f} |" for row in valid["history"]
    )
    reliable = "unknown" if facts["reliability"] is None else f"r = {facts['reliability']:.3f}"
    return f"""# {card.name}: an ESIM model

A trained, reference-based metric of single sentences (Mathur et al. 2019). Scores have no bounds and can be compared
within this model only.

| | |
|---|---|
| encoder (frozen) | {card.encoder["name"]}, SHA-256 `{card.encoder["sha256"]}` |
| layers mixed | {", ".join(map(str, card.layers))} |
| h | {card.config.hidden} |
| texts | first {card.longest} tokens{", lowercased" if card.lowercase else ""} |
| SHA-256 of the weights | `{card.sha256}` |
| versions | {", ".join(f"{key} {value}" for key, value in facts["versions"].items())} |

## Data

{training["rows"]:,} {training["kind"]} of {training["references"]:,} references.
Agreement of two annotators of one output: {reliable}.

{data}

## Training and validation

{", ".join(f"{key} {value}" for key, value in options.items())}.
Epoch {valid["epoch"]} was kept: **{valid["measure"]} {valid["figure"]:.4f}** on {valid["rows"]:,} {training["kind"]} of
{valid["references"]:,} references.

| epoch | learning rate | loss | validation |
|---|---|---|---|
{epochs}
"""

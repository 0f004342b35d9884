"""The state of a training run, in memory and on the disk: a run that is killed goes on where it was."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esim.network import DroppingNetwork, initialise
from polyref.errors import DataError, UsageError
from polyref.metrics.esim.card import EsimConfig
from polyref.models.opening import check_archive
from polyref.publishing import published_file


@dataclass(frozen=True)
class TrainingOptions:
    """How to train.

    Attributes:
        hidden: Size of an LSTM's state in one direction.
        dropout: 0 or more, below 1.
        rate: Adam's learning rate at the start.
        batch: Pairs of texts in a batch; the outputs that one reference's rankings compare stay together.
        epochs: Most passes over the data.
        patience: Stop after this many epochs in a row that do not improve validation.
        clip: Largest norm of the gradient.
        seed: Of initial weights, dropout and order.

    Raises:
        UsageError: One of them is out of range.
    """

    hidden: int = 300
    dropout: float = 0.5
    rate: float = 4e-4
    batch: int = 32
    epochs: int = 75
    patience: int = 4
    clip: float = 10.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("hidden", "batch", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise UsageError(f"`{name}` is {getattr(self, name)}, expected 1 or more")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"`dropout` is {self.dropout}, expected at least 0 and below 1")
        if not self.rate > 0 or not self.clip > 0:
            raise UsageError(f"learning rate {self.rate} and clipping {self.clip}, expected more than 0")


class TrainingState:
    """Network, optimiser, and how far the run is.

    Attributes:
        network: As it is after ``step`` steps of epoch number ``epoch`` (from 0).
        optimiser: Adam.
        epoch: Finished epochs.
        step: Finished steps of the next one.
        loss: Their losses, summed.
        best: Weights after the best epoch so far.
        history: One entry a finished epoch: ``epoch`` (from 1), ``loss``, ``valid``, ``rate``.
    """

    def __init__(
        self, network: DroppingNetwork, options: TrainingOptions, partial: Path, settings: dict[str, Any]
    ) -> None:
        self.network = network
        self.optimiser = torch.optim.Adam(network.parameters(), lr=options.rate)
        self.epoch = 0
        self.step = 0
        self.loss = 0.0
        self.best: OrderedDict[str, Tensor] = OrderedDict()
        self.history: list[dict[str, float]] = []
        self._options = options
        self._partial = partial
        self._settings = settings

    @classmethod
    def start(
        cls, states: Mapping[str, Tensor], options: TrainingOptions, partial: Path, settings: dict[str, Any]
    ) -> TrainingState:
        """A new run, or the one that ``partial`` holds.

        Raises:
            DataError: ``partial`` is another run's, or no such file.
        """
        layers, _, width = next(iter(states.values())).shape
        network = DroppingNetwork(EsimConfig(width, layers, options.hidden))
        initialise(network, options.seed)
        run = cls(network, options, partial, settings)
        if partial.exists():
            run._resume()
        return run

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or too many of them improved nothing."""
        return self.epoch >= self._options.epochs or self._stale >= self._options.patience

    @property
    def _stale(self) -> int:
        """Epochs since the best one."""
        figures = [row["valid"] for row in self.history]
        return len(figures) - 1 - figures.index(max(figures)) if figures else 0

    def learn(self, loss: Tensor) -> None:
        """Take one step."""
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self._options.clip)
        self.optimiser.step()
        self.loss += float(loss.detach())
        self.step += 1

    def end_epoch(self, figure: float) -> None:
        """Keep the weights if the validation figure is the best so far, and halve the learning rate if not."""
        rate = self.optimiser.param_groups[0]["lr"]
        self.history.append(
            {"epoch": self.epoch + 1, "loss": self.loss / max(1, self.step), "valid": figure, "rate": rate}
        )
        if self._stale == 0:
            self.best = OrderedDict((name, weight.clone()) for name, weight in self.network.state_dict().items())
        else:
            self.optimiser.param_groups[0]["lr"] = rate / 2
        self.epoch, self.step, self.loss = self.epoch + 1, 0, 0.0

    def save(self) -> None:
        """Write the state, whole or not at all.

        Raises:
            DataError: It cannot be written.
        """
        state = {
            "settings": self._settings,
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
            "loss": self.loss,
            "best": self.best,
            "history": self.history,
        }
        try:
            with published_file(self._partial) as stream:
                torch.save(state, stream)
        except OSError as error:
            raise DataError(f"cannot be written: {error.strerror}", file=self._partial) from None

    def _resume(self) -> None:
        no_run = DataError(
            "is in the way and holds no training run", file=self._partial, remedy="move it away, or delete it"
        )
        try:
            check_archive(self._partial)
            state = torch.load(self._partial, weights_only=True)
            settings = state["settings"]
            changed = [key for key in {**settings, **self._settings} if settings.get(key) != self._settings.get(key)]
        except Exception:  # whatever torch finds wrong with a file that is not one of its own
            raise no_run from None
        if changed:
            raise DataError(
                f"holds an unfinished run with other settings: {', '.join(changed)}",
                file=self._partial,
                remedy="repeat that command to finish it, or delete this file to start afresh",
            )
        try:
            self.network.load_state_dict(state["network"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.epoch, self.step, self.loss = state["epoch"], state["step"], state["loss"]
            self.best, self.history = state["best"], state["history"]
        except Exception:
            raise no_run from None

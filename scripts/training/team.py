"""Several processes that train one network: their gradients are summed, and each moves its share of the weights."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch import distributed as gloo

from training.batches import Rows


class Team:
    """The processes that take every step together, as one of them sees it. A team of one changes nothing.

    Attributes:
        rank: Which of them this is, from 0. The first one alone writes.
        size: How many there are.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def rows(self, batch: Rows) -> list[int]:
        """The rows of a batch that are this process's: alike in number and length for all."""
        sources, targets, _ = batch
        if self.size == 1:
            return list(range(len(sources)))
        longest_first = sorted(range(len(sources)), key=lambda row: -len(sources[row]) - len(targets[row]))
        return longest_first[self.rank :: self.size]

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Put the sums over all processes into tensors of one type."""
        if self.size > 1:
            flat = torch.cat([one.flatten() for one in tensors])
            gloo.all_reduce(flat)
            _unpack(flat, tensors)

    def spread(self, tensors: Sequence[Tensor], owners: Sequence[int]) -> None:
        """Give everybody the tensors as their owners have them."""
        for owner in range(self.size if self.size > 1 else 0):
            theirs = [one for one, of in zip(tensors, owners, strict=True) if of == owner]
            if theirs:
                flat = torch.cat([one.flatten() for one in theirs])
                gloo.broadcast(flat, owner)
                _unpack(flat, theirs)

    def tell(self, *values: Any) -> list[Any]:
        """What the first process has."""
        told = list(values)
        if self.size > 1:
            gloo.broadcast_object_list(told, 0)
        return told

    def owners(self, costs: Sequence[float]) -> list[int]:
        """Who moves which weights: the costliest first, each to whoever has least to do."""
        load, owners = [0.0] * self.size, [0] * len(costs)
        for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
            owners[number] = min(range(self.size), key=load.__getitem__)
            load[owners[number]] += costs[number]
        return owners


def _unpack(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    for one, values in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
        one.copy_(values.view_as(one))


@contextmanager
def team_of(size: int, member: Callable[..., None], *arguments: Any) -> Iterator[Team]:
    """Start ``size - 1`` processes that call ``member(team, *arguments)``, and give this one's place among them."""
    if size == 1:
        yield Team()
        return
    with TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        context = get_context("spawn")
        others = [
            context.Process(target=_join, args=(meeting, rank, size, member, arguments), daemon=True)
            for rank in range(1, size)
        ]
        for other in others:
            other.start()
        try:
            yield _met(meeting, 0, size)
        except BaseException:
            for other in others:
                other.kill()
            raise
        finally:
            for other in others:
                other.join()
            if gloo.is_initialized():
                gloo.destroy_process_group()


def _join(meeting: Path, rank: int, size: int, member: Callable[..., None], arguments: Sequence[Any]) -> None:
    member(_met(meeting, rank, size), *arguments)


def _met(meeting: Path, rank: int, size: int) -> Team:
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # by its own name, a machine may not find itself
    gloo.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    return Team(rank, size)

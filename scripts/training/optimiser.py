"""Training: loss over a large vocabulary, dropout, Adam and Muon with float32 master weights."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.team import Team


class VocabularyLogProb(torch.autograd.Function):
    """Log-softmax at the targets over a large vocabulary; what the gradient needs is kept in the states' precision."""

    #: Positions at a time: so many logits stay in a processor's cache, or are enough for a GPU.
    SLICE: Final = {"cpu": 256, "cuda": 8192}

    @staticmethod
    def forward(ctx: Any, states: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        picked = torch.empty(len(states), device=states.device)
        # d logprob / d logits = (1 at the target) - softmax; kept with the other sign.
        slopes = states.new_empty(len(states), len(embedding))
        size = VocabularyLogProb.SLICE[states.device.type]
        for at in range(0, len(states), size):
            part = slice(at, at + size)
            logits = (states[part] @ embedding.T).float()
            chosen = logits.gather(1, targets[part, None])[:, 0]
            top = logits.amax(1)
            total = logits.sub_(top[:, None]).exp_().sum(1)
            picked[part] = chosen - top - total.log()
            logits.div_(total[:, None])
            logits[torch.arange(len(logits), device=logits.device), targets[part]] -= 1
            slopes[part] = logits
        ctx.save_for_backward(states, embedding, slopes)
        return picked

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        states, embedding, slopes = ctx.saved_tensors
        weight = -grads[0][:, None].to(states.dtype)
        return (slopes @ embedding).mul_(weight), slopes.T @ (states * weight), None


class MaskPool:
    """Dropout from slices of one random mask: drawing fresh bits costs a CPU more than the layer they hide."""

    def __init__(self, rate: float, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        keep = torch.rand(1 << 24, generator=generator) >= rate
        self.pool = keep.to(torch.bfloat16) / (1 - rate)
        self.rate, self.rng = rate, random.Random(seed)

    def at(self, step: int) -> None:
        self.rng.seed(step)
        torch.manual_seed(step)

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return F.dropout(x, self.rate)
        start = self.rng.randrange(len(self.pool) - x.numel())
        return x * self.pool[start : start + x.numel()].view(x.shape)


class Adam:
    """Adam on float32 master copies of the weights, which may be bfloat16, with a running average of them (EMA)."""

    def __init__(self, model: nn.Module, average: float) -> None:
        self.params = list(model.parameters())
        self.master = [p.detach().float().clone() for p in self.params]
        self.first = [torch.zeros_like(p) for p in self.master]
        self.second = [torch.zeros_like(p) for p in self.master]
        self.mean = [p.clone() for p in self.master]
        self.average = average
        #: The numbers of the weights that this process moves: by Adam, and as whole matrices.
        self.others, self.matrices = list(range(len(self.params))), list[int]()
        self.team, self.owners = Team(), [0] * len(self.params)

    def join(self, team: Team) -> None:
        """Begin with the first process's weights; from here on, move this process's share alone."""
        for every in (self.master, self.first, self.second, self.mean):
            team.spread(every, self.owners)
        self.show(self.master)
        # To make a step orthogonal takes about eight times as long as Adam's.
        costs = [p.numel() * (8 if number in self.matrices else 1) for number, p in enumerate(self.params)]
        self.team, self.owners = team, team.owners(costs)
        self.others, self.matrices = (
            [number for number in of if self.owners[number] == team.rank] for of in (self.others, self.matrices)
        )

    def gather(self) -> None:
        """Fetch the moments of the weights that other processes move."""
        for every in (self.first, self.second):
            self.team.spread(every, self.owners)

    def step(self, number: int, rate: float, clip: float = 1.0) -> float:
        """Take step ``number`` (from 1) with the gradients in the network; returns their norm before clipping."""
        grads = [torch.zeros_like(p, dtype=torch.float32) if p.grad is None else p.grad.float() for p in self.params]
        self.team.sum(grads)
        norm = math.sqrt(sum(n**2 for n in torch.stack(torch._foreach_norm(grads)).tolist()))  # waits for a GPU once
        torch._foreach_mul_(grads, min(1.0, clip / (norm + 1e-6)))
        self._move(grads, number, rate)
        self.team.spread(self.master, self.owners)
        torch._foreach_lerp_(self.mean, self.master, 1 - min(self.average, number / (number + 10)))
        self.show(self.master)
        for p in self.params:
            p.grad = None
        return norm

    def _move(self, grads: list[Tensor], number: int, rate: float) -> None:
        """Move the master weights that are this process's."""
        self._adam(self.others, grads, number, rate)

    def _adam(self, of: Sequence[int], grads: list[Tensor], number: int, rate: float) -> None:
        """Move the weights of these numbers; of many processes, some may have none."""
        if not of:
            return
        master, first, second, grads = (
            [every[i] for i in of] for every in (self.master, self.first, self.second, grads)
        )
        b1, b2 = 0.9, 0.98
        torch._foreach_lerp_(first, grads, 1 - b1)
        torch._foreach_mul_(second, b2)
        torch._foreach_addcmul_(second, grads, grads, 1 - b2)
        scale = math.sqrt(1 - b2**number) / (1 - b1**number)
        denominator = torch._foreach_sqrt(second)
        torch._foreach_add_(denominator, 1e-8)
        torch._foreach_addcdiv_(master, first, denominator, -rate * scale)

    def show(self, weights: list[Tensor]) -> None:
        """Put weights (``master`` or ``mean``) into the network."""
        with torch.no_grad():
            for p, weight in zip(self.params, weights, strict=True):
                p.copy_(weight)

    def state(self) -> dict[str, list[Tensor]]:
        return {"master": self.master, "first": self.first, "second": self.second, "mean": self.mean}

    def load(self, state: dict[str, list[Tensor]]) -> None:
        for name, values in state.items():
            for mine, theirs in zip(getattr(self, name), values, strict=True):
                mine.copy_(theirs)
        self.show(self.master)


class Muon(Adam):
    """Momentum whose direction is made orthogonal, for the matrices of the layers; Adam for all other weights.

    Jordan et al. 2024 (kellerjordan.github.io/posts/muon), with the update's size that suits Adam's learning rates
    (Liu et al. 2025, arXiv:2502.16982). A matrix of several projections is cut into square ones. A checkpoint of Adam
    can be gone on with.
    """

    MOMENTUM = 0.95
    SIZE = 0.2

    def __init__(self, model: nn.Module, average: float) -> None:
        super().__init__(model, average)
        named = list(model.named_parameters())
        self.width = next(p.shape[1] for name, p in named if "embedding" in name)
        self.matrices = [
            number
            for number, (name, p) in enumerate(named)
            if p.dim() == 2 and "embedding" not in name and min(p.shape) >= self.width
        ]
        self.others = sorted(set(range(len(named))) - set(self.matrices))

    def _move(self, grads: list[Tensor], number: int, rate: float) -> None:
        self._adam(self.others, grads, number, rate)
        if not self.matrices:
            return
        momenta, steps = ([every[i] for i in self.matrices] for every in (self.first, grads))
        torch._foreach_lerp_(momenta, steps, 1 - self.MOMENTUM)
        torch._foreach_lerp_(steps, momenta, self.MOMENTUM)  # Nesterov's
        parts = [self._parts(step) for step in steps]
        for columns in {part.shape[2] for part in parts}:
            of = [n for n, part in enumerate(parts) if part.shape[2] == columns]
            moved = orthogonal(torch.cat([parts[n] for n in of]).to(self.params[0].dtype)).float()
            for n, part in zip(of, moved.split([len(parts[n]) for n in of]), strict=True):
                # A view of the weights: what is done to it is done to them.
                self._parts(self.master[self.matrices[n]]).sub_(part, alpha=rate * self.SIZE * math.sqrt(columns))

    def _parts(self, matrix: Tensor) -> Tensor:
        """A view as (parts, width, columns), columns at least as many: projections, or one wide matrix."""
        rows, columns = matrix.shape
        if self.width in (rows, columns) and max(rows, columns) == 4 * self.width:
            return (matrix if rows == self.width else matrix.T)[None]
        return (
            matrix.view(-1, self.width, columns // self.width, self.width)
            .transpose(1, 2)
            .view(-1, self.width, self.width)
        )


#: Polar Express (Amsel et al. 2025, arXiv:2505.16932): the best odd polynomials of degree five, one after the other.
_POLYNOMIALS: Final = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest matrices whose rows are orthonormal, roughly: shape (n, rows, columns), no more rows than columns."""
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) * 1.01 + 1e-7)
    for a, b, c in _POLYNOMIALS:
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x

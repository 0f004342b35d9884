"""Live hypotheses of a batch, and one step's scores over them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyref.paraphrase.search.protocol import Candidate

NEVER = float("-inf")


@dataclass(frozen=True)
class Layout:
    """Which row of the network stands for each of the W slots of S sentences.

    Slots with equal prefixes share a row; a dead slot borrows one of its sentence.

    Attributes:
        rows: ``[S, W]`` int64 row of every slot.
        owners: ``[R]`` int64 position in the batch of every row's sentence, ascending.
        slots: ``[R]`` int64 a slot (``s * W + w``) that the row stands for.
    """

    rows: Tensor
    owners: Tensor
    slots: Tensor

    @classmethod
    def dense(cls, sentences: int, width: int, device: torch.device) -> Layout:
        """A row for every slot."""
        slots = torch.arange(sentences * width, device=device)
        return cls(slots.view(sentences, width), slots // max(width, 1), slots)

    @classmethod
    def shared(cls, parents: Tensor, tokens: Tensor, live: Tensor, vocab: int) -> tuple[Layout, Tensor]:
        """A row for every distinct prefix.

        Args:
            parents: ``[S, W]`` row (of the layout before) that each slot continues.
            tokens: ``[S, W]`` what it continues with.
            live: ``[S, W]`` whether the slot needs a row; a sentence without any gets one.
            vocab: V.

        Returns:
            The layout, and for each of its rows ``[R]`` the row that it continues.
        """
        count, width = live.shape
        live = live.clone()
        live[:, 0] |= ~live.any(dim=1)
        places = live.flatten().nonzero()[:, 0]
        # Rows lie in the order of the sentences, hence so do the keys.
        keys, inverse = torch.unique((parents * vocab + tokens).flatten()[places], return_inverse=True)
        slots = torch.empty_like(keys)
        slots[inverse] = places
        owners = slots // width
        rows = torch.searchsorted(owners, torch.arange(count, device=owners.device))[:, None].repeat(1, width)
        rows.view(-1)[places] = inverse
        return cls(rows, owners, slots), keys // vocab


@dataclass
class Step:
    """One step's distributions, ready for selection (S sentences, W slots each, R rows, V tokens).

    Attributes:
        t: 0-based step; a token chosen now is token t + 1 of its hypothesis.
        base: ``[R, V]`` float32 log-probabilities of the model.
        scores: The same after penalties and constraints; may be the same tensor.
        forced: ``[S]`` bool, a prefix token is forced.
        last: ``[S]`` bool, the greatest length is reached.
        rows: ``[S, W]`` row of every slot. Empty: ``base`` and ``scores`` are given as ``[S, W, V]``.
    """

    t: int
    base: Tensor
    scores: Tensor
    forced: Tensor
    last: Tensor
    rows: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def __post_init__(self) -> None:
        if not self.rows.numel():
            sentences, width, _ = self.scores.shape
            self.rows = Layout.dense(sentences, width, self.scores.device).rows
            self.base, self.scores = self.base.flatten(0, 1), self.scores.flatten(0, 1)


@dataclass
class Choice:
    """What a semantics decided: the next live rows (dead ones have ``cum`` -inf) and the sentences that are done."""

    parents: Tensor  # [S, W'] int64, row of the old width
    tokens: Tensor  # [S, W'] int64
    cum: Tensor  # [S, W'] float32, running score
    done: list[bool]  # [S]


@dataclass
class Beams:
    """Live hypotheses.

    Attributes:
        sentences: ``[S]`` index in the list given to the search.
        tokens: ``[S, W, t + 1]`` int64, the start token first.
        trace: ``[S, W, t, 3]`` float32, for every token: the model's log-probability, the score after penalties (the
            diversity penalty left out), and the running score (all included).
        cum: ``[S, W]`` float32 running score; -inf for dead rows.
        layout: Rows of the network.
    """

    sentences: Tensor
    tokens: Tensor
    trace: Tensor
    cum: Tensor
    layout: Layout

    @classmethod
    def begin(cls, count: int, start: int, device: torch.device) -> Beams:
        """One empty hypothesis a sentence."""
        return cls(
            torch.arange(count, device=device),
            torch.full((count, 1, 1), start, dtype=torch.int64, device=device),
            torch.zeros((count, 1, 0, 3), device=device),
            torch.zeros((count, 1), device=device),
            Layout.dense(count, 1, device),
        )

    def last_tokens(self) -> Tensor:
        """``[R]`` the token that each row is fed next."""
        return self.tokens[:, :, -1].flatten()[self.layout.slots]

    def prefixes(self) -> Tensor:
        """``[R, t]`` tokens of each row so far, without the start token."""
        return self.tokens.flatten(0, 1)[self.layout.slots, 1:]

    def extend(self, step: Step, choice: Choice) -> None:
        """Replace the live hypotheses by the chosen ones."""
        new = _values(step, choice.parents, choice.tokens, choice.cum)
        self.tokens = torch.cat((rows(self.tokens, choice.parents), choice.tokens[..., None]), dim=2)
        self.trace = torch.cat((rows(self.trace, choice.parents), new[:, :, None]), dim=2)
        self.cum = choice.cum

    def keep(self, positions: Tensor) -> None:
        """Leave only these sentences (positions in the batch) in."""
        self.sentences = self.sentences[positions]
        self.tokens, self.trace, self.cum = self.tokens[positions], self.trace[positions], self.cum[positions]

    def hypotheses(
        self, step: Step, positions: Tensor, parents: Tensor, tokens: Tensor, cum: Tensor
    ) -> list[tuple[tuple[int, ...], list[list[float]]]]:
        """Tokens and trace (a list a column) of hypotheses that a token has just ended; all arguments are ``[N]``."""
        new = _values(step, parents[:, None], tokens[:, None], cum[:, None], positions)
        words = torch.cat((self.tokens[positions, parents, 1:], tokens[:, None]), dim=1).tolist()
        # A list a row, not a list a token: thousands of small lists would set the garbage collector off.
        traces = torch.cat((self.trace[positions, parents], new), dim=1).transpose(1, 2).tolist()
        return [(tuple(word), trace) for word, trace in zip(words, traces)]


def candidate(tokens: tuple[int, ...], trace: list[list[float]], score: float, group: int, finished: bool) -> Candidate:
    """The candidate of a hypothesis, its per-token scores taken as differences of the running score."""
    logprobs, running = tuple(trace[0]), trace[2]
    steps = tuple(now - before for now, before in zip(running, [0.0, *running[:-1]]))
    return Candidate(tokens, score, sum(logprobs), logprobs, steps, group, finished)


def rows(values: Tensor, parents: Tensor) -> Tensor:
    """``values[i, parents[i, j]]`` for ``values`` ``[S, W, ...]`` and ``parents`` ``[S, W']``."""
    return values[torch.arange(values.shape[0], device=values.device)[:, None], parents]


def _values(step: Step, parents: Tensor, tokens: Tensor, cum: Tensor, positions: Tensor | None = None) -> Tensor:
    where = torch.arange(parents.shape[0], device=parents.device) if positions is None else positions
    at = (step.rows[where[:, None], parents], tokens)
    return torch.stack((step.base[at], step.scores[at], cum), dim=-1)


def pad_columns(values: Tensor, width: int, fill: float) -> Tensor:
    """``values`` ``[S, W]`` with at least ``width`` columns."""
    missing = width - values.shape[1]
    return torch.nn.functional.pad(values, (0, missing), value=fill) if missing > 0 else values

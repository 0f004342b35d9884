"""Diverse beam search as published: fixed groups, each a beam search of its own, and a penalty between them.

Vijayakumar et al. 2016 (arXiv:1610.02424), Algorithm 1 with Hamming diversity. Group g maximises the model's score
minus lambda times the number of kept continuations of groups before g that chose the same token at the same step,
summed over the steps. Hypotheses never change groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyref.models.step import StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import (
    NEVER,
    Beams,
    Choice,
    Constraints,
    Step,
    candidate,
    is_far,
    pad_columns,
    sent,
)


@dataclass
class _Pool:
    """The finished hypotheses of one group of one sentence: its b best, in the order of their steering scores."""

    size: int
    entries: list[tuple[float, Candidate]] = field(default_factory=list)
    done: bool = False

    def add(self, steering: float, found: Candidate) -> None:
        """Insert; of equal scores the earlier one stays ahead."""
        place = len(self.entries)
        while place and self.entries[place - 1][0] < steering:
            place -= 1
        self.entries.insert(place, (steering, found))
        del self.entries[self.size :]

    @property
    def worst(self) -> float:
        return self.entries[-1][0] if len(self.entries) == self.size else NEVER


class PaperRule:
    """Selection, finishing and ranking for ``semantics="paper"``; ordinary beam search where there is one group.

    A candidate that ends its hypothesis enters the group's pool if it is among the group's b best candidates of the
    step. The pool keeps the b best by steering score over ``length ** lenpen``. The group stops when the pool is full
    and no live hypothesis can still enter it: scores only fall, so ``cum`` over the most favourable length left is an
    exact bound. At the greatest length the end of sentence is forced.
    """

    def __init__(self, model: StepModel, options: SearchOptions, constraints: Constraints) -> None:
        self._model, self._options = model, options
        self._limits, self._given = constraints.limits, constraints.prefix_lengths
        self._lenpen = options.lenpen if options.normalize else 0.0
        self._rows = options.beam // options.groups
        self._pools = [[_Pool(self._rows) for _ in range(options.groups)] for _ in constraints.limits]

    def advance(self, step: Step, beams: Beams) -> Choice:
        """Advance the groups in order."""
        far = is_far(step.scores.device)
        return self._advance(step, beams, far) or self._advance(step, beams, False)  # type: ignore[return-value]

    def _advance(self, step: Step, beams: Beams, unasked: bool) -> Choice | None:
        """The same; ``unasked``: the device is looked at once, at the end. None where it must be asked in between."""
        size, groups = self._rows, self._options.groups
        selector = Selector(step, doubtful=unasked)
        # A forced token is nobody's choice: it pays no penalty.
        strength = torch.where(step.forced | step.last, 0.0, self._options.strength)
        chosen, ended = [], []
        for group in range(groups):
            # The first step has one row: every group starts from it.
            first = 0 if step.t == 0 else group * size
            width = 1 if step.t == 0 else size
            rows = slice(first, first + width)
            top, row, token = selector.best(rows, beams.cum[:, rows], 2 * size, strength)
            parent = row + first
            ends = (token == self._model.eos) & (top > NEVER)
            if unasked or bool(ends.any()):
                ended.append((ends[:, :size], parent[:, :size], token[:, :size], top[:, :size]))
                if not unasked:
                    self._finish(step, beams, group, *ended[-1])
                # The best b that go on, in order; where there are fewer, dead rows follow.
                top = top.masked_fill(ends, NEVER)
                order = (top == NEVER).to(torch.int8).sort(dim=1, stable=True).indices
                top, parent, token = (values.gather(1, order) for values in (top, parent, token))
            kept = [
                pad_columns(values[:, :size], size, fill)
                for values, fill in ((top, NEVER), (parent, first), (token, 0))
            ]
            chosen.append(kept)
            if group + 1 < groups and self._options.strength:
                selector.count(kept[2], (kept[0] > NEVER).float())
        cum, parents, tokens = (torch.stack(parts, dim=1) for parts in zip(*chosen))
        best = cum[:, :, 0].tolist() if not unasked else self._looked_at(step, beams, selector, cum[:, :, 0], ended)
        if best is None:
            return None
        alive = self._stop(step, beams.numbers, best)
        cum = cum.masked_fill(~sent(alive, cum.device)[:, :, None], NEVER)
        done = [not any(groups_alive) for groups_alive in alive]
        return Choice(parents.flatten(1), tokens.flatten(1), cum.flatten(1), done)

    def _finish(
        self, step: Step, beams: Beams, group: int, ends: Tensor, parent: Tensor, token: Tensor, top: Tensor
    ) -> None:
        positions, ranks = ends.nonzero(as_tuple=True)
        if not len(positions):
            return
        at = (positions, ranks)
        found = beams.hypotheses(step, positions, parent[at], token[at], top[at])
        for position, (tokens, trace) in zip(positions.tolist(), found):
            self._enter(beams.numbers[position], group, tokens, trace)

    def _looked_at(
        self, step: Step, beams: Beams, selector: Selector, best: Tensor, ended: Sequence[tuple[Tensor, ...]]
    ) -> list[list[float]] | None:
        """``best`` on the host, when what has ended has entered the pools; None where the selection is in doubt."""
        ends, parents, tokens, top = (torch.cat(parts, dim=1) for parts in zip(*ended))
        assert selector.doubt is not None
        seen = torch.cat((selector.doubt[:, None], best, ends), dim=1).tolist()
        if any(row[0] for row in seen):
            return None
        first = 1 + best.shape[1]
        at = [(place, number) for place, row in enumerate(seen) for number, end in enumerate(row[first:]) if end]
        width = len(ends[0]) // len(ended)
        for (place, number), found in zip(at, beams.chosen_hypotheses(step, at, parents, tokens, top) if at else ()):
            self._enter(beams.numbers[place], number // width, *found)
        return [row[1:first] for row in seen]

    def _enter(self, sentence: int, group: int, tokens: tuple[int, ...], trace: list[list[float]]) -> None:
        length = max(len(tokens) - self._given[sentence], 1) ** self._lenpen
        score = sum(trace[1]) / length
        self._pools[sentence][group].add(trace[2][-1] / length, candidate(tokens, trace, score, group, True))

    def _stop(self, step: Step, sentences: list[int], best: list[list[float]]) -> list[list[bool]]:
        """Which groups go on, given the running score of their best live hypothesis."""
        alive = []
        for sentence, bests in zip(sentences, best):
            given, limit = self._given[sentence], self._limits[sentence]
            # Lengths that a live hypothesis can still end with: the next token at the earliest.
            length = limit + 1 if self._lenpen > 0 else step.t + 2
            scale = max(length - given, 1) ** self._lenpen
            for pool, cum in zip(self._pools[sentence], bests):
                full = len(pool.entries) == pool.size
                beaten = full and (self._options.early_stopping is True or cum / scale <= pool.worst)
                pool.done = pool.done or cum == NEVER or step.t >= limit or beaten
            alive.append([not pool.done for pool in self._pools[sentence]])
        return alive

    def results(self) -> list[list[Candidate]]:
        """For every sentence the n best, ranked by model score; equal token sequences are merged."""
        return [self._ranked(pools) for pools in self._pools]

    def _ranked(self, pools: list[_Pool]) -> list[Candidate]:
        lists = [[found for _, found in pool.entries] for pool in pools]
        if not self._options.nbest_per_group:
            lists = [[found for group in lists for found in group]]
        seen: set[tuple[int, ...]] = set()
        ranked = []
        for group in lists:
            fresh = []
            for found in sorted(group, key=lambda entry: -entry.score):  # stable: ties by group, then rank
                if found.tokens not in seen:
                    seen.add(found.tokens)
                    fresh.append(found)
            ranked += fresh[: self._options.wanted]
        return ranked

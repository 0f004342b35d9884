"""Diverse beam search as published: fixed groups, each a beam search of its own, and a penalty between them.

Vijayakumar et al. 2016 (arXiv:1610.02424), Algorithm 1 with Hamming diversity. Group g maximises the model's score
minus lambda times the number of kept continuations of groups before g that chose the same token at the same step,
summed over the steps. Hypotheses never change groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyref.models.step import StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import NEVER, Beams, Choice, Constraints, Step, candidate, far, pad_columns, sent


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
        choice = self._advance(step, beams, unasked=True) if far(step.scores.device) else None
        return choice or self._advance(step, beams, unasked=False)  # type: ignore[return-value]

    def _advance(self, step: Step, beams: Beams, *, unasked: bool) -> Choice | None:
        """The same; ``unasked``: the device is looked at once, at the end. None where it must be asked in between."""
        size, groups = self._rows, self._options.groups
        selector = Selector(step, doubtful=unasked)
        # A forced token is nobody's choice: it pays no penalty.
        strength = torch.where(step.forced | step.last, 0.0, self._options.strength)
        chosen: list[list[Tensor]] = []
        ended: list[tuple[int, list[Tensor]]] = []
        flags: list[Tensor] = []  # which candidates end, and in the end which selections are in doubt
        for group in range(groups):
            # The first step has one row: every group starts from it.
            first = 0 if step.t == 0 else group * size
            width = 1 if step.t == 0 else size
            rows = slice(first, first + width)
            top, row, token = selector.best(rows, beams.cum[:, rows], 2 * size, strength)
            parent = row + first
            ends = (token == self._model.eos) & (top > NEVER)
            if unasked or bool(ends.any()):
                ended.append((group, [parent, token, top]))
                flags.append(ends[:, :size])
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
        if selector.doubt is not None:
            flags.append(selector.doubt[:, None])
        seen = torch.cat((cum[:, :, 0], *flags), dim=1).tolist()
        if selector.doubt is not None and any(row.pop() for row in seen):
            return None
        self._finish(step, beams, [row[groups:] for row in seen], ended)
        alive = self._stop(step, beams.numbers, [row[:groups] for row in seen])
        cum = cum.masked_fill(~sent(alive, cum.device)[:, :, None], NEVER)
        done = [not any(groups_alive) for groups_alive in alive]
        return Choice(parents.flatten(1), tokens.flatten(1), cum.flatten(1), done)

    def _finish(self, step: Step, beams: Beams, ends: list[list[float]], ended: list[tuple[int, list[Tensor]]]) -> None:
        """Candidates that end enter the pools; ``ends``: which of the first b of every group ``ended``, by sentence."""
        size = len(ends[0]) // max(len(ended), 1)
        at = [(n // size, place, n % size) for place, row in enumerate(ends) for n, end in enumerate(row) if end]
        if not at:
            return
        parents, tokens, top = (torch.stack(parts) for parts in zip(*(chosen for _, chosen in ended)))
        which = sent(at, top.device).unbind(1)
        found = beams.hypotheses(step, which[1], parents[which], tokens[which], top[which])
        for (number, place, _), (words, trace) in zip(at, found):
            sentence, group = beams.numbers[place], ended[number][0]
            length = max(len(words) - self._given[sentence], 1) ** self._lenpen
            score = sum(trace[1]) / length
            self._pools[sentence][group].add(trace[2][-1] / length, candidate(words, trace, score, group, True))

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

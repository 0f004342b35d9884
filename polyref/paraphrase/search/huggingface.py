"""Beam search and group beam search as Hugging Face Transformers 4.31 - 4.56 had them in core.

Two procedures, as there: :class:`HfGroupRule` is ``GenerationMixin._group_beam_search`` with ``BeamSearchScorer`` (gone
in 5.x), :class:`HfBeamRule` is ``GenerationMixin._beam_search`` as rewritten in 4.50. Lengths count the generated
tokens with the end of sentence, without the start token. A ``max_length`` of n there is ``max_len_b = n - 2`` here
(both its start token and the last token are not counted), ``min_length`` n is ``min_len = n - 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyref.models.step import StepModel
from polyref.paraphrase.search.options import SearchOptions
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import NEVER, Beams, Choice, Step, candidate, pad_columns

#: Changes the scores ``[S, b, V]`` of some rows after the penalty, as Transformers' processors do.
Process = Callable[[Beams, slice, Tensor], Tensor]
#: Score of the rows that are not there yet, so that the first step chooses from the first row of a group.
ABSENT = -1e9


@dataclass
class _Pool:
    """``BeamHypotheses``: at most ``size`` hypotheses; of equal scores the one that came first goes first."""

    size: int
    entries: list[Candidate] = field(default_factory=list)
    worst: float = 1e9
    done: bool = False

    def add(self, found: Candidate) -> None:
        if len(self.entries) < self.size or found.score > self.worst:
            self.entries.append(found)
            if len(self.entries) > self.size:
                self.entries.remove(min(self.entries, key=lambda entry: entry.score))
                self.worst = min(entry.score for entry in self.entries)
            else:
                self.worst = min(found.score, self.worst)


class _HfRule:
    """What both procedures share.

    Args:
        model: The network.
        options: Validated options.
        limits: Greatest length of every sentence.
        process: See :data:`Process`.
        fixed: Return as many hypotheses for every sentence as are asked for, as Transformers does: where there are
            fewer, some of score -1e9 or -inf fill up.
        ends: Tokens that end a sentence; by default the model's one.
    """

    def __init__(
        self,
        model: StepModel,
        options: SearchOptions,
        limits: Sequence[int],
        process: Process | None = None,
        *,
        fixed: bool = False,
        ends: tuple[int, ...] = (),
    ) -> None:
        self._model = model
        self._options = options
        self._limits = list(limits)
        self._process = process
        self._fixed = fixed
        self._ends = ends or (model.eos,)
        # Enough candidates for a full group even if every hypothesis can end in every way.
        self._room = 1 + len(self._ends)
        self._groups = options.groups
        self._rows = options.beam // options.groups
        self._lenpen = options.lenpen if options.normalize else 0.0
        self._pools = [[_Pool(self._rows) for _ in range(options.groups)] for _ in limits]

    def _top(
        self, step: Step, beams: Beams, group: int, selector: Selector, over: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The 2b best candidates of one group: scores, parents and tokens (any, where the group is ``over``).

        With several ends of sentence there are more: (1 + ends) * b.
        """
        rows = slice(group * self._rows, (group + 1) * self._rows)
        # Forced tokens are set after the penalty is taken off, so they pay none.
        free = step.forced | step.last if self._options.forced_eos else step.forced
        strength = torch.where(free, 0.0, self._options.strength)
        if step.t > 0 and self._process is None:
            cum = beams.cum[:, rows]
            # The rows of a group that is done are all the same: no order of theirs is of interest.
            cum = cum if over is None else cum.masked_fill(over, NEVER)
            top, row, token = selector.best(rows, cum, self._room * self._rows, strength)
            return top, row + rows.start, token
        if step.t == 0:
            rows = slice(0, 1)
            cum = torch.full((len(step.forced), self._rows), ABSENT, device=step.scores.device)
            cum[:, 0] = 0.0
        else:
            cum = beams.cum[:, rows]
        scores = selector.dense(rows, strength)
        if self._process is not None:
            rows = slice(group * self._rows, (group + 1) * self._rows)
            scores = self._process(beams, rows, scores.expand(-1, self._rows, -1))
        values = (scores + cum[:, :, None]).flatten(1)
        top, index = values.topk(min(self._room * self._rows, values.shape[1]))
        row = index // self._model.vocab_size
        return top, torch.zeros_like(row) if step.t == 0 else row + rows.start, index % self._model.vocab_size

    def _found(
        self, step: Step, beams: Beams, at: tuple[Tensor, ...], chosen: tuple[Tensor, Tensor, Tensor]
    ) -> list[tuple[int, tuple[int, ...], list[list[float]]]]:
        """Position in the batch, tokens and trace of the candidates ``chosen`` (score, parent, token) at ``at``."""
        if not len(at[0]):
            return []
        top, parent, token = chosen
        found = beams.hypotheses(step, at[0], parent[at], token[at], top[at])
        return [(position, tokens, trace) for position, (tokens, trace) in zip(at[0].tolist(), found)]

    def _candidate(self, tokens: tuple[int, ...], trace: list[list[float]], group: int) -> Candidate:
        score = trace[2][-1] / len(tokens) ** self._lenpen
        return candidate(tokens, trace, score, group, tokens[-1] in self._ends)

    def _are_ends(self, tokens: Tensor) -> Tensor:
        """Which tokens end a sentence."""
        found = tokens == self._ends[0]
        for end in self._ends[1:]:
            found |= tokens == end
        return found

    def _bound(self, t: int, sentence: int, early: str | bool) -> float:
        """What the running score is divided by in the test whether a group can still improve."""
        longest = early == "never" and self._lenpen > 0
        return float((self._limits[sentence] + 1 if longest else t + 1) ** self._lenpen)

    def results(self) -> list[list[Candidate]]:
        """The pools joined in group order, best first; of equal scores the later one is first."""
        lists = []
        for pools in self._pools:
            parts = [[found for pool in pools for found in pool.entries]]
            if self._options.nbest_per_group:
                parts = [pool.entries for pool in pools]
            ranked = [sorted(part, key=lambda c: c.score)[::-1][: self._options.wanted] for part in parts]
            there = [found for part in ranked for found in part if self._fixed or _exists(found)]
            if self._fixed:
                missing = self._options.wanted - len(there)
                there += [Candidate((), ABSENT, ABSENT, (), (), 0, False)] * missing
            lists.append(there)
        return lists


def _exists(found: Candidate) -> bool:
    """Whether it is a hypothesis: none of those that fill a group up where there are too few."""
    return sum(found.token_scores) > ABSENT / 2


class HfGroupRule(_HfRule):
    """``_group_beam_search``: groups are beam searches of their own, apart from the penalty."""

    def advance(self, step: Step, beams: Beams) -> Choice:
        """One step over all groups, in order."""
        sentences = beams.sentences.tolist()
        selector = Selector(step, as_topk=True)
        kept = []
        for group in range(self._groups):
            pools = [self._pools[sentence][group] for sentence in sentences]
            over = torch.tensor([pool.done for pool in pools], device=beams.cum.device)[:, None]
            chosen = self._top(step, beams, group, selector, over)
            top, parent, token = chosen
            ends = self._are_ends(token)
            entering = (ends & ~over)[:, : self._rows]
            for position, tokens, trace in self._found(step, beams, entering.nonzero(as_tuple=True), chosen):
                pools[position].add(self._candidate(tokens, trace, group))
            for pool, sentence, best in zip(pools, sentences, top[:, 0].tolist()):
                pool.done = pool.done or self._full(pool, best, step.t, sentence)
            order = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, : self._rows]
            top = pad_columns(top.masked_fill(ends, NEVER).gather(1, order), self._rows, NEVER)
            parent = pad_columns(parent.gather(1, order), self._rows, 0)
            token = pad_columns(token.gather(1, order), self._rows, 0)
            # A group that is done goes on as padding with a running score of 0: its tokens count in the penalty.
            kept.append(
                (
                    top.masked_fill(over, 0.0),
                    parent.masked_fill(over, 0 if step.t == 0 else group * self._rows),
                    token.masked_fill(over, self._model.pad),
                )
            )
            if group + 1 < self._groups:
                selector.count(kept[-1][2], torch.ones_like(top))
        cum, parents, tokens_ = (torch.cat(parts, dim=1) for parts in zip(*kept))
        choice = Choice(parents, tokens_, cum, [])
        done = []
        for position, sentence in enumerate(sentences):
            if step.t >= self._limits[sentence]:
                self._add_open(step, beams, choice, position, sentence)
                done.append(True)
            else:
                done.append(all(pool.done for pool in self._pools[sentence]))
        choice.done = done
        return choice

    def _full(self, pool: _Pool, best: float, t: int, sentence: int) -> bool:
        if len(pool.entries) < pool.size:
            return False
        early = self._options.early_stopping or False
        return early is True or pool.worst >= best / self._bound(t, sentence, early)

    def _add_open(self, step: Step, beams: Beams, choice: Choice, position: int, sentence: int) -> None:
        """At the greatest length, hypotheses of groups that are not done enter their pools as they are."""
        rows = torch.arange(self._options.beam, device=choice.cum.device)
        at = (torch.full_like(rows, position), rows)
        chosen = (choice.cum, choice.parents, choice.tokens)
        for row, (_, tokens, trace) in enumerate(self._found(step, beams, at, chosen)):
            pool = self._pools[sentence][row // self._rows]
            if not pool.done and (self._fixed or trace[2][-1] > NEVER):
                pool.add(self._candidate(tokens, trace, row // self._rows))


class HfBeamRule(_HfRule):
    """``_beam_search`` of 4.50 and later: at the greatest length the B best candidates count as finished."""

    def advance(self, step: Step, beams: Beams) -> Choice:
        """One step."""
        sentences = beams.sentences.tolist()
        pools = [self._pools[sentence][0] for sentence in sentences]
        chosen = self._top(step, beams, 0, Selector(step, as_topk=True))
        top, parent, token = chosen
        ends = self._are_ends(token) | step.last[:, None]
        entering = (ends & (top > NEVER))[:, : self._rows]
        for position, tokens, trace in self._found(step, beams, entering.nonzero(as_tuple=True), chosen):
            pools[position].add(self._candidate(tokens, trace, 0))
        order = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, : self._rows]
        cum = pad_columns(top.masked_fill(ends, NEVER).gather(1, order), self._rows, NEVER)
        choice = Choice(
            pad_columns(parent.gather(1, order), self._rows, 0),
            pad_columns(token.gather(1, order), self._rows, 0),
            cum,
            [],
        )
        early = self._options.early_stopping or False
        for pool, sentence, best in zip(pools, sentences, cum[:, 0].tolist()):
            full = len(pool.entries) == pool.size
            # Unlike the group search, this asks the best hypothesis that goes on, not the best candidate.
            beaten = full and (early is True or best / self._bound(step.t, sentence, early) <= pool.worst)
            choice.done.append(beaten or step.t >= self._limits[sentence])
        return choice

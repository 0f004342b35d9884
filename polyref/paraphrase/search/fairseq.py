"""fairseq 0.12.2's beam search and diverse beam search, to the letter.

``fairseq/sequence_generator.py`` and ``fairseq/search.py`` of release 0.12.2, including what one would not choose:

* Slots belong to groups by their number modulo G, but a step's survivors are packed in the order of the candidates.
  Whenever a hypothesis ends, all later ones move a slot, hence to another group ("group drift"): lineages mix, and the
  group that pays no penalty takes over.
* The penalty counts all 2b candidates of every earlier group, whether they are kept or not.
* A sentence ends when B hypotheses have ended, whatever a live one could still reach, and none of them is replaced.
* A forced prefix token keeps its log-probability, counts in the length and pays the penalty.
* ``no_repeat_ngram`` has no effect: release 0.12.2 compares with the end of its padded token buffer, which no n-gram
  equals (``fairseq/ngram_repeat_block.py``; only its optional CUDA extension blocks anything).
* Scores include the penalties, and equal token sequences are not merged.

Not followed: ``max_len_a`` takes a sentence's own source length unless ``padded_max_len`` is set; hypotheses of equal
score stay in the order they ended (fairseq's sort leaves it open); where the vocabulary is so small that a step has
fewer than B candidates to go on with, the missing ones are simply absent.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.models.step import StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import NEVER, Beams, Choice, Constraints, Step, candidate, going_on


class FairseqRule:
    """Selection, finishing and ranking for ``semantics="fairseq"``."""

    def __init__(self, model: StepModel, options: SearchOptions, constraints: Constraints) -> None:
        self._model, self._options, self._limits = model, options, constraints.limits
        self._beam = min(options.beam, model.vocab_size - 1)
        self._groups = options.groups
        if self._beam % self._groups:
            raise UsageError(
                f"a vocabulary of {model.vocab_size} cuts the beam to {self._beam}, no multiple of `groups`"
            )
        self._lenpen = options.lenpen if options.normalize else 0.0
        self._finished: list[list[Candidate]] = [[] for _ in constraints.limits]

    def advance(self, step: Step, beams: Beams) -> Choice:
        """One step of ``SequenceGenerator._generate``."""
        beam, groups = self._beam, self._groups
        selector = Selector(step, as_topk=True)
        strength = float(self._options.strength)
        found = []
        for group in range(groups):
            # The first step has one row, the same for every group.
            part = slice(0, 1) if step.t == 0 else slice(group, None, groups)
            cum = beams.cum[:, part]
            most = min(2 * (beam // groups), cum.shape[1] * self._model.vocab_size - 1)
            top, row, token = selector.best(part, cum, most, strength)
            found.append((top, row if step.t == 0 else row * groups + group, token))
            if group + 1 < groups:
                selector.count(token, torch.ones_like(top))
        # Rank-major: the best of every group, then the second best, and so on.
        top, parent, token = (torch.stack(values, dim=2).flatten(1) for values in zip(*found))
        ends = (token == self._model.eos) & (top > NEVER)
        self._finish(step, beams, ends[:, :beam], parent, token, top)
        done = [len(self._finished[sentence]) >= beam or step.t >= self._limits[sentence] for sentence in beams.numbers]
        cum, parents, tokens = going_on((top, parent, token), ends, beam)
        return Choice(parents, tokens, cum, done)

    def _finish(self, step: Step, beams: Beams, ends: Tensor, parent: Tensor, token: Tensor, top: Tensor) -> None:
        at = ends.nonzero(as_tuple=True)
        if not len(at[0]):
            return
        found = beams.hypotheses(step, at[0], parent[at], token[at], top[at])
        for sentence, rank, (tokens, trace) in zip(beams.sentences[at[0]].tolist(), at[1].tolist(), found):
            finished = self._finished[sentence]
            if len(finished) < self._beam:
                score = trace[2][-1] / (step.t + 1) ** self._lenpen
                finished.append(candidate(tokens, trace, score, rank % self._groups, True))

    def results(self) -> list[list[Candidate]]:
        """For every sentence the n best of its finished hypotheses."""
        return [sorted(found, key=lambda c: -c.score)[: self._options.wanted] for found in self._finished]

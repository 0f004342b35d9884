"""Sampling: independent draws, each sentence from a stream of its own.

Restrictions of the distribution, in this order: the k most probable tokens (Fan et al. 2018, arXiv:1805.04833); of
those, renormalised, the smallest set that holds probability p (Holtzman et al. 2020, arXiv:1904.09751); and of those
only tokens whose probability is at least epsilon (Hewitt et al. 2022, arXiv:2210.15191). The most probable token always
stays.
Scores are the model's log-probabilities, not those of the restricted distribution, as in fairseq.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from polyref.models.step import StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.state import NEVER, Beams, Choice, Constraints, Step, candidate


class SamplingRule:
    """``beam`` independent hypotheses a sentence.

    A sentence's stream is seeded by the seed and its own tokens, and every step draws one number a hypothesis, finished
    or not: neither the batch nor the order of the sentences changes the draws.
    """

    def __init__(
        self, model: StepModel, options: SearchOptions, constraints: Constraints, sources: Sequence[Sequence[int]]
    ) -> None:
        self._model, self._options = model, options
        self._limits = constraints.limits
        # Prefix tokens are given, except to fairseq, which scores them.
        given = constraints.prefix_lengths
        self._given = [0 if options.semantics != "paper" else length for length in given]
        self._lenpen = options.lenpen if options.normalize else 0.0
        self._streams = [_stream(options.seed, source) for source in sources]
        self._found: list[list[Candidate]] = [[] for _ in sources]

    def advance(self, step: Step, beams: Beams) -> Choice:
        """Draw one token for every live hypothesis."""
        sentences, beam = beams.numbers, self._options.beam
        parents = torch.arange(beam, device=step.scores.device).expand(len(sentences), beam)
        if step.t == 0:
            parents = torch.zeros_like(parents)
        numbers = torch.stack([torch.rand(beam, dtype=torch.float64, generator=self._streams[i]) for i in sentences])
        scores = step.scores[step.rows.gather(1, parents)]
        tokens = self._draw(scores, numbers.to(scores.device))
        before = beams.cum.gather(1, parents)
        cum = before + scores.gather(2, tokens[:, :, None])[:, :, 0]
        over = (tokens == self._model.eos) | step.last[:, None]
        self._finish(step, beams, (over & (cum > NEVER)), parents, tokens, cum)
        cum = cum.masked_fill(over, NEVER)
        alive = (cum > NEVER).any(dim=1).tolist()
        return Choice(parents.contiguous(), tokens, cum, [not a for a in alive])

    def _draw(self, scores: Tensor, numbers: Tensor) -> Tensor:
        """Tokens ``[S, B]`` from log-probabilities ``[S, B, V]`` and uniform numbers ``[S, B]``."""
        scores = scores.double()
        original = scores.softmax(dim=-1).nan_to_num_()
        kept = original
        options = self._options
        if 0 < options.sampling_topk < scores.shape[-1]:
            least = kept.topk(options.sampling_topk, dim=-1).values[..., -1:]
            kept = kept.masked_fill(kept < least, 0.0)
            kept = kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-300)
        if 0 < options.sampling_topp < 1:
            ordered, index = kept.sort(dim=-1, descending=True, stable=True)
            beyond = ordered.cumsum(dim=-1) - ordered >= options.sampling_topp
            kept = torch.zeros_like(kept).scatter_(-1, index, ordered.masked_fill(beyond, 0.0))
        if options.sampling_epsilon:
            best = original == original.max(dim=-1, keepdim=True).values
            kept = kept.masked_fill((original < options.sampling_epsilon) & ~best, 0.0)
        # Inverse of the distribution function: one number, one token, whatever the batch.
        cumulative = kept.cumsum(dim=-1)
        wanted = numbers[..., None] * cumulative[..., -1:]
        tokens = torch.searchsorted(cumulative, wanted, right=True)[..., 0]
        return tokens.clamp_max_(scores.shape[-1] - 1)

    def _finish(self, step: Step, beams: Beams, over: Tensor, parents: Tensor, tokens: Tensor, cum: Tensor) -> None:
        at = over.nonzero(as_tuple=True)
        if not len(at[0]):
            return
        found = beams.hypotheses(step, at[0], parents[at], tokens[at], cum[at])
        for sentence, (words, trace) in zip(beams.sentences[at[0]].tolist(), found):
            length = max(len(words) - self._given[sentence], 1) ** self._lenpen
            finished = words[-1] == self._model.eos
            self._found[sentence].append(candidate(words, trace, trace[2][-1] / length, 0, finished))

    def results(self) -> list[list[Candidate]]:
        """The draws of every sentence, best first; equal draws are kept, they are a sample."""
        return [sorted(found, key=lambda c: -c.score)[: self._options.wanted] for found in self._found]


def _stream(seed: int, source: Sequence[int]) -> torch.Generator:
    text = f"{seed}:{' '.join(str(int(token)) for token in source)}"
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return torch.Generator().manual_seed(number & (2**63 - 1))

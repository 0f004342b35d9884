"""The k best continuations of a group, without writing or sorting the whole of its scores.

One pass over the scores takes the maximum of every block of 64 tokens; the k best tokens lie in the k best blocks. The
diversity penalty touches few tokens: they are lowered in place, their blocks' maxima recomputed, and put back after.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polyref.paraphrase.search.state import Step

BLOCK = 64
#: Below this vocabulary, sorting everything is faster.
_SMALL = 1024


class Selector:
    """Selection over one step's scores.

    Args:
        step: The step; its scores are changed during :meth:`best` and restored before it returns.
    """

    def __init__(self, step: Step) -> None:
        self._scores = step.scores
        self._vocab = step.scores.shape[-1]
        self._blocks = self._vocab // BLOCK if self._vocab >= _SMALL else 0
        main = self._scores[..., : self._blocks * BLOCK]
        self._maxima = main.view(*main.shape[:2], self._blocks, BLOCK).amax(dim=-1) if self._blocks else None
        self._counts: Tensor | None = None
        self._tokens: list[Tensor] = []

    def count(self, tokens: Tensor, weights: Tensor) -> None:
        """Add to the tokens' counts for the groups to come (``[S, n]`` both)."""
        if self._counts is None:
            self._counts = torch.zeros(len(tokens), self._vocab, device=tokens.device)
        self._counts.scatter_add_(1, tokens, weights)
        self._tokens.append(tokens)

    def dense(self, rows: slice, strength: Tensor) -> Tensor:
        """Scores ``[S, R, V]`` of some rows after the penalty."""
        scores = self._scores[:, rows]
        return scores if self._counts is None else scores - (strength[:, None] * self._counts)[:, None]

    def best(self, rows: slice, cum: Tensor, most: int, strength: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The ``most`` best of ``(score - strength * count) + cum`` over some rows, best first.

        Args:
            rows: Rows of the group.
            cum: ``[S, R]`` running scores.
            most: k; fewer are returned where there are fewer.
            strength: ``[S]`` penalty a count.

        Returns:
            Scores, rows (0-based in the group) and tokens, ``[S, k]`` each.
        """
        if self._maxima is None:
            values = (self.dense(rows, strength) + cum[:, :, None]).flatten(1)
            top, index = values.topk(min(most, values.shape[1]))
            return top, index // self._vocab, index % self._vocab
        scores, maxima = self._scores[:, rows], self._maxima[:, rows]
        if self._counts is None:
            return self._from_blocks(scores, maxima, cum, most)
        tokens = torch.cat(self._tokens, dim=1)
        lowered = strength[:, None] * self._counts.gather(1, tokens)
        at = tokens[:, None].expand(-1, scores.shape[1], -1)
        original = scores.gather(2, at)
        scores.scatter_(2, at, original - lowered[:, None])
        maxima = maxima.clone()
        sentences = torch.arange(len(tokens), device=tokens.device)[:, None]
        blocks = (tokens // BLOCK).clamp_max_(self._blocks - 1)
        touched = self._main(scores)[sentences, :, blocks].amax(dim=-1).transpose(1, 2)
        maxima.scatter_(2, blocks[:, None].expand_as(at), touched)
        found = self._from_blocks(scores, maxima, cum, most)
        scores.scatter_(2, at, original)
        return found

    def _main(self, scores: Tensor) -> Tensor:
        main = scores[..., : self._blocks * BLOCK]
        return main.view(*main.shape[:2], self._blocks, BLOCK)

    def _from_blocks(self, scores: Tensor, maxima: Tensor, cum: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        bounds = (maxima + cum[:, :, None]).flatten(1)
        chosen = bounds.topk(min(most, bounds.shape[1])).indices
        row, block = chosen // self._blocks, chosen % self._blocks
        sentences = torch.arange(len(scores), device=scores.device)[:, None]
        values = self._main(scores)[sentences, row, block] + cum.gather(1, row)[:, :, None]
        size = values.shape[1] * BLOCK
        values = values.flatten(1)
        if tail := self._vocab - self._blocks * BLOCK:
            rest = scores[..., -tail:] + cum[:, :, None]
            values = torch.cat((values, rest.flatten(1)), dim=1)
        top, index = values.topk(min(most, values.shape[1]))
        place = index.clamp_max(size - 1)
        token = block.gather(1, place // BLOCK) * BLOCK + place % BLOCK
        row = row.gather(1, place // BLOCK)
        if tail:
            after, outside = index - size, index >= size
            row = torch.where(outside, after // tail, row)
            token = torch.where(outside, self._vocab - tail + after % tail, token)
        return top, row, token

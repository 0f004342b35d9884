"""The k best continuations of a group, without writing or sorting the whole of its scores.

One pass over the scores takes the maximum of every block of some 64 tokens; the k best tokens lie in the k best blocks.
The diversity penalty touches few tokens: they are lowered in place, the maxima of their blocks taken again, and put
back after.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polyref.paraphrase.search.state import Step

#: Sizes of a block, the first that divides the vocabulary: then no tokens are left over.
SIZES = (64, 96, 128, 32)
#: Below this vocabulary, sorting everything is faster.
_SMALL = 1024


class Selector:
    """Selection over one step's scores.

    Args:
        step: The step; its scores are changed during :meth:`best` and restored before it returns.
    """

    def __init__(self, step: Step) -> None:
        self._scores = step.scores
        self._rows = step.rows
        self._vocab = step.scores.shape[-1]
        self._size = next((size for size in SIZES if self._vocab % size == 0), SIZES[0])
        self._blocks = self._vocab // self._size if self._vocab >= _SMALL else 0
        self._maxima = self._main().amax(dim=-1) if self._blocks else None
        self._counts: Tensor | None = None
        self._tokens: list[Tensor] = []

    def count(self, tokens: Tensor, weights: Tensor) -> None:
        """Add to the tokens' counts for the groups to come (``[S, n]`` both)."""
        if self._counts is None:
            self._counts = torch.zeros(len(tokens), self._vocab, device=tokens.device)
        self._counts.scatter_add_(1, tokens, weights)
        self._tokens.append(tokens)

    def dense(self, slots: slice, strength: Tensor) -> Tensor:
        """Scores ``[S, W, V]`` of some slots after the penalty."""
        scores = self._scores[self._rows[:, slots]]
        return scores if self._counts is None else scores - (strength[:, None] * self._counts)[:, None]

    def best(self, slots: slice, cum: Tensor, most: int, strength: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The ``most`` best of ``(score - strength * count) + cum`` over some slots, best first.

        Args:
            slots: Slots of the group.
            cum: ``[S, W]`` their running scores.
            most: k; fewer are returned where there are fewer.
            strength: ``[S]`` penalty a count.

        Returns:
            Scores, slots (0-based in the group) and tokens, ``[S, k]`` each.
        """
        if self._maxima is None:
            values = (self.dense(slots, strength) + cum[:, :, None]).flatten(1)
            top, index = values.topk(min(most, values.shape[1]))
            return top, index // self._vocab, index % self._vocab
        rows = self._rows[:, slots]
        maxima = self._maxima[rows]
        if self._counts is None:
            return self._from_blocks(rows, maxima, cum, most)
        tokens = torch.cat(self._tokens, dim=1)
        lowered = strength[:, None] * self._counts.gather(1, tokens)
        # Slots of equal prefix write the same value to the same place.
        at = (rows[:, :, None], tokens[:, None])
        original = self._scores[at]
        self._scores[at] = original - lowered[:, None]
        blocks = (tokens // self._size).clamp_max_(self._blocks - 1)[:, None]
        touched = self._main()[rows[:, :, None], blocks].amax(dim=-1)
        maxima.scatter_(2, blocks.expand_as(touched), touched)
        found = self._from_blocks(rows, maxima, cum, most)
        self._scores[at] = original
        return found

    def _main(self) -> Tensor:
        """Scores ``[R, blocks, size]``; what is left of the vocabulary is no block."""
        main = self._scores[:, : self._blocks * self._size]
        return main.view(len(main), self._blocks, self._size)

    def _from_blocks(self, rows: Tensor, maxima: Tensor, cum: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        bounds = (maxima + cum[:, :, None]).flatten(1)
        chosen = bounds.topk(min(most, bounds.shape[1])).indices
        slot, block = chosen // self._blocks, chosen % self._blocks
        values = self._main()[rows.gather(1, slot), block] + cum.gather(1, slot)[:, :, None]
        size = values.shape[1] * self._size
        values = values.flatten(1)
        tail = self._vocab - self._blocks * self._size
        if tail:
            rest = self._scores[rows, -tail:] + cum[:, :, None]
            values = torch.cat((values, rest.flatten(1)), dim=1)
        top, index = values.topk(min(most, values.shape[1]))
        place = index.clamp_max(size - 1) if tail else index
        at = place // self._size
        token = block.gather(1, at) * self._size + place % self._size
        slot = slot.gather(1, at)
        if tail:
            after, outside = index - size, index >= size
            slot = torch.where(outside, after // tail, slot)
            token = torch.where(outside, self._vocab - tail + after % tail, token)
        return top, slot, token

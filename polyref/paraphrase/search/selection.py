"""The k best continuations of a group, without writing or sorting the whole of its scores.

One pass over the scores takes the maximum of every block of some 64 tokens; the k best tokens lie in the k best blocks.
The diversity penalty touches few tokens: only the maxima of their blocks are taken again.

Candidates of exactly equal score are ordered by slot, then token; or as ``torch.topk`` orders them when it is given all
scores of the group, which is what fairseq and Transformers follow (no rule, but the same result for the same scores).
"""

from __future__ import annotations

import torch
from torch import Tensor

from polyref.paraphrase.search.state import Step, far

#: Sizes of a block, the first that divides the vocabulary: then no tokens are left over.
SIZES = (64, 96, 128, 32, *range(65, 129), *range(63, 32, -1))
#: Below this vocabulary, sorting everything is faster.
_SMALL = 1024


class Selector:
    """Selection over one step's scores; ``as_topk`` orders equal ones as ``torch.topk`` does over all of them.

    ``doubtful``: nothing is asked of the device. Where the last one taken equals one that is not, ``doubt`` (a bool of
    every sentence) says so, and the selection must be made again.
    """

    def __init__(self, step: Step, *, as_topk: bool = False, doubtful: bool = False) -> None:
        self._scores = step.scores.contiguous()
        self._rows = step.rows
        self._as_topk = as_topk
        self._vocab = step.scores.shape[-1]
        self._size = next((size for size in SIZES if self._vocab % size == 0), SIZES[0])
        # Blocks save the processor memory traffic. An accelerator would have to be asked which of them were touched.
        self._blocks = self._vocab // self._size if self._vocab >= _SMALL and not far(self._scores.device) else 0
        self.doubt = torch.zeros(len(step.forced), dtype=torch.bool, device=self._scores.device) if doubtful else None
        self._tail = self._vocab - self._blocks * self._size
        self._maxima = self._main(self._scores).amax(dim=-1) if self._blocks else None
        self._counts: Tensor | None = None
        self._touched: Tensor | None = None

    def count(self, tokens: Tensor, weights: Tensor) -> None:
        """Add to the tokens' counts for the groups to come (``[S, n]`` both)."""
        if self._counts is None:
            self._counts = torch.zeros(len(tokens), self._vocab, device=tokens.device)
        self._counts.scatter_add_(1, tokens, weights)
        if self._blocks:
            if self._touched is None:
                self._touched = torch.zeros(len(tokens), self._blocks, dtype=torch.bool, device=tokens.device)
            self._touched.scatter_(1, (tokens // self._size).clamp_max_(self._blocks - 1), True)

    def dense(self, slots: slice, strength: Tensor | float) -> Tensor:
        """Scores ``[S, W, V]`` of some slots after the penalty."""
        scores = self._scores[self._rows[:, slots]]
        return scores if self._counts is None else _lower(scores, self._counts[:, None], strength)

    def best(self, slots: slice, cum: Tensor, most: int, strength: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
        """The ``most`` best of ``(score - strength * count) + cum`` over some slots, best first.

        They are scores, slots (0-based in the group) and tokens, ``[S, k]`` each; which candidates of score -inf are
        among them is left open. With a ``[S]`` of strengths the product with the count is rounded before it is taken
        off, as in Transformers; with a number it is not (a fused multiply-add), as in fairseq.
        """
        most = min(most, cum.shape[1] * self._vocab)
        if self._maxima is None:
            found = (self.dense(slots, strength) + cum[:, :, None]).flatten(1)
            # One more than asked for shows whether another is as good as the last one.
            top, index = found.topk(min(most + 1, found.shape[1]))
        else:
            top, index = self._from_blocks(self._rows[:, slots], self._maxima, cum, most + 1, strength)
        tied = top.diff(dim=1) == 0  # two of -inf differ by what is not a number
        top, index = top[:, :most], index[:, :most]
        if self.doubt is not None:
            self.doubt |= tied[:, most - 1 :].any(dim=1)
            # In the order of their places, then, stably, of their scores.
            index, order = index.sort(dim=1)
            top, order = top.gather(1, order).sort(dim=1, descending=True, stable=True)
            index = index.gather(1, order)
        elif bool(tied.any()):
            again = tied.any(dim=1).nonzero()[:, 0]
            top[again], index[again] = self._ordered(slots, cum, most, strength, again)
        slot = index // self._vocab
        return top, slot, index - slot * self._vocab

    def _ordered(
        self, slots: slice, cum: Tensor, most: int, strength: Tensor | float, sentences: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The best of a few sentences by all of their scores, those that are equal in order."""
        scores = self._scores[self._rows[sentences, slots]]
        if self._counts is not None:
            penalty = strength if isinstance(strength, float) else strength[sentences]
            scores = _lower(scores, self._counts[sentences, None], penalty)
        values = (scores + cum[sentences, :, None]).flatten(1)
        top, index = values.topk(most)
        if not self._as_topk:
            for row, least in enumerate(top[:, -1:].unbind()):
                enough = (values[row] >= least).nonzero()[:, 0]
                order = values[row, enough].argsort(descending=True, stable=True)[:most]
                index[row] = enough[order]
            top = values.gather(1, index)
        return top, index

    def _main(self, values: Tensor) -> Tensor:
        """``[N, V]`` as ``[N, blocks, size]``; what is left of the vocabulary is no block."""
        return values[:, : self._blocks * self._size].view(len(values), self._blocks, self._size)

    def _take(self, values: Tensor, rows: Tensor, blocks: Tensor) -> Tensor:
        """Blocks ``[N, size]`` of ``values`` ``[R, V]``, by row and block ``[N]``."""
        if self._tail:
            return self._main(values)[rows, blocks]
        return values.view(-1, self._size).index_select(0, rows * self._blocks + blocks)

    def _from_blocks(
        self, rows: Tensor, maxima: Tensor, cum: Tensor, most: int, strength: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """The best, with their places in ``[W * V]``."""
        sentences, width = rows.shape
        bounds = maxima.index_select(0, rows.flatten()).view(sentences, width, self._blocks)
        if self._counts is not None and self._touched is not None:
            owner, block = self._touched.nonzero(as_tuple=True)
            at = rows.index_select(0, owner)
            values = self._take(self._scores, at.flatten(), block.repeat_interleave(width))
            counts = self._take(self._counts, owner, block)[:, None]
            penalty = strength if isinstance(strength, float) else strength[owner]
            lowered = _lower(values.view(len(owner), width, self._size), counts, penalty).amax(dim=-1)
            first = (owner * (width * self._blocks) + block)[:, None]
            places = first + torch.arange(0, width * self._blocks, self._blocks, device=rows.device)
            bounds.view(-1).scatter_(0, places.flatten(), lowered.flatten())
        bounds += cum[:, :, None]
        flat = bounds.flatten(1)
        chosen = flat.topk(min(most, flat.shape[1])).indices
        slot = chosen // self._blocks
        block = chosen - slot * self._blocks
        values = self._take(self._scores, rows.gather(1, slot).flatten(), block.flatten())
        values = values.view(sentences, -1, self._size)
        if self._counts is not None:
            owner = torch.arange(sentences, device=rows.device).repeat_interleave(block.shape[1])
            counts = self._take(self._counts, owner, block.flatten()).view(sentences, -1, self._size)
            values = _lower(values, counts, strength)
        values = (values + cum.gather(1, slot)[:, :, None]).flatten(1)
        inside = values.shape[1]
        if self._tail:
            rest = self._scores[rows, -self._tail :]
            if self._counts is not None:
                rest = _lower(rest, self._counts[:, None, -self._tail :], strength)
            values = torch.cat((values, (rest + cum[:, :, None]).flatten(1)), dim=1)
        top, index = values.topk(min(most, values.shape[1]))
        within = index.clamp_max(inside - 1) if self._tail else index
        at = within // self._size
        places = slot.gather(1, at) * self._vocab + block.gather(1, at) * self._size + within - at * self._size
        if self._tail:
            after = index - inside
            outside = (after // self._tail) * self._vocab + self._vocab - self._tail + after % self._tail
            places = torch.where(after >= 0, outside, places)
        return top, places


def _lower(scores: Tensor, counts: Tensor, strength: Tensor | float) -> Tensor:
    """``scores - strength * counts``, rounded once (a number) or twice (``[S]``, one a sentence)."""
    if isinstance(strength, float):
        return torch.sub(scores, counts, alpha=strength)
    return scores - strength[:, None, None] * counts

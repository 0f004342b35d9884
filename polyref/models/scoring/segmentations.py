"""Random segmentations of a text into subwords (Kudo 2018, arXiv:1804.10959, section 3.2).

A segmentation x among the l best ones is drawn with probability proportional to P(x)^alpha. SentencePiece can sample
too, but from a generator of its own that cannot be seeded again within a process; here the draw is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyref.errors import UsageError

#: What an unknown piece costs beyond the least likely known one, as in SentencePiece's own lattice.
_UNKNOWN = 10.0


class Segmenter:
    """The segmentations of one model.

    Args:
        pieces: SentencePiece processor of a unigram model.
        to_ids: Pieces to token ids, for ``source`` and ``target``.
        prepare: What the model's codec does to a text first.
    """

    def __init__(
        self,
        pieces: Any,
        to_ids: Callable[[str, Sequence[str]], list[int]],
        prepare: Callable[[str], str] = str,
    ) -> None:
        self._pieces = pieces
        self._to_ids = to_ids
        self._prepare = prepare
        self._least: float | None = None

    def sample(
        self,
        side: str,
        text: str,
        whole: Sequence[int],
        *,
        count: int,
        alpha: float,
        nbest: int,
        rng: np.random.Generator,
    ) -> list[list[int]]:
        """``count`` segmentations, as token ids.

        Args:
            side: ``source`` or ``target``.
            text: The text.
            whole: Its usual token ids, with special tokens, which are kept around the pieces.
            count: How many, drawn with replacement.
            alpha: Smoothing: 0 draws the best ones alike, larger values prefer likely ones.
            nbest: l.
            rng: Where the draw comes from.

        Raises:
            UsageError: The SentencePiece model is no unigram model, or the text's ids are not those of its pieces.
        """
        try:
            found = self._pieces.NBestEncodeAsPieces(self._prepare(text), nbest)
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            raise UsageError(
                f"segmentations cannot be sampled, expected a SentencePiece unigram model: {reason}"
            ) from None
        # Different pieces can be the same ids (unknown ones): still different draws.
        rows = [self._to_ids(side, pieces) for pieces in found]
        around = _around(whole, rows[0] if rows else [])
        if around is None:
            raise UsageError(
                f"segmentations of {text!r} cannot be sampled: the tokeniser changes it before it cuts it into pieces",
                remedy="does it hold a special token, such as </s>? Remove it, or do not sample segmentations",
            )
        before, after = around
        if not rows or not rows[0]:
            return [list(whole)] * count
        scores = alpha * np.array([self._score(pieces) for pieces in found])
        shares = np.exp(scores - scores.max())
        drawn = rng.choice(len(rows), size=count, p=shares / shares.sum())
        return [[*before, *rows[index], *after] for index in drawn]

    def _score(self, pieces: Sequence[str]) -> float:
        ids = [self._pieces.PieceToId(piece) for piece in pieces]
        return sum(self._unknown() if self._pieces.IsUnknown(i) else self._pieces.GetScore(i) for i in ids)

    def _unknown(self) -> float:
        if self._least is None:
            scores = [self._pieces.GetScore(i) for i in range(self._pieces.GetPieceSize())]
            self._least = min(scores) - _UNKNOWN
        return self._least


def _around(whole: Sequence[int], part: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """What stands before and after the pieces among a text's token ids: special tokens. None: they are not there."""
    for at in range(len(whole) - len(part) + 1):
        if list(whole[at : at + len(part)]) == list(part):
            return list(whole[:at]), list(whole[at + len(part) :])
    return None

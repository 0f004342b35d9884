"""The lexical copy penalty of Thompson & Post 2020b: paraphrases that do not repeat their source.

"Paraphrase Generation as Zero-Shot Multilingual Translation" (arXiv:2008.04935), section 3. Where the words so far end
with a word n-gram prefix of the source, every token that could start the word that follows there is penalised by
``a * n ** b`` (n counts the words of the whole n-gram, 1 to 4), whatever its case. Only starting a word is penalised,
not going on with it.

As in the authors' program, penalties add up: over n, over every place of the source where the n-gram stands, and twice
for tokens that the source's own pieces of the word can be joined to. Unlike it, the longest prefixes are matched as
well, which an off-by-one there leaves out.

How a penalty acts is not as in that program, so published values of ``a`` are a place to start from and no more. Here
it is subtracted from the log-probability, ``log p - penalty``. There it is a second model of an ensemble, whose
probabilities fairseq averages: ``log((p + exp(-penalty)) / 2)``, in which tokens without a penalty all gain the same
probability, and scores are no longer those of the model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.paraphrase.decoding import in_full
from polyref.paraphrase.loading import check_penalty

WORD_START = "▁"
LONGEST = 4


class PieceCodec(Protocol):
    """What the penalty needs of a vocabulary."""

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        """Source tokens as text, unknown ones spelled out."""

    def symbols(self) -> list[str]:
        """Target tokens by id."""


class CopyPenaltyRules:
    """The penalty as :class:`~polyref.paraphrase.search_paraphraser.Rules` of a paraphraser."""

    def __init__(self, codec: PieceCodec, a: float, b: float) -> None:
        check_penalty(a, b)
        self._codec = codec
        self._symbols = codec.symbols()
        if not any(symbol.startswith(WORD_START) for symbol in self._symbols):
            raise UsageError("`prism_a` needs a SentencePiece vocabulary; this model's tokens do not show word starts")
        self._a, self._b = a, b
        self.name = f"copy(a={in_full(a)},b={in_full(b)})"

    def hooks(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> Sequence[LexicalCopyPenalty]:
        """The penalty for one batch of sources."""
        pieces = [self._codec.pieces(text) for text in texts]
        return [LexicalCopyPenalty(self._symbols, pieces, self._a, self._b)]


class LexicalCopyPenalty:
    """A ``StepHook`` for one search; ``a`` and ``b`` are the paper's alpha and beta.

    ``symbols`` are target tokens by id, ``sources`` the pieces of every sentence; what starts a word begins with ``▁``.
    """

    def __init__(self, symbols: Sequence[str], sources: Sequence[Sequence[str]], a: float, b: float) -> None:
        check_penalty(a, b)
        ids = {symbol: number for number, symbol in enumerate(symbols)}
        starts: dict[str, list[str]] = defaultdict(list)
        for symbol in ids:
            if symbol.startswith(WORD_START):
                starts[symbol.lower()].append(symbol)
        self._tables = [_table(_words(pieces), ids, starts, a, b) for pieces in sources]

    def __call__(self, sentences: Tensor, prefixes: Tensor, scores: Tensor) -> None:
        """Subtract the penalties in place."""
        places: tuple[list[int], list[int], list[int]] = ([], [], [])
        amounts: list[float] = []
        rows = prefixes.tolist()
        for position, sentence in enumerate(sentences.tolist()):
            table = self._tables[sentence]
            longest = max((len(prefix) for prefix in table), default=-1)
            for row, prefix in enumerate(rows[position]):
                for size in range(min(longest, len(prefix)) + 1):
                    for token, amount in table.get(tuple(prefix[len(prefix) - size :]), {}).items():
                        places[0].append(position)
                        places[1].append(row)
                        places[2].append(token)
                        amounts.append(-amount)
        if amounts:
            at = tuple(torch.tensor(values, device=scores.device) for values in places)
            scores.index_put_(at, torch.tensor(amounts, dtype=scores.dtype, device=scores.device), accumulate=True)


def _words(pieces: Sequence[str]) -> list[list[str]]:
    """Pieces of every word."""
    words: list[list[str]] = []
    for piece in pieces:
        if piece.startswith(WORD_START) or not words:
            words.append([])
        words[-1].append(piece)
    return words


def _table(
    words: Sequence[Sequence[str]],
    ids: Mapping[str, int],
    starts: Mapping[str, Sequence[str]],
    a: float,
    b: float,
) -> dict[tuple[int, ...], dict[int, float]]:
    """For every prefix (token ids) the penalties of the tokens that may not follow it."""
    table: dict[tuple[int, ...], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for n in range(1, LONGEST + 1):
        for first in range(len(words) - n + 1):
            before = [piece for word in words[first : first + n - 1] for piece in word]
            if any(piece not in ids for piece in before):
                continue
            penalties = table[tuple(ids[piece] for piece in before)]
            for token, times in _openings(words[first + n - 1], ids, starts).items():
                penalties[token] += times * a * n**b
    return table


def _openings(pieces: Sequence[str], ids: Mapping[str, int], starts: Mapping[str, Sequence[str]]) -> dict[int, int]:
    """Tokens that start the word, whatever their case, and how many times each is penalised."""
    word = WORD_START + "".join(pieces).removeprefix(WORD_START)
    joined = pieces[0] if pieces[0].startswith(WORD_START) else WORD_START + pieces[0]
    for piece in pieces[1:]:
        if joined + piece not in ids:
            break
        joined += piece
    lower, reached = word.lower(), len(joined.lower())
    return {
        ids[token]: 2 if size <= reached else 1
        for size in range(1, len(lower) + 1)
        for token in starts.get(lower[:size], ())
    }

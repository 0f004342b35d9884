"""What a text says in other words than another: the words that went and the words that came."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

from polyref.metrics.ngram.diversity import UNSPACED

#: A word, a character of a script without spaces, or a mark, with the white space after it.
_TOKEN: Final = re.compile(rf"(?:[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’][^\W{UNSPACED}]+)*|\S)\s*")


@dataclass(frozen=True)
class Piece:
    """A part of two texts.

    Attributes:
        change: ``same`` is in both, ``gone`` in the first alone, ``new`` in the second alone.
        text: The part, with the white space inside but none at its ends.
        space: White space after it.
    """

    change: Literal["same", "gone", "new"]
    text: str
    space: str = ""


def differences(before: str, after: str) -> list[Piece]:
    """Both texts as one sequence of pieces: what is gone stands before what came in its place.

    Without those that are ``new``, the pieces are the words of the first text; without those ``gone``, of the second.
    """
    old, new = _TOKEN.findall(before.strip()), _TOKEN.findall(after.strip())
    pieces: list[Piece] = []
    for change, i, i_end, j, j_end in _blocks(old, new):
        if change == "equal":
            pieces += _piece("same", [*new[j : j_end - 1], max(old[i_end - 1], new[j_end - 1], key=len)])
        else:
            pieces += _piece("gone", old[i:i_end])
            pieces += _piece("new", new[j:j_end])
    return pieces


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """How to come from one list of tokens to the other; a lone mark between two changes is part of them."""
    bare, other = ([token.strip() for token in tokens] for tokens in (old, new))
    found = list(SequenceMatcher(None, bare, other, autojunk=False).get_opcodes())
    merged: list[tuple[str, int, int, int, int]] = []
    for place, (change, i, i_end, j, j_end) in enumerate(found):
        between = 0 < place < len(found) - 1
        if change == "equal" and between and not any(token.isalnum() for token in bare[i:i_end]):
            change = "replace"
        if merged and change != "equal" and merged[-1][0] != "equal":
            _, i, _, j, _ = merged.pop()
            change = "replace"
        merged.append((change, i, i_end, j, j_end))
    return merged


def _piece(change: Literal["same", "gone", "new"], tokens: Sequence[str]) -> list[Piece]:
    text = "".join(tokens)
    bare = text.rstrip()
    return [Piece(change, bare, text[len(bare) :])] if text else []

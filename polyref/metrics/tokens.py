"""Splitting texts into words exactly as sacreBLEU does, many at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# sacreBLEU's 13a (mteval-v13a.pl), rewritten to do the same faster; its expressions stand in the comments. White space
# that is added to white space changes nothing and is left out. Expressions start with the mark, which is rare.
#   ([\{-\~\[-\` -\&\(-\+\:-\@\/])  ->  " \1 "
_PUNCTUATION: Final = '!"#$%&()*+/:;<=>?@[\\]^_`{|}~'
#   ([^0-9])([\.,])  ->  "\1 \2 ": as a match takes the character before the mark, every other mark of a run matches.
_AFTER_NON_DIGIT: Final = re.compile(r"([.,])(?:(?<=[^0-9.,][.,])|([.,]))")
#   ([\.,])([^0-9])  ->  " \1 \2"
_BEFORE_NON_DIGIT: Final = re.compile(r"([.,])((?<! [.,])[^0-9]|[^0-9 ])")
#   ([0-9])(-)  ->  "\1 \2 "
_DASH_AFTER_DIGIT: Final = re.compile(r"(-)(?<=[0-9]-)")
_ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))

_CHRF_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def clean_13a(texts: Sequence[str]) -> list[str]:
    """Texts after the part of ``13a`` that replaces more than single characters, which few texts have."""
    return [_cleaned(text) if "\n" in text or "&" in text or "<skipped>" in text else text for text in texts]


def _cleaned(text: str) -> str:
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def tokenize_13a(texts: Sequence[str]) -> list[list[str]]:
    """The words of every text after sacreBLEU's ``13a`` tokenisation.

    One pass of the regular expressions over all texts, joined by line ends: no expression matches a line end together
    with anything that could change a neighbour, because every line is padded by a space on both sides.
    """
    if not texts:
        return []
    joined = " " + " \n ".join(clean_13a(texts)) + " "
    for mark in _PUNCTUATION:
        joined = joined.replace(mark, f" {mark} ")
    joined = _AFTER_NON_DIGIT.sub(r" \1 \2 ", joined)
    joined = _BEFORE_NON_DIGIT.sub(r" \1 \2", joined)
    joined = _DASH_AFTER_DIGIT.sub(r" \1 ", joined)
    return [line.split() for line in joined.split("\n")]


class ChrfWords(dict[str, tuple[str, ...]]):
    """Word to the one or two words that chrF++ makes of it: one punctuation mark at its end, or else its start, is cut.

    sacreBLEU's ``CHRF._remove_punctuation``, after m-popovic/chrF; "(hi)" gives "(hi" and ")".
    """

    def __missing__(self, word: str) -> tuple[str, ...]:
        parts: tuple[str, ...]
        if len(word) == 1:
            parts = (word,)
        elif word[-1] in _CHRF_PUNCTUATION:
            parts = (word[:-1], word[-1])
        elif word[0] in _CHRF_PUNCTUATION:
            parts = (word[0], word[1:])
        else:
            parts = (word,)
        self[word] = parts
        return parts

    def split(self, text: str) -> list[str]:
        """The words of a text."""
        return [part for word in text.split() for part in self[word]]

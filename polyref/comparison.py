"""When two texts count as one, and how much they have in common.

Views of a text ignore what a paraphrase may change freely: case, spaces, punctuation, digit grouping.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

# 1,000 or 1 000 000, with any space Unicode puts between groups of digits; never 1.000, which is also a decimal.
_GROUPED: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:[,\u0020\u00a0\u2009\u202f]\d{3})+(?![\d])")
# The same where a comma is a decimal mark.
_GROUPED_BY_SPACE: Final = re.compile(_GROUPED.pattern.replace("[,", "["))
# Say how the character before is drawn.
_VARIATION: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# Of ASCII: characters that a key leaves out, runs of them between two digits, and marks used as quotes.
_LEFT_OUT: Final = {code: None for code in range(128) if unicodedata.category(chr(code))[0] in "PZC"}
_PARTING: Final = re.compile(f"(?<=[0-9])[{re.escape(''.join(map(chr, _LEFT_OUT)))}]+(?=[0-9])")
_QUOTES: Final = dict.fromkeys(map(ord, "^`"))
#: Scripts without spaces between words: Chinese, Japanese, Thai, Lao, Burmese, Khmer.
UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
#: Signs that belong to the letter before: accents, vowels and other signs of Indic scripts, Arabic, Thai and Burmese.
_MARKS: Final = (
    "\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0971-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e\u102b-\u103e\u17b6-\u17d3"
)
_LETTERS: Final = rf"[^\W_](?:[^\W_]|[{_MARKS}])*"
#: A run of letters and digits, with apostrophes inside.
WORD: Final = re.compile(f"{_LETTERS}(?:['’]{_LETTERS})*")


@lru_cache(maxsize=4096)
def comparison_key(text: str) -> str:
    """The letters, digits and symbols of ``text``: two texts with one key count as the same reference.

    Compatibility forms are unified (NFKC), case is folded, spaces, punctuation, control and format characters and
    variation selectors are dropped, groups of digits are joined (``1,000`` is ``1000``). That something stands between
    two digits stays: ``1.5`` is not ``15``, but ``14:28`` is ``14.28`` and ``14: 28``. Symbols stay as well: ``$5`` is
    not ``€5``.
    """
    if text.isascii():  # the same, faster
        folded = join_groups(text.translate(_QUOTES).lower())
        # What stands between digits is a symbol until the rest is gone.
        return _PARTING.sub("\x80", folded).translate(_LEFT_OUT).replace("\x80", " ")
    # Modifier symbols (` ´ ^ ¨) are used as quotation marks; NFKC would turn some into combining marks.
    bare = "".join(char for char in _VARIATION.sub("", text) if unicodedata.category(char) != "Sk")
    folded = join_groups(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", bare).casefold()))
    kept: list[str] = []
    parted = False
    for char in folded:
        if unicodedata.category(char)[0] in "PZC":
            parted = True
            continue
        if parted and char.isdecimal() and kept and kept[-1].isdecimal():
            kept.append(" ")
        kept.append(char)
        parted = False
    return unicodedata.normalize("NFC", "".join(kept))


def without_symbols(key: str) -> str:
    """A comparison key without its symbols (currencies, mathematical and other signs)."""
    return "".join(char for char in key if unicodedata.category(char)[0] != "S")


def join_groups(text: str, *, commas: bool = True) -> str:
    """Join digits that are grouped by thousands: ``12,500 people`` to ``12500 people``; by spaces alone if asked."""
    return (_GROUPED if commas else _GROUPED_BY_SPACE).sub(
        lambda match: "".join(char for char in match[0] if char.isdecimal()), text
    )


@lru_cache(maxsize=4096)
def digit_strings(text: str, *, commas: bool = True) -> Counter[str]:
    """How often each string of digits occurs, whatever the script of the digits and their grouping.

    Args:
        text: Any text.
        commas: A comma before three digits groups them (``1,250`` is ``1250``); where not, it is a decimal mark.
    """
    joined = join_groups(unicodedata.normalize("NFKC", text), commas=commas)
    # int() reads every script's digits; leading zeros are kept, they tell 07 from 7.
    return Counter("".join(str(unicodedata.decimal(d)) for d in run) for run in re.findall(r"\d+", joined))


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """The words, case-folded, with straight apostrophes inside them: ``Don’t panic!`` gives ``don't panic``."""
    return tuple(word.replace("’", "'") for word in WORD.findall(text.casefold()))


def ngrams(text: str, longest: int) -> Counter[tuple[str, ...]]:
    """How often each n-gram of words, up to ``longest``, occurs; of characters where words run on."""
    found = words(text)
    if UNSPACED.search(text):
        found = tuple(char for char in text.casefold() if not char.isspace())
    return Counter(found[at : at + n] for n in range(1, longest + 1) for at in range(len(found) - n + 1))


def dice(a: Counter[tuple[str, ...]], b: Counter[tuple[str, ...]]) -> float:
    """Dice coefficient of two bags, 0 to 1."""
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 0.0


class Repeats:
    """What one segment has already, and what only repeats it: that would add weight to its references, not coverage.

    Args:
        originals: Texts that are not to be copied.
        extras: Texts that are not to come a second time.
    """

    def __init__(self, originals: Iterable[str], extras: Iterable[str] = ()) -> None:
        self._originals = {comparison_key(text) for text in originals}
        # What differs from a reference in a symbol alone says the same or, with another currency, something wrong.
        self._bare = {without_symbols(key) for key in self._originals} - {""}
        self._taken = {comparison_key(text) for text in extras}

    def reason(self, text: str) -> str | None:
        """Why a text is no new reference: ``empty``, ``copy`` or ``duplicate``; None if it is one."""
        key = comparison_key(text)
        if not key:
            # Nothing but punctuation: fine as a copy of "...", but then it is a copy.
            return "copy" if key in self._originals and text.strip() else "empty"
        if key in self._originals or without_symbols(key) in self._bare:
            return "copy"
        return "duplicate" if key in self._taken else None

    def take(self, text: str) -> None:
        """From now on it is there."""
        self._taken.add(comparison_key(text))

"""Checks of a translation against its source: what is certain whatever the two languages are."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import partial
from typing import Final

from polyref.augment.checks.base import Check
from polyref.augment.checks.general import scripts
from polyref.comparison import WORD, comparison_key, words
from polyref.languages import base
from polyref.models.language_recognition import known_languages, other_language
from polyref.paraphrase.markup import same_markup

#: What stands between groups of three digits, in any language.
_GROUPED: Final = re.compile(r"(?<=\d)[.,'’\u00a0\u2009\u202f ](?=\d{3}(?!\d))")
#: A number that stays in digits: of two to four, not of a large unit (2.5 million, 30万), and no time of a half day.
_NUMBER: Final = re.compile(
    r"(?<![\d.,:/])(\d{2,4})(?![\d.,:/]\d|\d)"
    r"(?! ?(?:[^\W\d_]*(?:ill|hundr|thous|tausend|lakh|crore)|[ap]\.?m\b|[余多来]?[十百千万萬亿億兆kKmM]))"
)
#: Words that are written alike wherever Latin letters are: with a capital or a digit inside.
_NAME: Final = re.compile(r"(?<![\w@#./-])(?:[A-Z]?[a-z]+[A-Z][A-Za-z]*|[A-Z]+\d+[A-Za-z]*)(?![\w./@-])")
#: A letter of Han or kana says about as much as so many others.
_DENSE: Final = 3.0
#: The least number from which on numbers are seldom written in words.
_LEAST: Final = 13
#: Words of a text that is not taken over as it is.
_SEVERAL: Final = 3


def untranslated() -> Check:
    """Not the source itself, but for a few words: names and numbers are alike in many languages."""

    def accepts(source: str, candidate: str) -> bool:
        few = len(words(source)) <= _SEVERAL and not scripts(source)["CJK"]
        return few or comparison_key(source) != comparison_key(candidate)

    return Check("untranslated", accepts)


def numbers() -> Check:
    """Numbers in digits from 13 to 9999 survive, where nothing beside them says that they may change."""

    def accepts(source: str, candidate: str) -> bool:
        there = Counter(re.findall(r"\d+", _joined(candidate)))
        return all(number in there for number in _NUMBER.findall(_joined(source)) if int(number) >= _LEAST)

    return Check("numbers", accepts)


def _joined(text: str) -> str:
    return _GROUPED.sub("", unicodedata.normalize("NFKC", text))


def names(lang: str) -> Check:
    """Words such as YouTube and F16 survive in what is written in Latin letters."""
    known = known_languages().get(base(lang))
    latin = known is not None and known.scripts == {"LATIN"}

    def accepts(source: str, candidate: str) -> bool:
        return not latin or all(_bare(name) in _bare(candidate) for name in _NAME.findall(source))

    return Check("names", accepts)


def _bare(text: str) -> str:
    return text.casefold().replace("-", "")


def placeholders() -> Check:
    """Tags and JSON survive in order; placeholders as often, wherever they stand in a sentence."""
    return Check("placeholders", partial(same_markup, translated=True))


def language(lang: str) -> Check:
    """Most letters are of the scripts of a language, and the words of no other."""
    known = known_languages().get(base(lang))
    eastern = frozenset({"CJK"} if base(lang) in ("ja", "zh") else ())

    def accepts(source: str, candidate: str) -> bool:
        if known is None:
            return True
        found = scripts(candidate)
        own = sum(count for script, count in found.items() if script in known.scripts | eastern)
        few = len(WORD.findall(candidate)) <= _SEVERAL and candidate in source
        return (2 * own >= found.total() or few) and other_language([candidate], [lang]) is None

    return Check("language", accepts)


def length(low: float, high: float, slack: int) -> Check:
    """Neither much shorter nor much longer than the source; a letter of Han or kana counts as three.

    ``slack`` letters more, or a third of it less, are always allowed.
    """

    def accepts(source: str, candidate: str) -> bool:
        expected, found = _size(source), _size(candidate)
        return expected * low - slack // 3 <= found <= expected * high + slack

    return Check(f"length{low:g}-{high:g}", accepts)


def _size(text: str) -> float:
    return len(comparison_key(text)) + (_DENSE - 1) * scripts(text)["CJK"]

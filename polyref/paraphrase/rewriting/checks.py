"""Checks of single rewrites: what a language model writes beside, or instead of, a rewrite.

Whether a rewrite says the same as its text is a question for the filters of ``augment``, which ask it of every
generator. Here it is only asked whether it is a rewrite at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from polyref.chat.answers import CROSSED_OUT
from polyref.comparison import words
from polyref.errors import ModelError
from polyref.languages import base
from polyref.paraphrase.rewriting.options import TextInContext
from polyref.paraphrase.sentences import same_markup
from polyref.paraphrase.tidying import lines, several, talks, tidied

#: What is no text: control characters, marks that turn the direction of writing, halves of surrogate pairs, and what
#: stands for bytes that could not be read.
_NO_TEXT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffd]")
#: Words in a row that no rewrite has in common with its instruction by chance.
_COMMON: Final = 7
#: A rewrite longer than this many times its text, and some letters, explains something.
_LONGEST: Final = 3
#: The same of a translation: a text in Han has few letters.
_LONGEST_TRANSLATION: Final = 10
_SLACK: Final = 80
#: A rewrite is in another language when this much speaks for it, no more than that for the expected one, and at least
#: so much for the expected one in the text itself: names and quotations make a text look foreign, and its rewrites too.
_OTHER: Final = 0.5
_OWN: Final = 0.02
_TEXT: Final = 0.1
#: A text of so few words may be the same in another language; one of fewer characters does not tell its language.
_FEW: Final = 3
_SHORT: Final = 40
#: Without a language that is named, that of the text counts, where it is as certain as this.
_CERTAIN: Final = 0.8


class Checks:
    """What a rewrite must be to be kept."""

    def __init__(self, instructions: Iterable[str], language: str | None, source_language: str | None = None) -> None:
        _identifier()  # here, and not in every thread
        self._language = None if language is None else base(language)
        self._translating = source_language is not None
        self._instructions = frozenset().union(*(_grams(text) for text in instructions))

    def sort(self, text: TextInContext, found: Sequence[str], have: Sequence[str] = ()) -> tuple[list[str], list[str]]:
        """The rewrites to keep, tidied and each once, and the faults of the others, both in order.

        To say again what there is already (``have``) is no fault, and adds nothing.
        """
        kept: list[str] = []
        faults: list[str] = []
        seen = {_key(one) for one in have}
        for rewrite in found:
            tidy = _tidied(rewrite, text)
            fault = self.fault(text, tidy)
            if fault is not None:
                faults.append(fault)
            elif (key := _key(tidy)) not in seen:
                kept.append(tidy)
                seen.add(key)
        return kept, faults

    def fault(self, text: TextInContext, rewrite: str) -> str | None:
        """Why a rewrite, tidied, is not kept, in a word or two; None where it is."""
        if not set(_NO_TEXT.findall(rewrite)) <= set(text):
            return "broken characters"
        if CROSSED_OUT in rewrite and CROSSED_OUT not in text:
            return "the key"
        key = _key(rewrite)
        if not key:
            return "empty"
        if key == _key(text) and not (self._translating and len(words(text)) <= _FEW):
            return "a copy"
        around = (text.source or "", *text.before, *text.after)
        if not same_markup(text, rewrite, translated=self._translating):
            return "other tags, placeholders or keys"
        if key in {_key(one) for one in around}:
            return "a copy of the context"
        if (_grams(rewrite) - _grams(text)) & self._instructions:
            return "the prompt"
        if _explains(text, rewrite, _LONGEST_TRANSLATION if self._translating else _LONGEST):
            return "an explanation"
        if self._foreign(text, rewrite):
            return "another language"
        return None

    def _foreign(self, text: str, rewrite: str) -> bool:
        if self._translating:
            return self._untranslated(rewrite)
        own = _ranking(text)
        expected = self._language
        if expected is None:
            expected = next(iter(own))
            if own[expected] < _CERTAIN:
                return False
        found = _ranking(rewrite)
        best = next(iter(found))
        # A language that the library does not know is not judged.
        return (
            own.get(expected, 0.0) >= _TEXT and best != expected and found[best] >= _OTHER and found[expected] <= _OWN
        )

    def _untranslated(self, rewrite: str) -> bool:
        found = _ranking(rewrite)
        best, expected = next(iter(found)), self._language or ""
        certain = len(rewrite) >= _SHORT and expected in found and found[best] >= _CERTAIN
        return certain and best != expected and found[expected] <= _OWN


def _tidied(rewrite: str, text: str) -> str:
    """On one line where the text is, without what lists put around it."""
    rewrite = unicodedata.normalize("NFC", rewrite).strip()
    return tidied(" ".join(rewrite.splitlines()) if lines(rewrite) == lines(text) == 1 else rewrite, text)


def _explains(text: str, rewrite: str, longest: int) -> bool:
    return len(rewrite) > longest * len(text) + _SLACK or several(rewrite, text) or talks(rewrite, text)


def _key(text: str) -> str:
    """What two texts have in common that differ in case, spaces and punctuation alone."""
    return " ".join(words(unicodedata.normalize("NFKC", text))) or "".join(text.split())


@lru_cache(maxsize=1024)
def _grams(text: str) -> frozenset[tuple[str, ...]]:
    found = words(text)
    return frozenset(found[at : at + _COMMON] for at in range(len(found) - _COMMON + 1))


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise ModelError(
            f"the library that tells languages apart cannot be imported: {error}",
            remedy="pip install openai py3langid",
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=128)
def _ranking(text: str) -> dict[str, float]:
    """Languages with their probabilities, the most probable first."""
    found: dict[str, float] = {}
    for code, value in _identifier().rank(text):
        found.setdefault(base(code), float(value))
    return found

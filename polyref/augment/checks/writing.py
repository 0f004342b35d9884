"""Checks of good writers: something else than a rewrite, or one in another language. Nothing that is a guess."""

from __future__ import annotations

from polyref.augment.checks.base import Check
from polyref.augment.checks.general import scripts
from polyref.models.language_recognition import foreign_words
from polyref.paraphrase.tidying import several as holds_several
from polyref.paraphrase.tidying import talks


def foreign(lang: str = "") -> Check:
    """No other script or language: most letters are of the scripts of the reference, and its language is told by words.

    Names and quotations in other scripts stay, and so does a text without function words that tell its language.
    """

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = scripts(reference), scripts(candidate)
        own = {script for script, count in expected.items() if count >= expected.total() / 3}
        strange = sum(max(count - expected[script], 0) for script, count in found.items() if script not in own)
        return (not own or 2 * strange <= found.total()) and not foreign_words(candidate, reference, lang)

    return Check("foreign", accepts)


def talk() -> Check:
    """No refusal, explanation, label or heading where a rewrite should be, but for those that the reference has too."""
    return Check("talk", lambda reference, candidate: not talks(candidate, reference))


def several() -> Check:
    """One answer, and not several: numbered, on lines of their own, or side by side, where the reference has none."""
    return Check("several", lambda reference, candidate: not holds_several(candidate, reference))

"""The checks of the filters that have a name."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from polyref.augment.checks import english, grammar, negation, quantities, translation, writing
from polyref.augment.checks import general as checks
from polyref.augment.checks.base import Check
from polyref.languages import base

#: What generators need, and so what ``default`` stands for: ``good-writer`` drops only what is certain, ``small-model``
#: the faults of small models as well.
NEEDS: Final = ("good-writer", "small-model")
PRESETS: Final = ("default", *NEEDS, "strict", "none")
#: Least and most share of the length of a source, and letters that are always allowed. Of 9 human references of WMT
#: with 16,245 segments the first keeps all, the second all but 0.02 %, the third all but 0.3 %.
_LENGTHS: Final = {"good-writer": (0.1, 6.0, 20), "small-model": (0.4, 2.5, 15), "strict": (0.5, 2.0, 10)}


def is_english(lang: str) -> bool:
    """Whether a language code stands for a kind of English."""
    return base(lang) == "en"


def preset_checks(preset: str, lang: str, source_lang: str | None = None) -> dict[str, Check]:
    """The checks of a preset, in order, by the names they have in filter files. It is not ``default``.

    Where candidates are translations from ``source_lang``, they compare with the source.
    """
    if preset == "none":
        return {}
    if source_lang is not None:
        return {
            "talk": writing.talk(),
            "several": writing.several(),
            "untranslated": translation.untranslated(),
            "numbers": translation.numbers(),
            "names": translation.names(lang),
            **({} if preset == "good-writer" else {"links": checks.links()}),
            "placeholders": translation.placeholders(),
            "language": translation.language(lang),
            "length": translation.length(*_LENGTHS[preset]),
        }
    if preset == "good-writer":
        return {
            "talk": writing.talk(),
            "several": writing.several(),
            "foreign": writing.foreign(lang),
            "length": checks.length(0.05, 4, 10, stub=4),
            "placeholders": replace(checks.placeholders(), stated=False),
        }
    strict = preset == "strict"
    rules = {
        "numbers": checks.numbers(lang),
        "links": checks.links(),
        "placeholders": checks.placeholders(),
        "language": checks.language(),
        "form": checks.form(lang),
        "repetition": checks.repetition(),
        "length": checks.length(0.75, 1.4) if strict else checks.length(0.6, 1.6),
    }
    if is_english(lang):
        rules |= {
            "amounts": quantities.amounts(),
            "dates": english.dates(),
            "names": english.names(),
            "negation": negation.negation(exact=strict),
            "persons": english.persons(),
            "opening": grammar.opening(ties=not strict),
            "grammar": grammar.grammar(),
            "vocabulary": grammar.vocabulary(),
            "echo": english.echo(),
            "omission": english.omission() if strict else english.omission(0.34, deletion=True),
        }
    return rules

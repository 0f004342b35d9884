"""Languages of texts: told by their script and their function words.

There are two questions: "is this clearly none of these languages?" (:func:`other_language`) and "which language is this
clearly?" (:func:`recognised`). Short or odd texts, and mixtures, are no clear evidence for either.
"""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

from polyref.languages import base

#: Share of the letters that must be of other scripts, and the fewest of them.
_FOREIGN_LETTERS: Final = 0.6
_FEWEST_LETTERS: Final = 5
#: Share of the words that must be function words of another language, and the fewest of them, alike and unlike.
_FOREIGN_WORDS: Final = 0.06
_FEWEST_WORDS: Final = 5
#: How many times as many of them there must be as function words of the model's languages.
_CLEARLY_MORE: Final = 3
#: Kana tell Japanese from Chinese: Japanese is written in Chinese characters as well.
_KANA: Final = ("HIRAGANA", "KATAKANA")
_KANA_SHARE: Final = 0.1
#: Share of the letters that must be of one script for a text to be in one language.
_ONE_SCRIPT: Final = 0.6
#: How many times as many function words a language must have that a rival lacks, as the rival has that it lacks.
_BEFORE_RIVALS: Final = 2
#: The same of a single text.
_FEWEST_WORDS_OF_ONE: Final = 2
_FOREIGN_WORDS_OF_ONE: Final = 0.12
#: Letters of Cyrillic alphabets that the language itself does not have.
_OTHER_LETTERS: Final = {
    "ru": "іїєґўјљњћђџѓќѕ",
    "uk": "ыэъёўјљњћђџѓќѕ",
    "be": "щъиїєґјљњћђџѓќѕ",
    "bg": "ыэёіїєґўјљњћђџѓќѕ",
    "sr": "ыэъщёйюяіїєґў",
    "mk": "ыэъщёйюяіїєґўћђ",
}
#: Characters of Japanese, of which some are kana.
_LONG_WITHOUT_KANA: Final = 20
_PUNCTUATION: Final = string.punctuation + "«»„“”‘’‚…–—¿¡।،؛؟"


@dataclass(frozen=True)
class Language:
    """What a language looks like: first words of the Unicode names of its letters, and its frequent function words."""

    code: str
    name: str
    scripts: frozenset[str]
    words: frozenset[str]


@lru_cache(maxsize=1)
def known_languages() -> dict[str, Language]:
    """The languages that can be told, by code."""
    lines = files("polyref.models").joinpath("languages.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return {
        code: Language(code, name, frozenset(scripts.split(",")), frozenset(words.split()))
        for code, name, scripts, words in rows
    }


def language_name(code: str) -> str:
    """English name of a language, or the code itself: ``de`` and ``deu_Latn`` give ``German``."""
    language = known_languages().get(base(code))
    return code if language is None else language.name


def other_language(texts: Iterable[str], languages: Sequence[str]) -> Language | None:
    """The most probable other language of texts that are clearly in none of some languages; None where there is doubt.

    All texts count together. Where a language cannot be told, no text is refused.
    """
    known = known_languages()
    wanted = [known[code] for code in dict.fromkeys(map(base, languages)) if code in known]
    if not wanted or len(wanted) < len({base(code) for code in languages}):
        return None
    scripts, words, plain = _counted(texts)
    usual = frozenset().union(*(language.scripts for language in wanted))
    foreign = sum(count for script, count in scripts.items() if script not in usual)
    if foreign >= max(_FEWEST_LETTERS, _FOREIGN_LETTERS * scripts.total()):
        return _by_script(scripts, words)
    return _by_words(words, plain, wanted)


def recognised(texts: Iterable[str]) -> Language | None:
    """The language that all texts together clearly are in; None where they are too few, too odd or mixed to tell."""
    scripts, words, _ = _counted(texts)
    # Japanese is written in three scripts.
    if scripts["CJK"] and (kana := sum(scripts.pop(script, 0) for script in _KANA)) > _KANA_SHARE * scripts.total():
        scripts["HIRAGANA"] = scripts.pop("CJK") + kana
    ((script, count),) = scripts.most_common(1) or [("", 0)]
    if count < max(_FEWEST_LETTERS, _ONE_SCRIPT * scripts.total()):
        return None
    # What is written in Chinese characters alone is Chinese.
    written = [one for one in known_languages().values() if script in one.scripts]
    written = [one for one in written if script != "CJK" or one.code == "zh"]
    if len(written) == 1:
        return written[0]
    best = max(written, key=lambda one: sum(words[word] for word in one.words))
    hits = {word: words[word] for word in best.words if words[word]}
    if len(hits) < _FEWEST_WORDS or sum(hits.values()) < _FOREIGN_WORDS * words.total():
        return None
    for rival in written:
        ours = sum(words[word] for word in best.words - rival.words)
        theirs = sum(words[word] for word in rival.words - best.words)
        if rival is not best and (ours < _BEFORE_RIVALS or ours < _BEFORE_RIVALS * theirs):
            return None
    return best


def _counted(texts: Iterable[str]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Letters by script, words in small letters, and of these the ones that are written so."""
    letters: Counter[str] = Counter()
    words: Counter[str] = Counter()
    plain: Counter[str] = Counter()
    for text in texts:
        letters.update(text)
        words.update(map(_bare, text.lower().split()))
        # Capitalised ones may be of names, such as "Los Angeles" and "La Jolla".
        plain.update(word for word in map(_bare, text.split()) if not word[:1].isupper())
    del words[""]
    return _scripts(letters), words, plain


def _bare(word: str) -> str:
    return word.strip(_PUNCTUATION)


def foreign_words(text: str, reference: str, lang: str) -> bool:
    """Whether a text is clearly in another language than its reference, seen from its words, or its letters.

    What the reference holds too, such as names and titles, does not count, and neither does a language that is not
    known here, or a reference without function words of its language.
    """
    own = known_languages().get(base(lang))
    if own is None:
        return False
    if own.code in ("ja", "zh") and _kana(text) != _kana(reference):
        return own.code == "zh" or len(text) > _LONG_WITHOUT_KANA
    found, there = ([_bare(word) for word in one.lower().split()] for one in (text, reference))
    said, new = set(found), set(found).difference(there)
    letters = _OTHER_LETTERS.get(own.code, "")
    if sum(not set(letters).isdisjoint(word) for word in new) >= _FEWEST_WORDS_OF_ONE:
        return True
    if own.words.isdisjoint(there):
        return False
    for other, our_own, their_own in _telling(own.code):
        theirs = new & their_own
        enough = len(theirs) >= max(_FEWEST_WORDS_OF_ONE, _CLEARLY_MORE * len(said & our_own))
        if enough and sum(word in other for word in found) >= _FOREIGN_WORDS_OF_ONE * len(found):
            return True
    return False


@lru_cache(maxsize=8)
def _telling(code: str) -> list[tuple[frozenset[str], frozenset[str], frozenset[str]]]:
    """Of every other language: its words, what only the language has, and what only the other has."""
    own = known_languages()[code].words  # what both have, such as "so" of English and German, says nothing
    others = [one.words for one in known_languages().values() if one.words and one.code != code]
    return [(words, own - words, words - own) for words in others]


def _kana(text: str) -> bool:
    """Whether a text is written with kana, and not in Han alone."""
    letters = _scripts(Counter(text))
    return sum(letters[script] for script in _KANA) > _KANA_SHARE * letters.total()


def _scripts(letters: Counter[str]) -> Counter[str]:
    """Letters of each script that a known language is written in."""
    scripts = frozenset().union(*(language.scripts for language in known_languages().values()))
    found: Counter[str] = Counter()
    for letter, count in letters.items():
        script = unicodedata.name(letter, "").split(" ")[0].split("-")[0] if letter.isalpha() else ""
        if script in scripts:
            found[script] += count
    return found


def _by_script(scripts: Counter[str], words: Counter[str]) -> Language:
    """The language of a text in foreign script; of several languages, the one with the most function words."""
    known = known_languages()
    if sum(scripts[script] for script in _KANA) > _KANA_SHARE * scripts.total():
        return known["ja"]
    ((script, _),) = scripts.most_common(1)
    if script == "CJK":
        return known["zh"]
    candidates = [language for language in known.values() if script in language.scripts]
    return max(candidates, key=lambda language: sum(words[word] for word in language.words))


def _by_words(words: Counter[str], plain: Counter[str], wanted: Sequence[Language]) -> Language | None:
    """The other language whose function words are clearly more than those of the wanted languages.

    ``plain`` are the words that are not capitalised: the others are no sign of another language.
    """
    if not all(language.words for language in wanted):
        return None
    common = frozenset().union(*(language.words for language in wanted))
    best, most = None, 0
    for language in known_languages().values():
        if language in wanted:
            continue
        # Words that both have, such as "in" of English and German, say nothing.
        theirs = {word: plain[word] for word in language.words - common if plain[word]}
        hits = sum(theirs.values())
        ours = sum(words[word] for word in common - language.words)
        clear = len(theirs) >= _FEWEST_WORDS and hits >= max(_CLEARLY_MORE * ours, _FOREIGN_WORDS * words.total())
        if clear and hits > most:
            best, most = language, hits
    return best

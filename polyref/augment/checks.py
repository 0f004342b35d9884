"""What a check is; checks of one candidate against its reference, for any language and for translations."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Final

from polyref.comparison import UNSPACED, WORD, comparison_key, digit_strings, words
from polyref.errors import UsageError
from polyref.languages import base
from polyref.models.language_recognition import foreign_words, known_languages, other_language
from polyref.options import Option
from polyref.paraphrase.decoding import in_full
from polyref.paraphrase.sentences import same_markup
from polyref.paraphrase.tidying import several as holds_several
from polyref.paraphrase.tidying import talks


@dataclass(frozen=True)
class Check:
    """One rule. ``accepts(reference, candidate)`` is False for a candidate to drop; ``name`` becomes the reason.

    ``name`` also states the parameters: it is part of a reference set's signature. ``within_sentences`` says that the
    rule looks for what goes wrong inside a sentence: a paragraph whose sentences all passed it has passed it. Without
    ``stated`` no signature names it: it is of texts with markup alone, and all others are signed as without it.
    """

    name: str
    accepts: Callable[[str, str], bool]
    within_sentences: bool = False
    stated: bool = True


def check(accepts: Callable[[str, str], bool], *, within_sentences: bool = False) -> Callable[[], Check]:
    """What makes the check of that name, which has no options, from its rule."""
    made = Check(accepts.__name__, accepts, within_sentences)

    def make() -> Check:
        return made

    make.__doc__ = accepts.__doc__
    return make


_LINK: Final = re.compile(
    # Han, kana, Hangul, Thai and full-width marks after an address belong to the sentence, which has no spaces there.
    r"(?:https?://|www\.)[^\s\u0e00-\u0eff\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"
    r"|(?<![a-z0-9_.%+-])[a-z0-9_.%+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+|(?<!\w)[@#]\w+",
    re.IGNORECASE,
)
#: Two numbers with a hyphen, dash, colon or "to" between them, and no third: 3-1, 14:28, 2 to 5.
_PAIR: Final = re.compile(r"(?<![\w.,:/–-])(\d+)(?: ?[-–:] ?| to )(\d+)(?![\w:/–-]|[.,]\d)")
#: Languages that write 1,5 for one and a half everywhere or nearly so.
_DECIMAL_COMMA_LIST: Final = """
af az be bg bs ca cs da de el es et eu fi fr gl hr hu hy id is it ka kk ky lt lv mk nb nl nn pl pt ro ru sk sl sq sr sv
tr uk uz vi
"""
_DECIMAL_COMMA: Final = frozenset(_DECIMAL_COMMA_LIST.split())
#: A comma that groups no thousands: 3,5 or 0,250.
_DECIMAL: Final = re.compile(r"(?<![\d.,])(?:\d+,(?:\d\d?|\d{4,})|0,\d+)(?![\d,])")
#: What stands before a number and changes what it says: p < 0.05, 8.2 ± 0.9, -5 degrees.
_SIGN: Final = re.compile(r"[<>=≤≥±≈~×]\s?(?=\d)|(?<![^\s(\[])[-−–](?=\d)")
#: A mark that ends a sentence, whatever quotes and brackets follow it.
_END: Final = re.compile(r"[.!?…。！？؟।][\"'”’»)\]」』）]*\s*$")
#: Words run together, a mark after a space, marks that do not follow each other.
_MISSET: Final = re.compile(
    r"[a-z]['’\"“”][A-Z][a-z]|[a-z]{2}[A-Z][a-z]|\w [,;.!?](?:\s|$)|[,;] ?[,;.!?]|[(\[] |(?<![\w.,!?…])“ |\.,[^.]"
    r"|[\s-][‘’']s\b(?! (?:avonds|ochtends|morgens|middags|nachts|zomers|winters)\b)"
)
#: A space that French sets before these marks.
_FRENCH_SPACE: Final = re.compile(r"(?<=\w) (?=[;:!?])")
#: Two words in capitals in a row.
_CAPITALS: Final = re.compile(r"\b[A-Z]{2,}\W+[A-Z]{2,}\b")
#: Latin ligatures and full-width letters; words of Latin letters; those with such a letter.
_COMPATIBLE: Final = "\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
_LATIN: Final = re.compile(f"[A-Za-z{_COMPATIBLE}]+")
_ODD: Final = re.compile(f"(?<![A-Za-z{_COMPATIBLE}])[A-Za-z{_COMPATIBLE}]*[{_COMPATIBLE}][A-Za-z{_COMPATIBLE}]*")
_BALANCES: Final[tuple[Callable[[str], bool], ...]] = (
    lambda text: text.count('"') % 2 == 0,
    # “English”; or „German“, „Polish” and ”Swedish”.
    lambda text: (
        text.count("“") == text.count("”")
        or (sum(map(text.count, "„“”")) % 2 == 0 and ("„" in text or "“" not in text))
    ),
    *((lambda text, pair=pair: text.count(pair[0]) == text.count(pair[1])) for pair in ("()", "[]", "«»", "「」")),
)
#: Repeats of a phrase of this many words are loops even when other words stand between them.
_DISTANT: Final = 4
_LONGEST_UNIT: Final = 12
#: Where words run on: two or three characters three times in a row, more of them twice; laughter of one stays.
_RUN_ON: Final = re.compile(r"(?!(U)\1{3})(?:(U{2,3}?)\2{2,}|(U{4,12}?)\3+)".replace("U", UNSPACED.pattern), re.DOTALL)


def numbers(lang: str = "") -> Check:
    """Digits survive: the multiset of digit strings is the same (``1,000`` equals ``1000``; ``3`` is not ``three``).

    A comma is a decimal mark in the languages that use it so; where ``lang`` is empty, if the reference does (``3,5``).
    Signs before them survive too (``< 0.05``, ``± 0.9``, ``-5``). A score or range does not turn round (``3-1`` to
    ``1-3``).
    """

    def accepts(reference: str, candidate: str) -> bool:
        commas = base(lang) not in _DECIMAL_COMMA if lang else not _DECIMAL.search(reference)
        expected, found = digit_strings(reference, commas=commas), digit_strings(candidate, commas=commas)
        if expected != found or _signs(reference) != _signs(candidate):
            return False
        there, here = set(_PAIR.findall(reference)), set(_PAIR.findall(candidate))
        return not any((two, one) in here - there for one, two in there)

    return Check("numbers", accepts)


def _signs(text: str) -> Counter[str]:
    """Signs of numbers, all dashes alike."""
    return Counter(re.sub("[−–]", "-", sign.strip()) for sign in _SIGN.findall(text))


@check
def links(reference: str, candidate: str) -> bool:
    """Web and e-mail addresses, @names and #tags survive, whatever their case."""
    return _links(reference) == _links(candidate)


def _links(text: str) -> Counter[str]:
    return Counter(match.rstrip(".,;:!?)\"'”’").casefold() for match in _LINK.findall(text))


def placeholders() -> Check:
    """``{name}``, ``%s``, ``<tag>``, ``&amp;``, ``__NAME__``, ``[NAME]`` and the keys of JSON survive, in order."""
    return Check("placeholders", same_markup)


@check
def language(reference: str, candidate: str) -> bool:
    """The script of the reference: letters of another script (Latin, Cyrillic, Han, ...) are not more than there."""
    _, strange = _strange(reference, candidate)
    return not scripts(reference) or strange <= 0.1 * scripts(candidate).total()


def _strange(reference: str, candidate: str) -> tuple[set[str], int]:
    """The scripts of the reference, and letters of others, but for as many as it has."""
    expected, found = scripts(reference), scripts(candidate)
    own = {script for script, count in expected.items() if count >= expected.total() / 3}
    # A name in another script allows as many letters of it, not a whole text.
    return own, sum(max(count - expected[script], 0) for script, count in found.items() if script not in own)


@lru_cache(maxsize=4096)
def scripts(text: str) -> Counter[str]:
    """Letters of each script, by the first word of their Unicode names; of Han and kana together, as ``CJK``."""
    if text.isascii():  # the same, faster
        letters = sum(map(str.isalpha, text))
        return Counter(LATIN=letters) if letters else Counter()
    # The first word of a letter's Unicode name is its script; Kana and Han are written together.
    names = (unicodedata.name(char, "").partition(" ")[0] for char in text if char.isalpha())
    return Counter("CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name for name in names)


def form(lang: str = "") -> Check:
    """Still a sentence like the reference: a capital at the start, a mark at the end, closed quotes and brackets.

    Only what the reference has is asked for: comments without capitals or full stops stay free. So are other faults
    that the reference has, too. Where ``lang`` is French, a space before ``;``, ``:``, ``!`` and ``?`` is right.
    """
    french = base(lang) == "fr"

    def accepts(reference: str, candidate: str) -> bool:
        return (
            (_starts_small(reference) or not _starts_small(candidate))
            and (_ends(candidate) or not _ends(reference))
            and all(balanced(candidate) or not balanced(reference) for balanced in _BALANCES)
            and (not _misset(candidate, french) or _misset(reference, french))
            and ("\N{REPLACEMENT CHARACTER}" not in candidate or "\N{REPLACEMENT CHARACTER}" in reference)
            and not _without_words(reference, candidate)
            and not _half_capitals(reference, candidate)
            and _same_odd_words(reference, candidate)
        )

    return Check("form", accepts)


def _misset(text: str, french: bool) -> bool:
    return _MISSET.search(_FRENCH_SPACE.sub("", text) if french else text) is not None


def _without_words(reference: str, candidate: str) -> bool:
    """Whether letters are added to a reference that has none, or a single one (of a script with spaces)."""
    if sum(map(str.isalpha, reference)) > 1 and reference.isascii():  # the same, faster
        return False
    letters = _letters(reference)
    few = letters.total() < 2 and not any(unicodedata.category(letter) == "Lo" for letter in letters)
    return few and letters != _letters(candidate)


def _letters(text: str) -> Counter[str]:
    return Counter(char for char in text.casefold() if char.isalpha())


def _half_capitals(reference: str, candidate: str) -> bool:
    """Whether a text in capitals came out as a mixture: small letters, and several words in capitals in a row."""
    shouted = len(WORD.findall(reference)) > 2 and reference.isupper()
    return shouted and not candidate.isupper() and _CAPITALS.search(candidate) is not None


def _same_odd_words(reference: str, candidate: str) -> bool:
    """Whether words with ligatures or full-width letters, which small alphabets lack, are kept whole."""
    kept, made = _ODD.findall(reference), _ODD.findall(candidate)
    if not kept and not made:
        return True
    expected = {_plain(word) for word in _LATIN.findall(reference)}
    found = {_plain(word) for word in _LATIN.findall(candidate)}
    return {_plain(word) for word in kept} <= found and {_plain(word) for word in made} <= expected


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()


def _starts_small(text: str) -> bool:
    # The whole word counts: a sentence may start with "iPhone" or "eBay".
    first = WORD.search(text)
    return first is not None and first[0].islower()


def _ends(text: str) -> bool:
    return _END.search(text) is not None


@partial(check, within_sentences=True)
def repetition(reference: str, candidate: str) -> bool:
    """No loops: no word or phrase said twice in a row, no four words said again, unless the reference does so too.

    Where words run on, no two or three characters said three times in a row, nor more of them twice: twice is ordinary
    for a word (``研究研究``).
    """
    repeats = _repeats(words(candidate))
    allowed = _repeats(words(reference)) if repeats else {}
    return all(count <= allowed.get(unit, 1) for unit, count in repeats.items()) and (
        candidate.isascii() or all(match[0] in reference for match in _RUN_ON.finditer(candidate))
    )


def _repeats(tokens: Sequence[str]) -> dict[tuple[str, ...], int]:
    """Phrases that occur more than once in a row (longest run), or at all when they have ``_DISTANT`` words."""
    found: dict[tuple[str, ...], int] = {}
    for size in range(1, min(_LONGEST_UNIT, len(tokens) // 2) + 1):
        run = 0  # how many positions in a row equal the token `size` places before them
        for index in range(size, len(tokens)):
            run = run + 1 if tokens[index] == tokens[index - size] else 0
            if run >= size:
                unit = tuple(tokens[index - size + 1 : index + 1])
                found[unit] = max(found.get(unit, 1), run // size + 1)
    phrases = Counter(tuple(tokens[i : i + _DISTANT]) for i in range(len(tokens) - _DISTANT + 1))
    for unit, count in phrases.items():
        if count > 1:
            found[unit] = max(found.get(unit, 1), count)
    return found


def length(
    low: Annotated[float, Option(least=0)] = 0.6,
    high: Annotated[float, Option(least=0)] = 1.6,
    slack: Annotated[int, Option(least=0)] = 6,
    *,
    stub: int | None = None,
) -> Check:
    """Neither much shorter nor much longer than the reference, by letters and digits.

    ``slack`` characters either way are always allowed: short sentences vary a lot (``I can't.``, ``I am not able
    to.``). Half of it where the reference is in Han or kana, whose characters say more: of 1,296 pairs of human Chinese
    references this keeps 99.7 % at 0.6 to 1.6, and 97.4 % at 0.75 to 1.4. With ``stub``, only what has at most so many
    characters is too short, without slack ("Yes." for a whole sentence): whether more than that is a fragment, its
    length does not say.
    """
    if low > high:
        raise UsageError(f"low is {low:g} and high {high:g}, expected low to be no more than high")

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = len(comparison_key(reference)), len(comparison_key(candidate))
        letters = scripts(reference)
        part = 2 if letters["CJK"] * 2 > letters.total() else 1
        if stub is not None and found > stub // part:
            return found <= expected * high + slack // part
        below = slack if stub is None else 0
        return expected * low - below // part <= found <= expected * high + slack // part

    return Check(f"length{in_full(low)}-{in_full(high)}", accepts)


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


@check
def untranslated(source: str, candidate: str) -> bool:
    """Not the source itself, but for a few words: names and numbers are alike in many languages."""
    few = len(words(source)) <= _SEVERAL and not scripts(source)["CJK"]
    return few or comparison_key(source) != comparison_key(candidate)


def translated_numbers() -> Check:
    """Numbers in digits from 13 to 9999 survive, where nothing beside them says that they may change."""

    def accepts(source: str, candidate: str) -> bool:
        there = Counter(re.findall(r"\d+", _joined(candidate)))
        return all(number in there for number in _NUMBER.findall(_joined(source)) if int(number) >= _LEAST)

    return Check("numbers", accepts)


def _joined(text: str) -> str:
    return _GROUPED.sub("", unicodedata.normalize("NFKC", text))


def translated_names(lang: str) -> Check:
    """Words such as YouTube and F16 survive in what is written in Latin letters."""
    known = known_languages().get(base(lang))
    latin = known is not None and known.scripts == {"LATIN"}

    def accepts(source: str, candidate: str) -> bool:
        return not latin or all(_bare(name) in _bare(candidate) for name in _NAME.findall(source))

    return Check("names", accepts)


def _bare(text: str) -> str:
    return text.casefold().replace("-", "")


def translated_placeholders() -> Check:
    """Tags and JSON survive in order; placeholders as often, wherever they stand in a sentence."""
    return Check("placeholders", partial(same_markup, translated=True))


def translated_language(lang: str) -> Check:
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


def translated_length(low: float, high: float, slack: int) -> Check:
    """Neither much shorter nor much longer than the source; a letter of Han or kana counts as three.

    ``slack`` letters more, or a third of it less, are always allowed.
    """

    def accepts(source: str, candidate: str) -> bool:
        expected, found = _size(source), _size(candidate)
        return expected * low - slack // 3 <= found <= expected * high + slack

    return Check(f"length{in_full(low)}-{in_full(high)}", accepts)


def _size(text: str) -> float:
    return len(comparison_key(text)) + (_DENSE - 1) * scripts(text)["CJK"]


def foreign(lang: str = "") -> Check:
    """No other script or language: most letters are of the scripts of the reference, and its language is told by words.

    Names and quotations in other scripts stay, and so does a text without function words that tell its language.
    """

    def accepts(reference: str, candidate: str) -> bool:
        own, strange = _strange(reference, candidate)
        mostly = own and 2 * strange > scripts(candidate).total()
        return not mostly and not foreign_words(candidate, reference, lang)

    return Check("foreign", accepts)


@check
def talk(reference: str, candidate: str) -> bool:
    """No refusal, explanation, label or heading where a rewrite should be, but for those that the reference has too."""
    return not talks(candidate, reference)


@check
def several(reference: str, candidate: str) -> bool:
    """One answer, and not several: numbered, on lines of their own, or side by side, where the reference has none."""
    return not holds_several(candidate, reference)

"""Which generators write a language, and what is known of what they write. Nothing here runs a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from polyref.errors import UsageError
from polyref.models.checkpoints.fairseq import PRISM_LANGUAGES
from polyref.models.find import shipped_languages
from polyref.models.languages import base

#: Public translation models (OPUS-MT) for the way to another language and back. No other pairs were looked up.
_ROUND_TRIPS: Final = {"en": "de", "de": "en", "fr": "en", "ru": "en", "zh": "en", "cs": "en"}
_OPUS: Final = "Helsinki-NLP/opus-mt"
_CODE: Final = re.compile(r"[A-Za-z]{2,3}([_-]\w+)*")


@dataclass(frozen=True)
class Way:
    """A way to paraphrases in a language.

    Attributes:
        model: What ``--model`` takes, with ``--lang`` where it is needed.
        known: What is known of the paraphrases.
    """

    model: str
    known: str


def ways(lang: str) -> list[Way]:
    """The ways to paraphrases in a language, those of which most is known first.

    Args:
        lang: Any of its codes: ``de``, ``deu``, ``deu_Latn``.

    Raises:
        UsageError: It is no code of a language.
    """
    if not _CODE.fullmatch(lang):
        raise UsageError(f"`lang` is {lang!r}, expected a code of a language such as de or deu_Latn")
    return list(_ways(base(lang)))


def _ways(code: str) -> Iterator[Way]:
    measured = "measured on one set (WMT22 zh-en), with lists that were made elsewhere"
    yield Way("openai:NAME --base-url URL", measured if code == "en" else "not tested in this language")
    yield Way("chat:DIR", "as openai:NAME, but the model runs here" if code == "en" else "not tested in this language")
    if code in shipped_languages():
        yield Way(f"shipped/{code}", "measured: it adds little to BLEU and chrF++, and often nothing")
    if code == "en":
        yield Way("shipped lexical", "measured: turn by turn, they hold more of what systems say than either alone")
    if tag := next((tag for tag in PRISM_LANGUAGES if base(tag) == code), None):
        yield Way(f"m39v1/ --lang {tag}", "Prism's own model (fairseq): the search is tested, the paraphrases are not")
    if code in _ROUND_TRIPS:
        other = _ROUND_TRIPS[code]
        yield Way(f"roundtrip:{_OPUS}-{code}-{other},{_OPUS}-{other}-{code}", "public models; not tested with them")
    else:
        yield Way(f"roundtrip:{code}-XX_DIR,XX-{code}_DIR", "two translation models of your own; not tested")

"""The language of references: named, recorded, the only one that a generator writes, or told by texts and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError
from polyref.models.language_recognition import (
    Language,
    known_languages,
    language_name,
    other_language,
    recognised,
)
from polyref.paraphrase.loading import find_generator
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.references import Segment

#: Generators of polyref that write English alone, where no model of one's own is named.
_ENGLISH: Final = ("shipped", "lexical")
#: Segments that are read to tell a language.
_ENOUGH: Final = 1000


def language_of(
    segments: Iterable[Segment],
    generators: Sequence[Paraphraser | str | Path] = (),
    *,
    pair: str | None = None,
    meta: Mapping[str, Any] | None = None,
    file: str | None = None,
) -> tuple[str, Language | None]:
    """The code of the language of references, where no option names it; and the language, where the texts told it.

    The ``generators`` are not loaded for it: where all of them write one language, it is that, and whether the texts
    are in it is another question. Where the texts do not tell, the name of their ``file`` may: ``refs.de``.
    """
    recorded = (meta or {}).get("lang")
    recorded = recorded[-1] if isinstance(recorded, list) and recorded else recorded
    if pair and "-" in pair:
        return pair.split("-")[1], None
    if isinstance(recorded, str) and recorded:
        return recorded, None
    written = {_only_language(one) for one in generators}
    if len(written) == 1 and (only := written.pop()):
        return only, None
    first = list(islice((segment for segment in segments if segment.originals), _ENOUGH))
    named = {segment.lang for segment in first}
    if len(named) == 1 and (only := named.pop()):
        return only, None
    told = recognised(ref.text for segment in first for ref in segment.originals)
    name = (file or "").removesuffix(".gz").removesuffix(".xz")
    told = told or known_languages().get(Path(name).suffix[1:].lower())
    if told is None:
        raise DataError(
            "the language of these texts cannot be told: they are few, or mixed",
            file=file,
            remedy="name it with `lang`, such as en, de or zh",
        )
    return told.code, told


def check_sources(texts: Iterable[str], lang: str, file: str | None = None) -> None:
    """Refuse sources that are clearly in another language than the one to translate from."""
    if (found := other_language(texts, [lang])) is not None:
        expected = language_name(lang)
        raise DataError(
            f"the text is {found.name}, but it is to be translated from {expected}",
            file=file,
            remedy="name the pair as SOURCE-TARGET, or `force` to go on",
        )


def _only_language(generator: Paraphraser | str | Path) -> str | None:
    if isinstance(generator, Paraphraser):
        return generator.lang or (generator.languages[0] if len(generator.languages) == 1 else None)
    if generator == "shipped/en":
        return "en"
    found = find_generator(str(generator))
    return "en" if found and found[0].name in _ENGLISH and found[1] is None else None

"""The generator ``lexical``: one word or phrase of the text is exchanged for another that means the same.

Kauchak and Barzilay (2006, "Paraphrasing for Automatic Evaluation") exchange single words of the reference for synonyms
that fit their context. Here the substitutions are those that translations of the same sentence have in each other's
place, with a word of context where that says more. No network runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from polyref.errors import ModelError
from polyref.languages import base
from polyref.paraphrase.diverse_beam import Decoding
from polyref.paraphrase.lexical.substitutions import Edit, Substitutions, tokens
from polyref.paraphrase.nbest import Hypothesis, NBest
from polyref.paraphrase.paraphraser import Paraphraser

#: The table of the package, for English.
SHIPPED: Final = Path(__file__).parent / "en.tsv.gz"
#: What a name or a title may follow at the start of a sentence: elsewhere, capitals mark names.
_OPENERS: Final = frozenset(".?!:…\"“”«»'‘’(")
#: What joins a word to its neighbours.
_JOINTS: Final = frozenset("-‐‑–/'’@_")
_VOWELS: Final = frozenset("aeiou")


class LexicalParaphraser(Paraphraser):
    """Every paraphrase is the text with one substitution; the surest first.

    The score of a paraphrase is the logarithm of the substitution's share. Names (capitals within a sentence) and parts
    of compounds (``High-scale``) are left alone, and so is what already stands elsewhere in the text.

    Args:
        table: The substitutions.
        languages: Those of the table; empty when unknown.
    """

    name = "lexical"
    procedure = "one substitution"

    def __init__(self, table: Substitutions, languages: tuple[str, ...] = ()) -> None:
        self.table = table
        self.signature = f"lexical|sha:{table.digest}"
        self.languages = languages
        self._articles = "en" in map(base, languages)

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """See :class:`~polyref.paraphrase.Paraphraser`."""
        for text in texts:
            found: dict[str, Hypothesis] = {}
            for edit in sorted(self._edits(text), key=lambda edit: (-edit.share, edit)):
                made = text[: edit.start] + edit.new + text[edit.end :]
                found.setdefault(made, Hypothesis(made, math.log(edit.share)))
                if len(found) == k:
                    break
            yield NBest(text, tuple(found.values()))

    def _edits(self, text: str) -> Iterator[Edit]:
        known = _spaced(text)
        for edit in self.table.edits(text):
            old = text[edit.start : edit.end]
            if _spaced(edit.new) in known or not _free(text, edit):
                continue
            if old[0].isupper():
                edit = edit._replace(new=edit.new[0].upper() + edit.new[1:])
            if not self._articles or _article_fits(text[: edit.start], old, edit.new):
                yield edit


def _spaced(text: str) -> str:
    """The tokens of a text in lower case, each between spaces."""
    return f" {' '.join(token.form.lstrip() for token in tokens(text))} "


def _free(text: str, edit: Edit) -> bool:
    """Whether words may be exchanged: none is a name, an abbreviation, or a part of a compound."""
    before, old, after = text[: edit.start], text[edit.start : edit.end], text[edit.end :]
    if (before[-1:] in _JOINTS and before[-2:-1].isalnum()) or (after[:1] in _JOINTS and after[1:2].isalnum()):
        return False
    if any(char.isupper() for char in old[1:]):
        return False
    return not old[0].isupper() or not before.strip() or before.rstrip()[-1] in _OPENERS


def _article_fits(before: str, old: str, new: str) -> bool:
    """Whether ``a`` or ``an`` before the words, if there is one, is right for the new ones as for the old."""
    last = before.split()[-1:]
    return last not in (["a"], ["an"], ["A"], ["An"]) or (old[0].lower() in _VOWELS) == (new[0].lower() in _VOWELS)


def load(argument: str | None, *, lang: str | None = None) -> LexicalParaphraser:
    """The table of the package (``lexical``), or one of a file (``lexical:FILE``).

    Args:
        argument: The file; None for the package's.
        lang: The language of the table in a file; the package's is English.
    """
    path = SHIPPED if argument is None else Path(argument)
    if not path.is_file():
        raise ModelError("there is no such file", file=path, remedy="expected a table of substitutions")
    languages = ("en",) if argument is None else (lang,) if lang else ()
    made = LexicalParaphraser(Substitutions.load(path), languages)
    made.check_language(lang)
    return made

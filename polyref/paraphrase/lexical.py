"""The generator ``lexical``: one word or phrase of the text is exchanged for another that means the same.

Kauchak and Barzilay (2006, "Paraphrasing for Automatic Evaluation") exchange single words of the reference for synonyms
that fit their context. Here the substitutions are those that translations of the same sentence have in each other's
place, with a word of context where that says more. No network runs.

A table has a line for each substitution, ``SOURCE TAB TARGET TAB SHARE``: among texts that say the same thing as a text
with SOURCE, that share has TARGET in its place. Both may hold a word of context on either side, which they have in
common (``the fire brigade``, ``the fire department``): a longer line knows more, and says so by its share.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from polyref.errors import DataError, ModelError, UsageError
from polyref.languages import base
from polyref.paraphrase.decoding import Decoding
from polyref.paraphrase.loading import LoadingOptions
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.textfiles import iter_lines

_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’]\w+)*|[^\w\s]")
_REMEDY: Final = "scripts/mine_substitutions.py writes such tables"


class Token(NamedTuple):
    """A word, number or mark, and where it is."""

    start: int  # first character
    end: int  # character after the last
    form: str  # in lower case, with a space in front where the text has one (or any other white space)


class Edit(NamedTuple):
    """One substitution in a text."""

    start: int  # first character that is replaced
    end: int  # character after the last
    new: str  # what stands there instead, in the case of the table
    share: float  # how many texts that say the same have it there, 0 to 1: the largest of the lines that make this edit


def tokens(text: str) -> list[Token]:
    """Words, numbers and marks of a text."""
    found = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        space = " " if start and text[start - 1].isspace() else ""
        found.append(Token(start, end, space + match.group().lower()))
    return found


def form(some: list[Token]) -> str:
    """Neighbouring tokens as one text in lower case, as tables hold them."""
    return "".join(token.form for token in some).lstrip(" ")


@dataclass(frozen=True)
class Substitutions:
    """A table."""

    lines: dict[str, list[tuple[str, float]]]  # source -> its targets, with their shares
    longest: int  # tokens of the longest source
    digest: str  # first 12 hexadecimal digits of the SHA-256 of its lines, packed or not

    @classmethod
    def load(cls, path: Path) -> Substitutions:
        """Read a table, plain or packed (gzip, xz)."""
        lines: dict[str, list[tuple[str, float]]] = {}
        longest = 0
        content = hashlib.sha256()
        for number, line in enumerate(iter_lines(path), 1):
            content.update(f"{line}\n".encode())
            try:
                source, target, share, length = _row(line)
            except ValueError as error:
                raise DataError(str(error), file=path, line=number, remedy=_REMEDY) from None
            lines.setdefault(source, []).append((target, share))
            longest = max(longest, length)
        if not lines:
            raise DataError("holds no substitutions", file=path, remedy=_REMEDY)
        return cls(lines, longest, content.hexdigest()[:12])

    def edits(self, text: str) -> Iterator[Edit]:
        """All substitutions that a text allows, in no particular order; an edit that several lines make comes once."""
        words = tokens(text)
        best: dict[tuple[int, int, str], float] = {}
        for start in range(len(words)):
            for end in range(start + 1, min(start + self.longest, len(words)) + 1):
                for target, share in self.lines.get(form(words[start:end]), ()):
                    edit = _without_context(words[start:end], target)
                    if edit is not None and share > best.get(edit, 0.0):
                        best[edit] = share
        for (start, end, new), share in best.items():
            yield Edit(start, end, new, share)


def _row(line: str) -> tuple[str, str, float, int]:
    """Source, target and share of a line, and the tokens of the source."""
    columns = line.split("\t")
    if len(columns) != 3:
        raise ValueError(f"{len(columns)} columns, expected source, target and share")
    source, target, text = columns
    words = tokens(source)
    if not words or not tokens(target) or source == target:
        raise ValueError(f"{source!r} for {target!r} replaces nothing")
    if form(words) != source:
        raise ValueError(f"the source is {source!r}, expected {form(words)!r}: lower case, single spaces")
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"the share is {text!r}, expected a number above 0, at most 1")
    return source, target, share, len(words)


def _without_context(source: list[Token], target: str) -> tuple[int, int, str] | None:
    """What is replaced, by what: without the tokens that source and target share at both ends; None where one is left
    with nothing.
    """
    new = tokens(target)
    # The form of a first token says nothing of the space before it.
    before, after = [token.form.lstrip() for token in source], [token.form.lstrip() for token in new]
    most = min(len(before), len(after))
    left = next((n for n in range(most) if before[n] != after[n]), most)
    right = next((n for n in range(most - left) if before[-1 - n] != after[-1 - n]), most - left)
    if left + right >= most:
        return None
    kept = new[left : len(new) - right]
    return source[left].start, source[len(source) - right - 1].end, target[kept[0].start : kept[-1].end]


#: The table of the package, for English.
SHIPPED: Final = Path(__file__).parent / "lexical" / "en.tsv.gz"
#: What a name or a title may follow at the start of a sentence: elsewhere, capitals mark names.
_OPENERS: Final = frozenset(".?!:…\"“”«»'‘’(")
#: What joins a word to its neighbours.
_JOINTS: Final = frozenset("-‐‑–/'’@_")
_VOWELS: Final = frozenset("aeiou")


class LexicalParaphraser(Paraphraser):
    """Every paraphrase is the text with one substitution; the surest first.

    The score of a paraphrase is the logarithm of the substitution's share. Names (capitals within a sentence) and parts
    of compounds (``High-scale``) are left alone, and so is what already stands elsewhere in the text.
    """

    name = "lexical"
    procedure = "one substitution"

    def __init__(self, table: Substitutions, languages: tuple[str, ...] = ()) -> None:
        self.table = table
        self.languages = languages
        self._articles = "en" in map(base, languages)
        self.signature = f"lexical|sha:{table.digest}{'' if self._articles else '|no articles'}"

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
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
    last = before.rsplit(maxsplit=1)[-1:]
    return last not in (["a"], ["an"], ["A"], ["An"]) or (old[0].lower() in _VOWELS) == (new[0].lower() in _VOWELS)


def load(argument: str | None, options: LoadingOptions) -> LexicalParaphraser:
    """The table of the package (``lexical``), which is English, or one of a file (``lexical:FILE``)."""
    path = SHIPPED if argument is None else Path(argument)
    if not path.is_file():
        raise ModelError("there is no such file", file=path, remedy="expected a table of substitutions")
    lang = options.lang
    if argument is None and lang is not None and base(lang) != "en":
        raise UsageError(f"lexical writes en, not {lang!r}", remedy="choose another `model`, or lexical:FILE")
    return LexicalParaphraser(Substitutions.load(path), ("en",) if argument is None else (lang,) if lang else ())

"""Tables of substitutions: which words stand for which, and where a text has them (imports no torch).

A table has a line for each substitution, ``SOURCE TAB TARGET TAB SHARE``: among texts that say the same thing as a text
with SOURCE, that share has TARGET in its place. Both may hold a word of context on either side, which they have in
common (``the fire brigade``, ``the fire department``): a longer line knows more, and says so by its share.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from polyref.errors import DataError
from polyref.textfiles import iter_lines

_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:['’]\w+)*|[^\w\s]")
_REMEDY: Final = "scripts/mine_substitutions.py writes such tables"


class Token(NamedTuple):
    """A word, number or mark, and where it is.

    Attributes:
        start: First character.
        end: Character after the last.
        form: In lower case, with a space in front where the text has one (or any other white space).
    """

    start: int
    end: int
    form: str


class Edit(NamedTuple):
    """One substitution in a text.

    Attributes:
        start: First character that is replaced.
        end: Character after the last.
        new: What stands there instead, in the case of the table.
        share: How many texts that say the same have it there, 0 to 1: the largest of the lines that make this edit.
    """

    start: int
    end: int
    new: str
    share: float


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
    """A table.

    Attributes:
        lines: Source -> its targets, with their shares.
        longest: Tokens of the longest source.
        digest: First 12 hexadecimal digits of the SHA-256 of its lines, packed or not.
    """

    lines: dict[str, list[tuple[str, float]]]
    longest: int
    digest: str

    @classmethod
    def load(cls, path: Path) -> Substitutions:
        """Read a table, plain or packed (gzip, xz)."""
        lines: dict[str, list[tuple[str, float]]] = {}
        longest = 0
        content = hashlib.sha256()
        for number, line in enumerate(iter_lines(path), 1):
            content.update(f"{line}\n".encode())
            columns = line.split("\t")
            if len(columns) != 3:
                raise DataError(
                    f"{len(columns)} columns, expected source, target and share", file=path, line=number, remedy=_REMEDY
                )
            source, target, share = columns
            words = tokens(source)
            if not words or not tokens(target) or source == target:
                raise DataError(f"{source!r} for {target!r} replaces nothing", file=path, line=number, remedy=_REMEDY)
            if form(words) != source:
                raise DataError(
                    f"the source is {source!r}, expected {form(words)!r}: lower case, single spaces",
                    file=path,
                    line=number,
                    remedy=_REMEDY,
                )
            lines.setdefault(source, []).append((target, _share(share, path, number)))
            longest = max(longest, len(words))
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


def _share(text: str, path: Path, line: int) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise DataError(
            f"the share is {text!r}, expected a number above 0, at most 1", file=path, line=line, remedy=_REMEDY
        )
    return share


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

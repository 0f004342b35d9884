"""Markup in texts: tags, placeholders and JSON. What of it there is, and the texts between."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from polyref.json_files import try_json

#: {name}, {{ name }}, ${name}, %s, %.2f, %(name)s, <tag>, &amp;, __NAME__, [NAME]: filled in or shown as they are.
_PLACEHOLDER: Final = re.compile(
    r"\$?\{\{[^{}]*\}\}|\$?\{ ?[^{}\s]* ?\}|%(?:\(\w+\))?[-+0#]*\d*(?:\.\d+)?[sdif]\b"
    r"|</?[A-Za-z][^<>\s]*(?:\s[^<>]*)?>|&#?\w+;|__\w+__|\[[A-Z][A-Z0-9_]+\]"
)
#: Tags between which a text stands by itself. Others, such as <b>, stand in the middle of sentences.
_BLOCKS: Final = (
    "article|aside|blockquote|body|br|caption|dd|div|dl|dt|figcaption|figure|footer|h[1-6]|head|header|hr|html|li|main"
    "|nav|ol|option|p|pre|section|select|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
_TAG: Final = re.compile(rf"(</?(?:{_BLOCKS})(?:[\s/][^<>]*)?>)", re.IGNORECASE)
_LETTER: Final = re.compile(r"[^\W\d_]")
_HALF: Final = re.compile("[\ud800-\udfff]")
#: A string of JSON, and whether it is a key; or another sign or value.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|[{}\[\],]|[^\s"{}\[\],]+')


@dataclass(frozen=True)
class Piece:
    """A part of a text that is written anew, with what stays around it."""

    before: str  # markup and space before it, as they are in the text
    text: str  # the text without them
    after: str = ""  # what stands behind it
    escaped: bool = False  # whether the text stands in a string of JSON
    ascii: bool = False  # whether JSON around it writes other letters by their numbers

    def with_text(self, text: str) -> str:
        """The piece with another text in the place of its own."""
        return self.before + (self._string(text) if self.escaped else text) + self.after

    def _string(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self.ascii)[1:-1]

    def within(self, before: str, *, ascii: bool) -> Piece:
        """The piece of a string of JSON, which stands behind ``before``."""
        made = replace(self, escaped=True, ascii=ascii)
        return replace(made, before=before + made._string(self.before), after=made._string(self.after))


def markup(text: str) -> list[str]:
    """Tags and placeholders in order; of JSON that holds texts, everything but these."""
    if (tokens := _tokens(text)) is None:
        return _PLACEHOLDER.findall(text)
    found: list[str] = []
    for token in tokens:
        value = _value(token)
        found += [re.sub(r"\s+(?=:\Z)", "", token[0])] if value is None else ['""', *_PLACEHOLDER.findall(value)]
    return found


def same_markup(text: str, other: str, *, translated: bool = False) -> bool:
    """Whether two texts have the same markup in the same order; placeholders of a translation may change places."""
    there, here = markup(text), markup(other)
    if not translated:
        return there == here
    fixed = [[one for one in found if one[:1] == "<" or not _PLACEHOLDER.fullmatch(one)] for found in (there, here)]
    return fixed[0] == fixed[1] and Counter(there) == Counter(here)


def pieces(text: str, sentences: Callable[[str], Sequence[str]]) -> list[Piece]:
    """The texts between the tags of a text, or in its JSON; one piece where it has neither."""
    if (tokens := _tokens(text)) is None:
        return _between_tags(text, sentences)
    found: list[Piece] = []
    done = 0
    for token in tokens:
        if (value := _value(token)) is None or not _has_words(value) or _HALF.search(value):
            continue
        for piece in _between_tags(value, sentences):
            found.append(piece.within(text[done : max(token.start() + 1, done)], ascii="\\u" in text))
            done = token.end() - 1
    return _ended(found, text[done:])


def _between_tags(text: str, sentences: Callable[[str], Sequence[str]]) -> list[Piece]:
    found: list[Piece] = []
    before = ""
    parts = _TAG.split(text)
    for number, part in enumerate(parts):
        if number % 2 or (len(parts) > 1 and not _has_words(part)):
            before += part
            continue
        for sentence in sentences(part):
            bare = sentence.strip()
            at = sentence.index(bare)
            found.append(Piece(before + sentence[:at], bare, sentence[at + len(bare) :]))
            before = ""
    return _ended(found, before)


def _ended(found: list[Piece], rest: str) -> list[Piece]:
    """The pieces, the last of them with what stands behind it."""
    if not found:
        return [Piece(rest, "")]
    return [*found[:-1], replace(found[-1], after=found[-1].after + rest)]


def _has_words(text: str) -> bool:
    return _LETTER.search(_PLACEHOLDER.sub("", text)) is not None


def _tokens(text: str) -> list[re.Match[str]] | None:
    """The tokens of JSON that holds texts; None of any other text."""
    if text.lstrip()[:1] not in ("{", "[") or not isinstance(try_json(text, object), (dict, list)):
        return None
    tokens = list(_TOKEN.finditer(text))
    return tokens if any(_value(token) is not None for token in tokens) else None


def _value(token: re.Match[str]) -> str | None:
    """A string that is no key; None of any other token."""
    text: str | None = None if token[1] else try_json(token[0], str)
    return text

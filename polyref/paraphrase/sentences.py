"""Paragraphs sentence by sentence: split, paraphrase every sentence, put whole paragraphs together again.

A model that was trained on sentences breaks off, or repeats itself, in longer texts. The splitter is sentencex
(Wikimedia), which loses no character. Markup (tags, placeholders and JSON) is cut out first, and is put back as it was.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import accumulate, islice
from typing import Final

from polyref.errors import UsageError
from polyref.json_files import try_json
from polyref.paraphrase.decoding import STRENGTH, Decoding
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser

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


#: Whether texts are split: those that are long, all of several sentences, or none.
MODES: Final = ("long", "all", "whole")
#: A long text has more words than this. Measured on 20 paragraphs of WMT23 with 25 to 49 words: the shipped model gave
#: five usable paraphrases to 14 of them as a whole, and to 18 by sentences.
LONG: Final = 30


@dataclass(frozen=True)
class Choice:
    """A way to write one sentence."""

    text: str  # the sentence, without the space around it
    #: Length-normalised log-probability in nats; of the sentence as it was, below all its paraphrases. None where
    #: the generator has no probabilities.
    score: float | None
    tokens: int  # how many tokens the score is a mean of; 0 of the sentence as it was


class SentenceBySentence(Paraphraser):
    """Paraphrases of paragraphs by a paraphraser of sentences.

    The paraphrases of a paragraph are combinations of those of its sentences: each takes the best sentences, and an
    earlier use of a sentence costs ``STRENGTH``, as in diverse beam search. So the first paragraph has the best
    paraphrase of every sentence, and the next ones differ in as many sentences as the lists allow. A sentence without
    a paraphrase is copied, and one of several may be. Nothing is cut: a sentence that is longer than the model reads
    is copied too. The space between sentences stays as it was, and so do tags such as ``<p>`` and JSON around them.
    ``keep`` says which paraphrases of a sentence may stand in a paragraph; of a translation, no sentence is copied.
    """

    def __init__(
        self,
        paraphraser: Paraphraser,
        lang: str = "en",
        mode: str = "long",
        keep: Callable[[NBest], Iterable[Hypothesis]] | None = None,
        copies: bool = True,
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"`sentences` is {mode!r}, expected one of {', '.join(MODES)}")
        self.inner, self.splitting, self.mode, self.keep, self.copies = paraphraser, lang, mode, keep, copies
        self.name, self.signature = paraphraser.name, paraphraser.signature
        self.languages, self.lang, self.need = paraphraser.languages, paraphraser.lang, paraphraser.need

    def close(self) -> None:
        self.inner.close()

    def prepare(self, texts: Iterable[str], k: int) -> None:
        self.inner.prepare((piece.text for text in texts for piece in self.split(text)), k)
        self.signature = self.inner.signature

    @property
    def ahead(self) -> int:
        return self.inner.ahead

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        """The paraphraser's decoding, and how texts are split."""
        inner = self.inner.describe_decoding(decoding, k)
        if self.mode == "whole":
            return inner
        which = f">{LONG}" if self.mode == "long" else "all"
        return f"{inner}+sentences({which},{self.splitting},sentencex={version('sentencex')})"

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """The bar counts sentences."""
        # Every call of it may start work elsewhere, so it is called before the first list is read.
        waiting: deque[tuple[str, list[Piece]]] = deque()

        def given() -> Iterator[str]:
            for text in texts:
                parts = self.split(text)
                waiting.append((text, parts))
                # A text that is not split is given as it is.
                yield from [text] if _is_whole(parts) else (part.text for part in parts)

        # A list has a known end, which the bar shows.
        feed = list(given()) if isinstance(texts, Sequence) else given()
        found = self.inner.generate(feed, k, decoding=decoding, progress=progress)
        return self._assembled(found, waiting, k)

    def _assembled(self, found: Iterator[NBest], waiting: deque[tuple[str, list[Piece]]], k: int) -> Iterator[NBest]:
        for first in found:
            text, parts = waiting.popleft()
            if _is_whole(parts):
                yield first
            else:
                nbests = [first, *islice(found, len(parts) - 1)]
                made = tuple(combine(parts, [*map(self._choices, nbests)], k, copies=self.copies))
                failures = (one.failure for one in nbests if one.failure is not None)
                yield NBest(text, made, composed=True, failure=None if made else next(failures, None))

    def split(self, text: str) -> list[Piece]:
        """The sentences of a text, with the space and the markup around them; one where it is not split."""
        return pieces(text, self._sentences)

    def _sentences(self, text: str) -> list[str]:
        if self.mode == "whole" or (self.mode == "long" and len(text.split()) <= LONG):
            return [text]
        import sentencex

        sentences: list[str] = []
        for piece in sentencex.segment(self.splitting, text):
            if sentences and not piece.strip():
                sentences[-1] += piece
            else:
                sentences.append(piece)
        return sentences if sentences and "".join(sentences) == text else [text]

    def _choices(self, nbest: NBest) -> list[Choice]:
        if nbest.truncated:
            return []
        kept = nbest.hypotheses if self.keep is None else self.keep(nbest)
        return [Choice(one.text.strip(), one.score, len(one.tokens) or 1) for one in kept if one.text.strip()]


def by_sentences(paraphraser: Paraphraser, lang: str = "en", mode: str = "long") -> Paraphraser:
    """The paraphraser, or one that splits texts for it.

    With "long" that is done for long texts and models of single sentences, with "all" for every text and generator.
    """
    if mode == "whole" or (mode == "long" and not paraphraser.single_sentences):
        return paraphraser
    return SentenceBySentence(paraphraser, lang, mode)


def _is_whole(parts: Sequence[Piece]) -> bool:
    """Whether a text has neither several sentences nor markup around it."""
    (first, *others) = parts
    return not others and not first.escaped and not first.before.strip() and not first.after.strip()


def combine(
    sentences: Sequence[str | Piece], choices: Sequence[Sequence[Choice]], k: int, *, copies: bool = True
) -> Iterator[Hypothesis]:
    """Up to ``k`` distinct paragraphs from the paraphrases of their sentences, each with at least one of them."""
    parts = [one if isinstance(one, Piece) else pieces(one, lambda text: [text])[0] for one in sentences]
    ways = [
        _with_copy(part.text, found) if copies or not part.text else list(dict.fromkeys(found))
        for part, found in zip(parts, choices, strict=True)
    ]
    if not all(ways):
        return
    # The list is best first: what stands below is worth no more, whatever its probability.
    ranked = [list(accumulate((one.score or 0.0 for one in found), min)) for found in ways]
    used: list[Counter[int]] = [Counter() for _ in ways]
    # The paragraph as it was is no paraphrase of it.
    taken = {tuple(len(found) - 1 for found in ways)} if copies else set()
    texts = {_joined(parts, [part.text for part in parts])} if copies else set()
    most = k + len(texts)
    while len(texts) < most:
        worth = [
            [value - STRENGTH * count[place] for place, value in enumerate(values)]
            for values, count in zip(ranked, used, strict=True)
        ]
        best = _best(worth, taken)
        if best is None:
            return
        taken.add(best)
        chosen = [found[place] for found, place in zip(ways, best, strict=True)]
        text = _joined(parts, [one.text for one in chosen])
        if text in texts:
            continue
        texts.add(text)
        for place, count in zip(best, used, strict=True):
            count[place] += 1
        yield Hypothesis(text, _mean(chosen))


def _with_copy(sentence: str, found: Sequence[Choice]) -> list[Choice]:
    """The choices, each once, and the sentence as it was: as good as the worst of them after it was used once."""
    distinct: dict[str, Choice] = {}
    for one in found:
        if one.text != sentence:
            distinct.setdefault(one.text, one)
    worst = min((one.score or 0.0 for one in distinct.values()), default=0.0)
    return [*distinct.values(), Choice(sentence, worst - STRENGTH, 0)]


def _best(worth: Sequence[Sequence[float]], taken: set[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The combination of the largest sum that is not taken; ties go to what comes first in the lists."""
    orders = [sorted(range(len(values)), key=lambda place: (-values[place], place)) for values in worth]
    losses = [
        [values[order[0]] - values[place] for place in order] for values, order in zip(worth, orders, strict=True)
    ]
    start = (0,) * len(worth)
    heap, seen = [(0.0, start)], {start}
    while heap:
        loss, steps = heapq.heappop(heap)
        found = tuple(order[step] for order, step in zip(orders, steps, strict=True))
        if found not in taken:
            return found
        for at, step in enumerate(steps):
            after = (*steps[:at], step + 1, *steps[at + 1 :])
            if step + 1 < len(orders[at]) and after not in seen:
                seen.add(after)
                heapq.heappush(heap, (loss + losses[at][step + 1] - losses[at][step], after))
    return None


def _mean(chosen: Sequence[Choice]) -> float | None:
    """Length-normalised log-probability of the sentences that were rewritten; None where one has none."""
    rewritten = [(one.score, one.tokens) for one in chosen if one.tokens]
    if any(score is None for score, _ in rewritten):
        return None
    return sum((score or 0.0) * tokens for score, tokens in rewritten) / sum(tokens for _, tokens in rewritten)


def _joined(parts: Sequence[Piece], texts: Sequence[str]) -> str:
    """Texts in the place of sentences, with what was around those."""
    return "".join(part.with_text(text) for part, text in zip(parts, texts, strict=True)).strip()

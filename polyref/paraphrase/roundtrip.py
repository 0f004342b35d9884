"""The generator ``roundtrip``: n-best translations into another language, and n-best translations of these back."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from polyref.cache import Cache
from polyref.errors import UsageError
from polyref.paraphrase import checkpoint
from polyref.paraphrase.decoding import Decoding, SearchOptions
from polyref.paraphrase.loading import LoadingOptions
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.search_paraphraser import DIGITS, SearchParaphraser
from polyref.progress import work


def load(argument: str | None, options: LoadingOptions) -> RoundTrip:
    """Two translation models, or one of several languages.

    The argument is ``THERE,BACK``: two folders or hub names, as the generator ``checkpoint`` takes them. One of several
    languages (NLLB, M2M100, mBART-50, MADLAD) is followed by the language in between: ``NLLB@de``. Such a model alone
    (``NLLB@de``) goes both ways, and its weights are in memory once.
    """
    halves = [_half(name) for name in (argument or "").split(",")]
    if len(halves) == 1 and halves[0][1]:
        halves *= 2
    if len(halves) != 2 or not all(name for name, _ in halves):
        raise UsageError(
            f"roundtrip:{argument or ''} names no two models",
            remedy="roundtrip:EN-DE_DIR,DE-EN_DIR, or one of several languages with the one in between: "
            "roundtrip:NLLB_DIR@deu_Latn",
        )
    opened = {name: checkpoint.opened(name, options) for name in dict.fromkeys(name for name, _ in halves)}
    (there, to), (back, via) = halves
    return RoundTrip(_way(there, opened[there], to, to, options.lang), _way(back, opened[back], via, options.lang, via))


def _half(text: str) -> tuple[str, str | None]:
    """``MODEL@LANGUAGE`` taken apart; a folder may have such a name."""
    name, at, language = text.rpartition("@")
    return (text, None) if not at or Path(text).is_dir() else (name, language)


def _way(
    name: str, opened: checkpoint.Opened, between: str | None, writes: str | None, reads: str | None
) -> SearchParaphraser:
    """One half of the way, with the language in between where it is named."""
    made = opened(writes, None, reads if between else None)
    if between and not made.languages:
        raise UsageError(f"{name}@{between} names a language, but the model has no tags of languages: leave it out")
    if not between and getattr(made.codec, "marks_source", False):
        raise UsageError(
            f"{name} has to be told which language it reads", remedy=f"name the one in between: {name}@deu_Latn"
        )
    return made


class RoundTrip(Paraphraser):
    """Paraphrases by way of another language.

    A paraphrase y of x may come by several translations z. Its score is the logarithm of the sum of p(z|x) p(y|z) over
    those of the list, divided by the number of tokens of y (Mallinson, Sennrich & Lapata 2017, "Paraphrasing revisited
    with neural machine translation"). The sum over all translations is larger: there are more than the list holds.
    """

    single_sentences = True

    def __init__(self, there: SearchParaphraser, back: SearchParaphraser) -> None:
        self.there, self.back = there, back
        self.name = f"roundtrip:{there.name},{back.name}"
        self.signature = f"roundtrip|{there.signature}|{back.signature}"
        self.languages, self.lang = back.languages, back.lang

    def use_cache(self, cache: Cache, loaded_with: str = "") -> None:
        self.there.use_cache(cache, loaded_with)
        self.back.use_cache(cache, loaded_with)

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        """Both searches: ``roundtrip(dbs(beam=5,...),dbs(beam=20,...))``."""
        if isinstance(decoding, SearchOptions):
            raise UsageError(
                "options of the search itself are given, but a round trip adds up probabilities",
                remedy="leave them out: `beam`, `groups` and `strength` are for both ways",
            )
        ways = (self.there.describe_decoding(decoding, pivots(k)), self.back.describe_decoding(decoding, k))
        return f"roundtrip({','.join(ways)})"

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """The square root of ``k`` translations go back, ``k`` ways each."""
        waiting: deque[NBest] = deque()

        def translations() -> Iterator[str]:
            for found in self.there.generate(texts, pivots(k), decoding=decoding):
                waiting.append(found)
                # A text without a translation has an empty one, which has no way back.
                yield from found.paraphrases or [""]

        returned = self.back.generate(translations(), k, decoding=decoding)
        total = len(texts) if isinstance(texts, Sequence) else 0
        with work("round trips", "sentences", total, progress=progress) as advance:
            for first in returned:
                found = waiting.popleft()
                lists = [first, *(next(returned) for _ in found.hypotheses[1:])]
                cut = found.truncated or any(one.truncated for one in lists)
                given = (len(self.there.prefix), len(self.back.prefix))
                yield NBest(found.text, tuple(merged(found.hypotheses, lists, k, given)), cut)
                advance(1)


def pivots(k: int) -> int:
    """How many translations there are on the way to ``k`` paraphrases."""
    return math.isqrt(k - 1) + 1


def merged(
    translations: Sequence[Hypothesis], lists: Sequence[NBest], k: int, given: tuple[int, int] = (0, 0)
) -> list[Hypothesis]:
    """The ``k`` best paraphrases of the lists of some translations, each text once.

    ``given`` first tokens, such as a tag, of every translation and of every paraphrase have no probability, and no
    score is a mean over them.
    """
    sums: dict[str, list[float]] = {}
    first: dict[str, Hypothesis] = {}
    for translation, nbest in zip(translations, lists, strict=False):  # the list of an empty translation is empty
        for one in nbest.hypotheses:
            sums.setdefault(one.text, []).append(_total(translation, given[0]) + _total(one, given[1]))
            # Most tokens: the score of a text must not depend on which way was found first.
            if one.text not in first or len(one.tokens) > len(first[one.text].tokens):
                first[one.text] = one
    scored = [
        Hypothesis(text, round(_log_sum(ways) / _length(first[text], given[1]), DIGITS), first[text].tokens)
        for text, ways in sums.items()
    ]
    return sorted(scored, key=lambda one: (-(one.score or 0.0), one.text))[:k]


def _total(hypothesis: Hypothesis, given: int) -> float:
    """Log-probability of the whole, in nats."""
    return (hypothesis.score or 0.0) * _length(hypothesis, given)


def _length(hypothesis: Hypothesis, given: int) -> int:
    return max(len(hypothesis.tokens) - given, 1)


def _log_sum(values: Sequence[float]) -> float:
    highest = max(values)
    return min(highest + math.log(sum(math.exp(value - highest) for value in values)), 0.0)

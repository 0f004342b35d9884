"""Which of sacreBLEU's tokenisers a text needs."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from polyref.errors import ModelError, PolyrefWarning
from polyref.languages import base

#: The environment variable that allows downloads of tokenisers.
DOWNLOAD: Final = "POLYREF_DOWNLOAD"
#: The tokenisers sacreBLEU takes for these target languages.
_OF_LANGUAGES: Final[Mapping[str, str]] = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# Tokenisers that find words by the spaces between them.
_BY_SPACES: Final = frozenset({"13a", "intl", "none"})
# Scripts written without spaces: Thai, Lao, Tibetan, Burmese, Khmer, Japanese syllables, Chinese characters.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
# Words of these scripts are short: where their letters stand in longer runs on average, no spaces set words apart.
_LONGEST_WORDS: Final = 4
# From so many lines that end in " ." on, sacreBLEU takes a text for tokenised.
_TOKENISED: Final = 100


def tokenizer_of(language: str) -> str | None:
    """The tokeniser that sacreBLEU uses for a target language (``zh``, ``zho_Hans``), or None for its default (13a)."""
    return _OF_LANGUAGES.get(base(language))


def check_present(tokenizer: str) -> None:
    """Refuse a tokeniser whose model sacreBLEU would download now, unless ``POLYREF_DOWNLOAD=1`` allows it.

    A file that sacreBLEU keeps (``~/.sacrebleu/models``, or ``$SACREBLEU/models``) is used. Before a download, a
    warning says what is downloaded and where to.
    """
    # Heavy, and known to be there where a tokeniser is made.
    from sacrebleu.tokenizers import tokenizer_spm

    if tokenizer not in tokenizer_spm.SPM_MODELS:
        return
    url = tokenizer_spm.SPM_MODELS[tokenizer]["url"]
    path = Path(vars(tokenizer_spm)["SACREBLEU_DIR"], "models", url.rpartition("/")[2])
    if path.exists():
        return
    if os.environ.get(DOWNLOAD, "") in ("", "0"):
        raise ModelError(
            f"the tokeniser {tokenizer} needs a model that is not on this machine, and nothing is downloaded unasked",
            file=path,
            remedy=f"set the environment variable {DOWNLOAD}=1 to download {url} once, or put that file there",
        )
    warnings.warn(f"downloading the tokeniser {tokenizer} from {url} to {path}", PolyrefWarning, stacklevel=2)


class Doubts:
    """What to tell a user where BLEU's tokenisers do not fit the texts, which may come in parts."""

    def __init__(self, tokenizers: Collection[str]) -> None:
        self._by_spaces = sorted(_BY_SPACES.intersection(tokenizers))
        self._tokenizes = bool(set(tokenizers) - {"none"})
        self._ends: Counter[str] = Counter()
        self._letters = self._runs = self._others = 0

    def add(self, systems: Mapping[str, Sequence[str]], references: Iterable[Iterable[str]]) -> None:
        """Look at texts; ``references`` are those of every segment."""
        for text in (text for texts in references for text in texts) if self._by_spaces else ():
            found = _UNSPACED.findall(text)
            own = sum(map(len, found))
            self._letters, self._runs = self._letters + own, self._runs + len(found)
            self._others += len(text) - text.count(" ") - own
        if self._tokenizes:
            for name, texts in systems.items():
                self._ends[name] += sum(text.endswith(" .") for text in texts)

    def found(self) -> Iterator[str]:
        """What there is to tell."""
        # Mostly of a script that has no spaces between words, and not cut into words.
        if self._by_spaces and self._letters > self._others and self._letters > _LONGEST_WORDS * self._runs:
            yield (
                f"the references are written without spaces, so that the tokeniser {' and '.join(self._by_spaces)} of "
                "BLEU takes whole sentences for words: name their language (`target_lang`: zh, ja, ko) or a tokeniser "
                "that fits (`tokenize`: char, flores200)"
            )
        if found := [f"{count} in {name}" for name, count in self._ends.items() if count >= _TOKENISED]:
            told = "look tokenised, but BLEU tokenises by itself: detokenise them"
            yield f"outputs that end in ' .' {told} (lines: {', '.join(found)})"

"""The leak check: no training text repeats the text of an evaluation set.

Evaluation text is all English that the sets' folders hold: sources of pairs out of English, references, system
outputs and paraphrases of pairs into English, and reference sets beside them. Texts are compared as words (NFKC, case
folded, no punctuation). A training text leaks when it equals an evaluation sentence of five words or more, and a
cluster (or a single sentence) when too large a share of its word 5-grams occurs in the evaluation text.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

N = 5
_WORD = re.compile(r"\w+")
_FOLDERS = ("references", "system-outputs", "paraphrases", "sources")


def normalised(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _grams(tokens: Sequence[str]) -> Iterator[int]:
    return map(hash, zip(*(tokens[i:] for i in range(N)), strict=False))


def evaluation_texts(folder: Path) -> Iterator[str]:
    """All English sentences of one evaluation set."""
    for kind in _FOLDERS:
        for path in sorted((folder / kind).rglob("*")):
            # system-outputs/LP/NAME.txt; elsewhere LP.txt or LP.NAME.txt
            pair = path.parent.name if kind == "system-outputs" else path.name.split(".")[0]
            side = pair.partition("-")[0 if kind == "sources" else 2]
            if side != "en" or not path.is_file():
                continue
            lines = path.read_text("utf-8").split("\n")
            if path.suffix == ".jsonl":
                for line in filter(None, lines):
                    row = json.loads(line)
                    yield from (row["reference"], *row["paraphrases"])
            else:
                yield from lines
    # Reference sets beside the folders are of English references.
    for path in sorted(folder.glob("*.jsonl")):
        for line in filter(None, path.read_text("utf-8").split("\n")):
            yield from (ref["text"] for ref in json.loads(line).get("refs", ()))


class EvaluationText:
    """What is kept for evaluation: its sentences, and its word 5-grams."""

    def __init__(self) -> None:
        self.sentences: set[int] = set()
        self.grams: set[int] = set()
        self.held_out: set[int] = set()
        self.counts: dict[str, int] = {}

    def add_set(self, name: str, texts: Iterable[str]) -> None:
        """Add the sentences of an evaluation set; there must be some."""
        distinct = set(texts)
        for text in distinct:
            tokens = normalised(text)
            if len(tokens) >= N:
                self.sentences.add(hash(tuple(tokens)))
                self.grams.update(_grams(tokens))
        self.counts[name] = len(distinct)

    def hold_out(self, texts: Iterable[str]) -> None:
        """Add validation text: nothing else of the training text may equal it."""
        self.held_out.update(hash(tuple(tokens)) for tokens in map(normalised, texts) if len(tokens) >= N)

    def leak(self, texts: Sequence[str], share: float) -> str | None:
        """Why a cluster of texts may not be trained on: ``sentence``, ``5-grams``, ``held-out``, or None."""
        found = total = 0
        held_out = False
        for text in texts:
            tokens = normalised(text)
            if len(tokens) < N:
                continue
            key = hash(tuple(tokens))
            if key in self.sentences:
                return "sentence"
            held_out = held_out or key in self.held_out
            for gram in _grams(tokens):
                total += 1
                found += gram in self.grams
        if found > share * total:
            return "5-grams"
        return "held-out" if held_out else None


class Report:
    """What the leak check found, file by file, with the first few of each kind."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.examples: dict[str, list[str]] = {}

    def add(self, file: str, reason: str | None, texts: Sequence[str]) -> None:
        self.counts.setdefault(file, Counter())[reason or "clean"] += 1
        if reason and len(shown := self.examples.setdefault(f"{file}: {reason}", [])) < 5:
            shown.append(max(texts, key=len))

    @property
    def leaks(self) -> int:
        """Clusters and sentences with evaluation text (held-out text of the validation does not count)."""
        return sum(count["sentence"] + count["5-grams"] for count in self.counts.values())

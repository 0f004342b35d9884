"""A second, model-free implementation of the Paraphraser interface: fixed rules, so every outcome is known.

Run as a program it is the command line with this paraphraser behind it:
``python rule_paraphraser.py LOG STOP_AFTER augment REFS ...`` notes every text it is given in LOG and, after
STOP_AFTER texts (0: never), waits to be killed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from polyref.paraphrase import Decoding, Hypothesis, NBest, Paraphraser

LONGEST = 40  # words it reads

#: Applied in this order; the first two are what every model also makes: a copy, and a copy in other clothes.
RULES = (
    "{text}",
    "{upper} !",
    "Plainly: {text}",
    "Clearly: {text}",
    "plainly {text}",
    "Briefly: {text}",
    "{text} 99",
    "It is not so that {text}",
    "Neighbours hear: {text}",
    "People hear: {text}",
    "Neighbours say: {text}",
    "One hears: {text}",
    "{text} {text} {text}",
    "...",
    "Simply: {text}",
    "Truly: {text}",
)


class RuleParaphraser(Paraphraser):
    name = "rules"
    signature = "rules|sha:0"
    languages = ("en",)
    procedure = f"rules({len(RULES)})"

    def __init__(self, log: Path | None = None, stop_after: int = 0) -> None:
        self.log = log
        self.stop_after = stop_after
        self.calls: list[list[str]] = []
        self.seen = 0

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        self.calls.append([])
        for text in texts:
            self.calls[-1].append(text)
            self._note(text)
            words = text.split()
            cut = " ".join(words[:LONGEST])
            made = islice((rule.format(text=cut, upper=cut.upper()) for rule in RULES), k)
            hypotheses = tuple(Hypothesis(m, -0.123456 * (n + 1), (n,), n) for n, m in enumerate(made))
            yield NBest(text, hypotheses, len(words) > LONGEST)

    def _note(self, text: str) -> None:
        self.seen += 1
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as stream:
                stream.write(text + "\n")
        if self.seen == self.stop_after:
            time.sleep(600)


if __name__ == "__main__":
    import polyref.paraphrase.loading as sources
    from polyref.cli.main import main

    paraphraser = RuleParaphraser(Path(sys.argv[1]), int(sys.argv[2]))
    sources.load_paraphraser = lambda *args, **options: paraphraser
    main(sys.argv[3:])

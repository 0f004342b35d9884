"""Make polyref/augment/english_words.txt: the words that the filter for invented words takes as English.

    python scripts/data/english_words.py DATA/paraphrase-train/wmt.en.jsonl.gz polyref/augment/english_words.txt

A word is in when it occurs, in any case, in at least three clusters of the paraphraser's training data (a cluster is
what several systems and people wrote for one source sentence): what a single system made up stays out. Words are
listed alone, folded to lower case, letters and apostrophes only, in alphabetical order.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

from polyref.comparison import words
from polyref.publishing import write_atomically

CLUSTERS = 3


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    clusters: Counter[str] = Counter()
    with gzip.open(source, "rt", encoding="utf-8") as stream:
        for line in stream:
            texts = json.loads(line)["texts"]
            clusters.update({word for text in texts for word in words(text)})
    kept = sorted(
        word
        for word, count in clusters.items()
        if count >= CLUSTERS and word.isascii() and word.replace("'", "").isalpha()
    )
    with write_atomically(target) as stream:
        stream.writelines(f"{word}\n" for word in kept)
    print(f"{len(kept)} words")


if __name__ == "__main__":
    main()

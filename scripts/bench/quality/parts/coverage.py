"""How many of the words that systems write and the human reference does not have are in added references.

Of n-grams of words, each counted once a text. It needs no judgements.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from material import SETS, Material
from parts.gains import MADE, generators
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sets import Generator

from polyref.eval.data.reference_sets import placebo
from polyref.references import ReferenceSet

KEY: Final = ("set", "references", "k", "n")
COLUMNS: Final = (*KEY, "segments", "new", "held", "covered", "covered_by_placebo", "seed")
ORDERS: Final = (1, 2)

_tokenise = Tokenizer13a()
Grams = frozenset[tuple[str, ...]]
NONE: Final[Grams] = frozenset()


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of coverage.csv."""
    for name in names:
        for text in generators(name, args.references):
            material = Material.of(SETS[name], args.data, None if text in {"human", "llm"} else MADE.get(name))
            added = material.added(text, args.data, args.work, max(args.k))
            fake = placebo(added, args.seed)
            # People's outputs are no system's.
            outputs = [texts for system, texts in material.outputs.items() if not system.lower().startswith("ref")]
            for k in [1] if text == "human" else sorted({*args.k} - {0}):
                for n in ORDERS:
                    new, held, covered = shares(outputs, added, k, n)
                    yield {
                        "set": name,
                        "references": text if text in {"human", "llm"} else Generator.parse(text).name,
                        "k": k,
                        "n": n,
                        "segments": len(added),
                        "new": f"{new:.2f}",
                        "held": f"{held:.4f}",
                        "covered": f"{covered:.4f}",
                        "covered_by_placebo": f"{shares(outputs, fake, k, n)[2]:.4f}",
                        "seed": args.seed,
                    }


def shares(outputs: Sequence[Sequence[str]], references: ReferenceSet, k: int, n: int) -> tuple[float, float, float]:
    """How added references and outputs meet, in what the human references do not have.

    Args:
        outputs: Of each system, one a segment.
        references: The segments with added references.
        k: Added references that count, the first ones of each segment.
        n: Length of the n-grams, in lower-case words of sacreBLEU's tokeniser 13a.

    Returns:
        New n-grams of the added references, a segment; the share of outputs that hold one of them, on average (0 to 1);
        and the share of the outputs' new n-grams that an added reference holds (0 to 1). nan where there are none.
    """
    count = hits = wanted = 0
    for segment, written in zip(references, zip(*outputs, strict=True), strict=True):
        known = NONE.union(*(grams(one.text, n) for one in segment.originals))
        added = NONE.union(*(grams(one.text, n) for one in segment.extras[:k])) - known
        count += len(added)
        for text in written:
            fresh = grams(text, n) - known
            hits += len(fresh & added)
            wanted += len(fresh)
    held = hits / (count * len(outputs)) if count else float("nan")
    return count / len(references), held, hits / wanted if wanted else float("nan")


@lru_cache(1 << 17)
def grams(text: str, n: int) -> Grams:
    """The n-grams of a text."""
    words = _tokenise(text.lower()).split()
    return frozenset(zip(*(words[at:] for at in range(n)), strict=False))

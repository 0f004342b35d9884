"""Edit rates of single pairs against sacreBLEU's own."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics.lib_ter import translation_edit_rate

from polyref.metrics.ngram.ter import edits


def disturbed(rng: random.Random, words: list[str], vocabulary: int) -> list[str]:
    """Some words dropped, replaced or added, some blocks moved."""
    words = list(words)
    for _ in range(rng.randrange(1 + len(words) // 2 + 1)):
        if not words:
            break
        place, kind = rng.randrange(len(words)), rng.random()
        if kind < 0.2:
            words.pop(place)
        elif kind < 0.4:
            words[place] = str(rng.randrange(vocabulary))
        elif kind < 0.5:
            words.insert(place, str(rng.randrange(vocabulary)))
        else:
            end = rng.randrange(place, min(len(words), place + 12)) + 1
            block = words[place:end]
            del words[place:end]
            target = rng.randrange(len(words) + 1)
            words[target:target] = block
    return words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "vocabulary", "longest"), [(150, 2, 8), (150, 6, 15), (60, 20, 25), (60, 300, 40), (5, 400, 90)]
)
def test_equals_sacrebleu(pairs: int, vocabulary: int, longest: int) -> None:
    rng = random.Random(vocabulary)
    for _ in range(pairs):
        reference = [str(rng.randrange(vocabulary)) for _ in range(rng.randrange(longest))]
        output = disturbed(rng, reference, vocabulary)
        if rng.random() < 0.2:
            output = [str(rng.randrange(vocabulary)) for _ in range(rng.randrange(longest))]
        assert edits(output, reference) == translation_edit_rate(output, reference)[0], (output, reference)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ([], []),
        ([], ["a"]),
        (["a"], []),
        (["a"], ["a"]),
        (list("bca"), list("abc")),
        # Outside the band: these are sacreBLEU's to answer.
        (list("ab" * 40), list("c" * 3)),
        ([], ["a"] * 60),
        ([str(n) for n in range(60)], [str(n) for n in range(30, 90)]),
        # More shifts to try than Tercom allows.
        (list("ab" * 15), list("ba" * 15 + "c")),
    ],
)
def test_special_pairs(output: list[str], reference: list[str]) -> None:
    assert edits(output, reference) == translation_edit_rate(output, reference)[0]

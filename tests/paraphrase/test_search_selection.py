"""Selection by blocks gives what sorting everything gives, and leaves the scores as they were."""

from __future__ import annotations

import pytest
import torch

from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import NEVER, Step


@pytest.mark.parametrize("vocab", [7, 1024, 1500, 2004])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_equal_a_full_sort(vocab: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 8, vocab, generator=generator)
    scores[0, 2] = NEVER
    scores[:, :, 5] = NEVER
    kept = scores.clone()
    flags = torch.zeros(3, dtype=torch.bool)
    cum = torch.randn(3, 8, generator=generator)
    cum[1, 4:] = NEVER
    strength = torch.tensor([0.7, 0.0, 2.0])
    selector = Selector(Step(1, scores, scores, flags, flags))
    counts = torch.zeros(3, vocab)
    for part in (slice(0, 4), slice(1, None, 2), slice(4, 8)):
        expected = ((kept[:, part] - strength[:, None, None] * counts[:, None]) + cum[:, part, None]).flatten(1)
        top, row, token = selector.best(part, cum[:, part], 12, strength)
        wanted = expected.topk(12)
        assert torch.equal(top, wanted.values)
        index = row * vocab + token
        finite = top > NEVER
        assert torch.equal(index[finite], wanted.indices[finite])
        assert torch.equal(scores, kept)
        weights = torch.rand(3, 12, generator=generator).round()
        selector.count(token, weights)
        counts.scatter_add_(1, token, weights)

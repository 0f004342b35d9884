"""Selection by blocks gives what sorting everything gives, equal scores included, and does not change the scores."""

from __future__ import annotations

import pytest
import torch

from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import NEVER, Step

FLAGS = torch.zeros(3, dtype=torch.bool)


def step(scores: torch.Tensor) -> Step:
    """A row for every slot of ``[S, W, V]``."""
    rows = torch.arange(scores.shape[0] * scores.shape[1]).view(scores.shape[:2])
    return Step(1, scores.flatten(0, 1), scores.flatten(0, 1), FLAGS, FLAGS, rows)


@pytest.mark.parametrize("vocab", [7, 1024, 1500, 2004, 2027])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_equal_a_full_sort(vocab: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 8, vocab, generator=generator)
    scores[0, 2] = NEVER
    scores[:, :, 5] = NEVER
    kept = scores.clone()
    cum = torch.randn(3, 8, generator=generator)
    cum[1, 4:] = NEVER
    strength = torch.tensor([0.7, 0.0, 2.0])
    selector = Selector(step(scores))
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


@pytest.mark.parametrize("vocab", [7, 2004, 2027, 2048])
@pytest.mark.parametrize("as_topk", [True, False])
def test_equal_scores_have_an_order(vocab: int, as_topk: bool) -> None:
    generator = torch.Generator().manual_seed(vocab)
    # Few different scores, so that most places are contested, the last one included.
    scores = torch.randint(-6, 0, (3, 6, vocab), generator=generator) / 4
    cum = torch.randint(-2, 0, (3, 6), generator=generator).float()
    counts = torch.zeros(3, vocab)
    selector = Selector(step(scores), as_topk=as_topk)
    for part in (slice(0, 3), slice(3, 6)):
        values = (torch.sub(scores[:, part], counts[:, None], alpha=0.5) + cum[:, part, None]).flatten(1)
        top, row, token = selector.best(part, cum[:, part], 6, 0.5)
        order = values.topk(6).indices if as_topk else values.argsort(descending=True, stable=True)[:, :6]
        assert torch.equal(row * vocab + token, order)
        assert torch.equal(top, values.gather(1, order))
        selector.count(token, torch.ones_like(top))
        counts.scatter_add_(1, token, torch.ones_like(top))


@pytest.mark.parametrize("vocab", [7, 2004, 2048])
def test_a_penalty_is_rounded_as_fairseq_or_as_transformers_does(vocab: int) -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(3, 4, vocab, generator=generator)
    counted = torch.randint(0, vocab, (3, 5), generator=generator)
    counts = torch.zeros(3, vocab).scatter_add_(1, counted, torch.full((3, 5), 3.0))
    selector = Selector(step(scores))
    selector.count(counted, torch.full((3, 5), 3.0))
    zero = torch.zeros(3, 4)
    once = torch.add(scores, counts[:, None], alpha=-0.7).flatten(1)  # fairseq/search.py, DiverseBeamSearch.step
    twice = (scores - 0.7 * counts[:, None]).flatten(1)  # HammingDiversityLogitsProcessor
    assert vocab == 7 or not torch.equal(once, twice)
    for strength, expected in ((0.7, once), (torch.full((3,), 0.7), twice)):
        top, row, token = selector.best(slice(0, 4), zero, 4 * vocab, strength)
        found = torch.empty_like(expected).scatter_(1, row * vocab + token, top)
        assert torch.equal(found, expected)

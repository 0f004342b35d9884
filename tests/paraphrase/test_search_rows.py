"""Rows of the network are distinct prefixes, whose past is read where it lies; and how much memory they take."""

from __future__ import annotations

import math

import pytest
import torch
from tables import TableModel

from polyref.models.checkpoints.seq2seq import Seq2Seq
from polyref.models.networks import transformer
from polyref.models.networks.attention import AncestryCache
from polyref.models.step import Parts
from polyref.paraphrase.decoding import DiverseBeam
from polyref.paraphrase.search import SearchOptions, search
from polyref.paraphrase.search.state import Layout
from polyref.paraphrase.search_paraphraser import SearchParaphraser


def test_slots_with_equal_prefixes_share_a_row() -> None:
    parents = torch.tensor([[0, 0, 1, 1], [2, 2, 2, 3]])
    tokens = torch.tensor([[7, 7, 7, 5], [6, 4, 6, 9]])
    live = torch.tensor([[True, True, True, False], [False, False, False, False]])
    layout, continued = Layout.shared(parents, tokens, live, vocab=10)
    assert layout.rows.tolist() == [[0, 0, 1, 0], [2, 2, 2, 2]]
    assert layout.owners.tolist() == [0, 0, 1]
    assert continued.tolist() == [0, 1, 2]
    assert [tokens.flatten()[slot].item() for slot in layout.slots] == [7, 7, 6]


@pytest.mark.parametrize("fused", [True, False])
def test_attention_over_ancestors_is_attention_over_a_reordered_cache(fused: bool) -> None:
    heads, size, dim = 2, 4, 8
    generator = torch.Generator().manual_seed(1)
    cache = AncestryCache(1, heads, dim, 2, device=torch.device("cpu"), dtype=torch.float32)
    cache._fused = fused
    keys = values = torch.empty(2, 0, dim)
    rows = torch.arange(2)
    for t in range(40):
        keys, values = keys[rows], values[rows]
        if t:
            cache.select(rows)
        qkv = torch.randn(len(rows), 3 * dim, generator=generator)
        keys = torch.cat((keys, qkv[:, None, dim : 2 * dim]), dim=1)
        values = torch.cat((values, qkv[:, None, 2 * dim :]), dim=1)
        cache.extend()
        found = cache.attend(0, qkv)
        q = qkv[:, :dim].view(-1, heads, 1, size)
        split = [past.view(len(rows), t + 1, heads, size).transpose(1, 2) for past in (keys, values)]
        weights = (q @ split[0].transpose(2, 3)).softmax(-1)
        assert torch.allclose(found, (weights @ split[1]).flatten(1), atol=1e-6)
        rows = torch.randint(0, len(rows), (5,), generator=generator)
    # All rows descend from one of the first: 40 steps of 5 rows would be 200 places.
    assert len(cache._tables[0]) < 120


@pytest.mark.parametrize("semantics", ["paper", "fairseq", "hf"])
def test_fewer_rows_than_slots_and_the_same_lists(models: dict[str, Seq2Seq], semantics: str) -> None:
    network = models["pre"].network
    sizes: list[int] = []

    class ByRow:
        def __getattr__(self, name: str) -> object:
            return getattr(network, name)

        def step_rows(self, state: object, tokens: torch.Tensor) -> torch.Tensor | Parts:
            sizes.append(len(tokens))
            return network.step_rows(state, tokens)  # type: ignore[arg-type]

    class BySlot:
        vocab_size, pad, eos, unk, start = network.vocab_size, network.pad, network.eos, network.unk, network.start
        max_target, normalized, device = network.max_target, network.normalized, network.device
        encode, step, reorder = network.encode, network.step, network.reorder

    sources = [[5, 9, 8, 2], [7, 2], [6, 6, 5, 12, 13, 2]]
    options = SearchOptions(beam=8, groups=4, strength=0.2, max_len_b=12, semantics=semantics)  # type: ignore[arg-type]
    shared = search(ByRow(), sources, options)  # type: ignore[arg-type]
    dense = search(BySlot(), sources, options)
    assert [[c.tokens for c in one] for one in shared] == [[c.tokens for c in one] for one in dense]
    scores = [[[c.score for c in one] for one in lists] for lists in (shared, dense)]
    assert scores[0] == [pytest.approx(one, abs=1e-5) for one in scores[1]]
    assert sizes[0] == 3 and sum(sizes) < 0.95 * 24 * len(sizes)


@pytest.mark.parametrize("temperature", [1.0, 1.3])
def test_logits_in_parts_give_the_same_lists(
    models: dict[str, Seq2Seq], temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = models["pre"].network
    options = SearchOptions(beam=8, groups=2, max_len_b=9, temperature=temperature, semantics="fairseq")
    sources = [[5, 9, 8, 2], [7, 2], [6, 6, 5, 12, 13, 2]]
    whole = search(network, sources, options)
    monkeypatch.setattr(transformer, "_LOGITS", 5 * network.vocab_size)
    state = network.encode(sources)
    network.step_rows(state, torch.full((3,), network.start))
    rows = torch.tensor([0, 0, 1, 1, 2, 2])
    network.select_rows(state, torch.arange(3), rows, rows)
    parts = network.step_rows(state, torch.tensor([5, 6, 7, 8, 9, 10]))
    assert isinstance(parts, Parts) and [len(part) for part in parts.parts] == [3, 3]
    found = search(network, sources, options)
    assert [[c.tokens for c in one] for one in found] == [[c.tokens for c in one] for one in whole]
    for ours, theirs in zip(found, whole):
        assert [c.score for c in ours] == pytest.approx([c.score for c in theirs], abs=1e-5)


def test_cross_attention_does_not_grow_with_the_beam(models: dict[str, Seq2Seq]) -> None:
    network = models["pre"].network
    held: dict[int, list[int]] = {}
    for beam in (1, 100):
        state = network.encode([[5, 9, 8, 2], [7, 2]])
        tokens = torch.full((2,), network.start)
        for _ in range(3):
            network.step_rows(state, tokens)
            owners = torch.arange(2).repeat_interleave(beam)
            rows = owners if len(tokens) == 2 else torch.arange(2 * beam)
            network.select_rows(state, torch.arange(2), rows, owners)
            tokens = torch.full((2 * beam,), 5)
        cross = sum(part.untyped_storage().nbytes() for pair in state.cross for part in pair)
        held[beam] = [cross, state.cache.nbytes]
    assert held[1][0] == held[100][0] == 2 * 4 * 2 * network.config.dim * network.config.decoder_layers * 4
    assert held[100][1] > 10 * held[1][1]


class _Letters:
    def encode(self, text: str) -> list[int]:
        return [4] * len(text) + [2]

    def decode(self, tokens: object) -> str:
        return str(tokens)


def test_batches_keep_to_the_memory_they_are_given() -> None:
    class Measured(TableModel):
        def row_bytes(self, steps: int) -> int:
            return 10 * steps

    def sizes(memory: int, rows: int = 640) -> list[int]:
        model = Measured(max_target=100)
        paraphraser = SearchParaphraser(
            model, _Letters(), name="t", digest="d", max_source=50, rows=rows, memory=memory
        )
        texts = ["a" * n for n in (3, 9, 1, 1 + 19, 7, 5)]
        lengths = sorted(len(text) + 1 for text in texts)
        batches = paraphraser._batches(sorted(texts, key=len), lengths, DiverseBeam(beam=4, groups=2))
        return [len(batch) for batch in batches]

    # The longest of a batch counts for all of it: 4 rows x 10 bytes x (1.5 x length + 11) steps.
    assert sizes(1 << 30) == [6]
    assert sizes(1 << 30, rows=8) == [2, 2, 2]
    assert sizes(1) == [1] * 6
    assert sizes(4 * 10 * math.floor(1.5 * 10 + 11) * 5) == [5, 1]

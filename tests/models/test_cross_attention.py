"""Cross-attention folded into products: the same lists, for the sentences it is meant for and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from polyref.models.networks import transformer
from polyref.models.networks.attention import FoldedCrossAttention, attend, join_heads, pays, split_heads
from polyref.models.networks.matmul import Precision, computing_in
from polyref.models.networks.transformer import Transformer, TransformerConfig
from polyref.paraphrase.search import Candidate, SearchOptions, search

DIM, HEADS, VOCAB, LAYERS = 64, 2, 1100, 2
CONFIG = TransformerConfig(
    dim=DIM, encoder_layers=1, decoder_layers=LAYERS, encoder_heads=HEADS, decoder_heads=HEADS, encoder_pre_norm=True,
    decoder_pre_norm=True, activation="relu", scale=8.0, encoder_positions="fairseq", decoder_positions="fairseq",
    pad=1, eos=2, unk=3, start=2, max_source=64, max_target=64,
)  # fmt: skip
#: The second one is too long for its heads; the third is padded in a batch with it.
SOURCES = [[*range(4, 14), 2], [*range(4, 40), 2], [*range(50, 55), 2], [7, 2]]
OPTIONS = SearchOptions(beam=60, groups=6, strength=0.7, max_len_b=9)


def network(*, pre: bool) -> Transformer:
    return Transformer(replace(CONFIG, encoder_pre_norm=pre, decoder_pre_norm=pre), network_weights())


def network_weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    weights: dict[str, torch.Tensor] = {}

    def add(name: str, *shape: int) -> None:
        weights[name] = torch.randn(*shape, generator=generator) * shape[-1] ** -0.5

    for side, blocks, layers in (("encoder", ["self_attn"], 1), ("decoder", ["self_attn", "encoder_attn"], LAYERS)):
        add(f"{side}.embed_tokens.weight", VOCAB, DIM)
        for at in (f"{side}.layers.{layer}." for layer in range(layers)):
            sizes = {f"{block}.{part}_proj": (DIM, DIM) for block in blocks for part in ("q", "k", "v", "out")}
            for name, (outputs, inputs) in {**sizes, "fc1": (96, DIM), "fc2": (DIM, 96)}.items():
                add(f"{at}{name}.weight", outputs, inputs)
                add(f"{at}{name}.bias", outputs)
            for name in [f"{block}_layer_norm" for block in blocks] + ["final_layer_norm"]:
                weights[f"{at}{name}.weight"], weights[f"{at}{name}.bias"] = torch.ones(DIM), torch.zeros(DIM)
    add("output.weight", VOCAB, DIM)
    return weights


def same(found: list[list[Candidate]], wanted: list[list[Candidate]]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert [c.tokens for c in ours] == [c.tokens for c in theirs]
        assert all(abs(a.score - b.score) < 1e-5 for a, b in zip(ours, theirs))


@pytest.mark.slow
@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("library", ["onednn", "default"])
def test_lists_are_the_same_alone_and_in_a_batch(pre: bool, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREF_PRODUCTS", library)
    model = network(pre=pre)
    folded: list[int] = []
    fold = FoldedCrossAttention.fold

    def watched(*given: Any) -> FoldedCrossAttention:
        folded.append(given[2].shape[2])
        return fold(*given)

    monkeypatch.setattr(FoldedCrossAttention, "fold", watched)
    alone = [search(model, [source], OPTIONS)[0] for source in SOURCES]
    assert folded == [length for length in (11, 6, 2) for _ in range(LAYERS)]
    folded.clear()
    batch = search(model, SOURCES, OPTIONS)
    assert sorted(folded) == sorted(length for length in (11, 6, 2) for _ in range(LAYERS))
    monkeypatch.setattr(transformer, "pays", lambda *_: False)
    folded.clear()
    wanted = search(model, SOURCES, OPTIONS)
    assert not folded
    same(alone, wanted)
    same(batch, wanted)


@pytest.mark.parametrize(("precision", "error"), [("bfloat16", 0.01), ("int8", 0.03)])
def test_folding_is_no_less_exact_in_approximate_modes(precision: Precision, error: float) -> None:
    generator = torch.Generator().manual_seed(5)
    exact = network(pre=True).decoder_layers[0].cross
    with computing_in(precision):
        rounded = network(pre=True).decoder_layers[0].cross
    assert exact is not None and rounded is not None
    keys, values = (torch.randn(HEADS, *size, generator=generator) for size in ((32, 11), (11, 32)))
    y, x = torch.randn(60, DIM, generator=generator), torch.zeros(60, DIM)
    wanted = FoldedCrossAttention.fold(exact.q, exact.out, keys, values)(y, x)
    found = FoldedCrossAttention.fold(rounded.q, rounded.out, keys, values)(y, x)
    q = split_heads(rounded.q(y)[None], HEADS)
    plain = rounded.out(join_heads(attend(q, keys[None], values[None], None))[0], x)
    folded_error, plain_error = ((one - wanted).norm() / wanted.norm() for one in (found, plain))
    assert 0 < folded_error < error and folded_error < 1.5 * plain_error
    rows = FoldedCrossAttention.fold(rounded.q, rounded.out, keys, values)(y[7:9], x[7:9])
    assert torch.equal(rows, found[7:9])


def test_when_it_pays() -> None:
    assert pays(100, 8, 31, 512) and not pays(100, 8, 49, 512) and not pays(47, 8, 31, 512)
    model = network(pre=True)
    assert model.begin(*model.encode_states([[5, 2]])).sentences is not None
    twice = Transformer(CONFIG, network_weights(), dtype=torch.float64)
    assert twice.encode([[5, 2]]).sentences is None

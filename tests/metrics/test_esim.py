from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from esim.network import Masks, initialise
from esim_fixtures import LAYERS, WORDS, network, write_model
from tiny_encoders import bert, roberta

from polyref.errors import ModelError, PolyrefWarning, UsageError
from polyref.metrics.combination import ExpectedCredit, Maximum, Mean
from polyref.metrics.esim import card
from polyref.metrics.esim.card import EsimConfig, find_model, read_card
from polyref.metrics.esim.metric import ESIM
from polyref.metrics.esim.network import EsimNetwork, Reader, compare_texts, load_network, load_reader, read_texts
from polyref.models.encoders import load_encoder
from polyref.references import Reference, ReferenceSet, Segment

Array = np.ndarray

# -- the network, once more, one pair at a time --------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _lstm(w: dict[str, Array], name: str, x: Array) -> Array:
    """A bidirectional LSTM over one text: shape (T, F) to (T, 2h)."""
    sides = []
    for suffix, rows in (("", x), ("_reverse", x[::-1])):
        size = w[f"{name}.weight_hh_l0{suffix}"].shape[1]
        state, cell, found = np.zeros(size), np.zeros(size), []
        for row in rows:
            gates = (
                w[f"{name}.weight_ih_l0{suffix}"] @ row
                + w[f"{name}.bias_ih_l0{suffix}"]
                + w[f"{name}.weight_hh_l0{suffix}"] @ state
                + w[f"{name}.bias_hh_l0{suffix}"]
            )
            enter, forget, new, leave = np.split(gates, 4)
            cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
            state = _sigmoid(leave) * np.tanh(cell)
            found.append(state)
        sides.append(np.array(found if not suffix else found[::-1]))
    return np.concatenate(sides, axis=1)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def plain(w: dict[str, Array], reference: Array, output: Array) -> float:
    """ESIM as the specification has it: two texts of shape (L, T, d) to a score."""
    a, b = (
        _lstm(w, "encoding", w["gamma"] * sum(s * h for s, h in zip(_softmax(w["mixing"]), text, strict=True)))
        for text in (reference, output)
    )
    to_b = np.array([sum(p * row for p, row in zip(_softmax(b @ i), b, strict=True)) for i in a])
    to_a = np.array([sum(p * row for p, row in zip(_softmax(a @ j), a, strict=True)) for j in b])
    pooled: list[Array] = []
    for own, other in ((a, to_b), (b, to_a)):
        enhanced = np.concatenate([own, other, own - other, own * other], axis=1)
        x = np.maximum(0, enhanced @ w["projection.weight"].T + w["projection.bias"])
        v = _lstm(w, "composition", x)
        pooled += [v.mean(axis=0), v.max(axis=0)]
    hidden = np.maximum(0, w["hidden.weight"] @ np.concatenate(pooled) + w["hidden.bias"])
    return float((w["output.weight"] @ hidden + w["output.bias"])[0])


def weights(net: EsimNetwork) -> dict[str, Array]:
    return {name: weight.double().numpy() for name, weight in net.state_dict().items()}


def texts(lengths: list[int], seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, length, 32, generator=generator) for length in lengths]


def test_the_batched_network_is_the_specified_one() -> None:
    net = network()
    references, outputs = texts([5, 1, 9, 2], 1), texts([3, 7, 1, 12], 2)
    names = [f"r{i}" for i in range(4)], [f"o{i}" for i in range(4)]
    read = dict(zip([*names[0], *names[1]], read_texts(net, [*references, *outputs]), strict=True))
    pairs = [(r, o) for r in names[0] for o in names[1]]
    expected = [plain(weights(net), r.double().numpy(), o.double().numpy()) for r in references for o in outputs]
    assert np.std(expected) > 0.05
    assert compare_texts(net, read, pairs) == pytest.approx(expected, abs=2e-6)


def test_the_reference_comes_first() -> None:
    net = network()
    one, other = texts([4, 4])
    read = dict(zip("ab", read_texts(net, [one, other]), strict=True))
    forth, back = compare_texts(net, read, [("a", "b"), ("b", "a")])
    assert abs(forth - back) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("size", "tokens"), [(1, 4096), (3, 4096), (50, 40), (50, 10**6)])
def test_batches_change_no_score(size: int, tokens: int) -> None:
    net = network()
    drawn = np.random.default_rng(5)
    states = texts(drawn.integers(1, 40, 30).tolist())
    read = dict(enumerate(read_texts(net, states)))
    again = dict(enumerate(read_texts(net, states, tokens=tokens)))
    pairs = [(int(a), int(b)) for a, b in drawn.integers(30, size=(80, 2))]
    expected = compare_texts(net, read, pairs)  # type: ignore[arg-type]
    assert np.abs(compare_texts(net, again, pairs, size, tokens) - expected).max() < 1e-6  # type: ignore[arg-type]
    backwards = compare_texts(net, again, pairs[::-1], size, tokens)[::-1]  # type: ignore[arg-type]
    assert np.abs(backwards - expected).max() < 1e-6


def test_initial_weights() -> None:
    net = EsimNetwork(EsimConfig(width=20, layers=3, hidden=6))
    initialise(net, 1)
    w = weights(net)
    assert w["mixing"].tolist() == [0, 0, 0]
    assert w["gamma"] == 1
    for name, value in w.items():
        if "weight_hh" in name:  # 4h x h: orthonormal columns
            assert value.T @ value == pytest.approx(np.eye(6), abs=1e-5)
        elif "bias_hh" in name:
            assert value.tolist() == [0] * 6 + [1] * 6 + [0] * 12
        elif "bias" in name:
            assert not value.any()
        elif value.ndim == 2:
            bound = np.sqrt(6 / sum(value.shape))
            assert 0.7 * bound < np.abs(value).max() <= bound
    other = EsimNetwork(EsimConfig(width=20, layers=3, hidden=6))
    initialise(other, 1)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values(), strict=True))


def test_size_in_the_specification() -> None:
    def size(width: int, hidden: int) -> int:
        return sum(p.numel() for p in EsimNetwork(EsimConfig(width, 12, hidden)).parameters())

    assert size(768, 300) == pytest.approx(5.5e6, rel=0.05)
    assert size(384, 128) == pytest.approx(1.05e6, rel=0.05)


def test_dropout_is_shared_by_the_steps_of_a_sequence_and_can_be_repeated() -> None:
    x = torch.ones(50, 7, 40)
    dropped = Masks(0.25, seed=3)(x, shared=True)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(dropped, Masks(0.25, seed=3)(x, shared=True))
    assert not torch.equal(dropped, Masks(0.25, seed=4)(x, shared=True))
    free = Masks(0.25, seed=3)(x)
    assert not torch.equal(free, free[:, :1].expand_as(free))


# -- texts ---------------------------------------------------------------------------------------------------------


def test_a_text_is_its_tokens_without_special_ones(tmp_path: Path) -> None:
    encoder = load_encoder(str(bert(tmp_path / "bert")))
    reader = Reader(encoder, LAYERS, lowercase=False, longest=4)
    (full,) = reader(["the cat sat"])
    ids = encoder.tokens(["the cat sat"])[0].ids
    assert np.allclose(full.numpy(), encoder.states(ids[None], LAYERS)[0][:, 1:-1], atol=1e-6)
    long, cut = reader(["the cat sat on the mat", "the cat sat on"])
    assert [one.cut for one in reader.tokens(["the cat sat on the mat", "the cat sat on"])] == [True, False]
    assert long.shape == (2, 4, 32)
    assert torch.allclose(long, cut, atol=1e-6)
    empty, blank = reader(["", " "])
    separator = encoder.states(encoder.tokens([""])[0].ids[None], LAYERS)[0][:, -1:]
    assert np.allclose(empty.numpy(), separator, atol=1e-6)
    assert torch.equal(empty, blank)


def test_lowercasing_is_the_models_choice(tmp_path: Path) -> None:
    encoder = load_encoder(str(roberta(tmp_path / "cased")))
    lowered, kept = Reader(encoder, (1,), lowercase=True), Reader(encoder, (1,), lowercase=False)
    assert torch.equal(lowered(["The Cat"])[0], lowered(["the cat"])[0])
    assert kept(["The Cat"])[0].shape != lowered(["the cat"])[0].shape


# -- the metric ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("esim")
    return write_model(folder / "tiny", folder / "bert")


@pytest.fixture
def esim(model: Path) -> Callable[..., ESIM]:
    return lambda **options: ESIM(model=str(model), cache=False, **options)


REFERENCES = [
    ("the cat sat on the mat", ["a cat sat on a mat", "on the mat sat the cat"]),
    ("nobody bought apples", []),
    ("rain is expected", ["rain expected", "rain is expected", "wind and rain"]),
]
SYSTEMS = {"A": ["the cat sat", "apples", "rain"], "B": ["a mat", "nobody bought", "rain is expected in the east"]}


def ragged(order: slice = slice(None)) -> ReferenceSet:
    return ReferenceSet(
        tuple(
            Segment(
                str(n),
                (
                    Reference(human),
                    *(Reference(e, kind="paraphrase", of=0, weight=1.0 + i) for i, e in list(enumerate(extra))[order]),
                ),
            )
            for n, (human, extra) in enumerate(REFERENCES)
        )
    )


def test_every_k_is_a_running_mean_over_the_pair_matrix(esim: Callable[..., ESIM], model: Path) -> None:
    card = read_card(model)
    net, reader = load_network(card), load_reader(card)
    w = weights(net)
    metric = esim()
    stats = metric.statistics(SYSTEMS, ragged())
    for k in range(5):
        scores = metric.aggregate(stats, k=k)
        for s, outputs in enumerate(SYSTEMS.values()):
            for n, (human, extra) in enumerate(REFERENCES):
                refs = reader([human, *extra[:k]])
                (output,) = reader([outputs[n]])
                each = [plain(w, ref.double().numpy(), output.double().numpy()) for ref in refs]
                assert scores.segment[s, n] == pytest.approx(np.mean(each), abs=2e-6)
            assert scores.system[s] == pytest.approx(scores.segment[s].mean())
        assert scores.name == ("ESIM" if k == 0 else "parESIM")


def test_up_to_fifty_references_the_mean_of_the_scores_with_each_alone(esim: Callable[..., ESIM]) -> None:
    drawn = np.random.default_rng(6)
    rows = [[" ".join(drawn.choice(WORDS, size=drawn.integers(2, 9))) for _ in range(1 + extras)] for extras in (50, 7)]
    outputs = {name: [" ".join(drawn.choice(WORDS, size=5)) for _ in rows] for name in "AB"}
    refs = ReferenceSet.from_texts([row[:1] for row in rows], paraphrases=[row[1:] for row in rows])
    # Every reference as a segment of its own.
    flat = ReferenceSet.from_texts([[text] for row in rows for text in row])
    repeated = {name: [text for text, row in zip(own, rows, strict=True) for _ in row] for name, own in outputs.items()}
    alone = esim().aggregate(esim().statistics(repeated, flat), k=0).segment
    matrix = np.split(alone, np.cumsum([len(row) for row in rows])[:-1], axis=1)
    assert np.std(matrix[0]) > 0.01
    metric = esim()
    stats = metric.statistics(outputs, refs)
    assert stats.ks == tuple(range(51))
    for k in range(51):
        expected = np.stack([single[:, : k + 1].mean(axis=1) for single in matrix], axis=1)
        scores = metric.aggregate(stats, k=k)
        np.testing.assert_allclose(scores.segment, expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(scores.system, expected.mean(axis=1), rtol=0, atol=1e-6)


def test_max_weights_and_signature(esim: Callable[..., ESIM], model: Path) -> None:
    mean, best = esim(), esim(combination=Maximum())
    highest = best.aggregate(best.statistics(SYSTEMS, ragged()), k=3)
    averaged = mean.aggregate(mean.statistics(SYSTEMS, ragged()), k=3)
    assert (highest.segment >= averaged.segment - 1e-9).all()
    given = esim(combination=Mean(weights="given"))
    weighted = given.aggregate(given.statistics(SYSTEMS, ragged()), k=2)
    assert not np.allclose(weighted.segment, averaged.segment)
    card = read_card(model)
    for part in (
        "parESIM|combine:mean|weights:uniform|model:tiny",
        f"sha256:{card.sha256[:12]}",
        "data:made-up+more",
        "encoder:bert",
        f"encoder-sha256:{card.encoder['sha256'][:12]}",
        "layers:1,3",
        "|h:8|",
        "refs:1..4",
    ):
        assert part in averaged.signature
    with pytest.raises(UsageError, match="expected one of max, max-each, mean"):
        esim(combination=ExpectedCredit())


def test_order_and_duplicates_of_references(esim: Callable[..., ESIM]) -> None:
    metric = esim()
    forth = metric.aggregate(metric.statistics(SYSTEMS, ragged()), k=3).segment
    back = metric.aggregate(metric.statistics(SYSTEMS, ragged(slice(None, None, -1))), k=3).segment
    assert forth == pytest.approx(back, abs=1e-6)
    alone = metric.statistics({"B": SYSTEMS["B"]}, ragged())
    assert metric.aggregate(alone, k=3).segment[0] == pytest.approx(forth[1], abs=1e-6)
    best = esim(combination=Maximum())
    plain_refs = ReferenceSet.from_texts([[h] for h, _ in REFERENCES])
    twice = ReferenceSet.from_texts([[h, h] for h, _ in REFERENCES])
    assert np.array_equal(
        best.aggregate(best.statistics(SYSTEMS, plain_refs), k=0).segment,
        best.aggregate(best.statistics(SYSTEMS, twice), k=0).segment,
    )


def test_each_text_is_read_once(esim: Callable[..., ESIM], monkeypatch: pytest.MonkeyPatch) -> None:
    from polyref.metrics.esim import network as esim_network

    seen: list[int] = []
    real = esim_network.read_texts
    monkeypatch.setattr(esim_network, "read_texts", lambda net, states: seen.append(len(states)) or real(net, states))
    metric = esim()
    refs = ragged()
    metric.statistics(SYSTEMS, refs)
    distinct = {ref.text for segment in refs for ref in segment.refs} | {
        t for outputs in SYSTEMS.values() for t in outputs
    }
    assert sum(seen) == len(distinct)
    metric.statistics({"C": ["new text", *SYSTEMS["A"][1:]]}, refs)
    assert sum(seen) == len(distinct) + 1


@pytest.mark.slow
def test_the_weights_are_hashed_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []
    real = card.file_sha256
    monkeypatch.setattr(card, "file_sha256", lambda path: hashed.append(path) or real(path))
    metric = ESIM(model=str(model))
    metric.aggregate(metric.statistics(SYSTEMS, ragged()), k=1)
    assert hashed == [model / "model.safetensors"]


def test_the_cache_on_the_disk_changes_no_score(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyref.cache import default_cache

    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    default_cache.cache_clear()
    try:
        first, second, without = (ESIM(model=str(model), cache=cache) for cache in (True, True, False))
        expected = without.statistics(SYSTEMS, ragged()).values
        assert np.array_equal(first.statistics(SYSTEMS, ragged()).values, expected)
        one = {"A": SYSTEMS["A"]}  # of all together, the statistics themselves are on the disk
        assert np.array_equal(second.statistics(one, ragged()).values, without.statistics(one, ragged()).values)
        assert "_embeddings" in first._reader.__dict__
        assert "_embeddings" not in second._reader.__dict__  # every text came from the disk
    finally:
        default_cache().close()
        default_cache.cache_clear()


def test_what_a_cache_holds_moves_no_digit(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyref.cache import default_cache

    words = np.random.default_rng(3).permutation([WORDS] * 40, axis=1)[:, :9]
    named = [" ".join(row[: 1 + number % 9]) for number, row in enumerate(words)]

    def read(folder: str, *orders: list[str]) -> dict[str, bytes]:
        monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / folder))
        default_cache.cache_clear()
        try:
            for order in orders:
                metric = ESIM(model=str(model))
                found = metric._read(order, metric._reader)
            return {text: found[text].numpy().tobytes() for text in named}
        finally:
            default_cache().close()
            default_cache.cache_clear()

    at_once = read("one", named)
    assert read("two", named[:1], named[30:12:-1], named[::-1]) == at_once


def test_of_several_devices_a_process_takes_its_own(esim: Callable[..., ESIM]) -> None:
    one, several = (esim(device=names).statistics(SYSTEMS, ragged()).values for names in ("cpu", "cpu:0,1"))
    assert np.array_equal(one, several)


def test_other_arithmetic_is_another_key(esim: Callable[..., ESIM]) -> None:
    threads = torch.get_num_threads()
    before = esim()._key("rain")
    torch.set_num_threads(threads + 1)
    try:
        assert esim()._key("rain") != before
    finally:
        torch.set_num_threads(threads)
    assert esim()._key("rain") == before


@pytest.mark.parametrize("name", ["sha256", "encoder", "layers", "longest", "lowercase"])
def test_another_model_is_another_key(name: str, esim: Callable[..., ESIM]) -> None:
    before, other = esim()._key("rain"), esim()
    vars(other.card).update({name: {"sha256": "other"} if name == "encoder" else "other"})
    assert other._key("rain") != before


def test_empty_sides_are_scored_and_counted(esim: Callable[..., ESIM]) -> None:
    metric = esim()
    refs = ReferenceSet.from_texts([["the cat"], [""], ["", "rain"]])
    with pytest.warns(PolyrefWarning, match="3 pairs have an empty side"):
        stats = metric.statistics({"A": ["", "a mat", "rain"]}, refs)
    assert np.isfinite(metric.aggregate(stats, k=0).segment).all()


def test_segments_without_references(esim: Callable[..., ESIM]) -> None:
    refs = ReferenceSet((Segment("1", (Reference("the cat"),)), Segment("2", ())))
    stats = esim().statistics({"A": ["a cat", "dog"]}, refs, allow_missing=True)
    scores = esim().aggregate(stats, k=0)
    assert np.isnan(scores.segment[0, 1])
    assert scores.system[0] == pytest.approx(scores.segment[0, 0])


# -- files ---------------------------------------------------------------------------------------------------------


def test_another_encoder_is_refused(model: Path, tmp_path: Path) -> None:
    other = roberta(tmp_path / "roberta")
    metric = ESIM(model=str(model), encoder=str(other), cache=False)
    with pytest.raises(ModelError, match=r"trained on the encoder bert \(.{12}\), but .*roberta is roberta \(.{12}\)"):
        metric.statistics(SYSTEMS, ragged())
    same = bert(tmp_path / "elsewhere")
    moved = ESIM(model=str(model), encoder=str(same), cache=False)
    stays = ESIM(model=str(model), cache=False)
    assert np.array_equal(moved.statistics(SYSTEMS, ragged()).values, stays.statistics(SYSTEMS, ragged()).values)


def test_a_model_cannot_have_its_encoder_fetched(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **how: asked.append((name, how)) or 1 / 0)
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    for name in ("owner/hostile", "roberta-hostile"):
        card = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(card | {"encoder": card["encoder"] | {"load": name}}))
        with pytest.raises(ModelError, match=f"{name} cannot be opened, and nothing is fetched unasked: .*--esim"):
            ESIM(model=str(folder), cache=False).statistics(SYSTEMS, ragged())
        with pytest.raises(ModelError, match="the Hugging Face hub did not give it"):
            ESIM(model=str(folder), encoder=name, cache=False).statistics(SYSTEMS, ragged())
    assert [how["local_files_only"] for _, how in asked] == [True, False] * 2


def test_what_is_no_model_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no ESIM model there"):
        find_model(str(tmp_path))
    broken = tmp_path / "broken"
    broken.mkdir()
    config = json.loads((model / "config.json").read_text("utf-8"))
    for change, complaint in (
        ({"polyref_esim": 7}, "format 7, expected 1"),
        ({"layers": None}, 'no "layers"'),
        ({}, "no model.safetensors"),
    ):
        (broken / "config.json").write_text(json.dumps({**config, **change}), encoding="utf-8")
        with pytest.raises(ModelError, match=complaint):
            read_card(broken)
    (broken / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelError, match="no weights that fit"):
        load_network(read_card(broken))
    (broken / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    (broken / "config.json").write_text(json.dumps({**config, "hidden": 9}), encoding="utf-8")
    with pytest.raises(ModelError, match="no weights that fit"):
        load_network(read_card(broken))


def test_what_texts_are_read_as_is_in_signature_and_options(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", tmp_path / "encoder")
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    references = ReferenceSet.from_texts([["the old bridge"]])
    found = []
    for changed in ({}, {"lowercase": True}, {"longest": 9}):
        path.write_text(json.dumps({**settings, **changed}))
        metric = ESIM(model=str(folder), cache=False)
        stats = metric.statistics({"a": ["The Bridge"]}, references)
        found.append((metric.options, metric.aggregate(stats, k=0).signature))
    assert all(found.count(one) == 1 for one in found)
    assert len({signature for _, signature in found}) == 3
    assert all(options != found[0][0] for options, _ in found[1:])

"""The shipped kind of network: decoding equals forced scoring, whatever the batch; files refuse what is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentencepiece
import torch
from training.pointer_files import quantise, save_pointer

from polyref.errors import ModelError
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.networks.matmul import Precision
from polyref.models.networks.pointer import CLOSENESS, EOS, MASK, PAD, PointerConfig, PointerTransformer
from polyref.paraphrase.search import SearchOptions, search


@pytest.fixture(scope="module")
def network() -> PointerTransformer:
    torch.manual_seed(3)
    config = PointerConfig(60, d_model=32, heads=4, ffn=64, encoder_layers=2, decoder_layers=2, max_source=30)
    network = PointerTransformer(config)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return network.eval()


def log_softmax_at(states: torch.Tensor, embedding: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(states @ embedding.T, -1).gather(1, targets[:, None])[:, 0]


def forced(network: PointerTransformer, source: list[int], target: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return network(
            torch.tensor([source]),
            torch.tensor([[network.start, *target[:-1]]]),
            torch.tensor([target]),
            log_softmax_at,
        )


SOURCES = [[20, 30, 40, EOS], [11, EOS], [50, 51, 52, 53, 50, 51, EOS]]
TARGETS = [[20, 41, 40, EOS], [11, 12, 13, EOS], [50, 51, 58, 53, EOS]]


def test_steps_equal_teacher_forcing(network: PointerTransformer) -> None:
    state = network.encode(SOURCES)
    stepwise: list[list[float]] = [[], [], []]
    tokens = torch.full((3, 1), network.start)
    for t in range(5):
        logprobs = network.step(state, tokens)
        following = [target[t] if t < len(target) else EOS for target in TARGETS]
        for row, token in enumerate(following):
            if t < len(TARGETS[row]):
                stepwise[row].append(float(logprobs[row, 0, token]))
        tokens = torch.tensor(following)[:, None]
    for source, target, steps in zip(SOURCES, TARGETS, stepwise, strict=True):
        # Decoding removes the probability of tokens that are no text; these targets hold none.
        assert steps == pytest.approx(forced(network, source, target).tolist(), abs=1e-4)


def test_distribution_sums_to_one_and_never_writes_control_tokens(network: PointerTransformer) -> None:
    logprobs = network.step(network.encode(SOURCES), torch.full((3, 1), network.start))
    assert torch.isinf(logprobs[..., [PAD, *range(CLOSENESS, MASK + 1)]]).all()
    # What is forbidden is not redistributed: scores stay the model's own probabilities.
    assert (logprobs.exp().sum(-1) <= 1 + 1e-5).all()
    assert (logprobs.exp().sum(-1) > 0.5).all()


def test_pointer_reaches_source_tokens_only(network: PointerTransformer) -> None:
    with torch.inference_mode():
        source = torch.tensor([[20, 30, 40, EOS]])
        memory = network.encode_batch(source)
        x = torch.randn(1, 2, 32)
        generate, copy = network._pointer(x, network.pointer_keys(source, memory), network.padding_mask(source)[:, 0])
    total = generate.exp()[..., 0] + copy.exp().sum(-1)
    assert total.tolist() == [pytest.approx([1.0, 1.0], abs=1e-5)]


@pytest.mark.parametrize("steps", [1, 2])
def test_a_shortlist_draws_from_the_first_tokens_and_copies_all_others(network: PointerTransformer, steps: int) -> None:
    """Against the definition: the share of words goes to the first tokens alone, that of the pointer to the source."""
    with torch.inference_mode():
        source = torch.tensor([SOURCES[2]])
        memory = network.encode_batch(source)
        mask = network.padding_mask(source)
        written = [network.start, 51][:steps]
        # The decoder's state before the vocabulary, by way of forced scoring's own arithmetic.
        states: list[torch.Tensor] = []

        def keep(found: torch.Tensor, embedding: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            states.append(found)
            return log_softmax_at(found, embedding, targets)

        network(source, torch.tensor([written]), torch.tensor([[*written[1:], 20]]), keep)
        generate, copy = network._pointer(states[0][None], network.pointer_keys(source, memory), mask[:, 0])
        words = torch.softmax(states[0][-1] @ network.embedding.weight[:40].T, -1)
        expected = torch.zeros(60)
        expected[:40] = generate[0, -1].exp() * words
        expected.index_add_(0, source[0], copy[0, -1].exp())
        expected[[PAD, 2, *range(CLOSENESS, MASK + 1)]] = 0
    network.shortlist = 40
    try:
        state = network.encode([SOURCES[2]])
        for token in written:
            logprobs = network.step(state, torch.tensor([[token]]))[0, 0]
    finally:
        network.shortlist = None
    assert logprobs.exp().tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert {n for n in range(40, 60) if logprobs[n] > -torch.inf} == {50, 51, 52, 53}


def test_reorder_follows_parents_and_drops_sentences(network: PointerTransformer) -> None:
    state = network.encode(SOURCES)
    network.step(state, torch.full((3, 1), network.start))
    network.reorder(state, torch.tensor([0, 2]), torch.zeros(2, 3, dtype=torch.long))
    network.step(state, torch.tensor([[20, 41, 40], [50, 51, 52]]))
    network.reorder(state, torch.tensor([1]), torch.tensor([[2, 0]]))
    got = network.step(state, torch.tensor([[53, 58]]))[0]
    alone = []
    for first, second in ((52, 53), (50, 58)):
        fresh = network.encode([SOURCES[2]])
        for token in (network.start, first):
            network.step(fresh, torch.tensor([[token]]))
        alone.append(network.step(fresh, torch.tensor([[second]]))[0, 0])
    assert torch.allclose(got, torch.stack(alone), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_lists_do_not_depend_on_the_batch(precision: Precision) -> None:
    """int8 to the last bit: its sums are of integers, and all else is computed sentence by sentence or row by row."""
    torch.manual_seed(5)
    config = PointerConfig(96, d_model=64, heads=2, ffn=128, encoder_layers=2, max_source=80)
    network = PointerTransformer(config).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    network.precision = precision
    options = SearchOptions(beam=8, groups=2, strength=0.5, max_len_a=0.0, max_len_b=12)
    lengths = [1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 64, 70]
    sources = [[*torch.randint(MASK + 1, 96, (length,)).tolist(), EOS] for length in lengths]
    together = search(network, sources, options)
    alone = [search(network, [source], options)[0] for source in sources]
    backwards = search(network, sources[::-1], options)[::-1]
    if precision == "int8":
        assert together == alone == backwards
    for other in (alone, backwards):
        assert [[c.tokens for c in found] for found in other] == [[c.tokens for c in found] for found in together]
        for found, expected in zip(other, together, strict=True):
            assert [c.score for c in found] == pytest.approx([c.score for c in expected], abs=1e-6)


def test_closeness_changes_the_start_token_for_a_while(network: PointerTransformer) -> None:
    assert network.start == CLOSENESS + 1
    with network.at_closeness(3):
        assert network.start == CLOSENESS + 3
    assert network.start == CLOSENESS + 1


def test_int8_rows_are_within_half_a_step() -> None:
    weight = torch.randn(7, 40) * torch.logspace(-3, 2, 7)[:, None]
    packed, scale = quantise(weight)
    assert ((packed.float() * scale[:, None] - weight).abs() <= scale[:, None] * 0.5001).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model")
    words = [f"word{i} stone river{i % 7} lamp." for i in range(300)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_prefix=str(root / "spm"), vocab_size=60, pad_id=0, unk_id=1, bos_id=2,
        eos_id=3, control_symbols=["<p0>", "<p1>", "<p2>", "<p3>", "<mask>"], hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(root / "spm.model")).get_piece_size()
    torch.manual_seed(5)
    tiny = PointerTransformer(
        PointerConfig(pieces, d_model=16, heads=2, ffn=32, encoder_layers=1, decoder_layers=1, max_source=24)
    )
    tiny.shortlist = 30
    save_pointer(tiny, root / "spm.model", root / "tiny", name="tiny", language="en")
    return root / "tiny"


def test_saved_model_loads_and_has_a_digest_of_its_bytes(folder: Path) -> None:
    model = load_pointer(folder)
    assert (model.name, model.language, len(model.digest)) == ("tiny", "en", 12)
    assert load_pointer(folder).digest == model.digest
    assert not model.network.training
    assert model.network.shortlist == 30


@pytest.mark.parametrize("shortlist", [8, 10_000, "many", 30.0])
def test_impossible_shortlists_are_refused(folder: Path, tmp_path: Path, shortlist: object) -> None:
    for part in folder.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "shortlist": shortlist}))
    with pytest.raises(ModelError, match=r"shortlist is .*, expected null, or 9 to"):
        load_pointer(tmp_path)


def test_models_without_a_shortlist_draw_from_all_tokens(folder: Path, tmp_path: Path) -> None:
    for part in folder.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    config = json.loads((folder / "config.json").read_text("utf-8"))
    del config["shortlist"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_pointer(tmp_path).network.shortlist is None


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", b"{", "not a model configuration"),
        ("config.json", b'{"polyref_model": 99}', "model format 99, expected 1"),
        ("model.safetensors", b"\x80\x04pickle", "not a safetensors file"),
        ("spm.model", b"nonsense", "not a SentencePiece model"),
        ("spm.model", None, "no spm.model"),
    ],
)
def test_broken_folders_are_refused(
    folder: Path, tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    for part in folder.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        load_pointer(tmp_path)


def test_sizes_that_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    for part in folder.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["network"]["ffn"] = 48
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="weights do not fit"):
        load_pointer(tmp_path)

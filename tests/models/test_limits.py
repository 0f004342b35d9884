"""The corners of what may be asked: beams of 1 to 200, groups of 1 to the beam, texts of 1 to 1,024 pieces, nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tables import TableModel
from tiny_models import TEXT, settings, state, symbols, write

from polyref.errors import UsageError
from polyref.models.checkpoints.seq2seq import Seq2Seq, load_fairseq
from polyref.models.networks.hugging_face import HuggingFaceModel
from polyref.paraphrase import DiverseBeam, SearchOptions, SearchParaphraser, load_paraphraser
from polyref.paraphrase.search import search

SEMANTICS = ("paper", "fairseq", "hf")
LONGEST, TARGET = 1024, 256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spm: bytes) -> Path:
    options = settings(max_source_positions=LONGEST, max_target_positions=TARGET)
    weights = state(len(symbols(spm)) + 4)
    return write(tmp_path_factory.mktemp("limits") / "m", spm, {"args": options}, weights)


@pytest.fixture(scope="module")
def model(folder: Path) -> Seq2Seq:
    return load_fairseq(folder)


def checked(found: list[Any], options: SearchOptions) -> None:
    """What every list must be, whatever was asked for."""
    most = options.wanted * (options.groups if options.nbest_per_group else 1)
    assert 1 <= len(found) <= most
    for candidate in found:
        assert math.isfinite(candidate.score)
        assert len(candidate.tokens) <= options.max_len_b + 1 + int(options.max_len_a * LONGEST)
        assert 2 not in candidate.tokens[:-1]
        assert options.semantics == "hf" or 1 not in candidate.tokens  # Transformers forbids no padding
    if not options.nbest_per_group:
        scores = [candidate.score for candidate in found]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("beam", [1, 2, 3, 59, 64, 128, 200])
def test_beams_from_one_to_more_than_the_vocabulary(model: Seq2Seq, beam: int, semantics: Any) -> None:
    """The vocabulary is of about 60 tokens: the first step has fewer continuations than a large beam has places."""
    assert model.network.vocab_size < 64
    options = SearchOptions(beam=beam, max_len_b=5, semantics=semantics)
    sources = [model.codec.encode(TEXT[0]), [2]]
    for found in search(model.network, sources, options, [[4], [4]]):
        checked(found, options)
        assert len(found) == beam or beam > 50


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 6, 12])
def test_groups_from_one_to_the_beam(model: Seq2Seq, groups: int, semantics: Any) -> None:
    options = SearchOptions(beam=12, groups=groups, strength=0.7, max_len_b=6, semantics=semantics)
    for found in search(model.network, [model.codec.encode(text) for text in TEXT[:2]], options):
        checked(found, options)
        assert {candidate.group for candidate in found} <= set(range(groups))


def test_two_hundred_groups_of_one(model: Seq2Seq) -> None:
    source = [model.codec.encode(TEXT[0])]
    for semantics in ("paper", "hf"):
        options = SearchOptions(beam=200, groups=200, strength=0.3, max_len_b=4, semantics=semantics)  # type: ignore[arg-type]
        checked(search(model.network, source, options)[0], options)
    # fairseq cuts the beam to what the vocabulary can fill, and the groups no longer divide it.
    with pytest.raises(UsageError, match="a vocabulary of 63 cuts the beam to 62, no multiple of `groups`"):
        search(model.network, source, SearchOptions(beam=200, groups=200, semantics="fairseq"))
    options = SearchOptions(beam=200, groups=31, strength=0.3, max_len_b=4, semantics="fairseq")
    with pytest.raises(UsageError, match="expected a multiple of `groups`"):
        options.validate()
    options = SearchOptions(beam=62, groups=62, strength=0.3, max_len_b=4, semantics="fairseq")
    checked(search(model.network, source, options)[0], options)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_sources_from_the_end_alone_to_the_last_position(model: Seq2Seq, semantics: Any) -> None:
    options = SearchOptions(beam=4, groups=2, max_len_b=4, semantics=semantics)
    sources = [[*([7, 9, 11] * LONGEST)[: length - 1], 2] for length in (1, 2, 63, 512, LONGEST)]
    together = search(model.network, sources, options)
    for source, found in zip(sources, together):
        checked(found, options)
        (alone,) = search(model.network, [source], options)
        assert [candidate.tokens for candidate in alone] == [candidate.tokens for candidate in found]
    with pytest.raises(UsageError, match="1025 tokens, expected at most 1024"):
        search(model.network, [[7] * LONGEST + [2]], options)


@pytest.mark.slow
def test_targets_up_to_the_last_position(model: Seq2Seq) -> None:
    options = SearchOptions(beam=1, min_len=TARGET, max_len_b=5000)
    (found,) = search(model.network, [[7, 2]], options)
    assert [len(candidate.tokens) for candidate in found] == [TARGET]


def test_texts_of_every_length_and_of_nothing(folder: Path) -> None:
    paraphraser = load_paraphraser(folder, lang="en")
    long = " ".join(["the small river runs behind the old mill"] * 60)
    texts = ["", " \t ", "the", "鷺", "鷺 鷺鷺", long, TEXT[0], TEXT[0]]
    found = list(paraphraser.paraphrase(texts, 3, decoding=SearchOptions(beam=4, groups=2, max_len_b=6)))
    assert [nbest.text for nbest in found] == texts
    assert [len(nbest.hypotheses) for nbest in found[:2]] == [0, 0]
    assert all(1 <= len(nbest.hypotheses) <= 3 for nbest in found[2:])
    assert [nbest.truncated for nbest in found] == [False] * 5 + [True] + [False] * 2
    assert found[6] == found[7]
    assert list(paraphraser.paraphrase([], 3)) == []


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_more_is_asked_for_than_there_is(model: Seq2Seq, semantics: Any) -> None:
    """A longer list than the beam gives what the beam found, without invented or repeated entries."""
    options = SearchOptions(beam=4, nbest=50, max_len_b=3, semantics=semantics)
    plain = SearchOptions(beam=4, max_len_b=3, semantics=semantics)
    source = [model.codec.encode(TEXT[0])]
    (found,), (four,) = search(model.network, source, options), search(model.network, source, plain)
    checked(found, options)
    assert [candidate.tokens for candidate in found] == [candidate.tokens for candidate in four]
    # No token but the end: one hypothesis, whatever the beam.
    (empty,) = search(model.network, source, SearchOptions(beam=9, min_len=0, max_len_b=0, semantics=semantics))
    assert {candidate.tokens for candidate in empty} <= {(2,), ()} or semantics == "hf"


@pytest.mark.parametrize(
    ("decoding", "k", "message"),
    [
        (DiverseBeam(beam=0), 5, "`beam` is 0, expected 1 or more"),
        (DiverseBeam(groups=0), 5, "`groups` is 0, expected 1 or more"),
        (DiverseBeam(beam=0, groups=2), 5, "`beam` is 0, expected 1 or more"),
        (DiverseBeam(beam=4.0), 5, "`beam` is 4.0, expected a whole number"),  # type: ignore[arg-type]
        (DiverseBeam(closeness=4), 5, "`closeness` is 4, expected 0 to 3"),
        (DiverseBeam(), 0, "`k` is 0, expected 1 or more"),
        (DiverseBeam(), 100_000, "a beam of 100000 hypotheses is asked for, expected at most 5000 .*`k`"),
        (DiverseBeam(beam=10_000, groups=10), 5, "a beam of 10000 hypotheses"),
        (SearchOptions(beam=8000), 5, "a beam of 8000 hypotheses"),
        (SearchOptions(beam="5"), 5, "`beam` is '5', expected a whole number"),  # type: ignore[arg-type]
        (SearchOptions(beam=10, groups=2.0), 5, "`groups` is 2.0, expected a whole number"),  # type: ignore[arg-type]
        (SearchOptions(max_len_b=10**10), 5, "`max_len_b` is 10000000000, expected at most 1000000000"),
        (SearchOptions(max_len_a=1e300), 5, "`max_len_a` is 1e[+]300, expected at most 1e[+]06"),
        (SearchOptions(max_len_a=10**400), 5, "`max_len_a` is too large a number, expected a finite one"),
        (SearchOptions(lenpen=200), 5, "`lenpen` is 200, expected at most 50"),
        (SearchOptions(lenpen=-1000.0), 5, "`lenpen` is -1000.0, expected -50 or more"),
        (SearchOptions(strength="much"), 5, "`strength` is 'much', expected a number"),  # type: ignore[arg-type]
        (SearchOptions(strength=1e39), 5, "`strength` is 1e[+]39, expected at most 1e[+]06"),
        (SearchOptions(temperature=1e-300), 5, "`temperature` is 1e-300, expected more than 0, 1e-06 at least"),
        (SearchOptions(seed=0.5), 5, "`seed` is 0.5, expected a whole number"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, decoding: Any, k: int, message: str) -> None:
    paraphraser = load_paraphraser(folder, lang="en")
    with pytest.raises(UsageError, match=message):
        paraphraser.paraphrase(TEXT, k, decoding=decoding)


def test_padding_in_a_prefix_forces_nothing_in_fairseqs_semantics(model: Seq2Seq) -> None:
    """Nor does the least length hold there: as without the prefix and without a least length so far."""
    source = [model.codec.encode(TEXT[0])]

    def found(prefix: list[int], least: int) -> list[Any]:
        options = SearchOptions(beam=6, groups=2, semantics="fairseq", max_len_b=8, min_len=least)
        return search(model.network, source, options, [prefix])[0]

    assert len(found([1], 1)) == 6
    assert found([1], 1) == found([], 0)
    assert found([4, 1], 2) == found([4], 0)
    assert {candidate.tokens[1] for candidate in found([1, 5], 0) if len(candidate.tokens) > 1} == {5}
    for semantics in ("paper", "hf"):
        with pytest.raises(UsageError, match="the prefix holds padding"):
            search(model.network, source, SearchOptions(beam=2, semantics=semantics), [[4, 1]])  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("lenpen", [50.0, -50.0])
@pytest.mark.parametrize("strength", [0.0, 1e6])
def test_the_greatest_values_end_in_lists(model: Seq2Seq, semantics: Any, lenpen: float, strength: float) -> None:
    options = SearchOptions(
        beam=4, groups=2, lenpen=lenpen, strength=strength, unkpen=1e6, max_len_a=1e6, max_len_b=10**9, min_len_a=0.5,
        temperature=1e-6, semantics=semantics,
    )  # fmt: skip
    (found,) = search(model.network, [[7, 9, 2]], options)
    assert found and all(math.isfinite(candidate.score) for candidate in found)


def test_the_largest_copy_penalty_is_finite_and_a_larger_one_refused(folder: Path) -> None:
    for a, b in ((1e6, 20.0), (1e6, -20.0)):
        (found,) = load_paraphraser(folder, lang="en", prism_a=a, prism_b=b).paraphrase(TEXT[:1], 2)
        assert all(math.isfinite(hypothesis.score) for hypothesis in found.hypotheses)
    with pytest.raises(UsageError, match=r"`prism_a` is 10000000\.0, expected at most 1e\+06"):
        load_paraphraser(folder, lang="en", prism_a=1e7)
    with pytest.raises(UsageError, match=r"`prism_b` is 1000\.0, expected at most 20"):
        load_paraphraser(folder, lang="en", prism_a=1.0, prism_b=1000.0)


def test_a_large_k_has_a_beam(folder: Path) -> None:
    assert DiverseBeam().resolve(1000).beam == 1000
    paraphraser = load_paraphraser(folder, lang="en")
    (found,) = paraphraser.paraphrase(["river"], 1000, decoding=DiverseBeam(beam=200, groups=2))
    assert 1 <= len(found.hypotheses) <= 200


def test_running_out_of_memory_is_one_error() -> None:
    class Hungry(TableModel):
        def encode(self, sources: Sequence[Sequence[int]]) -> Any:
            return torch.empty(1 << 55)

    paraphraser = SearchParaphraser(Hungry(), Letters(), name="hungry", digest="0", max_source=50)
    with pytest.raises(UsageError, match=r"out of memory with 6 hypotheses a text, .*: 1 .*`beam` or `k`.*`memory`"):
        list(paraphraser.paraphrase(["a b"], 3, decoding=DiverseBeam(beam=6)))


class Letters:
    """Letters a to d as tokens 3 to 6."""

    def encode(self, text: str) -> list[int]:
        return [*(3 + "abcd".index(letter) for letter in text.split()), 2]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join("abcd"[token - 3] for token in tokens if token > 2)


def test_more_paraphrases_than_the_beam_holds(folder: Path) -> None:
    paraphraser = load_paraphraser(folder, prefix="<en>")
    (found,) = paraphraser.paraphrase([TEXT[0]], 40, decoding=DiverseBeam(beam=4, groups=2))
    texts = [hypothesis.text for hypothesis in found.hypotheses]
    assert 1 <= len(texts) == len(set(texts)) <= 4


def test_positions_that_no_text_uses_do_not_count(quiet_transformers: None) -> None:
    """RoBERTa's kind counts them from the padding token on, as one of two networks in a model too."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    sizes |= {"num_hidden_layers": 1, "max_position_embeddings": 24}
    parts = transformers.RobertaConfig(**sizes), transformers.BertConfig(**sizes)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*parts)
    model = transformers.EncoderDecoderModel(config).eval()
    model.generation_config.update(decoder_start_token_id=2, eos_token_id=2, pad_token_id=1)
    found = HuggingFaceModel(model)
    assert (found.max_source, found.max_target) == (22, 24)
    found.encode([[5] * 22])
    with pytest.raises((IndexError, RuntimeError)):
        found.encode([[5] * 23])

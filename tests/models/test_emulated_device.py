"""What computes on an accelerator: every network on an emulated one, which refuses what CUDA refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_encoders
import tiny_seq2seq
import torch
from emulated import NAME, Device, emulated
from hypothesis import given
from hypothesis import strategies as st
from tiny_causal import save

from polyref.models.device import spare_memory
from polyref.models.encoders import load_encoder
from polyref.models.scorers import load_scorer
from polyref.paraphrase import SearchOptions, load_paraphraser
from polyref.paraphrase.search import search, state
from polyref.paraphrase.search.paper import PaperRule
from polyref.paraphrase.search.state import Beams, Choice, Step
from polyref.paraphrase.search_paraphraser import batch_limits
from polyref.paraphrase.shipped import NoAddedRepeats

pytestmark = pytest.mark.usefixtures("quiet_transformers")

Lists = list[list[tuple[str, float]]]

SEARCH = SearchOptions(beam=4, groups=2, strength=0.5, max_len_a=0, max_len_b=12)
TEXTS = ["Nobody was hurt in the accident on Monday.", "The 3,000 people there got 1,000,000 euros.", "Yes."]


@pytest.fixture
def device() -> Iterator[Device]:
    with emulated() as device:
        yield device


def lists(
    name: str,
    device: str = "cpu",
    texts: Sequence[str] = TEXTS,
    decoding: SearchOptions | None = SEARCH,
    **loading: Any,
) -> Lists:
    found = load_paraphraser(name, device=device, dtype="float32", cache=False, **loading)
    made = found.generate(texts, 2, decoding=decoding)
    return [[(one.text, one.score or 0.0) for one in nbest.hypotheses] for nbest in made]


def same(found: Lists, expected: Lists) -> None:
    assert [[text for text, _ in one] for one in found] == [[text for text, _ in one] for one in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose([score for _, score in one], [score for _, score in other], atol=2e-5)


def causal(folder: Path) -> None:
    save("llama", folder)


@pytest.mark.parametrize(
    ("kind", "write", "loading"),
    [
        ("{}", tiny_seq2seq.write_bart, {}),
        ("{}", tiny_seq2seq.write_t5, {}),
        ("{}", tiny_seq2seq.write_m2m, {"lang": "de", "source_lang": "de"}),
        ("causal:{}", causal, {}),
    ],
    ids=["lean", "transformers", "lean with languages", "causal"],
)
def test_lists_are_those_of_the_cpu(
    kind: str, write: Callable[[Path], Any], loading: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path)
    name = kind.format(tmp_path)
    texts = [text[:12] for text in TEXTS[::2]]
    expected = lists(name, "cpu", texts, **loading)
    with emulated() as device:
        same(lists(name, NAME, texts, **loading), expected)
    assert device.launches > 500


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_lists_of_the_shipped_model_are_those_of_the_cpu(penalty: float) -> None:
    expected = lists("shipped", prism_a=penalty)
    with emulated():
        same(lists("shipped", NAME, prism_a=penalty), expected)


def test_judged_lists_are_those_of_the_cpu() -> None:
    expected = lists("shipped", decoding=None)
    assert any(expected)
    with emulated():
        same(lists("shipped", NAME, decoding=None), expected)


def test_an_index_on_the_cpu_fails(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(values: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        return values[torch.arange(values.shape[0])[:, None], parents]

    monkeypatch.setattr(state, "rows", rows)
    with pytest.raises(RuntimeError, match="expected all tensors to be on the same device, found cpu and emulated:0"):
        lists("shipped", NAME)


@pytest.mark.parametrize(("name", "lang"), [("bart", None), ("t5", None), ("m2m", "de"), ("shipped", "en")])
def test_forced_scores_are_those_of_the_cpu(name: str, lang: str | None, tmp_path: Path) -> None:
    if name != "shipped":
        getattr(tiny_seq2seq, f"write_{name}")(tmp_path)
        name = str(tmp_path)

    def rows(device: str) -> list[Any]:
        scorer = load_scorer(name, device=device)
        read = lang if scorer.marks_sources else None
        # Targets that a model may write: float32 has no five digits after the point left where it says -13.
        pairs = [(a, b) for a in TEXTS for b in (a, a.partition(" ")[2] or a, a.rpartition(" ")[0] or a)]
        jobs = [(scorer.source(a, read), scorer.target(b, lang)) for a, b in pairs]
        return [*scorer.score(jobs, lang), scorer.dropout_scores(jobs[0], lang, samples=2, rate=0.1, seed=1)]

    expected = rows("cpu")
    with emulated():
        found = rows(NAME)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", ["shipped", "bart"])
def test_the_host_waits_twice_a_step_at_most(name: str, tmp_path: Path) -> None:
    """For what has ended, and for the words of what has: however many sentences and groups there are."""
    if name == "bart":
        name = str(tiny_seq2seq.write_bart(tmp_path))
    steps = 0

    def counted(self: PaperRule, step: Step, beams: Beams) -> Choice:
        nonlocal steps
        steps += 1
        return advance(self, step, beams)

    advance = PaperRule.advance
    with pytest.MonkeyPatch.context() as patch, emulated() as device:
        found = load_paraphraser(name, device=NAME, cache=False, dtype="float32")
        before = device.waits
        patch.setattr(PaperRule, "advance", counted)
        list(found.generate(TEXTS, 4, decoding=replace(SEARCH, beam=8, groups=4)))
    # Before the first step: sources, limits, what the rules read.
    assert steps > 8 and device.waits - before <= 2 * steps + 16, device.waited


class Coarse:
    """A model with few different scores, by the last token alone."""

    pad, unk, eos, start, vocab_size, max_target, normalized = 0, 1, 3, 2, 40, 12, True

    def __init__(self, seed: int, device: str = "cpu") -> None:
        values = torch.randint(-6, 0, (40, 40), generator=torch.Generator().manual_seed(seed)) / 4
        self.table, self.device = values.to(device), torch.device(device)

    def encode(self, sources: Sequence[Sequence[int]]) -> None:
        """Nothing of the sources is used."""

    def step(self, state: None, tokens: torch.Tensor) -> torch.Tensor:
        return self.table[tokens]

    def reorder(self, state: None, sentences: torch.Tensor, parents: torch.Tensor) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("semantics", ["paper", "fairseq", "hf"])
def test_equal_scores_are_in_order_on_a_device(semantics: Any) -> None:
    """Most places are contested, the last one too."""
    options = replace(SEARCH, beam=6, semantics=semantics, no_repeat_ngram=2 if semantics == "paper" else 0)
    for seed in range(3):
        sources, prefixes = [[4, 5, 3], [6, 3]], [[7], [8, 9]]
        expected = search(Coarse(seed), sources, options, prefixes)
        with emulated():
            assert search(Coarse(seed, NAME), sources, options, prefixes) == expected


@given(st.data())
def test_phrases_are_forbidden_as_on_the_cpu(data: st.DataObject) -> None:
    few = st.integers(1, 4)
    sources = data.draw(st.lists(st.lists(few, max_size=9), min_size=1, max_size=3))
    t = data.draw(st.integers(1, 9))
    prefixes = torch.tensor(
        data.draw(
            st.lists(
                st.lists(st.lists(few, min_size=t, max_size=t), min_size=2, max_size=2),
                min_size=len(sources),
                max_size=len(sources),
            )
        )
    )
    numbers, expected = torch.arange(len(sources)), torch.zeros(len(sources), 2, 6)
    NoAddedRepeats(sources, [4], 3)(numbers, prefixes, expected)
    with emulated():
        found = torch.zeros(len(sources), 2, 6, device=NAME)
        NoAddedRepeats(sources, [4], 3, NAME)(numbers.to(NAME), prefixes.to(NAME), found)
        assert found.tolist() == expected.tolist()


def test_batches_fill_what_memory_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (8 << 30, 80 << 30))
    assert spare_memory("cpu") is None
    assert spare_memory("cuda:1") == 4 << 30 and spare_memory("cuda:1", processes=2) == 2 << 30
    assert batch_limits(None, "cuda") == {"rows": sys.maxsize, "memory": 4 << 30}
    assert batch_limits(100, "cuda")["memory"] == 100 << 20
    scorer = load_scorer("shipped")
    before = scorer._read
    scorer._fill("cuda", 384)
    assert before == 1024 and scorer._read == scorer._positions == (4 << 30) // (4 * (64 * 384 + 4096)) > 30_000


@pytest.mark.parametrize("name", ["bert", "roberta", "shipped"])
def test_vectors_are_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    if name != "shipped":
        getattr(tiny_encoders, name)(tmp_path)
        name = str(tmp_path)

    def vectors(device: str) -> list[Any]:
        encoder = load_encoder(name, device)
        return [encoder.states(tokens.ids[None], [0, encoder.layers]) for tokens in encoder.tokens(TEXTS)]

    expected = vectors("cpu")
    with emulated():
        found = vectors(NAME)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)

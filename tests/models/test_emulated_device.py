"""What computes on an accelerator: every network on an emulated one, which refuses what CUDA refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_encoders
import tiny_seq2seq
import torch
from emulated import NAME, Device, emulated
from tiny_causal import save

from polyref.models.encoders import load_encoder
from polyref.models.scorers import load_scorer
from polyref.paraphrase import SearchOptions, load_paraphraser
from polyref.paraphrase.search import state

pytestmark = pytest.mark.usefixtures("quiet_transformers")

Lists = list[list[tuple[str, float]]]

SEARCH = SearchOptions(beam=4, groups=2, strength=0.5, max_len_a=0, max_len_b=12)
TEXTS = ["Nobody was hurt in the accident on Monday.", "The 3,000 people there got 1,000,000 euros.", "Yes."]


@pytest.fixture
def device() -> Iterator[Device]:
    with emulated() as device:
        yield device


def lists(name: str, device: str = "cpu", texts: Sequence[str] = TEXTS, **loading: Any) -> Lists:
    found = load_paraphraser(name, device=device, dtype="float32", cache=False, **loading)
    made = found.generate(texts, 2, decoding=SEARCH)
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


def test_lists_of_the_shipped_model_are_those_of_the_cpu() -> None:
    expected = lists("shipped")
    with emulated():
        same(lists("shipped", NAME), expected)


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
        jobs = [(scorer.source(a, read), scorer.target(b, lang)) for a in TEXTS for b in TEXTS]
        return [*scorer.score(jobs, lang), scorer.dropout_scores(jobs[0], lang, samples=2, rate=0.1, seed=1)]

    expected = rows("cpu")
    with emulated():
        found = rows(NAME)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


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

"""The filter ``fluency``: a causal language model's opinion of a candidate, on a real network of random weights."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_encoders

from polyref.augment.filters import read_filter
from polyref.errors import DataError, UsageError
from polyref.models.language_model import Causal
from polyref.models.opening import find

REFERENCE = "the cat sat on the mat"
CANDIDATES = ["the cat sat on a mat", "on the mat the cat sat", "cat mat", REFERENCE]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A causal language model with a byte-level vocabulary."""
    return tiny_encoders.gpt(tmp_path_factory.mktemp("gpt"))


def nats(gpt: str, text: str) -> float:
    """Log-probability of a text and its end, from a plain forward pass."""
    return float(tiny_encoders.forward_pass(gpt, text).sum())


def described(path: Path, **options: Any) -> Path:
    path.write_text(
        "[fluency]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items()), "utf-8"
    )
    return path


@pytest.mark.slow
def test_it_is_the_difference_of_two_log_probabilities(gpt: str, tmp_path: Path) -> None:
    (measure,) = read_filter(described(tmp_path / "mine.toml", model=gpt, min=-6)).measures
    assert measure.name == "fluency>=-6"
    values = measure.scorer.score([(REFERENCE, candidate) for candidate in CANDIDATES])
    expected = [nats(gpt, candidate) - nats(gpt, REFERENCE) for candidate in CANDIDATES]
    assert values == pytest.approx(expected, abs=1e-4) and values[-1] == 0
    # Neighbours do not matter, beyond the digits that are kept.
    assert measure.scorer.score([(REFERENCE, CANDIDATES[1])]) == pytest.approx(values[1:2], abs=1e-5)
    assert [measure.scorer.weight(value) for value in (1.5, -0.5)] == [1.0, math.exp(-0.5)]


@pytest.mark.slow
def test_augment_drops_what_is_less_likely_than_allowed(gpt: str, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (tmp_path / "refs.en").write_text(f"{REFERENCE}\n", "utf-8")
    (tmp_path / "made.txt").write_text("\n".join(CANDIDATES[:1]) + "\n", "utf-8")
    value = nats(gpt, CANDIDATES[0]) - nats(gpt, REFERENCE)
    for least, kept in ((value - 0.01, 1), (value + 0.01, 0)):
        chosen = described(tmp_path / "mine.toml", model=gpt, min=least)
        out = tmp_path / f"{kept}.jsonl"
        result = polyref(
            "augment",
            tmp_path / "refs.en",
            "--candidates",
            tmp_path / "made.txt",
            "--filter",
            chosen,
            "-k",
            2,
            "-o",
            out,
        )
        assert result.code == 0, result.err
        assert ("dropped: fluency>=" in result.err) == (not kept)
        assert len(json.loads(out.read_text("utf-8").splitlines()[1])["refs"]) == 1 + kept


@pytest.mark.slow
def test_less_precise_is_nearly_the_same_and_has_another_name(gpt: str, tmp_path: Path) -> None:
    exact = read_filter(described(tmp_path / "mine.toml", model=gpt, min=-6))
    near = read_filter(described(tmp_path / "mine.toml", model=gpt, min=-6, dtype="bfloat16"))
    assert exact.name != near.name
    pairs = [(REFERENCE, candidate) for candidate in CANDIDATES]
    values, rounded = (chain.measures[0].scorer.score(pairs) for chain in (exact, near))
    assert values != rounded and rounded == pytest.approx(values, abs=0.5)
    with pytest.raises(UsageError, match=r"mine.toml: \[fluency\]: shipped computes in float32 only, not in bfloat16"):
        read_filter(described(tmp_path / "mine.toml", model="shipped", min=-6, dtype="bfloat16"))
    with pytest.raises(
        UsageError, match=r"mine.toml: \[fluency\]: the type is 'int4', expected one of float32, bfloat16"
    ):
        read_filter(described(tmp_path / "mine.toml", model=gpt, min=-6, dtype="int4"))


@pytest.mark.slow
def test_an_encoder_is_no_language_model(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    """Transformers would give it a head of random weights."""
    folder = tiny_encoders.bert(tmp_path / "bert")
    (tmp_path / "refs.en").write_text(f"{REFERENCE}\n", "utf-8")
    (tmp_path / "made.txt").write_text(f"{CANDIDATES[0]}\n", "utf-8")
    chosen = described(tmp_path / "mine.toml", model=str(folder), min=-6)
    out = tmp_path / "out.jsonl"
    result = polyref(
        "augment", tmp_path / "refs.en", "--candidates", tmp_path / "made.txt", "--filter", chosen, "-k", 2, "-o", out
    )
    assert result.code == 1 and "no causal language model: its files lack cls.predictions" in result.err
    assert not out.exists()


@pytest.mark.slow
def test_totals_and_means_agree(gpt: str) -> None:
    model = Causal(find(gpt, "language model"), "cpu")
    texts = [*CANDIDATES, "", "cat", "cat"]
    lengths = [len(model._tokenizer(text, add_special_tokens=False)["input_ids"]) + 1 for text in texts]
    assert model.totals(texts) == pytest.approx(model.fluency(texts) * lengths, abs=1e-5)
    assert model.totals([]).shape == (0,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fluency]\nmin = -6", '[fluency] names no language model (model = "DIR", or a hub name)'),
        ("[fluency]\nmodel = 'x'", "[fluency] drops nothing and weighs nothing"),
        ("[fluency]\nmodel = 'x'\nmin = 'a'", "[fluency]: 'min' is 'a', expected a number"),
        ("[backward]\nmin = -6\ndtype = 'float32'", "[backward]: unknown key 'dtype'"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError) as error:
        read_filter(path)
    assert message in str(error.value) and "mine.toml" in str(error.value)

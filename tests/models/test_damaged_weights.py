"""NaN is never a score: weights that are no finite numbers are refused when they are read, and scores before they are
printed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from esim_fixtures import write_model
from model_readers import READERS, encode
from safetensors.torch import load_file, save_file
from tiny_encoders import bert
from tiny_models import state, symbols, write
from tiny_seq2seq import write_bart

from polyref.cache import Cache
from polyref.errors import DataError, ModelError
from polyref.metrics.base import Metric
from polyref.metrics.esim.card import read_card
from polyref.metrics.esim.network import load_network
from polyref.metrics.registry import get_metric
from polyref.metrics.statistics import Floats
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import load_encoder
from polyref.models.opening import SHIPPED, check_numbers
from polyref.models.scorers import load_scorer
from polyref.paraphrase import load_paraphraser
from polyref.references import Reference, ReferenceSet

pytestmark = pytest.mark.usefixtures("quiet_transformers")
WITH_WEIGHTS = [name for name in READERS if name not in ("tokens", "generation")]


def _damage(file: Path, value: float = float("nan"), name: str = "") -> None:
    """Put a value into one place of a weight."""
    tensors = load_file(file)
    chosen = tensors[name or next(one for one in sorted(tensors) if one.endswith("weight"))]
    chosen.view(-1)[chosen.numel() // 2] = value
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("value", [float("nan"), float("-inf")], ids=["NaN", "infinity"])
@pytest.mark.parametrize("reader", WITH_WEIGHTS)
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, reader: str, value: float) -> None:
    read, write_folder = READERS[reader]
    folder = tmp_path / "model"
    write_folder(folder)
    read(folder)
    shutil.copytree(folder, tmp_path / "damaged")
    _damage(tmp_path / "damaged" / "model.safetensors", value)
    with pytest.raises(ModelError, match=rf"weight '.+' holds {value} \(float32\), expected finite numbers") as raised:
        read(tmp_path / "damaged")
    assert str(tmp_path / "damaged") in str(raised.value)


def test_fairseq_weights_that_are_no_numbers_are_refused(tmp_path: Path, spm: bytes) -> None:
    """But for what fairseq keeps beside them: it does not set that to anything."""
    weights = state(len(symbols(spm)) + 4)
    weights["encoder.embed_positions._float_tensor"] = torch.tensor([float("nan")])
    write(tmp_path / "whole", spm, weights=weights)
    load_paraphraser(tmp_path / "whole", lang="en")
    weights["decoder.layers.0.fc1.weight"][0, 0] = float("nan")
    write(tmp_path / "damaged", spm, weights=weights)
    with pytest.raises(ModelError, match=r"checkpoint.pt: weight 'decoder.layers.0.fc1.weight' holds nan"):
        load_paraphraser(tmp_path / "damaged", lang="en")


def test_shipped_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED / "en", tmp_path / "en")
    config = json.loads((tmp_path / "en" / "config.json").read_text("utf-8"))
    (tmp_path / "en" / "config.json").write_text(json.dumps({**config, "strength": float("nan")}), "utf-8")
    with pytest.raises(ModelError, match="strength is nan"):
        load_pointer(tmp_path / "en")
    (tmp_path / "en" / "config.json").write_text(json.dumps(config), "utf-8")
    scale = next(name for name in load_file(tmp_path / "en" / "model.safetensors") if name.endswith(".scale"))
    _damage(tmp_path / "en" / "model.safetensors", name=scale)
    with pytest.raises(ModelError, match=r"model.safetensors: weight '.+' holds nan"):
        load_pointer(tmp_path / "en")


def test_esim_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", tmp_path / "bert")
    _damage(folder / "model.safetensors", float("inf"), "gamma")
    with pytest.raises(ModelError, match=r"model.safetensors: weight 'gamma' holds inf"):
        load_network(read_card(folder))


def test_weights_that_half_precision_does_not_hold_are_refused(tmp_path: Path) -> None:
    folder = write_bart(tmp_path / "bart")
    _damage(folder / "model.safetensors", 1e5, "model.decoder.layers.0.fc1.weight")
    load_scorer(folder)
    with pytest.raises(ModelError, match=r"holds inf \(float16\).*With half precision, try float32"):
        load_scorer(folder, dtype="float16")


def test_the_command_line_gives_no_score_of_damaged_weights(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    folder = bert(tmp_path / "bert")
    _damage(folder / "model.safetensors", name="encoder.layer.0.output.dense.weight")
    (tmp_path / "text").write_text("the cat sat\n", "utf-8")
    out = polyref("score", tmp_path / "text", "-i", tmp_path / "text", "-m", f"bertscore(model={folder},layer=2)")
    assert (out.code, out.out) == (1, "")
    assert "weight 'encoder.layer.0.output.dense.weight' holds nan" in out.err


# -- vectors, statistics and scores ------------------------------------------------------------------------------------


def test_vectors_that_are_no_numbers_are_refused_and_not_read_from_the_disk(tmp_path: Path) -> None:
    encoder = load_encoder(str(bert(tmp_path / "bert")))
    cache = Cache(tmp_path / "cache")
    embeddings = Embeddings(encoder, (1,), cache=cache)
    (expected,) = embeddings.encode(["the cat"])
    (key,) = embeddings._keys(["the cat"]).values()
    cache.put({key: np.full(expected.shape, np.nan, dtype=np.float32).tobytes()})
    again = Embeddings(encoder, (1,), cache=cache)
    assert np.array_equal(again.encode(["the cat"])[0], expected)
    large = bert(tmp_path / "large")
    _damage(large / "model.safetensors", 1e6, "encoder.layer.0.output.LayerNorm.bias")
    assert np.isfinite(encode(large)).all()
    with pytest.raises(ModelError, match="large gives vectors that are no finite float16 for 'the cat'"):
        Embeddings(load_encoder(str(large)), (1,), dtype="float16").encode(["the cat"])


@dataclass(frozen=True)
class Odd(Metric):
    """Counts the letters of outputs, and gives ``value`` where there are three."""

    value: float = float("nan")
    counted: bool = True

    @property
    def name(self) -> str:
        return "odd"

    @property
    def label(self) -> str:
        return "Odd"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("letters",)

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def __post_init__(self) -> None:
        pass

    def _count(self, texts: Any) -> np.ndarray:
        letters = np.array([[float(len(output)) for output in system] for system in texts.systems])
        if self.counted:
            letters[letters == 3] = self.value
        return np.broadcast_to(letters, (len(texts.cuts), *letters.shape))[..., None]

    def _score(self, values: np.ndarray, *, sentence: bool) -> Floats:
        wanted = values[..., 0]
        return np.where(wanted == 3, self.value, wanted)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return []


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["NaN", "infinity"])
def test_no_metric_gives_a_score_that_is_no_number(value: float) -> None:
    references = ReferenceSet.from_texts([["a"], ["b"]])
    outputs = {"A": ["one more", "text"], "B": ["text", "one"]}
    with pytest.raises(DataError, match=f"Odd gives {value} for segment 2 of B, expected a finite number"):
        Odd(value).statistics(outputs, references)
    late = Odd(value, counted=False)
    stats = late.statistics(outputs, references)
    with pytest.raises(DataError, match=f"Odd gives {value} for segment 2 of B, expected a finite number"):
        late.aggregate(stats, k=0)
    assert late.aggregate(stats, k=0, over=[0]).system.tolist() == [8, 4]
    sums = late.statistics({"A": ["a", "bc"]}, references)  # three letters together
    for call in (late.aggregate, late.corpus):
        with pytest.raises(DataError, match=f"Odd gives {value} for A, expected a finite number"):
            call(sums, k=0)


def test_a_segment_without_a_reference_has_no_score() -> None:
    metric = get_metric("chrf")
    references = ReferenceSet.from_texts([["a"], []])
    stats = metric.statistics({"A": ["a", "b"]}, references, allow_missing=True)
    scores = metric.aggregate(stats, k=0)
    assert scores.segment[0, 0] > 0 and np.isnan(scores.segment[0, 1]) and scores.missing == 1
    nothing = metric.aggregate(stats, k=0, over=[1])
    assert np.isnan(nothing.system).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["NaN", "infinity"])
def test_references_have_finite_weights_and_log_probabilities(value: float) -> None:
    for what in ("weight", "logprob"):
        with pytest.raises(ValueError, match=f"{what} is {value}, expected a finite number"):
            Reference("a", **{what: value})


def test_a_token_may_be_never_written() -> None:
    bias = torch.tensor([0.5, -math.inf])
    for name in ("output.bias", "final_logits_bias"):
        check_numbers([(name, bias)])
        for other in (math.inf, math.nan):
            with pytest.raises(ModelError, match="expected finite numbers"):
                check_numbers([(name, torch.tensor([other, -math.inf]))])
    with pytest.raises(ModelError, match="expected finite numbers"):
        check_numbers([("fc1.bias", bias)])

"""BERTScore and pooled vectors by several processes: the same numbers as by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tiny_encoders
import torch

from polyref.engine import Engine
from polyref.errors import ModelError
from polyref.metrics.embedding.bertscore import BERTScore
from polyref.metrics.embedding.laser_lm import Pooled
from polyref.models import embeddings
from polyref.models.embeddings import Encoding, VectorWork
from polyref.models.encoders import load_encoder
from polyref.processes import available
from polyref.references import ReferenceSet

pytestmark = pytest.mark.slow  # a process takes a moment to start

TEXTS = [f"{what} {number} times." for number in range(20) for what in ("He called", "the old bell rang", "No, only")]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little is enough for several processes; and all compute with one thread, as those do."""
    monkeypatch.setattr(embeddings, "WORTH", 10)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoders.bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.mark.parametrize("windows", [False, True])
def test_bertscore(bert: str, windows: bool) -> None:
    references = ReferenceSet.from_texts(list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)))
    systems = {"A": [*([" ".join(TEXTS[:9])] * windows), *TEXTS[::-1]][:60], "B": [text.lower() for text in TEXTS]}
    options = {"idf": "all", "layer": 2, "cache": False, "windows": windows}
    one, two = (BERTScore(model=bert, jobs=jobs, **options) for jobs in (1, 2))
    assert two.vectors.piece(1000) == 1000 // 16 and one.vectors.piece(1000) is None
    alone, together = (metric.statistics(systems, references) for metric in (one, two))
    assert np.array_equal(alone.values, together.values)
    assert one.vectors.embeddings.encoded > 0 and not two.vectors.embeddings.encoded, "others encode"


def test_pooled_vectors(bert: str) -> None:
    encoder = load_encoder(bert)
    encoding = Encoding(bert, encoder.digest, 2, cache=False)
    alone, together = (Pooled(VectorWork(encoding, Engine("local", jobs))).vectors(TEXTS) for jobs in (1, 2))
    assert all(np.array_equal(alone[text], together[text]) for text in TEXTS)


def test_another_model_with_a_worker_is_an_error(bert: str) -> None:
    metric = BERTScore(model=bert, layer=2, cache=False, jobs=2)
    metric.__dict__["vectors"] = VectorWork(Encoding("shipped", metric.encoder.digest, 2), Engine("local", 2))
    with pytest.raises(ModelError, match=r"has sha \w{12} with a worker, expected \w{12}"):
        metric.statistics({"A": TEXTS}, ReferenceSet.from_texts([[text] for text in TEXTS]))


def test_one_process_a_core_where_there_is_enough_to_do() -> None:
    vectors = BERTScore(cache=False).vectors
    assert vectors.piece(19) is None, "one process alone"
    assert (vectors.piece(10_000) is not None) == (available() > 1)

"""Forced scoring by a model's name: what does not depend on a metric."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import TEXT, write

from polyref.errors import ModelError, UsageError
from polyref.models.forced import seed_of
from polyref.models.scorers import load_scorer


@pytest.fixture
def folder(tmp_path: Path, spm: bytes) -> Path:
    return write(tmp_path / "m", spm)


def test_fairseq_models_score_with_their_tag_fed_and_not_counted(folder: Path) -> None:
    scorer = load_scorer(folder)
    jobs = [(scorer.source(a), scorer.target(b)) for a in (*TEXT[:2], "") for b in (*TEXT[:2], "")]
    for lang, tag in (("en", 4), ("de", 5)):
        found = scorer.score(jobs, lang)
        for (source, target), row in zip(jobs, found):
            assert len(row) == len(target)
            expected = scorer.compute(([source], [(tag, *target)], None))[0][1:]
            np.testing.assert_allclose(row, expected, atol=1e-5)
    assert scorer.written(None) == "en" and scorer.read("xx") is None  # sources carry no tag


def test_stretches_keep_encoder_states_within_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = load_scorer(folder)
    jobs = [(scorer.source(a), scorer.target(b)) for a in TEXT for b in TEXT]
    whole = scorer.score(jobs, "en")
    monkeypatch.setattr(scorer, "_stretch", 30)
    parts = list(scorer._stretches(jobs))
    assert len(parts) > 2 and [job for part in parts for job in part] == jobs
    for part in parts:
        sources = {source for source, _ in part}
        assert sum(map(len, sources)) <= 30 or len(sources) == 1
    for one, two in zip(whole, scorer.score(jobs, "en")):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_long_texts_are_cut_and_known(folder: Path) -> None:
    scorer = load_scorer(folder)
    text = " ".join(TEXT)
    assert scorer.is_cut("source", text) and scorer.is_cut("target", text) and not scorer.is_cut("source", "river")
    source, target = scorer.source(text), scorer.target(text)
    assert len(source) == scorer.max_source == 40
    assert len(target) == scorer.max_target - 1 == 29  # room for the tag
    assert source[-1] == target[-1] == 2
    assert np.isfinite(scorer.score([(source, target)], "en")[0]).all()


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    scorer = load_scorer(folder)
    with pytest.raises(UsageError, match="language 'fr' is unknown to the model, expected one of de, en"):
        scorer.written("fr")
    shipped = load_scorer("shipped")
    assert shipped.written(None) == "en" and shipped.monolingual
    with pytest.raises(UsageError, match="language 'de' is unknown to the model"):
        shipped.written("de")
    with pytest.raises(UsageError, match="shipped computes in float32 only"):
        load_scorer("shipped", dtype="float16")
    with pytest.raises(UsageError, match="device 'moon' cannot be used"):
        load_scorer("shipped", device="moon")
    with pytest.raises(ModelError, match=r"neither checkpoint\.pt"):
        load_scorer(tmp_path)


def test_seeds_are_the_same_everywhere() -> None:
    assert seed_of(1, "source", "a text") == 1044547953848934590  # the first 63 bits of sha256sum
    assert seed_of(1, (1, 2)) != seed_of(2, (1, 2))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_cpus_numbers(folder: Path) -> None:
    for name, lang in ((str(folder), "en"), ("shipped", "en")):
        here, there = load_scorer(name), load_scorer(name, device="cuda")
        jobs = [(here.source(a), here.target(b)) for a in TEXT for b in TEXT]
        for one, two in zip(here.score(jobs, lang), there.score(jobs, lang)):
            np.testing.assert_allclose(one, two, atol=1e-3)
        draws = [m.dropout_scores(jobs[0], lang, samples=3, rate=0.1, seed=1) for m in (here, there)]
        np.testing.assert_allclose(*draws, atol=1e-3)

"""Forced scores in several processes and from the cache: the same digits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_seq2seq
from tiny_models import TEXT, state, symbols, write

from polyref.cache import Cache
from polyref.engine import Engine
from polyref.metrics.likelihood.prism import PrismRef
from polyref.models import forced
from polyref.models.forced import Job, Tokens
from polyref.models.scorers import load_scorer

WORDS = ("harbour", "station", "market", "mill", "garden", "bridge", "castle", "school", "theatre")


def jobs_of(scorer: object) -> list[Job]:
    texts = [f"The {WORDS[n % 9]} opens at {n % 11} and has room for {n} people." for n in range(60)]
    tokens = [(scorer.source(a), scorer.target(b)) for a, b in zip(texts, texts[7:] + texts[:7], strict=True)]  # type: ignore[attr-defined]
    return tokens


@pytest.mark.slow
def test_the_same_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyref.models.forced._STRETCH", 200)
    plain = load_scorer("shipped", engine=Engine(jobs=1))
    jobs = jobs_of(plain)
    expected = plain.score(jobs)

    # In two processes.
    monkeypatch.setattr(forced, "WORTH", 100)
    several = load_scorer("shipped", engine=Engine(jobs=2))
    assert all(np.array_equal(a, b) for a, b in zip(several.score(jobs), expected, strict=True))
    assert several.others is not None and several.others._workers is not None
    several.others.close()

    # Into the cache, and out of it: a part that was computed before, and all of it.
    cache = Cache(tmp_path)
    first = load_scorer("shipped", engine=Engine(jobs=1), cache=cache)
    assert all(np.array_equal(a, b) for a, b in zip(first.score(jobs), expected, strict=True))
    again = load_scorer("shipped", engine=Engine(jobs=1), cache=cache)
    computed: list[int] = []
    monkeypatch.setattr(again, "compute", lambda stretch: computed.append(1) or type(again).compute(again, stretch))
    assert all(np.array_equal(a, b) for a, b in zip(again.score(jobs), expected, strict=True))
    assert computed == []
    again.score(jobs[:7])
    assert computed == []
    cache.close()


def test_a_job_is_kept_by_itself(tmp_path: Path, spm: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another system costs its own jobs, another text those that it is in."""
    scorer = load_scorer(write(tmp_path / "m", spm), cache=Cache(tmp_path / "cache"))
    computed: list[tuple[Tokens, Tokens]] = []
    own = scorer.compute
    monkeypatch.setattr(scorer, "compute", lambda part: computed.extend(zip(*part[:2], strict=True)) or own(part))

    def score(pairs: list[tuple[str, str]]) -> int:
        computed.clear()
        jobs = [(scorer.source(a), scorer.target(b)) for one, other in pairs for a, b in ((one, other), (other, one))]
        alone = load_scorer(tmp_path / "m").score(jobs, "en")
        assert all(np.array_equal(a, b) for a, b in zip(scorer.score(jobs, "en"), alone, strict=True))
        return len(computed)

    first = [(TEXT[0], TEXT[1]), (TEXT[2], TEXT[3])]
    assert score(first) == 4
    assert score([*first, (TEXT[0], TEXT[4]), (TEXT[2], TEXT[1])]) == 4
    assert score([first[0], (TEXT[2], "nobody has seen the mill")]) == 2
    assert score(first) == 0


@pytest.mark.parametrize("name", ["shipped", "fairseq", "bart", "t5"])
def test_a_job_has_the_same_digits_in_any_batch(
    name: str, tmp_path: Path, spm: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "fairseq":
        write(tmp_path, spm)
    elif name != "shipped":
        getattr(tiny_seq2seq, f"write_{name}")(tmp_path)
    scorer = load_scorer("shipped" if name == "shipped" else tmp_path)
    lang = "en" if scorer.languages else None
    draw = random.Random(4)
    words = " ".join(TEXT).split()
    texts = ["", *(" ".join(draw.choices(words, k=draw.choice((1, 2, 3, 4, 5, 8, 9, 14, 23)))) for _ in range(12))]
    sources, targets = [scorer.source(text) for text in texts], [scorer.target(text, lang) for text in texts]
    jobs = list(dict.fromkeys((draw.choice(sources), draw.choice(targets)) for _ in range(40)))
    expected = dict(zip(jobs, scorer.score(jobs, lang), strict=True))
    for most, count in ((1024, 1), (1024, 2), (1024, 3), (40, 15), (100, 30)):
        monkeypatch.setattr(scorer, "_positions", most)
        monkeypatch.setattr(scorer, "_read", most)
        part = draw.sample(jobs, count)
        for job, row in zip(part, scorer.score(part, lang), strict=True):
            assert np.array_equal(row, expected[job]), (len(job[0]), len(job[1]))


def test_another_model_reads_nothing(tmp_path: Path, spm: bytes) -> None:
    """Two models with the same words, so that all token ids are the same."""
    cache = Cache(tmp_path / "cache")
    changed = {name: -value for name, value in state(len(symbols(spm)) + 4).items()}
    folders = [write(tmp_path / "one", spm), write(tmp_path / "other", spm, weights=changed)]
    plain = [load_scorer(folder) for folder in folders]
    jobs = [(plain[0].source(a), plain[0].target(b)) for a in TEXT[:2] for b in TEXT[:2]]
    expected = [scorer.score(jobs, "en") for scorer in plain]
    assert not np.allclose(expected[0][0], expected[1][0])
    for folder, rows in zip(folders, expected, strict=True):
        found = load_scorer(folder, cache=cache).score(jobs, "en")
        assert all(np.array_equal(a, b) for a, b in zip(found, rows, strict=True))


@pytest.mark.parametrize(
    ("fact", "other"),
    [("digest", "0" * 12), ("dtype", "bfloat16"), ("note", "closeness:3"), ("max_source", 39), ("max_target", 29)],
)
def test_what_kept_scores_depend_on(
    fact: str, other: Any, tmp_path: Path, spm: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = load_scorer(write(tmp_path / "m", spm), cache=Cache(tmp_path / "cache"))
    jobs = [(scorer.source(TEXT[0]), scorer.target(TEXT[1]))]
    computed: list[int] = []
    own = scorer.compute
    monkeypatch.setattr(scorer, "compute", lambda stretch: computed.append(1) or own(stretch))
    scorer.score(jobs, "en")
    scorer.score(jobs, "en")
    assert len(computed) == 1
    scorer.score(jobs, "de")
    assert len(computed) == 2, "another language"
    monkeypatch.setattr(forced, "arithmetic", lambda *_: ("another library",))
    scorer.score(jobs, "en")
    assert len(computed) == 3, "other sums"
    monkeypatch.setattr(scorer, fact, other)
    scorer.score(jobs, "en")
    assert len(computed) == 4, fact
    monkeypatch.setattr(forced, "__version__", "0")
    scorer.score(jobs, "en")
    assert len(computed) == 5, "another version"
    tag, _ = scorer._begin("en")
    monkeypatch.setattr(scorer, "_begin", lambda lang: (tag, 1))
    scorer.score(jobs, "en")
    assert len(computed) == 6, "another first input of the decoder"


def test_engine_and_cache_are_no_part_of_the_signature() -> None:
    elsewhere = PrismRef(jobs=2, engine="ray", address="auto", gpus=0.5, cache=False)
    assert elsewhere.options == PrismRef().options

"""``polyref score`` with metrics that run a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import pearsonr

GOOD = ["the mill near the river is old", "nobody has seen the ferry", "the boats swing round"]
POOR = ["bread", "", "the ducks throw the old bridge"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {
        "refA.en": ["the old mill stands near the river", "nobody has seen the ferry today", "the boats turn"],
        "refB.en": ["near the river is an old mill", "the ferry was not seen", "boats swing with the wind"],
        "src": ["ein alter mill", "niemand", "die boats"],
        "good": GOOD,
        "poor": POOR,
    }
    for name, lines in texts.items():
        Path(name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tiny_seq2seq import write_bart

    return str(write_bart(tmp_path_factory.mktemp("models") / "bart"))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tiny_seq2seq import write_m2m

    return str(write_m2m(tmp_path_factory.mktemp("models") / "m2m"))


@pytest.mark.slow
def test_prism_with_the_shipped_model(files: Path, polyref: Callable[..., Any]) -> None:
    done = polyref("score", "refA.en", "refB.en", "-i", "good", "poor", "-m", "prism", "-w", "4", "-v")
    assert done.code == 0 and "Prism-ref|model:polyref-en|sha:" in done.out and "|combine:mean|" in done.out
    rows = polyref("score", "refA.en", "refB.en", "-i", "good", "poor", "-m", "prism", "--json").json()["rows"]
    from polyref.metrics.likelihood.prism import PrismRef
    from polyref.references import ReferenceSet

    references = ReferenceSet.from_texts(
        list(zip(*(Path(name).read_text().splitlines() for name in ("refA.en", "refB.en"))))
    )
    metric = PrismRef()
    expected = metric.aggregate(metric.statistics({"good": GOOD, "poor": POOR}, references), k=0)
    assert [row["score"] for row in rows] == pytest.approx(expected.system.tolist(), abs=1e-6)
    assert rows[0]["score"] > rows[1]["score"]
    best = polyref("score", "refA.en", "refB.en", "-i", "good", "-m", "prism", "--combine", "max", "--json").json()
    assert best["rows"][0]["score"] > rows[0]["score"] and "|combine:max|" in best["rows"][0]["signature"]


@pytest.mark.slow
def test_prism_src_reads_sources(files: Path, translator: str, polyref: Callable[..., Any]) -> None:
    command = ["score", "refA.en", "-i", "good", "poor", "-m", "prism-src", "--prism-model", translator]
    done = polyref(*command, "--source-lang", "de", "--source", "src", "--json", "--sentence")
    assert done.code == 0
    rows = done.json()["rows"]
    assert len(rows) == 6 and all(row["score"] < 0 for row in rows) and rows[0]["name"] == "Prism-src"
    refused = polyref(*command, "--source-lang", "de")
    assert refused.code == 1 and "segment 1 has no source, which Prism-src reads (give the sources (" in refused.err
    refused = polyref("score", "refA.en", "-i", "good", "-m", "prism-src", "--source", "src")
    assert refused.code == 2 and "polyref-en reads and writes one language" in refused.err
    refused = polyref("score", "refA.en", "-i", "good", "-m", "prism", "--source", "src")
    assert refused.code == 2 and "--source is given, but none of -m prism reads it" in refused.err
    Path("short").write_text("ein\n")
    refused = polyref(*command, "--source-lang", "de", "--source", "short")
    assert refused.code == 1 and "short" in refused.err


@pytest.mark.slow
def test_bartscore_with_prompts_and_tests(files: Path, model: str, polyref: Callable[..., Any]) -> None:
    command = ["score", "refA.en", "-i", "good", "poor", "-m", "bartscore", "--bartscore-model", model]
    done = polyref(*command, "--bartscore-prompt", "the ducks", "--bartscore-prompt", "bread", "--json")
    assert done.code == 0
    assert "|prompts:source(the ducks+bread)|" in done.json()["rows"][0]["signature"]
    Path("twin").write_text(Path("good").read_text())
    for test in ("--paired-bs", "--paired-ar"):
        rows = polyref("score", "refA.en", "-i", "good", "twin", *command[5:], test, "--json").json()["rows"]
        assert rows[1]["p_value"] == 1
    refused = polyref("score", "refA.en", "-i", "good", "-m", "bartscore")
    assert refused.code == 2 and "bartscore needs a model" in refused.err
    refused = polyref(*command[:6], "prism", "--bartscore-direction", "recall")
    assert refused.code == 2 and "--bartscore-direction is given, but none of prism takes it" in refused.err
    done = polyref(
        "score", "refA.en", "-i", "good", "-m", "bartscore-src", "--bartscore-model", model, "--source", "src", "-v"
    )
    assert done.code == 0 and "BARTScore-src|model:bart|" in done.out


@pytest.mark.slow
def test_peer_evaluation_with_draws(files: Path, translator: str, polyref: Callable[..., Any]) -> None:
    command = ["score", "refA.en", "-i", "good", "poor", "-m", "peer", "--peer-model", translator, "--source", "src"]
    draws = ["--source-lang", "de", "--peer-samples", "3", "--peer-subwords", "0.2", "--peer-dropout", "0.1"]
    first, again = (polyref(*command, *draws, "--json") for _ in range(2))
    assert first.code == 0 and first.out == again.out
    assert "|samples:3*mean|dropout:0.1|subwords:0.2/64|seed:1|" in first.json()["rows"][0]["signature"]
    other = polyref(*command, *draws, "--peer-seed", "2", "--json")
    assert other.json()["rows"][0]["score"] != first.json()["rows"][0]["score"]


@pytest.mark.slow
def test_evaluate_gives_metrics_the_sets_sources(tmp_path: Path, translator: str, polyref: Callable[..., Any]) -> None:
    home = Path(__file__).resolve().parent.parent / "eval" / "minimal"
    command = ["evaluate", home, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "--json"]
    done = polyref(*command, "-m", "prism-src", "--prism-model", translator, "--source-lang", "de")
    assert done.code == 0
    rows = done.json()["rows"]
    assert {row["level"] for row in rows} == {"sys", "seg"}
    assert all(row["signature"].startswith("Prism-src|model:m2m|") for row in rows)
    # What `score` gives for the same files correlates as said.
    human = dict(line.split() for line in (home / "human-scores/de-en.mqm.sys.score").read_text().splitlines())
    names = [name for name in human if name != "refB"]
    found = polyref(
        *["score", home / "references/de-en.refA.txt", "-m", "prism-src", "--prism-model", translator],
        *["--source-lang", "de", "--source", home / "sources/de-en.txt", "--json"],
        *(part for name in names for part in ("-i", home / "system-outputs/de-en" / f"{name}.txt")),
    ).json()["rows"]
    (pearson,) = [row["value"] for row in rows if row["level"] == "sys" and row["statistic"] == "pearson"]
    expected = pearsonr([row["score"] for row in found], [float(human[name]) for name in names]).statistic
    assert pearson == pytest.approx(expected, abs=1e-6)

"""The modules for Hugging Face evaluate, loaded from their folders, and columns of datasets as references."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

import polyref
from polyref.errors import UsageError
from polyref.references import ReferenceSet

FOLDERS = sorted(path for path in (Path(__file__).parent.parent / "integrations/evaluate").iterdir() if path.is_dir())
METRICS = {"parbleu": "bleu", "parchrf": "chrf", "parbertscore": "bertscore", "parprism": "prism"}
OUTPUTS = ["Rain fell all night.", "Nobody was hurt."]
HUMAN = [["It rained all night."], ["No one was hurt.", "There were no injuries."]]
ADDED = [["Rain was falling all night.", "It was raining the whole night."], ["Nobody got hurt."]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package, without a network and with caches of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE"):
            patch.setenv(name, "1")
        package = pytest.importorskip("evaluate", reason="needs evaluate and datasets: pip install evaluate datasets")
        folder = tmp_path_factory.mktemp("evaluate")
        patch.setattr("evaluate.config.HF_METRICS_CACHE", str(folder / "metrics"))
        patch.setattr("evaluate.config.HF_MODULES_CACHE", str(folder / "modules"))
        patch.syspath_prepend(str(folder / "modules"))
        yield package


@pytest.fixture(autouse=True)
def fresh_imports() -> None:
    """A module that is written right after another one is seen, too: folders' times have steps of milliseconds."""
    invalidate_caches()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_module_gives_what_polyref_gives(evaluate: Any, folder: Path) -> None:
    metric = evaluate.load(str(folder))
    references = ReferenceSet.from_texts(HUMAN, paraphrases=ADDED)
    for k in (None, 0, 1):
        found = metric.compute(predictions=OUTPUTS, references=HUMAN, paraphrases=ADDED, k=k, segments=True)
        expected = polyref.score(OUTPUTS, references, METRICS[folder.name], 2 if k is None else k)
        assert found["score"] == pytest.approx(expected.rows[0]["score"], rel=1e-6)
        assert found["segments"] == pytest.approx([row["score"] for row in expected.segment.rows], rel=1e-6)
        assert found["signature"] == expected.rows[0]["signature"] and found["name"] == expected.rows[0]["name"]


def test_without_paraphrases_the_scores_are_those_of_sacrebleu(evaluate: Any) -> None:
    one = [texts[0] for texts in HUMAN]
    for folder, peer in ((FOLDERS[1], sacrebleu.BLEU()), (FOLDERS[2], sacrebleu.CHRF())):
        metric = evaluate.load(str(folder))
        expected = peer.corpus_score(OUTPUTS, [one]).score
        assert metric.compute(predictions=OUTPUTS, references=one)["score"] == expected
        for texts, reference in zip(OUTPUTS, one, strict=True):
            metric.add(prediction=texts, reference=reference)
        assert metric.compute()["score"] == expected


def test_options_reach_the_metric(evaluate: Any) -> None:
    metric = evaluate.load(str(FOLDERS[2]))
    assert metric.compute(predictions=OUTPUTS, references=HUMAN, word_order=2)["name"] == "chrF++"
    with pytest.raises(UsageError, match="word_ordr"):
        metric.compute(predictions=OUTPUTS, references=HUMAN, word_ordr=2)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_example_of_the_card_runs(evaluate: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = (folder / "README.md").read_text("utf-8")
    assert card.startswith(f"---\ntitle: {folder.name[:3]}")
    monkeypatch.chdir(folder.parent.parent.parent)
    (program,) = re.findall(r"^```python\n(.*?)^```", card, re.S | re.M)
    exec(program, {})
    assert "polyref\n" in (folder / "requirements.txt").read_text()


def test_the_folders_are_the_four_modules() -> None:
    assert [folder.name for folder in FOLDERS] == sorted(METRICS)


def test_references_from_columns_of_datasets(evaluate: Any) -> None:
    datasets = import_module("datasets")
    padded = [["It rained all night.", None], ["No one was hurt.", "There were no injuries."]]
    data = datasets.Dataset.from_dict(
        {"output": OUTPUTS, "human": HUMAN, "padded": padded, "one": [h[0] for h in HUMAN]}
    )
    expected = polyref.score(OUTPUTS, HUMAN).rows
    for kind in (None, "numpy", "pandas"):
        view = data.with_format(kind)
        for name in ("human", "padded"):
            assert polyref.score(view["output"], view[name]).rows == expected
        assert polyref.score(view["output"], view["one"]).rows == polyref.score(OUTPUTS, [h[0] for h in HUMAN]).rows
    assert polyref.inspect(data["human"]).segments == 2
    frame = data.to_pandas()
    assert polyref.score(frame["output"], frame["padded"]).rows == expected
    made = ReferenceSet.from_texts(data["human"], paraphrases=data["padded"])
    assert [len(segment.extras) for segment in made] == [1, 2]
    assert np.isfinite(expected[0]["score"])

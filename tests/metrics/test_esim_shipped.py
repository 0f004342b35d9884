"""The model that comes with polyref."""

from __future__ import annotations

import json
import warnings

from polyref.metrics.esim.card import find_model
from polyref.metrics.esim.metric import ESIM
from polyref.metrics.registry import get_metric
from polyref.references import ReferenceSet


def test_the_shipped_model() -> None:
    metric = get_metric("esim", cache=False)
    assert isinstance(metric, ESIM)
    folder = find_model("esim-en")
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 5_000_000
    assert metric.card.encoder["load"] == "shipped"
    figures = json.loads((folder / "config.json").read_text("utf-8"))
    assert figures["sha256"] == metric.card.sha256
    page = (folder / "MODEL_CARD.md").read_text("utf-8")
    for name in figures["evaluation"]:
        assert name in page
    refs = ReferenceSet.from_texts([["The old bridge was closed for repairs on Monday."]])
    outputs = {
        "good": ["On Monday the old bridge was closed for repair."],
        "other": ["Most of the apples at the market were sold by noon."],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = metric.aggregate(metric.statistics(outputs, refs), k=0)
    assert scores.system[0] > scores.system[1]

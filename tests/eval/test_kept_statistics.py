"""Statistics that are kept between runs: what they were counted from decides which are read."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyref.cache import Cache
from polyref.eval import series
from polyref.eval.series import ComputedSeries
from polyref.metrics import get_metric
from polyref.references import Reference, ReferenceSet, Segment

REFERENCES = ReferenceSet.from_texts(
    [["The ferry left the harbour on time."], ["Nobody saw the old mill that day."]],
    paraphrases=[["The ferry sailed from the harbour on time."], ["No one saw the old mill."]],
)
OUTPUTS = {
    "Ash": ["The ferry left the harbour late.", "Nobody saw the mill that day."],
    "Birch": ["A ferry left on time.", "They saw the old mill that day."],
}


def scored(
    cache: Cache | None, name: str, outputs: Any = OUTPUTS, references: ReferenceSet = REFERENCES, **options: Any
) -> Any:
    """Scores of all systems and segments, for no added reference and for one."""
    computed = ComputedSeries(get_metric(name, **options), outputs, references, [1], cache=cache)
    systems = list(OUTPUTS)
    return [(computed.system(systems, k, None).tolist(), computed.segment(systems, k).tolist()) for k in (0, 1)]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_other_outputs_are_counted_again(name: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    before = scored(cache, name)
    first, second = OUTPUTS["Ash"]
    for changed in (
        {**OUTPUTS, "Ash": ["The ferry sank.", second]},  # as many, and others
        {**OUTPUTS, "Ash": [second, first]},
        dict(zip(OUTPUTS, reversed(OUTPUTS.values()), strict=True)),
    ):
        expected = scored(None, name, changed)
        assert expected != before
        assert scored(cache, name, changed) == expected
    assert scored(cache, name) == before == scored(None, name)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_other_references_are_counted_again(name: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    before = scored(cache, name)
    (first, second), (added, more) = (one.originals for one in REFERENCES), (one.extras for one in REFERENCES)
    for changed in (
        [(*second, *added), (*first, *more)],
        [(replace(first[0], text="A train arrived."), *added), (*second, *more)],
        [(*first, replace(added[0], text="The ferry left the harbour late.")), (*second, *more)],
    ):
        pairs = zip(REFERENCES, changed, strict=True)
        references = ReferenceSet(tuple(replace(segment, refs=refs) for segment, refs in pairs))
        expected = scored(None, name, references=references)
        assert expected != before
        assert scored(cache, name, references=references) == expected


@pytest.mark.parametrize(
    ("name", "options"),
    [("bleu", {"max_ngram_order": 2}), ("chrf", {"whitespace": True}), ("ter", {"normalized": True})],
)
def test_other_options_are_counted_again(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    before = scored(cache, name)
    expected = scored(None, name, **options)
    assert expected != before
    assert scored(cache, name, **options) == expected


def test_every_part_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    metric, outputs = get_metric("chrf"), {"A": ["one", "two"]}
    refs = (Reference("a", weight=0.5, logprob=-1.0), Reference("b", "paraphrase"))
    first = Segment("1", refs, source="s")

    def key(segment: Segment = first, **named: list[str]) -> bytes:
        return series._keys(metric, named or outputs, ReferenceSet((segment,)), [1])[0]

    changed = [
        replace(first, id="2"),
        replace(first, source="t"),
        *(replace(first, refs=(replace(refs[0], **one), refs[1])) for one in (
            {"text": "c"}, {"kind": "pseudo"}, {"weight": 0.25}, {"logprob": -2.0})),
    ]  # fmt: skip
    found = [key(), key(B=["one", "two"]), *map(key, changed)]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (*sys.version_info[:2], 99))
        assert key() == found[0], "the next release of a Python counts the same"
        patch.setattr(sys, "version_info", (3, 99, 0))
        found.append(key())
    monkeypatch.setattr(series, "version", lambda name: f"another {name}")
    found.append(key())
    monkeypatch.setattr(series, "__version__", "another")
    found.append(key())
    metric = get_metric("chrf", word_order=2)
    found.append(key())
    assert len(set(found)) == len(found)

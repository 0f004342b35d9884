"""Scores and references that differ never share a signature, nor statistics a key in the cache: n-gram metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from random_settings import Told, some, tried, values

from polyref.errors import PolyrefError
from polyref.eval.series import _keys
from polyref.metrics import get_metric
from polyref.metrics.api import score
from polyref.metrics.registry import METRICS, metric_options
from polyref.references import Reference, ReferenceSet, Segment

OUTPUTS: Final = {
    "Ash": [
        "The  ferry left-the harbour at 10.30, late...",
        "Nobody saw the mill, that day.",
        "Tea &amp; 日本 cake!",
        "A",
    ],
    "Birch": ["a Ferry left the harbour on time", "They saw the OLD mill 日本 that day.", "", "a b c d e"],
}


def _made(text: str, place: int, weight: float | None = None) -> Reference:
    return Reference(text, "paraphrase", of=0, rank=place, weight=weight, logprob=-0.3 - 0.4 * place)


REFERENCES: Final = ReferenceSet(
    (
        Segment(
            "1",
            (
                Reference("The ferry left the harbour at 10:30."),
                _made("A ferry left late.", 0),
                _made("It left-late", 1, 0.5),
            ),
        ),
        Segment(
            "2",
            (
                Reference("Nobody saw the old mill that day."),
                Reference("No one saw it."),
                _made("They saw no mill.", 0, 0.0),
            ),
        ),
        Segment(
            "3",
            (Reference("Tea & 日本 cake."), _made("Cake and tea!", 0, 2.0), _made("Tea.", 1), _made("cake  Tea", 2)),
        ),
        Segment("4", (Reference("a B c d, e"),)),
    ),
    {"generator": "g", "decoding": "d"},
)
NAMES: Final = [name for name, (home, _) in METRICS.items() if ".ngram." in home]
#: Other values of the fields of a reference.
FIELDS: Final = {
    "text": ["A ferry left late.", "Nobody saw the old mill that day", "x"],
    "kind": ["human", "paraphrase", "pseudo"],
    "weight": [None, 0.25, 0.250001, 1.0],
    "logprob": [-0.3, -0.3000001, -2.0],
}


@st.composite
def references(draw: st.DrawFn) -> ReferenceSet:
    """The set, or one with a change: of a reference, of the order, of the number, or of the header."""
    segments = list(REFERENCES.segments)
    at = draw(st.integers(0, len(segments) - 1))
    refs = list(segments[at].refs)
    what = draw(st.sampled_from(["nothing", *FIELDS, "order", "number", "segments", "ids", "meta"]))
    place = draw(st.integers(0, len(refs) - 1))
    meta = REFERENCES.meta
    if what in FIELDS:
        refs[place] = replace(refs[place], **{what: draw(st.sampled_from(FIELDS[what]))})
    elif what == "order":
        refs = refs[::-1]
    elif what == "number" and len(refs) > 1:
        del refs[place]
    elif what == "meta":
        meta = {**meta, draw(st.sampled_from(["generator", "decoding", "filters", "seed"])): draw(st.integers(0, 2))}
    segments[at] = replace(segments[at], refs=tuple(refs))
    if what == "ids":
        segments[at] = replace(segments[at], id="x")
    if what == "segments":
        segments = segments[::-1]
    return ReferenceSet(tuple(segments), meta)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(NAMES))
    return {
        "name": name,
        "options": draw(some({one: values(known) for one, known in metric_options(name).items()}, 3)),
        "references": draw(references()),
        "ks": draw(st.sampled_from([(0,), (0, 2), (1,), (2,), (3,)])),
        "test": draw(st.sampled_from([{}, {}, {"test": "confidence", "trials": 20}, {"test": "paired_ar", "trials": 20},
                                      {"test": "paired_bs", "trials": 20, "seed": 3}])),
    }  # fmt: skip


@pytest.mark.slow
def test_scores_that_differ_are_signed_differently() -> None:
    of_runs, of_rows, kept = Told(), Told(), Told()

    @tried()
    @given(runs())
    def check(run: dict[str, Any]) -> None:
        try:
            metric = get_metric(run["name"], **run["options"])
            table = score(OUTPUTS, run["references"], {"m": metric}, run["ks"], **run["test"])
        except PolyrefError as error:
            event(type(error).__name__)
            assume(False)
        texts = repr(run["references"].texts())
        of_runs.add(table.signature, texts, run)
        for each in (table, table.segment):
            for row in each.rows:
                own = {key: value for key, value in row.items() if key not in ("signature", "metric")}
                place = {key: own.pop(key) for key in ("system", "segment", "k") if key in own}
                of_rows.add((table.signature, row["signature"], *sorted(place.items())), repr(own), run)
        for k in run["ks"]:
            found = metric.statistics(OUTPUTS, run["references"], ks=[k])
            kept.add(_keys(metric, OUTPUTS, run["references"], [k])[0], (found.columns, found.values.tobytes()), run)

    check()
    assert len(of_runs) > 10 and len(kept) > 50

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import DataError, UsageError
from polyref.metrics.combination import COMBINATIONS, MAXIMUM, MEAN, Blend, Combination, ExpectedCredit
from polyref.metrics.pairs import PairMetric
from polyref.metrics.statistics import Floats
from polyref.references import Reference, ReferenceSet, Segment


@dataclass(frozen=True, kw_only=True)
class Letters(PairMetric):
    """Shares of letters: precision, recall and F, simple enough to compute by hand."""

    @property
    def name(self) -> str:
        return "letters"

    @property
    def label(self) -> str:
        return "Letters"

    @property
    def measures(self) -> tuple[str, ...]:
        return ("precision", "recall", "f")

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return self.combination.described()

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        return np.array([_letters(reference, output) for reference, output in pairs]).reshape(-1, 3)


def _letters(reference: str, output: str) -> tuple[float, float, float]:
    common = len(set(reference) & set(output))
    p, r = common / max(1, len(set(output))), common / max(1, len(set(reference)))
    return p, r, 2 * p * r / max(p + r, 1e-9)


TEXTS = st.text("abcdef", max_size=6)


def refset(human: Sequence[str], extra: Sequence[Sequence[str]]) -> ReferenceSet:
    return ReferenceSet(
        tuple(
            Segment(
                str(n),
                (Reference(h), *(Reference(e, kind="paraphrase", of=0, weight=1.0 + i) for i, e in enumerate(es))),
            )
            for n, (h, es) in enumerate(zip(human, extra, strict=True))
        )
    )


SETS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=4), TEXTS, TEXTS), min_size=1, max_size=4)


@pytest.mark.slow
@given(SETS, st.sampled_from(["max", "max-each", "mean"]), st.integers(0, 4))
def test_equals_a_plain_loop(rows: list[tuple[str, list[str], str, str]], combine: str, k: int) -> None:
    references = refset([row[0] for row in rows], [row[1] for row in rows])
    systems = {"A": [row[2] for row in rows], "B": [row[3] for row in rows]}
    metric = Letters(combination=COMBINATIONS[combine](**({"weights": "given"} if combine == "mean" else {})))
    scores = metric.aggregate(metric.statistics(systems, references), k=k)
    for s, outputs in enumerate(systems.values()):
        expected = []
        for (human, extra, *_), output in zip(rows, outputs, strict=True):
            measured = [_letters(text, output) for text in (human, *extra[:k])]
            if combine == "mean":
                weights = [1.0, *(1.0 + i for i in range(len(extra[:k])))]
                expected.append(np.average([f for *_, f in measured], weights=weights))
            else:
                expected.append(max(f for *_, f in measured))
        assert scores.segment[s] == pytest.approx(expected)
        assert scores.system[s] == pytest.approx(np.mean(expected))


@pytest.mark.slow
@given(SETS, st.sampled_from([(MAXIMUM, max), (MEAN, np.mean)]), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 4))
def test_blend(rows: list[tuple[str, list[str], str, str]], human: Any, share: float, k: int) -> None:
    """The human references as the metric does where nothing is said; of the added ones the weighted mean."""
    default, best = human

    @dataclass(frozen=True, kw_only=True)
    class Own(Letters):
        combination: Combination = default

    references = refset([row[0] for row in rows], [row[1] for row in rows])
    # The first added text is a second human reference where there is one.
    segments = []
    for segment in references:
        second = [replace(ref, kind="human", of=None) for ref in segment.refs[1:2]]
        segments.append(replace(segment, refs=(segment.refs[0], *second, *segment.refs[2:])))
    references = ReferenceSet(tuple(segments))
    systems = {"A": [row[2] for row in rows], "B": [row[3] for row in rows]}
    metric = Own(combination=Blend(blend=share, weights="given"))
    scores = metric.aggregate(metric.statistics(systems, references), k=k)
    for s, outputs in enumerate(systems.values()):
        for n, (segment, output) in enumerate(zip(references, outputs, strict=True)):
            expected = best([_letters(ref.text, output)[2] for ref in segment.originals])
            added = segment.extras[:k]
            if added:
                mean = np.average([_letters(ref.text, output)[2] for ref in added], weights=[r.weight for r in added])
                expected = (1 - share) * expected + share * mean
            assert scores.segment[s, n] == pytest.approx(expected)
    plain, blend = (one.aggregate(one.statistics(systems, references), k=0) for one in (Own(), metric))
    assert np.array_equal(plain.segment, blend.segment)
    assert np.array_equal(plain.system, blend.system)


@pytest.mark.slow
@given(SETS, st.randoms(use_true_random=False))
def test_blend_does_not_ask_for_order_or_number(rows: list[tuple[str, list[str], str, str]], random: Any) -> None:
    systems = {"A": [row[2] for row in rows]}
    metric = Letters(combination=Blend())
    plain = refset([row[0] for row in rows], [row[1] for row in rows])
    other = refset([row[0] for row in rows], [random.sample(row[1] * 2, 2 * len(row[1])) for row in rows])
    a, b = (metric.aggregate(metric.statistics(systems, refs), k=9) for refs in (plain, other))
    np.testing.assert_allclose(a.segment, b.segment, rtol=1e-12)


def test_max_takes_all_measures_from_one_reference_and_max_each_does_not() -> None:
    references = refset(["abcd"], [["a", "abcdef"]])
    stats = {
        name: Letters(combination=COMBINATIONS[name]()).statistics({"A": ["abc"]}, references).at(2)[0, 0]
        for name in ("max", "max-each")
    }
    assert stats["max"].tolist() == [*_letters("abcd", "abc"), 1]
    assert stats["max-each"].tolist() == [1, 1, _letters("abcd", "abc")[2], 1]


@given(SETS)
def test_a_duplicate_reference_changes_nothing_for_max(rows: list[tuple[str, list[str], str, str]]) -> None:
    systems = {"A": [row[2] for row in rows]}
    plain = refset([row[0] for row in rows], [row[1] for row in rows])
    twice = refset([row[0] for row in rows], [[*row[1], row[0], *row[1]] for row in rows])
    metric = Letters()
    a, b = (metric.aggregate(metric.statistics(systems, refs), k=9) for refs in (plain, twice))
    assert np.array_equal(a.segment, b.segment)


def test_names_segments_without_references_and_unknown_combinations() -> None:
    references = ReferenceSet((Segment("1", (Reference("ab"),)), Segment("2", ())))
    metric = Letters()
    with pytest.raises(DataError, match="segment 2 has no reference"):
        metric.statistics({"A": ["ab", "c"]}, references)
    scores = metric.aggregate(metric.statistics({"A": ["ab", "c"]}, references, allow_missing=True), k=0)
    assert scores.system.tolist() == [1.0]
    assert np.isnan(scores.segment[0, 1])
    assert scores.name == "Letters"
    more = refset(["ab"], [["b"]])
    assert metric.aggregate(metric.statistics({"A": ["ab"]}, more), k=1).name == "parLetters"
    with pytest.raises(UsageError, match="letters: `combine` is 'expected', expected one of max, max-each, mean"):
        Letters(combination=ExpectedCredit())

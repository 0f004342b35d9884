"""Mean, expected credit and blend against the definitions, written out with counters."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams, extract_word_ngrams

from polyref.errors import DataError, UsageError
from polyref.metrics import get_metric
from polyref.metrics.combination import Blend, Compared, ExpectedCredit, Maximum, Mean, at_cuts, first_best
from polyref.references import Reference, ReferenceSet, Segment

METRICS = ["bleu", "chrf", "chrf++"]


@pytest.fixture
def weighted(refset: ReferenceSet) -> ReferenceSet:
    """Every extra reference has a weight and a log-probability of its own."""
    segments = []
    for n, segment in enumerate(refset):
        refs = [
            ref if ref.original else replace(ref, weight=0.5 + (n + j) % 3, logprob=-0.1 - 0.3 * ((n + j) % 4))
            for j, ref in enumerate(segment.refs)
        ]
        segments.append(replace(segment, refs=tuple(refs)))
    return ReferenceSet(tuple(segments))


def grams(name: str, text: str) -> list[Counter[Any]]:
    if name == "bleu":
        words = BLEU()._preprocess_segment(text).split()
        return [Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for n in range(1, 5)]
    chars = extract_all_char_ngrams(text, 6)
    if name == "chrf++":
        words = CHRF()._remove_punctuation(text)
        chars += [extract_word_ngrams(words, n) for n in (1, 2)]
    return chars


def weight(ref: Reference, weights: str, best: float) -> float:
    if weights == "given":
        return ref.weight if ref.weight is not None else 1.0
    if weights == "logprob" and ref.logprob is not None:
        return math.exp(3 * (ref.logprob - best))
    return 1.0


def credit(
    output: Counter[Any],
    human: Counter[Any],
    extras: list[tuple[Counter[Any], float]],
    alpha: float,
    power: float = 1,
    people: Counter[Any] | None = None,
) -> float:
    """Occurrence by occurrence, as the definition goes.

    ``people`` is what any human reference holds, where ``human`` is one of several.
    """
    people = human if people is None else people
    total = sum(weight for _, weight in extras)
    earned = 0.0
    for gram, count in output.items():
        for occurrence in range(1, count + 1):
            if human[gram] >= occurrence:
                earned += 1
            elif total and people[gram] < occurrence:
                held = sum(weight for counts, weight in extras if counts[gram] >= occurrence)
                earned += alpha * (held / total) ** power
    return earned


def union(counters: list[Counter[Any]]) -> Counter[Any]:
    result: Counter[Any] = Counter()
    for counter in counters:
        result |= counter
    return result


#: Alpha, power.
CREDITS = [(1.0, 1.0), (0.4, 1.0), (0.8, 0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["uniform", "given", "logprob"])
@pytest.mark.parametrize(("alpha", "power"), CREDITS)
def test_credited_bleu_counts(weights: str, alpha: float, power: float, systems: Any, weighted: ReferenceSet) -> None:
    metric = get_metric("bleu", combine="expected", gamma=3.0, alpha=alpha, power=power, weights=weights)
    stats = metric.statistics(systems, weighted)
    for k in stats.ks:
        for s, outputs in enumerate(systems.values()):
            for n, segment in enumerate(weighted):
                best = max((ref.logprob for ref in segment.extras[:k]), default=0.0)
                humans = [grams("bleu", ref.text) for ref in segment.originals]
                extras = [(grams("bleu", ref.text), weight(ref, weights, best)) for ref in segment.extras[:k]]
                output = grams("bleu", outputs[n])
                for order in range(4):
                    human = union([counts[order] for counts in humans])
                    expected = credit(output[order], human, [(c[order], w) for c, w in extras], alpha, power)
                    assert stats.at(k)[s, n, 2 + order] == pytest.approx(expected, abs=1e-9)
                lengths = [sum(counts[0].values()) for counts in humans]
                size = sum(output[0].values())
                assert stats.at(k)[s, n, 1] == min(lengths, key=lambda length: (abs(length - size), length))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chrf", "chrf++"])
@pytest.mark.parametrize(("alpha", "power"), CREDITS)
def test_credited_chrf_counts(name: str, alpha: float, power: float, systems: Any, weighted: ReferenceSet) -> None:
    metric = get_metric(name, combine="expected", gamma=3.0, alpha=alpha, power=power, weights="logprob")
    stats = metric.statistics(systems, weighted)
    for k in stats.ks:
        scores = metric.aggregate(stats, k=k)
        for s, outputs in enumerate(systems.values()):
            for n, segment in enumerate(weighted):
                best = max((ref.logprob for ref in segment.extras[:k]), default=0.0)
                extras = [(grams(name, ref.text), weight(ref, "logprob", best)) for ref in segment.extras[:k]]
                output = grams(name, outputs[n])
                humans = [grams(name, ref.text) for ref in segment.originals]
                people = [union([counts[order] for counts in humans]) for order in range(len(output))]
                tried = []
                for ref in segment.originals:
                    precisions, recalls = [], []
                    for order, human in enumerate(grams(name, ref.text)):
                        if output[order] and human:
                            pairs = [(c[order], w) for c, w in extras]
                            match = credit(output[order], human, pairs, alpha, power, people[order])
                            precisions.append(match / sum(output[order].values()))
                            recalls.append(min(match / sum(human.values()), 1))
                    p, r = (float(np.mean(x)) if x else 0.0 for x in (precisions, recalls))
                    tried.append(100 * 5 * p * r / (4 * p + r) if p + r else 0.0)
                assert scores.segment[s, n] == pytest.approx(max(tried), abs=1e-9)


SENTENCES = st.lists(st.sampled_from([*"abcde", "the", "cat", "dog", "sat", "ran"]), min_size=1, max_size=8).map(
    " ".join
)


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
@given(
    output=SENTENCES,
    humans=st.lists(SENTENCES, min_size=2, max_size=3),
    extras=st.lists(SENTENCES, max_size=3),
    power=st.sampled_from([1.0, 0.5]),
)
def test_a_copy_of_a_human_reference_earns_nothing(
    name: str, output: str, humans: list[str], extras: list[str], power: float
) -> None:
    metric = get_metric(name, combine="expected", power=power)

    def score(*added: str) -> float:
        references = ReferenceSet.from_texts([humans], paraphrases=[list(added)])
        stats = metric.statistics({"a": [output]}, references)
        return float(metric.aggregate(stats, k=len(added)).segment[0, 0])

    people = score()
    plain = get_metric(name)
    alone = plain.statistics({"a": [output]}, ReferenceSet.from_texts([humans]))
    assert people == plain.aggregate(alone, k=0).segment[0, 0]
    assert score(humans[1]) == people
    assert score(*humans, *humans) == people
    # Beside others, it takes a part of their weight, and earns nothing.
    assert score(*extras, humans[1]) <= score(*extras) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
@given(
    output=SENTENCES,
    human=SENTENCES,
    extras=st.lists(SENTENCES, min_size=1, max_size=3),
)
def test_a_human_reference_that_is_there_twice_changes_nothing(
    name: str, output: str, human: str, extras: list[str]
) -> None:
    metric = get_metric(name, combine="expected")
    found = []
    for humans in ([human], [human, human]):
        references = ReferenceSet.from_texts([humans], paraphrases=[extras])
        found.append(metric.aggregate(metric.statistics({"a": [output]}, references), k=3).segment[0, 0])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("options", "k"),
    [
        ({"combine": "expected"}, 0),
        ({"combine": "expected", "alpha": 0.0}, 4),
    ],
)
def test_credit_reduces_to_sacrebleu(
    name: str, options: Any, k: int, systems: Any, weighted: ReferenceSet, peer: Any
) -> None:
    metric = get_metric(name, **options)
    stats = metric.statistics(systems, weighted)
    scores = metric.aggregate(stats, k=k)
    texts = weighted.take(0).texts()
    for s, outputs in enumerate(systems.values()):
        assert scores.system[s] == peer(name).corpus(outputs, texts)
        assert scores.segment[s].tolist() == peer(name).sentences(outputs, texts).tolist()


def test_expected_bleu_of_one_paraphrase_matches_as_two_references(systems: Any, refset: ReferenceSet) -> None:
    expected = get_metric("bleu", combine="expected").statistics(systems, refset.take(1)).at(1)
    joint = get_metric("bleu").statistics(systems, refset.take(1)).at(1)
    assert expected[..., 2:].tolist() == joint[..., 2:].tolist()


def test_a_fraction_below_the_smoothed_count_is_smoothed() -> None:
    outputs = {"a": ["one two three four five"]}
    refset = ReferenceSet.from_texts([["one two six four nine"]], paraphrases=[["zero two three zero", *["x"] * 9]])
    metric = get_metric("bleu", combine="expected")
    stats = metric.statistics(outputs, refset)
    assert stats.at(10)[0, 0, 2:6].tolist() == pytest.approx([3.1, 1.1, 0, 0])
    assert stats.at(1)[0, 0, 2:6].tolist() == [4, 2, 0, 0]
    low = metric.aggregate(
        metric.statistics(outputs, ReferenceSet.from_texts([["one"]], paraphrases=[["one two"] + ["x"] * 9])), k=10
    )
    # Bigrams: credit 0.1 is below the 1/2 that smoothing gives; the higher orders get 1/4 and 1/8.
    logs = [math.log(x) for x in (1.1 / 5, 0.5 / 4, 0.25 / 3, 0.125 / 2)]
    assert low.segment[0, 0] == pytest.approx(100 * math.exp(sum(logs) / 4))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("weights", ["uniform", "given", "logprob"])
def test_mean(name: str, weights: str, systems: Any, weighted: ReferenceSet, peer: Any) -> None:
    metric = get_metric(name, combine="mean", weights=weights, gamma=3.0)
    stats = metric.statistics(systems, weighted)
    for k in stats.ks:
        scores = metric.aggregate(stats, k=k)
        for s, outputs in enumerate(systems.values()):
            for n, segment in enumerate(weighted):
                best = max((ref.logprob for ref in segment.extras[:k]), default=0.0)
                refs = [*segment.originals, *segment.extras[:k]]
                shares = [weight(ref, weights, best) for ref in refs]
                single = [peer(name).sentence_metric.sentence_score(outputs[n], [ref.text]).score for ref in refs]
                assert scores.segment[s, n] == pytest.approx(np.average(single, weights=shares), abs=1e-9)
    # With one reference a segment, mean is the plain metric.
    one = ReferenceSet(tuple(replace(segment, refs=segment.refs[:1]) for segment in weighted))
    scores = metric.aggregate(metric.statistics(systems, one), k=0)
    assert scores.system[0] == peer(name).corpus(systems["good"], one.texts())


@pytest.mark.parametrize("name", METRICS)
def test_mean_of_corpora_is_between_the_references(name: str, systems: Any) -> None:
    texts = [[text, f"{text} and more words"] for text in systems["good"]]
    refset = ReferenceSet.from_texts(texts)
    both = get_metric(name, combine="mean")
    score = both.aggregate(both.statistics(systems, refset), k=0).system[0]
    alone = get_metric(name)
    first, second = (
        alone.aggregate(alone.statistics(systems, ReferenceSet.from_texts([[row[j]] for row in texts])), k=0).system[0]
        for j in (0, 1)
    )
    assert second < score < first == pytest.approx(100)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("combine", ["expected", "blend"])
def test_duplicates_and_order_do_not_matter_to_means(
    name: str, combine: str, systems: Any, refset: ReferenceSet
) -> None:
    metric = get_metric(name, combine=combine)
    doubled = ReferenceSet(tuple(replace(s, refs=(*s.originals, *s.extras, *s.extras)) for s in refset))
    reverse = ReferenceSet(tuple(replace(s, refs=(*s.originals, *s.extras[::-1])) for s in refset))
    plain = metric.aggregate(metric.statistics(systems, refset), k=99)
    for other in (doubled, reverse):
        again = metric.aggregate(metric.statistics(systems, other), k=99)
        np.testing.assert_allclose(again.segment, plain.segment, rtol=1e-12)


@pytest.mark.parametrize("name", [*METRICS, "ter"])
@pytest.mark.parametrize(
    ("weights", "blend"), [("uniform", 0.5), ("given", 0.3), ("logprob", 0.7), ("given", 0.0), ("uniform", 1.0)]
)
def test_blend(name: str, weights: str, blend: float, systems: Any, weighted: ReferenceSet, peer: Any) -> None:
    """Sentence scores from sacreBLEU's against the human references, and against every added one alone."""
    metric = get_metric(name, combine="blend", blend=blend, weights=weights, gamma=3.0)
    stats = metric.statistics(systems, weighted)
    oracle = peer(name).sentence_metric
    for k in stats.ks:
        scores = metric.aggregate(stats, k=k)
        for s, outputs in enumerate(systems.values()):
            for n, segment in enumerate(weighted):
                expected = oracle.sentence_score(outputs[n], [ref.text for ref in segment.originals]).score
                added = segment.extras[:k]
                if added:
                    best = max((ref.logprob or 0 for ref in segment.extras[:k]), default=0.0)
                    single = [oracle.sentence_score(outputs[n], [ref.text]).score for ref in added]
                    mean = np.average(single, weights=[weight(ref, weights, best) for ref in added])
                    expected = (1 - blend) * expected + blend * mean
                assert scores.segment[s, n] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", [*METRICS, "ter"])
def test_blend_of_corpora(name: str, systems: Any, refset: ReferenceSet, peer: Any) -> None:
    """Corpus scores blend that of the human references and that of the mean statistics of the added ones."""
    metric, alone = get_metric(name, combine="blend", blend=0.3), get_metric(name, combine="mean")
    stats = metric.statistics(systems, refset)
    # Where nothing is added, the human references are the second part as well.
    added = ReferenceSet(tuple(replace(segment, refs=segment.extras or segment.originals[:1]) for segment in refset))
    assert all(segment.extras or len(segment.originals) == 1 for segment in refset)
    top = max(stats.ks)
    second = alone.aggregate(alone.statistics(systems, added, ks=[top]), k=top).system
    first = [peer(name).corpus(outputs, refset.take(0).texts()) for outputs in systems.values()]
    expected = [0.7 * human + 0.3 * other for human, other in zip(first, second, strict=True)]
    np.testing.assert_allclose(metric.aggregate(stats, k=top).system, expected, rtol=1e-9)
    # A function of summed statistics: the test set itself is one of the resamplings.
    drawn = metric.resample(stats, np.ones((1, len(refset))), k=top)
    np.testing.assert_allclose(drawn[0], expected, rtol=1e-9)


@pytest.mark.parametrize("name", [*METRICS, "ter"])
@pytest.mark.parametrize(("blend", "k"), [(0.3, 0), (0.7, 0), (0.0, 9)])
def test_blend_of_the_human_references_is_sacrebleu(
    name: str, blend: float, k: int, systems: Any, refset: ReferenceSet, peer: Any
) -> None:
    metric = get_metric(name, combine="blend", blend=blend)
    stats = metric.statistics(systems, refset)
    scores = metric.aggregate(stats, k=k)
    texts = refset.take(0).texts()
    for s, outputs in enumerate(systems.values()):
        assert scores.system[s] == peer(name).corpus(outputs, texts)
        assert scores.segment[s].tolist() == peer(name).sentences(outputs, texts).tolist()


@pytest.mark.parametrize("name", [*METRICS, "ter"])
def test_blend_without_human_references_is_the_mean(name: str, systems: Any, refset: ReferenceSet) -> None:
    added = ReferenceSet(tuple(replace(s, refs=tuple(replace(r, of=None) for r in s.extras)) for s in refset))
    blend, mean = (get_metric(name, combine=how) for how in ("blend", "mean"))
    for k in (1, 9):
        a, b = (one.aggregate(one.statistics(systems, added, ks=[k], allow_missing=True), k=k) for one in (blend, mean))
        np.testing.assert_allclose(a.segment, b.segment, rtol=1e-12)
        np.testing.assert_allclose(a.system, b.system, rtol=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "given", "logprob"])
def test_mean_ter(weights: str, systems: Any, weighted: ReferenceSet, peer: Any) -> None:
    metric = get_metric("ter", combine="mean", weights=weights, gamma=3.0)
    stats = metric.statistics(systems, weighted)
    assert stats.columns == ("edits", "reference", "sentence")
    oracle = peer("ter").sentence_metric
    for k in stats.ks:
        scores = metric.aggregate(stats, k=k)
        for s, outputs in enumerate(systems.values()):
            rates, edits, lengths = [], [], []
            for n, segment in enumerate(weighted):
                best = max((ref.logprob for ref in segment.extras[:k]), default=0.0)
                refs = [*segment.originals, *segment.extras[:k]]
                shares = [weight(ref, weights, best) for ref in refs]
                single = [oracle.sentence_score(outputs[n], [ref.text]) for ref in refs]
                rates.append(np.average([score.score for score in single], weights=shares))
                edits.append(np.average([score.num_edits for score in single], weights=shares))
                lengths.append(np.average([score.ref_length for score in single], weights=shares))
            np.testing.assert_allclose(scores.segment[s], rates, rtol=0, atol=1e-9)
            assert scores.system[s] == pytest.approx(100 * sum(edits) / sum(lengths), abs=1e-9)


def test_ter_signatures_and_refusal(systems: Any, weighted: ReferenceSet) -> None:
    for options, part in [
        ({}, "|combine:min|k:1|"),
        ({"combine": "mean"}, "|combine:mean|weights:uniform|k:1|"),
        ({"combine": "mean", "weights": "logprob", "gamma": 2.0}, "|combine:mean|weights:logprob|gamma:2|k:1|"),
    ]:
        metric = get_metric("ter", **options)
        assert part in metric.aggregate(metric.statistics(systems, weighted), k=1).signature
    with pytest.raises(UsageError, match="ter: `combine` is 'expected', expected one of max, mean"):
        get_metric("ter", combine="expected")


def test_signatures(systems: Any, weighted: ReferenceSet) -> None:
    for options, part in [
        ({}, "|combine:max|"),
        ({"combine": "mean"}, "|combine:mean|weights:uniform|"),
        ({"combine": "expected", "alpha": 0.5}, "|combine:expected|alpha:0.5|weights:uniform|"),
        ({"combine": "expected", "power": 0.5}, "|combine:expected|alpha:1|power:0.5|weights:uniform|"),
        ({"combine": "expected", "weights": "logprob"}, "|combine:expected|alpha:1|weights:logprob|gamma:1|"),
        ({"combine": "blend", "blend": 0.25}, "|combine:blend|blend:0.25|weights:uniform|"),
    ]:
        metric = get_metric("chrf", **options)
        assert part in metric.aggregate(metric.statistics(systems, weighted), k=1).signature


@pytest.mark.parametrize(
    ("name", "combine"),
    [(name, "expected") for name in METRICS]
    + [(name, combine) for name in (*METRICS, "ter", "bertscore") for combine in ("mean", "blend")],
)
def test_extra_references_beyond_k_change_nothing(name: str, combine: str) -> None:
    refs = [Reference("The cat sat on the mat.")]
    for text, logprob in [("A cat was on a mat.", -9.0), ("The cat lay there.", -1.0), ("On the mat, a cat.", None)]:
        refs.append(Reference(text, kind="paraphrase", logprob=logprob))
    references = ReferenceSet((Segment("1", tuple(refs)),))
    metric = get_metric(name, combine=combine, weights="logprob")
    outputs = {"a": ["The cat was on the mat."], "b": ["On the mat."]}
    stats = metric.statistics(outputs, references, ks=[0, 1, 2])
    for k in (0, 1, 2):
        alone = metric.statistics(outputs, references.take(k), ks=[k])
        np.testing.assert_allclose(stats.at(k), alone.at(k), rtol=0, atol=0 if metric.by_segment else 1e-6)


def test_signatures_have_all_digits(systems: Any, weighted: ReferenceSet) -> None:
    def signature(name: str, **options: Any) -> str:
        metric = get_metric(name, **options)
        return metric.aggregate(metric.statistics(systems, weighted, ks=[1]), k=1).signature

    assert "|blend:0.1234567|" in signature("chrf", combine="blend", blend=0.1234567)
    assert "|alpha:0.9999999|power:0.50000001|" in signature(
        "chrf", combine="expected", alpha=0.9999999, power=0.50000001
    )
    # sacreBLEU writes two decimal places.
    assert signature("bleu", smooth_method="floor", smooth_value=0.004).startswith("parBLEU|smooth-value:0.004|nrefs:")
    assert "smooth-value" not in signature("bleu", smooth_method="floor", smooth_value=0.1)


def test_refused(systems: Any, refset: ReferenceSet) -> None:
    with pytest.raises(DataError, match="segment 1 has an extra reference without a log-probability"):
        get_metric("bleu", combine="mean", weights="logprob").statistics(systems, refset)
    bare = ReferenceSet((Segment("7", (Reference("a", kind="pseudo"),)),))
    with pytest.raises(DataError, match="segment 7 has no human reference"):
        get_metric("chrf", combine="expected").statistics({"a": ["a"]}, bare, ks=[1])
    idle = ReferenceSet((Segment("7", (Reference("a", weight=0.0),)),))
    with pytest.raises(DataError, match="the references of segment 7 have no weight"):
        get_metric("chrf", combine="mean", weights="given").statistics({"a": ["a"]}, idle)
    for options, message in [
        ({"combine": "sum"}, "`combine` is 'sum', expected one of max, mean, expected"),
        ({"combine": "mean", "weights": "rank"}, "`weights` is 'rank', expected one of"),
        ({"combine": "expected", "alpha": 1.5}, "`alpha` is 1.5, expected 0 to 1"),
        ({"combine": "expected", "power": 0.0}, "`power` is 0.0, expected more than 0"),
        ({"combine": "mean", "gamma": -1.0}, "`gamma` is -1.0, expected 0 or more"),
        ({"combine": "blend", "blend": 1.5}, "`blend` is 1.5, expected 0 to 1"),
        ({"blend": 0.5}, "`blend` is given, but has no use when references combine by max"),
        ({"alpha": 0.5}, "`alpha` is given, but has no use when references combine by max"),
    ]:
        with pytest.raises(UsageError, match=message):
            get_metric("bleu", **options)


def test_the_smallest_number_of_references_in_use_needs_weight() -> None:
    """Segment 1 has no human reference, and its first paraphrase weighs nothing: no mean with k = 1."""
    silent = Reference("it is late", kind="paraphrase", weight=0.0)
    references = ReferenceSet((Segment("1", (silent,)), Segment("2", (Reference("it is dark"),))))
    metric = get_metric("bleu", combine="mean", weights="given")
    for ks in ([1], [0, 1]):
        with pytest.raises(DataError, match="segment 1 have no weight"):
            metric.statistics({"A": ["it is late", "it is dark"]}, references, ks=ks, allow_missing=True)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_a_combination_is_one_class(name: str, systems: Any, refset: ReferenceSet) -> None:
    class Last(Mean):
        """The last of the references counts."""

        def count(self, texts: Compared, cuts: Any, weights: Any) -> Any:
            return at_cuts(texts.each, cuts), None

    combined, plain = get_metric(name, combination=Last()), get_metric(name)
    alone = ReferenceSet(tuple(replace(segment, refs=segment.refs[-1:]) for segment in refset))
    most = max(len(segment.extras) for segment in refset)
    found = combined.aggregate(combined.statistics(systems, refset), k=most)
    wanted = plain.aggregate(plain.statistics(systems, alone, ks=[most]), k=most)
    assert np.array_equal(found.segment, wanted.segment)


def test_the_best_of_each_measure_asks_for_no_weights() -> None:
    each = get_metric("bertscore", combine="max-each").combination
    assert each is not None and each.described() == ["combine:max-each"]
    assert not each.reads("weights")
    with pytest.raises(UsageError, match="`weights` is given, but has no use when references combine by max-each"):
        get_metric("bertscore", combine="max-each", weights="logprob")


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_what_added_references_earn_by_a_plain_sum(power: float) -> None:
    rng = np.random.default_rng(4)
    segments, systems, references, grams_there = 2, 3, 4, 5
    held = rng.integers(2, size=(segments, references, grams_there)).astype(np.float32)
    new = rng.integers(3, size=(segments, systems, grams_there)).astype(np.float32)
    weights = rng.integers(1, 9, size=(segments, references)) / 8
    weights[0, :2] = 0.0
    cuts = np.array([[0, 1], [1, 2], [2, 4], [3, 3], [4, 4]])
    found = ExpectedCredit(alpha=0.5, power=power).earned(held, new, weights, cuts)
    for k, s, b in itertools.product(range(len(cuts)), range(systems), range(segments)):
        used = range(cuts[k, b])
        norm = sum(weights[b, r] for r in used)
        shares = [sum(weights[b, r] * held[b, r, g] for r in used) / norm if norm else 0.0 for g in range(grams_there)]
        assert found[k, s, b] == pytest.approx(0.5 * sum(new[b, s] * np.array(shares) ** power), abs=1e-9)


def test_weights_are_asked_of_the_references_in_use_alone() -> None:
    human, silent = Reference("a"), Reference("b", kind="paraphrase", weight=0.0)
    known = replace(silent, weight=0.5, logprob=-1.0)
    references = ReferenceSet(
        (Segment("1", (human, known)), Segment("2", (silent, known)), Segment("3", (human, silent)))
    )

    def weigh(combination: Any, *cuts: list[int]) -> list[list[float]]:
        found: list[list[float]] = combination.weigh(references, np.array(cuts)).tolist()
        return found

    # What has no human reference is not in use, and what has no log-probability is no more.
    assert weigh(ExpectedCredit(), [1, 0, 1], [2, 0, 1]) == [[1, 1], [0, 0], [1, 0]]
    assert weigh(Mean(weights="logprob"), [1, 0, 1], [2, 0, 1]) == [[1, 1], [0, 0], [1, 0]]
    with pytest.raises(DataError, match="segment 2 has an extra reference without a log-probability"):
        weigh(Mean(weights="logprob"), [1, 1, 1])
    with pytest.raises(DataError, match="segment 2 has no human reference, which expected credit needs"):
        weigh(ExpectedCredit(), [1, 1, 1])
    # The fewest in use need weight where they make a score by themselves; beside human references they may have none.
    with pytest.raises(DataError, match="the references of segment 2 have no weight"):
        weigh(Mean(weights="given"), [1, 1, 1], [2, 2, 2])
    assert weigh(Mean(weights="given"), [1, 2, 1], [2, 2, 2]) == [[1, 0.5], [0, 0.5], [1, 0]]
    silent_human = ReferenceSet((Segment("1", (replace(human, weight=0.0), known)),))
    assert ExpectedCredit(weights="given").weigh(silent_human, np.array([[1], [2]])).tolist() == [[0, 0.5]]


def test_which_options_mean_something() -> None:
    own = {"alpha", "power", "weights", "gamma", "blend"}
    told = {
        (kind.name, weights): {name for name in own if kind(weights=weights).reads(name)}
        for kind in (Mean, ExpectedCredit, Blend)
        for weights in ("uniform", "logprob")
    }
    assert told == {
        ("mean", "uniform"): {"weights"},
        ("mean", "logprob"): {"weights", "gamma"},
        ("expected", "uniform"): {"weights", "alpha", "power"},
        ("expected", "logprob"): {"weights", "alpha", "power", "gamma"},
        ("blend", "uniform"): {"weights", "blend"},
        ("blend", "logprob"): {"weights", "blend", "gamma"},
    }


class Linear(Compared):
    """Two statistics of two systems and three references, of which the first is the score."""

    linear = True
    single = np.array([[[[1.0, 9.0], [3.0, 9.0], [5.0, 9.0]], [[4.0, 9.0], [2.0, 9.0], [7.0, 9.0]]]])

    def score(self, values: Any) -> Any:
        return values[..., 0]


def test_blend_of_a_metric_whose_score_is_a_mean() -> None:
    blend = Blend(blend=0.25, weights="given")
    texts = Linear(np.array([1]), Maximum())
    found, of_which = blend.count(texts, np.array([[1], [3]]), np.array([[1.0, 1.0, 3.0]]))
    assert of_which is None
    # The human reference alone; then a quarter of the way to (3 + 3 x 5) / 4 and to (2 + 3 x 7) / 4.
    assert found[..., 0].tolist() == [[[1.0], [4.0]], [[1.0 + 0.25 * 3.5], [4.0 + 0.25 * 1.75]]]


def test_blend_keeps_both_parts_beside_each_other() -> None:
    assert Blend().columns(["a", "b"]) == ("a", "b", "added_a", "added_b", "sentence")
    assert [part.tolist() for part in Blend().parts(np.arange(5))] == [[0, 1], [2, 3]]


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3))
def test_the_first_of_the_best(scores: list[list[int]]) -> None:
    found = first_best(np.array([scores], dtype=float))[0]
    assert found.tolist() == [[row.index(max(row[: n + 1])) for n in range(4)] for row in scores]

"""The engine and the published semantics, on a table-driven network small enough to enumerate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tables import EOS, PAD, SOURCE, START, UNK, TableModel
from torch import Tensor

from polyref.errors import UsageError
from polyref.paraphrase.search import Candidate, SearchOptions, search


def enumerate_all(model: TableModel, source: Sequence[int], most: int, least: int = 0) -> dict[tuple[int, ...], float]:
    """Every hypothesis of at most ``most`` tokens before the end of sentence, with its log-probability."""
    words = [t for t in range(model.vocab_size) if t not in (PAD, EOS)]
    found = {}
    for length in range(least, most + 1):
        for body in itertools.product(words, repeat=length):
            tokens = (*body, EOS)
            found[tokens] = sum(model.logprobs(source, tokens[:i])[t] for i, t in enumerate(tokens))
    return found


def reference_search(
    model: TableModel, source: Sequence[int], beam: int, groups: int, strength: float, most: int, lenpen: float
) -> list[tuple[tuple[int, ...], float]]:
    """Algorithm 1 in plain Python, without any stopping rule: every group runs to the greatest length."""
    size = beam // groups
    live: list[list[tuple[float, float, tuple[int, ...]]]] = [[(0.0, 0.0, ())] for _ in range(groups)]
    pools: list[list[tuple[float, float, tuple[int, ...]]]] = [[] for _ in range(groups)]
    for t in range(most + 1):
        counts = [0] * model.vocab_size
        for group in range(groups):
            options = []
            for steering, total, prefix in live[group]:
                for token, lp in enumerate(model.logprobs(source, prefix)):
                    if math.isinf(lp) or (t == most and token != EOS):
                        continue
                    penalty = 0.0 if t == most else strength * counts[token]
                    options.append((steering + lp - penalty, total + lp, (*prefix, token)))
            options = sorted(options, key=lambda option: -option[0])[: 2 * size]
            for steering, total, tokens in options[:size]:
                if tokens[-1] == EOS:
                    pools[group].append((steering / len(tokens) ** lenpen, total / len(tokens) ** lenpen, tokens))
            live[group] = [option for option in options if option[2][-1] != EOS][:size]
            for _, _, tokens in live[group]:
                counts[tokens[-1]] += 1
    best: dict[tuple[int, ...], float] = {}
    for pool in pools:
        for _, score, tokens in sorted(pool, key=lambda entry: -entry[0])[:size]:
            best[tokens] = max(score, best.get(tokens, -math.inf))
    return sorted(best.items(), key=lambda entry: -entry[1])


def compare(found: list[Candidate], expected: list[tuple[tuple[int, ...], float]]) -> None:
    assert [c.tokens for c in found] == [tokens for tokens, _ in expected]
    assert [c.score for c in found] == pytest.approx([score for _, score in expected], abs=1e-5)


@pytest.mark.parametrize("lenpen", [-0.5, 0.0, 0.6, 1.0, 2.0])
def test_a_beam_that_holds_everything_enumerates(lenpen: float) -> None:
    model = TableModel(vocab_size=6)
    everything = enumerate_all(model, SOURCE, 3, least=1)
    options = SearchOptions(beam=120, max_len_b=3, lenpen=lenpen)
    expected = sorted(((t, lp / len(t) ** lenpen) for t, lp in everything.items()), key=lambda entry: -entry[1])
    compare(search(model, [SOURCE], options)[0], expected)


@pytest.mark.parametrize("beam", [1, 2, 5, 12])
@pytest.mark.parametrize("lenpen", [-0.5, 0.0, 1.0])
def test_one_group_is_plain_beam_search(beam: int, lenpen: float) -> None:
    model = TableModel()
    options = SearchOptions(beam=beam, max_len_b=8, min_len=0, lenpen=lenpen, strength=0)
    compare(search(model, [SOURCE], options)[0], reference_search(model, SOURCE, beam, 1, 0.0, 8, lenpen))


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "groups"), [(2, 2), (4, 2), (6, 3), (12, 3), (12, 12), (40, 4)])
@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0, 5.0])
def test_groups_follow_the_published_algorithm(beam: int, groups: int, strength: float) -> None:
    model = TableModel()
    for source in ((4, EOS), (5, 6, EOS), (6, 6, 6, EOS)):
        options = SearchOptions(beam=beam, groups=groups, strength=strength, max_len_b=6, min_len=0)
        expected = reference_search(model, source, beam, groups, strength, 6, 1.0)
        compare(search(model, [source], options)[0], expected)


def test_scores_are_the_models() -> None:
    model = TableModel()
    options = SearchOptions(beam=6, groups=3, strength=0.7, max_len_b=6)
    for found in search(model, [SOURCE], options)[0]:
        each = [model.logprobs(SOURCE, found.tokens[:i])[t] for i, t in enumerate(found.tokens)]
        assert found.token_logprobs == pytest.approx(each, abs=1e-5)
        assert found.logprob == pytest.approx(sum(each), abs=1e-5)
        assert found.score == pytest.approx(sum(each) / len(each), abs=1e-5)
        assert all(step <= lp + 1e-5 for step, lp in zip(found.token_scores, found.token_logprobs))
        assert found.finished and found.tokens[-1] == EOS and EOS not in found.tokens[:-1]


def test_groups_only_pay_for_groups_before_them() -> None:
    model = TableModel()
    options = SearchOptions(beam=8, groups=4, strength=2.0, max_len_b=6, nbest_per_group=True)
    found = search(model, [SOURCE], options)[0]
    first = [c for c in found if c.group == 0]
    alone = search(model, [SOURCE], SearchOptions(beam=2, max_len_b=6))[0]
    assert [(c.tokens, c.score) for c in first] == [(c.tokens, pytest.approx(c.score)) for c in alone]
    assert all(c.token_scores == pytest.approx(c.token_logprobs, abs=1e-6) for c in first)
    assert [c.group for c in found] == sorted(c.group for c in found)


def test_results_do_not_depend_on_the_batch() -> None:
    model = TableModel()
    sources = [(4, EOS), (5, 5, 5, 5, 5, EOS), (EOS,), (6, 4, EOS), (4, EOS)]
    options = SearchOptions(beam=6, groups=2, strength=0.5, max_len_a=1.5, max_len_b=2)
    together = search(model, sources, options)
    assert together == [search(model, [source], options)[0] for source in sources]
    assert together == search(model, sources[::-1], options)[::-1]


def test_finished_sentences_leave_the_batch() -> None:
    model = TableModel()
    search(model, [(4,), (4, 4, 4, 4, 4, 4, 4, 4)], SearchOptions(beam=2, max_len_a=1.0, max_len_b=0, strength=0))
    assert model.batches[0] == 2 and model.batches[-1] == 1
    assert len(model.batches) <= 9


def test_min_len_max_len_and_both_relative_to_the_source() -> None:
    model = TableModel()
    for found in search(model, [SOURCE], SearchOptions(beam=20, min_len=3, max_len_b=5))[0]:
        assert 3 <= len(found.tokens) - 1 <= 5
    options = SearchOptions(beam=20, min_len=0, min_len_a=1.0, max_len_a=2.0, max_len_b=0)
    for length, found in zip((1, 2, 3), search(model, [(4,), (4, 4), (4, 4, 4)], options)):
        assert {len(c.tokens) - 1 for c in found} <= set(range(length, 2 * length + 1))
    assert all(len(c.tokens) <= 4 for c in search(TableModel(max_target=4), [SOURCE], SearchOptions(beam=9))[0])


def test_early_stopping_stops_when_the_pools_are_full() -> None:
    eager, exact = TableModel(), TableModel()
    options = SearchOptions(beam=4, max_len_b=30)
    search(eager, [SOURCE], replace(options, early_stopping=True))
    search(exact, [SOURCE], options)
    assert len(eager.batches) < len(exact.batches) <= 31


def test_prefixes_are_forced_free_and_counted_in_nothing() -> None:
    model = TableModel()
    options = SearchOptions(beam=6, groups=3, strength=1.0, max_len_b=6)
    sources = [SOURCE, SOURCE, SOURCE]
    tagged, double, free = search(model, sources, options, prefixes=[[5], [5, 3], []])
    assert free == search(model, [SOURCE], options)[0]
    for found, prefix in ((tagged, (5,)), (double, (5, 3))):
        n = len(prefix)
        assert found
        for c in found:
            assert c.tokens[:n] == prefix
            assert c.token_logprobs[:n] == (0.0,) * n == c.token_scores[:n]
            rest = [model.logprobs(SOURCE, c.tokens[:i])[c.tokens[i]] for i in range(n, len(c.tokens))]
            assert c.score == pytest.approx(sum(rest) / len(rest), abs=1e-5)


def test_ngrams_are_not_repeated() -> None:
    model = TableModel(vocab_size=6)
    for size in (1, 2, 3):
        options = SearchOptions(beam=8, groups=2, max_len_b=12, min_len=4, no_repeat_ngram=size)
        for found in search(model, [SOURCE], options)[0]:
            body = found.tokens[:-1]
            grams = [body[i : i + size] for i in range(len(body) - size + 1)]
            assert len(grams) == len(set(grams))


def test_unkpen_lowers_the_score_but_not_the_logprob() -> None:
    model = TableModel()
    plain = search(model, [SOURCE], SearchOptions(beam=30, max_len_b=4))[0]
    assert any(UNK in c.tokens for c in plain)
    penalised = search(model, [SOURCE], SearchOptions(beam=30, max_len_b=4, unkpen=1.5))[0]
    by_tokens = {c.tokens: c for c in plain}
    for c in penalised:
        expected = c.logprob - 1.5 * c.tokens.count(UNK)
        assert c.score == pytest.approx(expected / len(c.tokens), abs=1e-5)
        if c.tokens in by_tokens:
            assert c.logprob == pytest.approx(by_tokens[c.tokens].logprob, abs=1e-5)
    assert not any(UNK in c.tokens for c in search(model, [SOURCE], SearchOptions(beam=9, max_len_b=4, unkpen=1e9))[0])


def test_temperature_divides_the_logits() -> None:
    model = TableModel()
    found = search(model, [SOURCE], SearchOptions(beam=3, max_len_b=5, temperature=2.0))[0]
    for c in found:
        each = [
            torch.log_softmax(model.logits(SOURCE, (START, *c.tokens[:i])) / 2.0, 0)[t].item()
            for i, t in enumerate(c.tokens)
        ]
        assert c.token_logprobs == pytest.approx(each, abs=1e-5)


def test_hooks_see_prefixes_and_change_scores() -> None:
    seen: list[tuple[int, int, int]] = []

    def no_five(sentences: Tensor, prefixes: Tensor, scores: Tensor) -> None:
        seen.append((len(sentences), prefixes.shape[1], prefixes.shape[2]))
        assert scores.shape == (*prefixes.shape[:2], 7)
        scores[sentences == 1, :, 5] = -math.inf
        scores[..., 4] -= 0.25

    model = TableModel()
    options = SearchOptions(beam=8, groups=2, strength=0.5, max_len_b=5)
    first, second = search(model, [SOURCE, SOURCE], options, hooks=[no_five])
    assert seen[0] == (2, 1, 0) and seen[1] == (2, 8, 1)
    assert any(5 in c.tokens for c in first) and not any(5 in c.tokens for c in second)
    for c in first:
        assert c.score == pytest.approx((c.logprob - 0.25 * c.tokens.count(4)) / len(c.tokens), abs=1e-5)


def test_a_hook_that_forbids_everything_leaves_an_empty_list() -> None:
    def nothing(sentences: Tensor, prefixes: Tensor, scores: Tensor) -> None:
        scores[sentences == 0] = -math.inf

    first, second = search(TableModel(), [SOURCE, SOURCE], SearchOptions(beam=4, max_len_b=5), hooks=[nothing])
    assert first == [] and len(second) == 4


def test_beams_wider_than_the_vocabulary_and_more_nbest_than_hypotheses() -> None:
    model = TableModel(vocab_size=5)
    for beam, groups in ((1, 1), (7, 1), (100, 10), (200, 200), (200, 1)):
        options = SearchOptions(beam=beam, groups=groups, nbest=500, max_len_b=2, min_len=0)
        found = search(model, [(EOS,)], options)[0]
        assert 1 <= len(found) <= 1 + 3 + 9
        assert len({c.tokens for c in found}) == len(found)
    assert len(search(model, [(EOS,)], SearchOptions(beam=9, nbest=2, max_len_b=2))[0]) == 2


def test_merged_duplicates_keep_their_first_group() -> None:
    model = TableModel()
    options = SearchOptions(beam=6, groups=6, strength=0.0, max_len_b=5)
    found = search(model, [SOURCE], options)[0]
    assert len(found) == 1 and found[0].group == 0
    every = search(model, [SOURCE], replace(options, nbest_per_group=True))[0]
    assert len(every) == 1


def test_empty_input_and_unusable_input() -> None:
    model = TableModel()
    assert search(model, [], SearchOptions()) == []
    with pytest.raises(UsageError, match="no tokens"):
        search(model, [[4, EOS], []], SearchOptions())
    with pytest.raises(UsageError, match="1 sources but 2 prefixes"):
        search(model, [SOURCE], SearchOptions(), prefixes=[[4], [4]])
    with pytest.raises(UsageError, match="not in the vocabulary"):
        search(model, [SOURCE], SearchOptions(), prefixes=[[7]])
    with pytest.raises(UsageError, match="end of sentence"):
        search(model, [SOURCE], SearchOptions(), prefixes=[[4, EOS]])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "`beam` is 0, expected 1 or more"),
        ({"groups": 0}, "`groups` is 0"),
        ({"beam": 4, "groups": 5}, "at most the beam"),
        ({"beam": 5, "groups": 2}, "multiple of `groups`"),
        ({"strength": -0.1}, "`strength` is -0.1"),
        ({"strength": math.nan}, "`strength` is nan"),
        ({"lenpen": math.inf}, "`lenpen` is inf"),
        ({"nbest": 0}, "`nbest` is 0"),
        ({"temperature": 0.0}, "`temperature` is 0.0"),
        ({"min_len": 9, "max_len_b": 8}, "`min_len` is 9"),
        ({"max_len_a": -1.0}, "`max_len_a` is -1.0"),
        ({"no_repeat_ngram": -1}, "`no_repeat_ngram` is -1"),
        ({"semantics": "other"}, "`semantics` is 'other'"),
        ({"sampling_topk": 5}, "needs `sampling`"),
        ({"sampling": True, "sampling_topp": 1.5}, "`sampling_topp` is 1.5"),
        ({"sampling": True, "beam": 4, "groups": 2}, "expected `groups` 1"),
        ({"forced_eos": True}, "`semantics` hf"),
        ({"semantics": "fairseq", "early_stopping": True}, "`early_stopping` has no use with `semantics` fairseq"),
        ({"early_stopping": False}, "heuristic"),
    ],
)
def test_settings_that_cannot_work_are_one_clear_error(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SearchOptions(**wrong).validate()  # type: ignore[arg-type]

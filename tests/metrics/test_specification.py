"""A metric with its options as one text: what is read, what it is called, what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import UsageError
from polyref.metrics import get_metric, make_metrics, metric_names
from polyref.metrics.base import Metric
from polyref.metrics.combination import COMBINATIONS, ExpectedCredit, Maximum
from polyref.metrics.ngram.bleu import BLEU
from polyref.metrics.ngram.chrf import CHRF
from polyref.metrics.ngram.ter import TER
from polyref.metrics.registry import (
    all_options,
    is_metric,
    metric_class,
    metric_options,
    needs_added,
    parse,
    read_specification,
    split,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bleu", "bleu"),
        (" BLEU ", "bleu"),
        ("chrF++()", "chrf++"),
        ("chrf( beta = 3 , combine=expected,alpha=.50 )", "chrf(combine=expected, alpha=0.5, beta=3)"),
        ("chrf(whitespace=yes, beta=03)", "chrf(beta=3, whitespace=true)"),
        ("bleu(smooth_value=1e-3, effective_order=False)", "bleu(smooth_value=0.001, effective_order=false)"),
        ("bleu(smooth_value=none)", "bleu(smooth_value=none)"),
        ("bertscore(idf=none,layer=3)", "bertscore(layer=3, idf=none)"),
        ("bertscore(model=org/name-1.2)", "bertscore(model=org/name-1.2)"),
        ("prism(model='a folder, (old)')", 'prism(model="a folder, (old)")'),
        ("bartscore(prompts=[Such as, 'a \"b\", c'])", r'bartscore(prompts=["Such as", "a \"b\", c"])'),
        ("bartscore(prompts=one)", "bartscore(prompts=[one])"),
    ],
)
def test_one_spelling(text: str, name: str) -> None:
    assert str(read_specification(text)) == name
    assert str(read_specification(name)) == name


@given(st.dictionaries(st.sampled_from(["model", "lang", "source_lang"]), st.text(max_size=20)))
def test_any_text_can_be_written(options: dict[str, str]) -> None:
    """What is written can be read back, whatever quotes, brackets and commas are in it."""
    quoted = {name: re.sub(r'([\\"])', r"\\\1", value) for name, value in options.items()}
    written = ", ".join(f'{name}="{value}"' for name, value in quoted.items())
    read = read_specification(f"peer({written})")
    # Of an option that may be none, the word says so.
    expected = {name: None if value.lower() == "none" and name != "model" else value for name, value in options.items()}
    assert read.options == expected
    assert read_specification(str(read)).options == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "metric '': found the end, expected the name of a metric"),
        ("chrf(", "found the end, expected the name of an option"),
        ("chrf)", "found ')', expected '(' or the end"),
        ("chrf(beta)", "found ')', expected '='"),
        ("chrf(beta=)", "found ')', expected a value"),
        ("chrf(beta=3 combine=max)", "found '=', expected ',' or ')'"),
        ("chrf(beta=3) x", "found 'x', expected the end"),
        ("chrf(beta='3)", 'found "\'", expected a value'),
        ("chrf(beta=3, beta=2)", "the option 'beta' is given twice"),
        ("blue(beta=3)", "unknown metric 'blue', did you mean bleu?"),
        ("xyz", "unknown metric 'xyz', expected one of bleu, chrf"),
        ("chrf(combin=max)", "chrf has no option 'combin', did you mean combine?"),
        ("chrf(betta=3)", "chrf has no option 'betta', did you mean beta?"),
        ("chrf(xyz=3)", "chrf has no option 'xyz', expected some of combine, alpha"),
        ("chrf(beta=x)", "chrf: `beta` is 'x', expected a whole number"),
        ("chrf(beta=1.5)", "chrf: `beta` is '1.5', expected a whole number"),
        ("chrf(beta=[1, 2])", "chrf: `beta` is a list, expected one value"),
        ("chrf(beta=0)", "chrf: `beta` is 0, expected 1 or more"),
        ("chrf(whitespace=maybe)", "chrf: `whitespace` is 'maybe', expected true or false"),
        ("chrf(combine=expected, alpha=2)", "`alpha` is 2.0, expected 0 to 1"),
        ("chrf(combine=sum)", "chrf: `combine` is 'sum', expected one of max, mean, expected, blend"),
        ("ter(combine=expected)", "ter: `combine` is 'expected', expected one of max, mean"),
        ("ter(alpha=1)", "ter has no option 'alpha', expected some of combine, weights, gamma, blend, normalized"),
        ("chrf(alpha=0.5)", "`alpha` is given, but has no use when references combine by max"),
        ("laser-lm-src(combine=mean)", "laser-lm-src has no option 'combine'"),
        ("bleu(smooth_value=nan)", "bleu: `smooth_value` is nan, expected 0 or more"),
        ("bartscore", "bartscore needs a model"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        get_metric(text)
    assert "\n" not in str(caught.value)


def test_both_ways_to_make_a_metric() -> None:
    made = CHRF(combination=ExpectedCredit(alpha=0.5), beta=3)
    assert get_metric("chrf(combine=expected, alpha=0.5, beta=3)") == made
    assert get_metric("chrf", combine="expected", alpha=0.5, beta=3) == made
    assert get_metric("chrf(beta=3)", combination=ExpectedCredit(alpha=0.5)) == made
    assert get_metric("chrf(beta=2)", beta=3).options["beta"] == 3
    assert made.options == {
        "combine": "expected", "alpha": 0.5, "power": 1.0, "share": 0.75, "weights": "uniform", "gamma": 1.0,
        "temperature": 2.0, "char_order": 6, "word_order": 0, "beta": 3, "lowercase": False, "whitespace": False,
        "eps_smoothing": False,
    }  # fmt: skip
    assert list(get_metric("ter").options)[:4] == ["combine", "weights", "gamma", "temperature"]


def test_lists_and_names() -> None:
    assert split("bleu,chrf(beta=3, combine=mean),  'a,b'") == ["bleu", "chrf(beta=3, combine=mean)", "'a,b'"]
    made = make_metrics(["chrf(combine=max)", "BLEU,chrf", "chrf( combine = max )", "bleu"])
    assert list(made) == ["chrf(combine=max)", "bleu", "chrf"]
    assert made["chrf"] == made["chrf(combine=max)"]


def test_defaults_are_for_all_metrics_that_have_them() -> None:
    made = make_metrics(["chrf(beta=1)", "chrf++", "bleu(combine=max)", "ter"], {"combine": "mean", "chrf_beta": 3})
    assert [made[name].options["beta"] for name in ("chrf(beta=1)", "chrf++")] == [1, 3]
    ways = [metric.combination.name for metric in made.values() if metric.combination is not None]
    assert ways == ["mean", "mean", "max", "mean"]
    # One that only some combinations read is left out where it has no use.
    made = make_metrics(["chrf(combine=expected)", "bleu"], {"alpha": 0.5})
    assert made["chrf(combine=expected)"].combination == ExpectedCredit(alpha=0.5)
    assert made["bleu"].combination == Maximum()
    # What the command knows of a language gives way to everything else.
    made = make_metrics(["bleu", "bleu(tokenize=char)", "chrf"], {}, tokenize="zh")
    assert [made[name].options["tokenize"] for name in ("bleu", "bleu(tokenize=char)")] == ["zh", "char"]
    assert make_metrics(["bleu"], {"tokenize": "intl"}, tokenize="zh")["bleu"].options["tokenize"] == "intl"


@pytest.mark.parametrize(
    ("asked", "defaults", "message"),
    [
        (["bleu"], {"chrf_beta": 3}, "`chrf_beta` is given, but none of bleu takes it (it is for chrf)"),
        (["ter"], {"chrf_word_order": 1}, "`chrf_word_order` is given, but none of ter takes it (it is for chrf)"),
        (["bleu"], {"bogus": 1}, "`bogus` is given, but none of bleu takes it"),
        (["bleu", "ter"], {"combine": "expected"}, "ter: `combine` is 'expected', expected one of max, mean"),
        (["bleu(combine=max)"], {"alpha": 0.5}, "set `combine` to one of expected"),
        (["bleu"], {"combine": "mean", "gamma": 3.0}, "set `weights` to logprob"),
    ],
)
def test_defaults_without_use(asked: list[str], defaults: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        make_metrics(asked, defaults)


def test_every_option_says_what_it_is_for() -> None:
    assert tuple(all_options()) == metric_names()
    for name, options in all_options().items():
        for option in options.values():
            assert option.help, (name, option.name)
            option.check(name, option.default) if name not in ("bartscore", "peer") else None
    # A flag is one option, whichever metrics have it: of one type and range.
    facts: dict[str, set[Any]] = {}
    for options in all_options().values():
        for option in options.values():
            if option.flag and option.name != "combine":
                facts.setdefault(option.flag, set()).add((option.name, option.type, option.range, option.help))
    assert [flag for flag, found in facts.items() if len(found) > 1] == []


def test_combinations_have_their_names() -> None:
    assert list(COMBINATIONS) == ["max", "max-each", "mean", "expected", "blend"]
    assert metric_options("bertscore")["combine"].choices == ("max", "max-each", "mean", "blend")
    assert metric_options("prism")["combine"].default == "mean"
    assert parse("A(b=c)").name == "a"


@pytest.mark.parametrize(
    ("asked", "defaults", "rows"),
    [
        (["chrf"], {"chrf_word_order": 2}, {"chrf++": CHRF(word_order=2)}),
        (["chrf(word_order=2)", "chrf++"], {}, {"chrf++": CHRF(word_order=2)}),
        (["chrf(word_order=1, beta=3)"], {}, {"chrf++(word_order=1, beta=3)": CHRF(word_order=1, beta=3)}),
        (["chrf++"], {"chrf_word_order": 0}, {"chrf": CHRF()}),
        # Who asks for both wants both.
        (["chrf", "chrf++"], {"chrf_word_order": 1}, {"chrf": CHRF(), "chrf++": CHRF(word_order=1)}),
        (["parbleu,bleu"], {}, {"parbleu": BLEU()}),
        (["parCHRF(word_order=2)"], {}, {"parchrf++": CHRF(word_order=2)}),
        (
            ["parter", "ter(case_sensitive=true)"],
            {},
            {"parter": TER(), "ter(case_sensitive=true)": TER(case_sensitive=True)},
        ),
    ],
    ids=["flag", "option", "order1", "chrf", "both", "parbleu", "parchrf", "parter"],
)
def test_metrics_are_called_as_people_know_them(
    asked: list[str], defaults: dict[str, Any], rows: dict[str, Metric]
) -> None:
    assert make_metrics(asked, defaults) == rows


@pytest.mark.parametrize("name", ["parbertscore", "parprism", "paresim", "parbartscore", "parlaser-lm"])
def test_every_metric_has_a_name_for_added_references(name: str) -> None:
    assert is_metric(name) and metric_class(name) == metric_class(name.removeprefix("par"))
    assert needs_added([name, name.removeprefix("par")]) == [name]


def test_spbleu_is_bleu_with_the_tokeniser_of_flores() -> None:
    assert str(read_specification("spBLEU")) == "bleu(tokenize=flores200)"
    assert str(read_specification("parspbleu(lowercase=true)")) == "parbleu(lowercase=true, tokenize=flores200)"
    assert str(read_specification("spbleu(tokenize=char)")) == "bleu(tokenize=char)"

"""The metrics' options at the command line, shared by the commands that score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from polyref.errors import UsageError
from polyref.metrics.base import Metric
from polyref.metrics.registry import get_metric

Command = TypeVar("Command", bound=Callable[..., Any])

_NGRAM: Final = ("bleu", "chrf", "chrf++")
_CHRF: Final = ("chrf", "chrf++")
#: Option of the command -> (metrics it belongs to, field of their class).
FIELDS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "combine": (_NGRAM, "combine"),
    "alpha": (_NGRAM, "alpha"),
    "power": (_NGRAM, "power"),
    "weights": (_NGRAM, "weights"),
    "gamma": (_NGRAM, "gamma"),
    "lowercase": (_NGRAM, "lowercase"),
    "tokenize": (("bleu",), "tokenize"),
    "smooth_method": (("bleu",), "smooth_method"),
    "smooth_value": (("bleu",), "smooth_value"),
    "effective_order": (("bleu",), "effective_order"),
    "chrf_char_order": (_CHRF, "char_order"),
    "chrf_word_order": (("chrf++",), "word_order"),
    "chrf_beta": (_CHRF, "beta"),
    "chrf_whitespace": (_CHRF, "whitespace"),
    "chrf_eps_smoothing": (_CHRF, "eps_smoothing"),
    "ter_case_sensitive": (("ter",), "case_sensitive"),
    "ter_normalized": (("ter",), "normalized"),
    "ter_no_punct": (("ter",), "no_punct"),
    "ter_asian_support": (("ter",), "asian_support"),
}

_OPTIONS: Final = (
    click.option(
        "--combine", metavar="NAME", help="How references combine: max (sacreBLEU), mean or expected. [default: max]"
    ),
    click.option("--alpha", type=float, help="Expected credit of an extra reference, 0 to 1. [default: 1]"),
    click.option("--power", type=float, help="Expected credit: exponent on the share of references. [default: 1]"),
    click.option(
        "--weights", metavar="NAME", help="For mean and expected: uniform, given or logprob. [default: uniform]"
    ),
    click.option("--gamma", type=float, help="Sharpness of the weights by log-probability. [default: 1]"),
    click.option("-lc", "--lowercase", is_flag=True, default=None, help="Ignore case (TER does anyway)."),
    click.option("--tokenize", metavar="NAME", help="BLEU: sacreBLEU's tokeniser. [default: 13a]"),
    click.option("--smooth-method", metavar="NAME", help="BLEU: exp, floor, add-k or none. [default: exp]"),
    click.option("--smooth-value", type=float, help="BLEU: value of floor (0.1) or add-k (1)."),
    click.option(
        "--effective-order/--no-effective-order",
        default=None,
        help="BLEU: leave out orders a text is too short for. [default: sentences yes, corpora no]",
    ),
    click.option("--chrf-char-order", type=int, help="chrF: longest character n-grams. [default: 6]"),
    click.option("--chrf-word-order", type=int, help="chrF++: longest word n-grams. [default: 2]"),
    click.option("--chrf-beta", type=int, help="chrF: weight of recall. [default: 2]"),
    click.option("--chrf-whitespace", is_flag=True, default=None, help="chrF: keep white space in n-grams."),
    click.option(
        "--chrf-eps-smoothing", is_flag=True, default=None, help="chrF: smooth as chrF++.py, NLTK and Moses do."
    ),
    click.option("--ter-case-sensitive", is_flag=True, default=None, help="TER: do not ignore case."),
    click.option("--ter-normalized", is_flag=True, default=None, help="TER: tokenise and normalise."),
    click.option("--ter-no-punct", is_flag=True, default=None, help="TER: remove punctuation."),
    click.option("--ter-asian-support", is_flag=True, default=None, help="TER: East Asian characters are words."),
)


def metric_options(command: Command) -> Command:
    """Decorate a command with the options, which reach it as keyword arguments named as in :data:`FIELDS`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_metric(name: str, metrics: Sequence[str], options: Mapping[str, Any], **defaults: Any) -> Metric:
    """Make a metric with those of the options that were given and belong to it.

    Args:
        name: The metric.
        metrics: All metrics asked for, to tell whether an option has any use.
        options: Options of the command; None is "not given".
        defaults: Fields of the metric's class to use where the option is not given, if it has them.

    Raises:
        UsageError: An option that none of ``metrics`` takes, or one out of range.
    """
    asked = {metric.lower() for metric in metrics}
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        takers, _ = FIELDS[option]
        if not asked & set(takers):
            flag = "--" + option.replace("_", "-")
            raise UsageError(f"{flag} is given, but none of -m {' '.join(metrics)} takes it (it is for {takers[0]})")
    name = name.lower()
    if name == "chrf++" and given.get("chrf_word_order", 1) < 1:
        raise UsageError("--chrf-word-order is 0, expected 1 or more", remedy="use -m chrf")
    fields = {field for takers, field in FIELDS.values() if name in takers}
    implied = {field: value for field, value in defaults.items() if field in fields and value is not None}
    chosen = {FIELDS[option][1]: value for option, value in given.items() if name in FIELDS[option][0]}
    return get_metric(name, **{**implied, **chosen})

"""Metrics by name, and with their options as one text: ``chrf(combine=expected, alpha=0.5)``.

Values in such a text are numbers, ``true`` or ``false``, ``none``, texts (in quotes where they hold ``( ) [ ] , =`` or
quotes), and lists such as ``[one, two]``. Modules are imported when a metric is made: listing them is light. Another
package adds metrics by entry points of the group ``polyref.metrics``: ``NAME = "MODULE:CLASS"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from polyref.errors import UsageError
from polyref.languages import base, split_pair, target_language
from polyref.metrics.base import Metric
from polyref.metrics.combination import COMBINATIONS, Combination, combination_options, idle
from polyref.options import Option, fields_of
from polyref.plugins import Plugins, tried
from polyref.values import several, text

#: A name of a metric or an option.
NAME: Final = re.compile(r"[\w+.-]+")
_TOKENS: Final = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<mark>[()\[\],=])
        |(?P<bare>[^\s()\[\],="']+(?:\s+[^\s()\[\],="']+)*)
        |(?P<end>$)
        |(?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
#: Texts that need no quotes and are nothing else.
_PLAIN: Final = re.compile(r"[\w./:@+~-]+")


@dataclass(frozen=True)
class Specification:
    """A metric's name in small letters, and the options that were written; :func:`parse` leaves their values texts."""

    name: str
    options: Mapping[str, Any]

    def __str__(self) -> str:
        """How rows name it: the name alone, or with the options in their order here."""
        if not self.options:
            return self.name
        return f"{self.name}({', '.join(f'{key}={_written(value)}' for key, value in self.options.items())})"


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value).removesuffix(".0")
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_written, value))}]"
    escaped = str(value).replace("\\", r"\\").replace('"', r"\"")
    return str(value) if _PLAIN.fullmatch(str(value)) else f'"{escaped}"'


def split(text: str) -> list[str]:
    """Take a list of specifications apart: at commas that are in no brackets and no quotes.

    >>> split("bleu,chrf(beta=3, word_order=2)")
    ['bleu', 'chrf(beta=3, word_order=2)']
    """
    parts, depth = [""], 0
    for piece in re.findall(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|.""", text, re.DOTALL):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def parse(text: str) -> Specification:
    """Read one specification; whether there is such a metric with such options is not looked up."""
    tokens = _Tokens(text)
    name = tokens.take("bare", "the name of a metric")
    if not NAME.fullmatch(name):
        raise tokens.fault("the name of a metric", name)
    options: dict[str, Any] = {}
    if tokens.kind != "end":
        tokens.mark("(", "'(' or the end")
        for _ in tokens.listed(")"):
            option = tokens.take("bare", "the name of an option")
            if option in options:
                raise UsageError(f"metric {text!r}: the option {option!r} is given twice")
            tokens.mark("=", "'='")
            if tokens.found == "[" and tokens.kind == "mark":
                tokens.mark("[", "'['")
                options[option] = [tokens.value() for _ in tokens.listed("]")]
            else:
                options[option] = tokens.value()
        if tokens.kind != "end":
            raise tokens.fault("the end", tokens.found)
    return Specification(name.lower(), options)


class _Tokens:
    """The pieces of a specification, one after the other."""

    def __init__(self, text: str) -> None:
        self._text, self._pieces = text, _TOKENS.finditer(text)
        self._step()

    def _step(self) -> None:
        piece = next(self._pieces)
        self.kind = piece.lastgroup or ""
        self.found = str(piece[self.kind])

    def take(self, kind: str, expected: str) -> str:
        if self.kind != kind:
            raise self.fault(expected, self.found)
        found = self.found
        self._step()
        return found

    def mark(self, mark: str, expected: str) -> None:
        if (self.kind, self.found) != ("mark", mark):
            raise self.fault(expected, self.found)
        self._step()

    def listed(self, end: str) -> Iterator[None]:
        """Once for every item that the caller then takes, to the mark at the end."""
        while (self.kind, self.found) != ("mark", end):
            yield
            if (self.kind, self.found) != ("mark", end):
                self.mark(",", f"',' or {end!r}")
        self._step()

    def value(self) -> str:
        if self.kind == "quoted":
            return re.sub(r"\\(.)", r"\1", self.take("quoted", "a value")[1:-1], flags=re.DOTALL)
        return self.take("bare", "a value")

    def fault(self, expected: str, found: str) -> UsageError:
        what = repr(found) if found else "the end"
        return UsageError(
            f"metric {self._text!r}: found {what}, expected {expected}", remedy="write NAME or NAME(OPTION=VALUE, ...)"
        )


#: What names the language of the outputs, among options that are called as their flags are.
TARGET_LANGUAGE: Final = "target_lang"
#: Polyref's own metrics: name -> where the class is, and the options that the name stands for.
METRICS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "bleu": ("polyref.metrics.ngram.bleu:BLEU", {}),
    "chrf": ("polyref.metrics.ngram.chrf:CHRF", {}),
    "chrf++": ("polyref.metrics.ngram.chrf:CHRF", {"word_order": 2}),
    "ter": ("polyref.metrics.ngram.ter:TER", {}),
    "rouge": ("polyref.metrics.ngram.rouge:ROUGE", {}),
    "esim": ("polyref.metrics.esim.metric:ESIM", {}),
    "bertscore": ("polyref.metrics.embedding.bertscore:BERTScore", {}),
    "laser-lm": ("polyref.metrics.embedding.laser_lm:LaserLM", {}),
    "laser-lm-src": ("polyref.metrics.embedding.laser_lm:LaserLMSource", {}),
    "prism": ("polyref.metrics.likelihood.prism:PrismRef", {}),
    "prism-src": ("polyref.metrics.likelihood.prism:PrismSrc", {}),
    "bartscore": ("polyref.metrics.likelihood.bartscore:BARTScore", {}),
    "bartscore-src": ("polyref.metrics.likelihood.bartscore:BARTScoreSrc", {}),
    "peer": ("polyref.metrics.likelihood.peer:Peer", {}),
    "metricx": ("polyref.metrics.learned.metricx:MetricX", {}),
    "metricx-src": ("polyref.metrics.learned.metricx:MetricXSource", {}),
    "comet": ("polyref.metrics.learned.comet:COMET", {}),
    "comet-src": ("polyref.metrics.learned.comet:COMETSource", {}),
    "gemba_da": ("polyref.metrics.gemba:GembaDA", {}),
    "gemba_da-src": ("polyref.metrics.gemba:GembaDASource", {}),
    "gemba_esa": ("polyref.metrics.gemba:GembaESA", {}),
    "gemba_esa-src": ("polyref.metrics.gemba:GembaESASource", {}),
}


#: Those, and the metrics of other packages.
REGISTRY: Final = Plugins(
    "metric",
    "polyref.metrics",
    {name: home for name, (home, _) in METRICS.items()},
    "a child of polyref.metrics.Metric",
    lambda name, found: isinstance(found, type) and issubclass(found, Metric),
    "small letters, digits and + . -",
    lambda name: NAME.fullmatch(name) is not None and name == name.lower(),
)
#: The tokenisers that sacreBLEU takes for these target languages.
_TOKENIZERS: Final[Mapping[str, str]] = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
#: Other names that people know -> the metric, and options of it.
_ALIASES: Final[dict[str, tuple[str, dict[str, Any]]]] = {"spbleu": ("bleu", {"tokenize": "flores200"})}
#: In front of a metric's name: with added references, as in the ParBLEU paper.
_ADDED: Final = "par"


def tokenizer_of(language: str) -> str | None:
    """The tokeniser that sacreBLEU uses for a target language (``zh``, ``zho_Hans``), or None for its default (13a)."""
    return _TOKENIZERS.get(base(language))


def plain_name(name: str) -> str:
    """The metric that a name stands for: ``parbleu`` is ``bleu``, and needs added references."""
    rest = name.removeprefix(_ADDED)
    return rest if rest != name and (rest in _ALIASES or rest in REGISTRY) else name


def needs_added(metrics: Iterable[str]) -> list[str]:
    """Those of some metrics, by what rows call them, that are asked for with added references: ``parbleu``."""
    names = {one: one.partition("(")[0] for one in metrics}
    return [one for one, name in names.items() if plain_name(name) != name]


def metric_names() -> tuple[str, ...]:
    """The names of all metrics, polyref's own first."""
    return REGISTRY.names()


def is_metric(specification: str) -> bool:
    """Whether a text begins with the name of a metric, with or without options."""
    name = plain_name(specification.partition("(")[0].strip().lower())
    return name in _ALIASES or name in REGISTRY


def metric_class(name: str) -> tuple[type[Metric], Mapping[str, Any]]:
    """The class of a metric, and the options that its name stands for."""
    name = plain_name(name)
    if name not in REGISTRY:
        raise UsageError(f"unknown metric {name!r}, {_meant(name, (*metric_names(), *_ALIASES), 'one')}")
    kind: type[Metric] = REGISTRY.load_own(name) if name in METRICS else REGISTRY.load(name)
    return kind, METRICS[name][1] if name in METRICS else {}


@cache
def metric_options(name: str) -> Mapping[str, Option]:
    """The options of a metric by name: those of its combinations, then its fields; flags are filled in."""
    kind, implied = metric_class(name)
    name = plain_name(name)
    family = kind.family or re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    found = {} if kind.combination is None else combination_options(kind.combinations, kind.combination)
    for field, one in fields_of(kind).items():
        flag = one.flag or f"--{family}-{field.replace('_', '-')}"
        found[field] = replace(one, flag=flag, family=family, default=implied.get(field, one.default))
    return found


def metric_label(specification: str) -> str:
    """What people call a metric: ``chrF++``, or ``chrF(beta=3)`` where it has options of its own."""
    name, bracket, options = specification.partition("(")
    kind, implied = metric_class(name.strip().lower())
    # A metric that needs a model cannot be made without one; what it is called needs its fields alone.
    bare = object.__new__(kind)
    bare.__dict__.update(implied)
    return bare.label + bracket + options


def all_options(added: Iterable[str] | None = None) -> Mapping[str, Mapping[str, Option]]:
    """:func:`metric_options` of all metrics, or of ``added`` and polyref's; a warning names what cannot be used."""
    added = REGISTRY.loaded() if added is None else added
    found = {name: tried(metric_options, name, where=f"the options of the metric {name}") for name in added}
    found = {name: metric_options(name) for name in METRICS} | found
    return {name: options for name, options in found.items() if options is not None}


def read_specification(text: str) -> Specification:
    """Read ``name`` or ``name(option=value, ...)``: options that the metric has, with values of their types.

    Names that people know are read as well: ``spbleu`` is ``bleu(tokenize=flores200)``, and chrF with words is chrF++.
    """
    written = parse(text)
    plain = plain_name(written.name)
    if plain in _ALIASES:
        alias, options = _ALIASES[plain]
        name = written.name.removesuffix(plain) + alias
        written = Specification(name, {**options, **written.options})
    known = metric_options(written.name)
    REGISTRY.entry(plain_name(written.name))
    for option in written.options:
        _check_known(written.name, option)
    given = written.options
    values = {option: one.read(written.name, given[option]) for option, one in known.items() if option in given}
    return _called(Specification(written.name, values))


def _called(one: Specification, word_order: int | None = None) -> Specification:
    """The same by the name that goes with it: chrF with word n-grams is chrF++, as in sacreBLEU, and the reverse.

    Where ``one`` does not say how long word n-grams are, it is ``word_order``.
    """
    plain, order = plain_name(one.name), one.options.get("word_order", word_order)
    if order is None or METRICS.get(plain, ("",))[0] != METRICS["chrf"][0]:
        return one
    name = "chrf++" if order else "chrf"
    options = dict(one.options)
    if "word_order" in options and options["word_order"] == METRICS[name][1].get("word_order", 0):
        del options["word_order"]
    return Specification(one.name.removesuffix(plain) + name, options)


def read_specifications(texts: Iterable[str], defaults: Mapping[str, Any] | None = None) -> list[Specification]:
    """Metrics that were asked for, as rows call them (``str``).

    Args:
        texts: Specifications; one that is there twice, in whatever spelling, is twice the same.
        defaults: As for :func:`make_metrics`. Word n-grams make chrF chrF++, unless chrF++ is asked for beside it.
    """
    read = [read_specification(one) for one in texts]
    order = (defaults or {}).get("chrf_word_order")
    beside = order and {plain_name(one.name) for one in read} >= {"chrf", "chrf++"}
    read = [_called(one, None if beside else order) for one in read]
    # parBLEU has what BLEU has, and more.
    fuller = {str(one).removeprefix(_ADDED): one for one in read if plain_name(one.name) != one.name}
    return [fuller.get(str(one), one) for one in read]


def _check_known(name: str, option: str) -> None:
    known = metric_options(name)
    if option not in known:
        raise UsageError(f"{name} has no option {option!r}, {_meant(option, known, 'some')}")


def _meant(name: str, known: Iterable[str], many: str) -> str:
    near = get_close_matches(name, known := list(known), n=1)
    return f"did you mean {near[0]}?" if near else f"expected {many} of {', '.join(known)}"


def get_metric(specification: str, **options: Any) -> Metric:
    """Make a metric: ``get_metric("chrf", beta=3)`` or ``get_metric("chrf(beta=3)")``.

    Args:
        specification: A name, or a name with options.
        options: Further options. They are the fields of the metric's class, and ``combine`` with the options of that
            combination (:mod:`polyref.metrics.combination`); or ``combination``, an object.

    Raises:
        UsageError: The name or an option is unknown, or an option is out of range.
    """
    read = read_specification(text("specification", specification))
    kind, implied = metric_class(read.name)
    asked = {**read.options, **options}
    made = {}
    if isinstance(asked.get("combination"), Combination) and kind.combinations:
        made["combination"] = asked.pop("combination")
    for option in asked:
        _check_known(read.name, option)
    own = {option: asked.pop(option) for option in list(asked) if option in fields_of(kind)}
    if asked:
        made["combination"] = _combination(read.name, kind, asked)
    return kind(**{**implied, **made, **own})


def _combination(name: str, kind: type[Metric], options: dict[str, Any]) -> Combination:
    combine = str(options.pop("combine", _usual(kind)))
    metric_options(name)["combine"].check(name, combine)
    chosen = COMBINATIONS[combine]
    for option in options:
        if option not in fields_of(chosen):
            raise idle(option, [combine], kind.combinations)
    return chosen(**options)


def _usual(kind: type[Metric]) -> str:
    """How a metric's references combine where nothing is said, by name."""
    return kind.combination.name if kind.combination is not None else ""


def make_metrics(
    specifications: Iterable[str], defaults: Mapping[str, Any] | None = None, pair: str | None = None, **fallback: Any
) -> dict[str, Metric]:
    """Metrics by what rows call them: the name, or the specification in one spelling where it has options.

    Args:
        specifications: Such as ``bleu``, ``chrf(combine=expected)`` or ``bleu,chrf``. One that is there twice, in
            whatever spelling, is made once.
        defaults: Options for all metrics that have them and do not say otherwise, by the names of their flags:
            ``combine``, ``chrf_beta``. None and an empty tuple are not given. ``target_lang`` also chooses BLEU's
            tokeniser, as sacreBLEU does.
        pair: Of languages, ``en-de``: for BLEU's tokeniser and models that ask for it, where nothing else was said.
        fallback: Fields for all metrics that have them, where nothing else was said; None is not given.

    Raises:
        UsageError: As for :func:`get_metric`; or one of ``defaults`` belongs to none of the metrics, or changes none.
    """
    parts = [part for text in specifications for part in split(text)]
    read = {str(one): one for one in read_specifications(parts, defaults)}
    given = {parameter: value for parameter, value in (defaults or {}).items() if value is not None and value != ()}
    _check_taken(given, read)
    if TARGET_LANGUAGE in given or pair is not None:
        fallback["tokenize"] = tokenizer_of(given.get(TARGET_LANGUAGE) or target_language(pair or ""))
    made = {}
    for key, asked in read.items():
        options = metric_options(asked.name)
        chosen = {option: value for option, value in fallback.items() if option in options and value is not None}
        chosen |= {name: given[known.parameter] for name, known in options.items() if known.parameter in given}
        if plain_name(asked.name) == "chrf":  # with word n-grams it would not be called so
            chosen.pop("word_order", None)
        made[key] = between(get_metric(asked.name, **_readable(asked, chosen)), pair)
    _check_used(given, made)
    return made


def between(metric: Metric, pair: str | None) -> Metric:
    """The metric for texts of a language pair."""
    return metric.between(*languages) if pair and (languages := split_pair(pair)) else metric


def named_metrics(
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, Metric], target_lang: str | None = None
) -> dict[str, Metric]:
    """Metrics by the names that rows give them, whatever way they were asked for.

    A mapping has the names already; ``target_lang`` is the language of the outputs, for metrics given by name.
    """
    language: dict[str, Any] = (
        {} if target_lang is None else {"tokenize": tokenizer_of(target_lang), "lang": target_lang}
    )
    named: dict[str, Metric] = dict(metrics) if isinstance(metrics, Mapping) else {}
    if odd := [name for name, one in named.items() if not isinstance(one, Metric)]:
        remedy = "make it with get_metric, or give a list of names"
        raise UsageError(f"`metrics`[{odd[0]!r}] is {named[odd[0]]!r}, expected a metric", remedy=remedy)
    listed = [] if named else several("metrics", metrics, name_or_metric)
    read = False
    for one in listed:
        for name, metric in (make_metrics([one], **language) if isinstance(one, str) else {one.name: one}).items():
            read |= isinstance(one, str) and any(hasattr(metric, option) for option in language)
            if named.setdefault(name, metric) != metric:
                remedy = "give a mapping from name to metric"
                raise UsageError(f"`metrics` has two metrics called {name!r}", remedy=remedy)
    if not named:
        raise UsageError("`metrics` is empty, expected at least one")
    if language and not read:
        raise UsageError("`target_lang` is given, but none of `metrics` that are given by name reads it")
    return named


def name_or_metric(name: str, value: Any) -> str | Metric:
    """One of ``metrics``; anything else is refused."""
    if isinstance(value, (str, Metric)):
        return value
    raise UsageError(f"`{name}` is {value!r}, expected metrics by name, or objects that get_metric made")


def _readable(one: Specification, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults and written options, without defaults that the combination in use does not read."""
    options = {**chosen, **one.options}
    kind, _ = metric_class(one.name)
    combine = str(options.get("combine", _usual(kind)))
    read = {"combine", *one.options, *fields_of(kind)}
    read |= fields_of(COMBINATIONS[combine]).keys() if combine in COMBINATIONS else set()
    return {name: value for name, value in options.items() if name in read}


def _check_taken(given: Iterable[str], read: Mapping[str, Specification]) -> None:
    """Refuse defaults that none of the metrics has."""
    taken = {known.parameter for one in read.values() for known in metric_options(one.name).values()}
    if "tokenize" in taken:
        taken.add(TARGET_LANGUAGE)
    for parameter in given:
        if parameter not in taken:
            everywhere = all_options().items()
            takers = [name for name, options in everywhere if parameter in {one.parameter for one in options.values()}]
            known = f" (it is for {takers[0]})" if takers else ""
            raise UsageError(f"`{parameter}` is given, but none of {', '.join(read)} takes it{known}")


def _check_used(given: Iterable[str], made: Mapping[str, Metric]) -> None:
    """Refuse defaults that change no metric, as references combine."""
    chosen = [metric for metric in made.values() if len(metric.combinations) > 1]
    ways = [metric.combination for metric in chosen if metric.combination is not None]
    known = {option for kind in COMBINATIONS.values() for option in fields_of(kind)}
    for option in given:
        if option in known and not any(way.reads(option) for way in ways):
            names = dict.fromkeys(way.name for way in ways)
            raise idle(option, list(names), [kind for metric in chosen for kind in metric.combinations])

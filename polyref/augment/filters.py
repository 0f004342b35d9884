"""Which candidates may become references: chains of checks and measures, by name or composed in a TOML file.

A check looks at one candidate and the reference it was made from, without a model; a measure needs one. A
:class:`FilterChain` runs them in order and gives each dropped candidate the name of the first that refused it. Copies
of any reference the segment already has, and duplicates among the candidates, are always dropped: they would add
weight, not coverage. A filter file composes a chain::

    base = "default"            # default, good-writer, small-model, strict or none; none where it is not given
    echo = false                # take a check out
    names = true                # add one
    [length]                    # one with thresholds
    low = 0.75
    high = 1.4
    [backward]                  # and those that need a model
    model = "shipped"
    min = -1.5
    power = 1.0                 # store its value as the weight of the reference
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, get_args, get_origin

from polyref.augment import checks, english_checks, english_grammar
from polyref.augment.candidates import Candidate, Dropped
from polyref.augment.checks import Check
from polyref.comparison import Repeats, comparison_key
from polyref.errors import DataError, ModelError, UsageError
from polyref.json_files import read_toml
from polyref.languages import base
from polyref.options import Option
from polyref.plugins import Plugins
from polyref.references import Segment
from polyref.textfiles import read_lines

#: What makes the checks that know English alone, by the names they have in filter files.
_ENGLISH: Final[dict[str, Callable[..., Check]]] = {
    "amounts": english_checks.amounts,
    "dates": english_checks.dates,
    "names": english_checks.names,
    "negation": english_checks.negation,
    "persons": english_checks.persons,
    "opening": english_grammar.opening,
    "grammar": english_grammar.grammar,
    "vocabulary": english_grammar.vocabulary,
    "echo": english_checks.echo,
    "omission": english_checks.omission,
}
#: What makes checks. Parameters that are numbers or yes and no are options of filter files; ``lang`` is the language
#: of the references.
CHECKS: Final[dict[str, Callable[..., Check]]] = {
    "numbers": checks.numbers,
    "links": checks.links,
    "placeholders": checks.placeholders,
    "language": checks.language,
    "form": checks.form,
    "repetition": checks.repetition,
    "talk": checks.talk,
    "several": checks.several,
    "foreign": checks.foreign,
    "length": checks.length,
    **_ENGLISH,
}
FILTERS: Final = Plugins(
    "filter",
    "polyref.filters",
    {
        **CHECKS,
        "embedding": "polyref.augment.measures:Cosine",
        "forward": "polyref.augment.measures:Forced",
        "backward": "polyref.augment.measures:Backward",
        "equivalence": "polyref.augment.measures:Equivalence",
        "fluency": "polyref.augment.measures:Fluency",
    },
    "a function that gives a Check, or a class with `score` and `weight`",
    lambda name, found: callable(found),
)
#: What generators need, and so what ``default`` stands for: ``good-writer`` drops only what is certain, ``small-model``
#: the faults of small models as well.
NEEDS: Final = ("good-writer", "small-model")
PRESETS: Final = ("default", *NEEDS, "strict", "none")
_SMALL_MODEL: Final[dict[str, dict[str, Any]]] = {
    **{name: {} for name in ("numbers", "links", "placeholders", "language", "form", "repetition", "length")},
    **{name: {} for name in _ENGLISH},
    "omission": {"allowed": 0.34, "deletion": True},
}
#: The checks of each preset, in order, with options that are not the defaults.
_CHECKS_OF: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "none": {},
    "good-writer": {
        "talk": {},
        "several": {},
        "foreign": {},
        "length": {"low": 0.05, "high": 4, "slack": 10, "stub": 4},
        "placeholders": {},
    },
    "small-model": _SMALL_MODEL,
    "strict": {
        **_SMALL_MODEL,
        "length": {"low": 0.75, "high": 1.4},
        "negation": {"exact": True},
        "opening": {"ties": False},
        "omission": {},
    },
}
#: Least and most share of the length of a source, and letters that are always allowed. Of 9 human references of WMT
#: with 16,245 segments the first keeps all, the second all but 0.02 %, the third all but 0.3 %.
_LENGTHS: Final = {"good-writer": (0.1, 6.0, 20), "small-model": (0.4, 2.5, 15), "strict": (0.5, 2.0, 10)}
#: Digits kept of values: most differences of float arithmetic between batches and machines are below.
_DIGITS: Final = 4
#: What all measures have.
_SHARED: Final = {
    "min": Option(type=float),
    "quantile": Option(type=float, least=0, most=1),
    "power": Option(type=float, least=0),
}


class Scorer(Protocol):
    """Measures pairs of texts; ``signature`` is the kind and content hash of its model."""

    signature: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number a (reference, candidate); larger is better."""

    def weight(self, value: float) -> float:
        """A value as a weight, 0 to 1."""


@dataclass(frozen=True)
class Measure:
    """A filter that needs a model: by a threshold, or by a quantile of the candidates of a segment.

    Attributes:
        name: With its parameters; becomes the reason.
        scorer: What it measures with.
        minimum: Candidates below are dropped.
        quantile: This share of every segment's candidates, rounded down, is dropped: those with the lowest values;
            of equal ones the worse ranks first. 0 to 1.
        power: The value, as a weight to this power, goes into ``Reference.weight``; None leaves the weight alone.
    """

    name: str
    scorer: Scorer
    minimum: float | None = None
    quantile: float | None = None
    power: float | None = None

    def apply(
        self, segments: Sequence[Segment], candidates: Sequence[Sequence[Candidate]], dropped: Counter[str]
    ) -> list[list[Candidate]]:
        """What is left of the candidates of each segment, with weights; those that are dropped are counted."""
        pairs = [
            (segment.refs[one.of].text, one.text)
            for segment, found in zip(segments, candidates, strict=True)
            for one in found
        ]
        scored = self.scorer.score(pairs) if pairs else []
        for (_, text), value in zip(pairs, scored, strict=True):
            if not math.isfinite(value):
                raise ModelError(
                    f"{self.name} measures {value} for {text[:80]!r}, expected a finite number",
                    remedy="is its model damaged? With half precision, try float32",
                )
        values = iter(scored)
        result = []
        for found in candidates:
            measured = [(round(next(values), _DIGITS), one) for one in found]
            order = sorted(range(len(found)), key=lambda n: (measured[n][0], -measured[n][1].rank, -measured[n][1].of))
            lowest = set(order[: int((self.quantile or 0.0) * len(found))])
            least = -math.inf if self.minimum is None else self.minimum
            kept = [item for n, item in enumerate(measured) if n not in lowest and item[0] >= least]
            dropped[self.name] += len(found) - len(kept)
            result.append([one if self.power is None else self._weighed(value, one, self.power) for value, one in kept])
        return result

    def _weighed(self, value: float, candidate: Candidate, power: float) -> Candidate:
        before = 1.0 if candidate.weight is None else candidate.weight
        return replace(candidate, weight=round(before * self.scorer.weight(value) ** power, _DIGITS))


@dataclass(frozen=True)
class FilterChain:
    """Checks in order, after the rules that always hold.

    Attributes:
        name: As it is written into signatures: the preset, the language and the checks.
        checks: Run in this order, after the rules that always hold.
        measures: Filters that need a model, run in this order on what passed the checks.
        by_need: The chains, by the need of a candidate, of which only the checks count; empty where one is for all.
    """

    name: str
    checks: tuple[Check, ...] = ()
    measures: tuple[Measure, ...] = ()
    by_need: Mapping[str, FilterChain] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons a candidate can be dropped for, in the order of the checks: those that signatures name."""
        every = [check for chain in self.by_need.values() or (self,) for check in chain.checks]
        checks = [check.name for check in every if check.stated]
        named = [*dict.fromkeys(checks), *(measure.name for measure in self.measures)]
        return ("empty", "copy", "duplicate", *named)

    def start(self, originals: Iterable[str], extras: Iterable[str] = ()) -> Offers:
        """Begin a segment that already has these references."""
        return Offers(self, originals, extras)

    def measure(
        self,
        segments: Sequence[Segment],
        candidates: Sequence[Sequence[Candidate]],
        dropped: Counter[str],
        refused: Sequence[list[Dropped]],
    ) -> list[list[Candidate]]:
        """What is left of the candidates of each segment; those that are not are counted, and added to ``refused``."""
        left = [list(found) for found in candidates]
        for measure in self.measures:
            before, left = left, measure.apply(segments, left, dropped)
            for segment, found, kept, there in zip(segments, before, left, refused, strict=True):
                texts = {one.text for one in kept}  # duplicates were dropped before: no two are equal
                there += (Dropped.of_segment(segment, one, measure.name) for one in found if one.text not in texts)
        return left


class Offers:
    """The candidates of one segment, offered best first; remembers what was taken."""

    def __init__(self, chain: FilterChain, originals: Iterable[str], extras: Iterable[str]) -> None:
        self._chain = chain
        self._repeats = Repeats(originals, extras)

    def offer(
        self, reference: str, candidate: str, *, beginning: bool = False, composed: bool = False, need: str = ""
    ) -> str | None:
        """Take a paraphrase of a reference, which is None; or say why not, one of ``FilterChain.reasons``.

        Args:
            reference: The whole reference.
            candidate: The paraphrase.
            beginning: The paraphraser read only the beginning of ``reference``: repeating that is copying, too.
            composed: The paraphrase was put together from sentences that were offered one by one.
            need: Which filter its generator needs, where that makes a difference.
        """
        reason = self._repeats.reason(candidate)
        if reason in (None, "duplicate") and beginning:
            reason = "copy" if comparison_key(reference).startswith(comparison_key(candidate)) else reason
        if reason is not None:
            return reason
        for check in self._chain.by_need.get(need, self._chain).checks:
            if not (composed and check.within_sentences) and not check.accepts(reference, candidate):
                return check.name
        self._repeats.take(candidate)
        return None


def filter_chain(
    name: str = "default",
    lang: str = "en",
    need: str = "small-model",
    *,
    models: bool = True,
    source_lang: str | None = None,
) -> FilterChain:
    """The chain with a name, or that of a TOML file (:mod:`polyref.augment.filters`).

    ``none`` drops copies and duplicates alone. ``good-writer`` also drops what is certainly no rewrite: refusals and
    explanations, several answers in one, another script or language, absurd lengths, other markup.
    ``small-model`` also drops changed numbers and links, broken sentences, loops and outliers of length; for English,
    candidates with other amounts, dates, names or persons, without the negation or with a new one, with an opening,
    wording or word that is no English, that say a content word again or leave out too many. ``strict`` is tighter on
    length, negation and content words. ``default`` is what a generator needs.

    Translations are compared with their source: numbers, names, markup, language and length.

    Args:
        name: One of ``PRESETS``, or the path of a file.
        lang: Language code of the references; only its first part counts (``en-GB`` is English).
        need: What ``default`` stands for, one of :data:`polyref.augment.filters.NEEDS`.
        models: Load the models that a file names; where not, its filters with models are left out.
        source_lang: Language code of the sources, where candidates are translations of these.

    Raises:
        UsageError: There is no such preset and no such file, or a file is given for translations.
        DataError: The file is not understood.
    """
    name = need if name == "default" else name
    if name in PRESETS:
        rules = preset_checks(name, lang, source_lang).values()
        stated = "+".join(rule.name for rule in rules if rule.stated)
        label = name if source_lang is None else f"{name}(of translations)"
        return FilterChain(f"{label}:{stated}" if stated else label, tuple(rules))
    if not (name.endswith(".toml") or Path(name).is_file()):
        raise UsageError(f"there is no filter {name!r}, expected one of {', '.join(PRESETS)}, or a TOML file")
    if source_lang is not None:
        remedy = f"name one of {', '.join(PRESETS)}"
        raise UsageError(f"the filter {name} compares with references, but translations have none", remedy=remedy)
    return read_filter(name, lang, need, models=models)


def fitting_chain(name: str, lang: str, needs: Mapping[str, str], source_lang: str | None = None) -> FilterChain:
    """The chain with a name, for candidates of certain needs: ``default`` is for each what it needs, and says why."""
    chains = {
        need: filter_chain(name, lang, need, models=number == 0, source_lang=source_lang)
        for number, need in enumerate(sorted(needs))
    }
    if name == "default":
        for need, chain in chains.items():
            chains[need] = replace(chain, name=chain.name.replace(need, f"{need}(for {needs[need]})", 1))
    first = next(iter(chains.values()))
    if len({tuple(check.name for check in chain.checks) for chain in chains.values()}) == 1:
        return first
    return replace(first, name=" + ".join(chain.name for chain in chains.values()), by_need=chains)


def filters_in(name: str, needs: Mapping[str, str]) -> dict[str, str]:
    """Which filters hold in a run, each with why: what asks for it, or ``--filter``."""
    return dict(sorted(needs.items())) if name == "default" else {name: "--filter"}


def preset_checks(preset: str, lang: str, source_lang: str | None = None) -> dict[str, Check]:
    """The checks of a preset, in order, by the names they have in filter files. It is not ``default``.

    Where candidates are translations from ``source_lang``, they compare with the source.
    """
    if source_lang is not None and preset != "none":
        return {
            "talk": checks.talk(),
            "several": checks.several(),
            "untranslated": checks.untranslated(),
            "numbers": checks.translated_numbers(),
            "names": checks.translated_names(lang),
            **({} if preset == "good-writer" else {"links": checks.links()}),
            "placeholders": checks.translated_placeholders(),
            "language": checks.translated_language(lang),
            "length": checks.translated_length(*_LENGTHS[preset]),
        }
    english = base(lang) == "en"
    wanted = {name: given for name, given in _CHECKS_OF[preset].items() if english or name not in _ENGLISH}
    rules = {name: _made(CHECKS[name], given, lang) for name, given in wanted.items()}
    if preset == "good-writer":
        rules["placeholders"] = replace(rules["placeholders"], stated=False)
    return rules


def read_filter(path: str | Path, lang: str = "en", need: str = "small-model", *, models: bool = True) -> FilterChain:
    """The chain that a TOML file describes.

    Its name holds a hash of what the file says, the language, and the content of every model in it.

    Args:
        path: The file.
        lang: Language of the references, as for :func:`filter_chain`.
        need: What ``base = "default"`` stands for, as there.
        models: Load the models, and not the checks alone.
    """
    values = _values(path)
    if unknown := [key for key in values if key != "base" and key not in FILTERS]:
        known = ", ".join(("base", *FILTERS.names()))
        raise DataError(f"unknown key {unknown[0]!r}, expected some of {known}", file=path)
    preset = values.get("base", "none")
    if preset not in PRESETS:
        raise DataError(f'"base" is {preset!r}, expected one of {", ".join(PRESETS)}', file=path)
    rules = preset_checks(need if preset == "default" else preset, lang)
    wanted: list[tuple[str, Any, dict[str, Any]]] = []
    for key in [key for key in FILTERS.names() if key in values]:
        make = FILTERS.load(key)
        options = _options(path, key, values[key], make)
        if options is None:
            rules.pop(key, None)
        elif isinstance(make, type):
            wanted.append((key, make, options))
        elif key in _ENGLISH and base(lang) != "en":
            raise DataError(f"{key!r} knows English alone, but the references are {lang!r}", file=path)
        else:
            rules[key] = _in_file(path, key, make, options, lang)
    measured = [_measure(path, key, make, options, lang) for key, make, options in wanted] if models else []
    hashed = _digest(json.dumps(values, sort_keys=True), lang, *(one.scorer.signature for one in measured))
    stated = [rule.name for rule in rules.values() if rule.stated]
    names = "+".join([*stated, *(measure.name for measure in measured)]) or "none"
    return FilterChain(f"{Path(path).stem}#{hashed}:{names}", tuple(rules.values()), tuple(measured))


def names_models(path: str | Path) -> bool:
    """Whether a file that describes a chain has filters with models."""
    asked = [key for key, value in _values(path).items() if value is not False and key in FILTERS]
    return any(isinstance(FILTERS.load(key), type) for key in asked)


def _values(path: str | Path) -> dict[str, Any]:
    return read_toml("".join(f"{line}\n" for line in read_lines(path, allow_empty_file=True)), path)


def _options_of(make: Callable[..., Any]) -> dict[str, Option]:
    """The options of a filter file that a check or measure takes: its parameters, but for the language."""
    found = {}
    for name, parameter in inspect.signature(make, eval_str=True).parameters.items():
        hint = parameter.annotation
        kind, known = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, Option())
        if name != "lang" and kind in (bool, int, float, str):
            found[name] = replace(known, type=kind, default=parameter.default)
    return found


def _made(make: Callable[..., Any], options: Mapping[str, Any], lang: str) -> Any:
    """A check or measure, which is told the language if it asks."""
    made = make(**options, **({"lang": lang} if "lang" in inspect.signature(make).parameters else {}))
    if not isinstance(make, type) and not isinstance(made, Check):
        raise UsageError(f"gave {made!r}, expected a Check")
    return made


def _in_file(path: str | Path, key: str, make: Callable[..., Any], options: Mapping[str, Any], lang: str) -> Any:
    """A check or measure; what is wrong with it names the file and the key."""
    try:
        return _made(make, options, lang)
    except ModelError as error:
        raise ModelError(f"[{key}]: {error}", file=path) from None
    except UsageError as error:
        raise UsageError(f"[{key}]: {error.message}", file=path) from None


def _options(path: str | Path, key: str, value: Any, make: Callable[..., Any]) -> dict[str, Any] | None:
    """The options of a check or measure, with all that it has in common with others; None where it is taken out."""
    if not isinstance(value, (bool, dict)):
        raise DataError(f"{key!r} is {value!r}, expected true, false or a table [{key}]", file=path)
    if value is False:
        return None
    known = own = _options_of(make)
    if isinstance(make, type):
        limits = replace(_SHARED["min"], least=getattr(make, "least", None), most=getattr(make, "most", None))
        first = {name: one for name, one in own.items() if name == "model"}
        known = {**first, **_SHARED, "min": limits, **own}
    options = {}
    for name, given in ({} if value is True else value).items():
        if name not in known:
            choice = f"expected some of {', '.join(known)}" if known else f"but {key} takes none"
            raise DataError(f"[{key}]: unknown key {name!r}, {choice}", file=path)
        options[name] = _read(known[name], given)
        if options[name] is None:
            raise DataError(f"[{key}]: {name!r} is {given!r}, expected {_expected(known[name])}", file=path)
    if isinstance(make, type) and not _SHARED.keys() & options.keys():
        remedy = "give it min, quantile or power"
        raise DataError(f"[{key}] drops nothing and weighs nothing", file=path, remedy=remedy)
    for name, one in own.items():
        if one.default is inspect.Parameter.empty and name not in options:
            raise DataError(f"[{key}] names no {one.help or name}", file=path, remedy=f'{name} = "DIR", or a hub name')
    return options


def _read(one: Option, value: Any) -> Any:
    """A value of a file as the option's kind; None where it does not fit."""
    if one.type in (bool, str) or isinstance(value, bool):
        return value if isinstance(value, one.type) and isinstance(value, bool) == (one.type is bool) else None
    low, high = (-math.inf if one.least is None else one.least), (math.inf if one.most is None else one.most)
    try:
        whole = isinstance(value, int) or (one.type is float and isinstance(value, float))
        return one.type(value) if whole and math.isfinite(value) and low <= value <= high else None
    except OverflowError:
        return None


def _expected(one: Option) -> str:
    """What an option may be, for messages."""
    if one.type in (bool, str):
        return {bool: "true or false", str: "a string"}[one.type]
    what = "a whole number" if one.type is int else "a number"
    low = "" if one.least is None else f" from {one.least:g}"
    high = "" if one.most is None else f" to {one.most:g}" if low else f" of at most {one.most:g}"
    return what + low + high


def _measure(path: str | Path, key: str, make: type, options: Mapping[str, Any], lang: str) -> Measure:
    own = {name: value for name, value in options.items() if name not in _SHARED}
    scorer = _in_file(path, key, make, own, lang)
    name = key
    if "min" in options:
        name += f">={options['min']:g}"
    if "quantile" in options:
        name += f"@{options['quantile']:g}"
    return Measure(name, scorer, options.get("min"), options.get("quantile"), options.get("power"))


def _digest(*parts: str) -> str:
    """First 12 hexadecimal digits of a hash of some strings."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

"""Which candidates may become references: chains of checks and measures, by name or composed in a TOML file."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from polyref.augment import checks, english_checks, english_grammar
from polyref.augment.checks import Check
from polyref.augment.measures import Measure, Scorer
from polyref.augment.selection import Candidate, Dropped
from polyref.comparison import Repeats, comparison_key
from polyref.errors import DataError, ModelError, UsageError
from polyref.json_files import read_toml
from polyref.languages import base
from polyref.references import Segment
from polyref.textfiles import read_lines


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
        refused: Sequence[list[Dropped]] = (),
    ) -> list[list[Candidate]]:
        """What is left of the candidates of some segments after the filters that need a model.

        Args:
            segments: Shape (N,).
            candidates: One list a segment.
            dropped: Refused candidates are counted here, by reason.
            refused: They are added here, one list a segment, if given.
        """
        left = [list(found) for found in candidates]
        for measure in self.measures:
            before, left = left, measure.apply(segments, left, dropped)
            for segment, found, kept, there in zip(segments, before, left, refused, strict=bool(refused)):
                texts = {one.text for one in kept}  # duplicates were dropped before: no two are equal
                there += (
                    Dropped(segment.id, one.of, one.rank, one.text, measure.name)
                    for one in found
                    if one.text not in texts
                )
        return left


class Offers:
    """The candidates of one segment, offered best first; remembers what was taken."""

    def __init__(self, chain: FilterChain, originals: Iterable[str], extras: Iterable[str]) -> None:
        self._chain = chain
        self._repeats = Repeats(originals, extras)

    def offer(
        self, reference: str, candidate: str, *, beginning: bool = False, composed: bool = False, need: str = ""
    ) -> str | None:
        """Take ``candidate``, a paraphrase of ``reference``; or say why not.

        Args:
            reference: The whole reference.
            candidate: The paraphrase.
            beginning: The paraphraser read only the beginning of ``reference``: repeating that is copying, too.
            composed: The paraphrase was put together from sentences that were offered one by one.
            need: Which filter its generator needs, where that makes a difference.

        Returns:
            None when it was taken, otherwise the reason, one of ``FilterChain.reasons``.
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


#: What generators need, and so what ``default`` stands for: ``good-writer`` drops only what is certain, ``small-model``
#: the faults of small models as well.
NEEDS: Final = ("good-writer", "small-model")
PRESETS: Final = ("default", *NEEDS, "strict", "none")
#: Least and most share of the length of a source, and letters that are always allowed. Of 9 human references of WMT
#: with 16,245 segments the first keeps all, the second all but 0.02 %, the third all but 0.3 %.
_LENGTHS: Final = {"good-writer": (0.1, 6.0, 20), "small-model": (0.4, 2.5, 15), "strict": (0.5, 2.0, 10)}


def is_english(lang: str) -> bool:
    """Whether a language code stands for a kind of English."""
    return base(lang) == "en"


def preset_checks(preset: str, lang: str, source_lang: str | None = None) -> dict[str, Check]:
    """The checks of a preset, in order, by the names they have in filter files. It is not ``default``.

    Where candidates are translations from ``source_lang``, they compare with the source.
    """
    if preset == "none":
        return {}
    if source_lang is not None:
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
    if preset == "good-writer":
        return {
            "talk": checks.talk(),
            "several": checks.several(),
            "foreign": checks.foreign(lang),
            "length": checks.length(0.05, 4, 10, stub=4),
            "placeholders": replace(checks.placeholders(), stated=False),
        }
    strict = preset == "strict"
    rules = {
        "numbers": checks.numbers(lang),
        "links": checks.links(),
        "placeholders": checks.placeholders(),
        "language": checks.language(),
        "form": checks.form(lang),
        "repetition": checks.repetition(),
        "length": checks.length(0.75, 1.4) if strict else checks.length(0.6, 1.6),
    }
    if is_english(lang):
        rules |= {
            "amounts": english_checks.amounts(),
            "dates": english_checks.dates(),
            "names": english_checks.names(),
            "negation": english_checks.negation(exact=strict),
            "persons": english_checks.persons(),
            "opening": english_grammar.opening(ties=not strict),
            "grammar": english_grammar.grammar(),
            "vocabulary": english_grammar.vocabulary(),
            "echo": english_checks.echo(),
            "omission": english_checks.omission() if strict else english_checks.omission(0.34, deletion=True),
        }
    return rules


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
    """The chain with a name, for candidates of certain needs: ``default`` is for each what it needs, and says why.

    Args:
        name: As for :func:`filter_chain`.
        lang: As there.
        needs: As :attr:`polyref.augment.sources.Source.needs`.
        source_lang: As there.
    """
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


@dataclass(frozen=True)
class Option:
    """An option of a check: its kind and range."""

    kind: type
    least: float = float("-inf")
    most: float = float("inf")

    def read(self, value: Any) -> Any:
        """The value as the option's kind, or None where it does not fit."""
        if self.kind is bool or isinstance(value, bool):
            return value if self.kind is bool and isinstance(value, bool) else None
        if self.kind is str:
            return value if isinstance(value, str) else None
        wanted = (int,) if self.kind is int else (int, float)
        try:
            fine = isinstance(value, wanted) and math.isfinite(value) and self.least <= value <= self.most
            return self.kind(value) if fine else None
        except OverflowError:
            return None

    @property
    def expected(self) -> str:
        """For messages."""
        if self.kind in (bool, str):
            return {bool: "true or false", str: "a string"}[self.kind]
        what = "a whole number" if self.kind is int else "a number"
        low = "" if self.least == float("-inf") else f" from {self.least:g}"
        high = "" if self.most == float("inf") else f" to {self.most:g}" if low else f" of at most {self.most:g}"
        return what + low + high


@dataclass(frozen=True)
class Kind:
    """What can stand in a file: how it is made, of which options, whether of a language, and whether English only."""

    make: Callable[..., Check]
    options: Mapping[str, Option]
    english: bool = False
    by_language: bool = False


_SHARE: Final = Option(float, 0, 1)
_POSITIVE: Final = Option(float, 0)


def _length(low: float = 0.6, high: float = 1.6, slack: int = 6) -> Check:
    return checks.length(low, high, slack)


CHECKS: Final[dict[str, Kind]] = {
    "numbers": Kind(checks.numbers, {}, by_language=True),
    "links": Kind(checks.links, {}),
    "placeholders": Kind(checks.placeholders, {}),
    "language": Kind(checks.language, {}),
    "form": Kind(checks.form, {}, by_language=True),
    "repetition": Kind(checks.repetition, {}),
    "talk": Kind(checks.talk, {}),
    "several": Kind(checks.several, {}),
    "foreign": Kind(checks.foreign, {}, by_language=True),
    "length": Kind(_length, {"low": _POSITIVE, "high": _POSITIVE, "slack": Option(int, 0)}),
    "amounts": Kind(english_checks.amounts, {}, english=True),
    "dates": Kind(english_checks.dates, {}, english=True),
    "names": Kind(english_checks.names, {}, english=True),
    "negation": Kind(english_checks.negation, {"exact": Option(bool)}, english=True),
    "persons": Kind(english_checks.persons, {}, english=True),
    "opening": Kind(english_grammar.opening, {"ties": Option(bool)}, english=True),
    "grammar": Kind(english_grammar.grammar, {}, english=True),
    "vocabulary": Kind(english_grammar.vocabulary, {}, english=True),
    "echo": Kind(english_checks.echo, {}, english=True),
    "omission": Kind(english_checks.omission, {"allowed": _SHARE, "deletion": Option(bool)}, english=True),
}
_MEASURE: Final = {"model": Option(str), "min": Option(float), "quantile": _SHARE, "power": _POSITIVE}
#: Checks with a model, and the range of what they measure.
MEASURES: Final = {
    "embedding": Option(float, -1, 1),
    "forward": Option(float, most=0),
    "backward": Option(float, most=0),
    "fluency": Option(float),
}
KEYS: Final = ("base", *CHECKS, *MEASURES)


def read_filter(path: str | Path, lang: str = "en", need: str = "small-model", *, models: bool = True) -> FilterChain:
    """The chain that a TOML file describes.

    Its name holds a hash of what the file says, the language, and the content of every model in it.

    Args:
        path: The file.
        lang: Language of the references, as for :func:`polyref.augment.filters.filter_chain`.
        need: What ``base = "default"`` stands for, as there.
        models: Load the models, and not the checks alone.
    """
    values = read_toml("".join(f"{line}\n" for line in read_lines(path, allow_empty_file=True)), path)
    if unknown := [key for key in values if key not in KEYS]:
        raise DataError(f"unknown key {unknown[0]!r}, expected some of {', '.join(KEYS)}", file=path)
    base = values.get("base", "none")
    if base not in PRESETS:
        raise DataError(f'"base" is {base!r}, expected one of {", ".join(PRESETS)}', file=path)
    rules = preset_checks(need if base == "default" else base, lang)
    for key, kind in CHECKS.items():
        if key not in values:
            continue
        options = _options(path, key, values[key], kind.options)
        if options is None:
            rules.pop(key, None)
        elif kind.english and not is_english(lang):
            raise DataError(f"{key!r} knows English alone, but the references are {lang!r}", file=path)
        else:
            try:
                rules[key] = kind.make(**options, **({"lang": lang} if kind.by_language else {}))
            except UsageError as error:
                raise UsageError(f"[{key}]: {error.message}", file=path) from None
    wanted: dict[str, dict[str, Any] | None] = {}
    for key in MEASURES:
        if key in values:
            known = {**_MEASURE, "min": MEASURES[key], **({"dtype": Option(str)} if key == "fluency" else {})}
            wanted[key] = _options(path, key, values[key], known)
    _check_measures(path, wanted)
    asked = {key: options for key, options in wanted.items() if options is not None and models}
    measures = [_measure(path, key, options, lang) for key, options in asked.items()]
    from polyref.augment.measures import digest

    canonical = json.dumps(values, sort_keys=True)
    hashed = digest(canonical, lang, *(measure.scorer.signature for measure in measures))
    stated = [rule.name for rule in rules.values() if rule.stated]
    names = "+".join([*stated, *(measure.name for measure in measures)]) or "none"
    return FilterChain(f"{Path(path).stem}#{hashed}:{names}", tuple(rules.values()), tuple(measures))


def names_models(path: str | Path) -> bool:
    """Whether a file that describes a chain has filters with models."""
    values = read_toml("".join(f"{line}\n" for line in read_lines(path, allow_empty_file=True)), path)
    return any(values.get(key, False) is not False for key in MEASURES)


def _options(path: str | Path, key: str, value: Any, known: Mapping[str, Option]) -> dict[str, Any] | None:
    """The options of a check; None where it is taken out."""
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        raise DataError(f"{key!r} is {value!r}, expected true, false or a table [{key}]", file=path)
    options = {}
    for name, given in value.items():
        if name not in known:
            choice = f"expected some of {', '.join(known)}" if known else f"but {key} takes none"
            raise DataError(f"[{key}]: unknown key {name!r}, {choice}", file=path)
        options[name] = known[name].read(given)
        if options[name] is None:
            raise DataError(f"[{key}]: {name!r} is {given!r}, expected {known[name].expected}", file=path)
    return options


def _check_measures(path: str | Path, wanted: Mapping[str, dict[str, Any] | None]) -> None:
    for key, options in wanted.items():
        if options is not None and not {"min", "quantile", "power"} & set(options):
            raise DataError(
                f"[{key}] drops nothing and weighs nothing", file=path, remedy="give it min, quantile or power"
            )
        if key == "fluency" and options is not None and "model" not in options:
            raise DataError("[fluency] names no language model", file=path, remedy='model = "DIR", or a hub name')


def _measure(path: str | Path, key: str, options: Mapping[str, Any], lang: str) -> Measure:
    from polyref.augment import measures

    model = options.get("model", "shipped")
    scorer: Scorer
    try:
        if key == "embedding":
            scorer = measures.Cosine(model)
        elif key == "fluency":
            scorer = measures.Fluency(model, options.get("dtype", "float32"))
        else:
            scorer = measures.Forced(model, lang, backward=key == "backward")
    except ModelError as error:
        raise ModelError(f"[{key}]: {error}", file=path) from None
    except UsageError as error:
        raise UsageError(f"[{key}]: {error.message}", file=path) from None
    name = key
    if "min" in options:
        name += f">={options['min']:g}"
    if "quantile" in options:
        name += f"@{options['quantile']:g}"
    return Measure(name, scorer, options.get("min"), options.get("quantile"), options.get("power"))

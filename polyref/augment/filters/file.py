"""Filters composed in a TOML file: checks with thresholds, on top of a preset or of nothing.

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

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from polyref.augment.checks import english, grammar, negation, quantities, writing
from polyref.augment.checks import general as checks
from polyref.augment.checks.base import Check
from polyref.augment.filters.measures import Measure, Scorer
from polyref.errors import DataError, ModelError, UsageError
from polyref.json_files import read_toml
from polyref.textfiles import read_lines

if TYPE_CHECKING:
    from polyref.augment.filters.chain import FilterChain


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
    "talk": Kind(writing.talk, {}),
    "several": Kind(writing.several, {}),
    "foreign": Kind(writing.foreign, {}, by_language=True),
    "length": Kind(_length, {"low": _POSITIVE, "high": _POSITIVE, "slack": Option(int, 0)}),
    "amounts": Kind(quantities.amounts, {}, english=True),
    "dates": Kind(english.dates, {}, english=True),
    "names": Kind(english.names, {}, english=True),
    "negation": Kind(negation.negation, {"exact": Option(bool)}, english=True),
    "persons": Kind(english.persons, {}, english=True),
    "opening": Kind(grammar.opening, {"ties": Option(bool)}, english=True),
    "grammar": Kind(grammar.grammar, {}, english=True),
    "vocabulary": Kind(grammar.vocabulary, {}, english=True),
    "echo": Kind(english.echo, {}, english=True),
    "omission": Kind(english.omission, {"allowed": _SHARE, "deletion": Option(bool)}, english=True),
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
        lang: Language of the references, as for :func:`polyref.augment.filters.load.filter_chain`.
        need: What ``base = "default"`` stands for, as there.
        models: Load the models, and not the checks alone.
    """
    from polyref.augment.filters.chain import FilterChain
    from polyref.augment.filters.presets import PRESETS, is_english, preset_checks

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
    from polyref.augment.filters.adequacy import digest

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
    from polyref.augment.filters import adequacy

    model = options.get("model", "shipped")
    scorer: Scorer
    try:
        if key == "embedding":
            scorer = adequacy.Cosine(adequacy.load_encoder(model))
        elif key == "fluency":
            scorer = adequacy.Fluency(model, options.get("dtype", "float32"))
        else:
            scorer = adequacy.Forced(model, lang, backward=key == "backward")
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

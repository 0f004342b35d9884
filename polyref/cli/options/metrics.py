"""The metrics' options at the command line, made of what the fields of their classes say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import click

from polyref.cli.parsing.headings import HeadedOption
from polyref.metrics import registry
from polyref.metrics.base import Metric
from polyref.options import Option, fields_of

Command = TypeVar("Command", bound=Callable[..., Any])

#: What a metric is called at the command line.
METRIC_HELP = (
    "A metric, or one with options of its own, such as 'chrf(combine=expected, beta=3)'. There are: "
    f"{', '.join(registry.metric_names())}."
)


def metric_options(command: Command) -> Command:
    """Decorate a command with the options of all metrics; as keyword arguments they are for :func:`make_metrics`."""
    for option in reversed(_options()):
        command = option(command)
    return command


def metric_parameters() -> set[str]:
    """Names of the parameters that :func:`metric_options` adds to a command."""
    return {one.parameter for options in registry.all_options().values() for one in options.values() if one.flag}


def make_metrics(specifications: Iterable[str], options: Mapping[str, Any], **fallback: Any) -> dict[str, Metric]:
    """See :func:`polyref.metrics.registry.make_metrics`; ``options`` are those of the command."""
    return registry.make_metrics(specifications, options, **fallback)


def files_of(metrics: Iterable[Metric]) -> list[str]:
    """The values of options of metrics that may be files: a baseline, a model."""
    return [
        value
        for metric in metrics
        for name, option in fields_of(type(metric)).items()
        if isinstance(value := getattr(metric, name, None), str)
        and any(kind in (option.metavar or "") for kind in ("FILE", "DIR", "MODEL"))
    ]


@lru_cache(maxsize=1)
def _options() -> list[Callable[[Command], Command]]:
    """One option for every flag, whichever metrics have it."""
    takers: dict[str, dict[str, Option]] = defaultdict(dict)
    families: dict[str, list[str]] = defaultdict(list)
    for name, options in registry.all_options().items():
        for one in options.values():
            if one.flag:
                takers[one.flag][name] = one
                if one.family and name not in families[one.family]:
                    families[one.family].append(name)
    ordered = sorted(takers.values(), key=lambda found: not next(iter(found.values())).common)
    return [_option(found, families) for found in ordered]


def _option(takers: Mapping[str, Option], families: Mapping[str, list[str]]) -> Callable[[Command], Command]:
    """The option of one flag: metric to what its field says; the first of them speaks for all."""
    first = next(iter(takers.values()))
    heading = first.heading or f"Options of {', '.join(families[first.family])}"
    facts: dict[str, Any] = {
        "cls": HeadedOption,
        "heading": "" if first.common else heading,
        "help": f"{first.help}{_default(takers)}",
        "default": None,
    }
    metavar = first.metavar or {int: "N", float: "X"}.get(first.type)
    flag = first.flag
    if first.type is bool:
        if first.default is not False:
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
        return click.option(*_flags(first, flag), is_flag=True, **facts)
    if first.several:
        facts |= {"multiple": True, "callback": lambda _context, _option, given: given or None}
    return click.option(*_flags(first, flag), type=_type(takers), metavar=metavar, **facts)


def _flags(one: Option, flag: str) -> list[str]:
    return [one.short, flag, one.parameter] if one.short else [flag, one.parameter]


def _type(takers: Mapping[str, Option]) -> click.ParamType[Any, Any]:
    one = next(iter(takers.values()))
    if one.choices:
        return click.Choice(list(dict.fromkeys(choice for each in takers.values() for choice in each.choices)))
    if not one.range:
        return click.INT if one.type is int else click.FLOAT if one.type is float else click.STRING
    limits: dict[str, Any] = {
        "min": one.least if one.above is None else one.above,
        "max": one.most if one.below is None else one.below,
        "min_open": one.above is not None,
        "max_open": one.below is not None,
    }
    if one.type is int:
        return click.IntRange(**limits)
    return click.FloatRange(**limits)


def _default(takers: Mapping[str, Option]) -> str:
    """What is done where the option is not given: of most metrics, then of the others."""
    said: dict[str, str] = {}
    for name, one in takers.items():
        said[name] = one.otherwise or _shown(one.default)
    most, _ = Counter(said.values()).most_common(1)[0]
    others = defaultdict(list)
    for name, text in said.items():
        if text != most:
            others[text].append(name)
    parts = [most, *(f"{text} of {', '.join(names)}" for text, names in others.items())]
    return f" [default: {'; '.join(part for part in parts if part)}]" if any(parts) else ""


def _shown(value: Any) -> str:
    if value is None or value is False or value == () or value == "":
        return ""
    return "yes" if value is True else f"{value:g}" if isinstance(value, float) else str(value)

"""Options that several commands have: of files that are read, of metrics, of threads."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

import click

from polyref.cli.commands import HeadedOption
from polyref.errors import UsageError
from polyref.formats import Reading, takes_pair
from polyref.formats.test_sets import FOLDER as FOLDER
from polyref.formats.test_sets import SCHEME
from polyref.metrics import registry
from polyref.metrics.base import Metric
from polyref.options import Option, fields_of
from polyref.textfiles import display_name

F = TypeVar("F", bound=Callable[..., Any])

_FORMAT_HELP = (
    "Form of {what}: plain, normal, simple, nbest, json, lists, tsv, csv, sacrebleu-tsv, xml, sgml, general, "
    "human-evaluation, metrics-task or a plug-in's. [default: told by content]"
)
_FIELDS_HELP = (
    "What a column (name or number) or key is: id, reference, paraphrase, source, output, doc or lang; of XML, SGML "
    "and folders, the references to take."
)


def format_option(flag: str = "--format", what: str = "the references", name: str = "form") -> Callable[[F], F]:
    """``--format``, or what a command calls it."""
    return click.option(flag, name, metavar="NAME", help=_FORMAT_HELP.format(what=what))


fields_option = click.option("--fields", multiple=True, metavar="KEY=ROLE", help=_FIELDS_HELP)


def reading_options(*, flag: str = "--format", sets: bool = True, sources: bool = False) -> Callable[[F], F]:
    """Add ``--format``, ``--fields`` and ``-l``; the command gets them as a ``reading``.

    Args:
        flag: What the first one is called, where that name is taken.
        sets: Add ``-t`` for test sets by name too. The command then has references in the parameter ``references``, to
            which the set that is named is added.
        sources: Whether ``--source`` may stand in the place of references.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def gathered(**values: Any) -> Any:
            test_set = values.pop("test_set", None)
            reading = Reading(values.pop("form"), fields_from(values.pop("fields")), values.pop("pair"))
            if sets:
                instead = values.get("source") if sources else None
                values["references"] = _references(values["references"], test_set, instead)
            files = values["references"] if sets else (values["file"],)
            # Names of files hold it, and where no option does it names the language of the references.
            named = values.get("to") == FOLDER.name or values.get("lang", "") is None
            if reading.pair is not None and files and not named:
                _check_pair(files, reading, values)
            return command(reading=reading, **values)

        made: Any = gathered
        made = click.option("-l", "--language-pair", "pair", metavar="PAIR", help="Of a set with several.")(made)
        if sets:
            made = click.option(
                "-t", "--test-set", metavar="NAME", help="References of a test set that sacreBLEU has, instead of REFS."
            )(made)
        return format_option(flag)(fields_option(made))  # type: ignore[no-any-return]

    return decorate


def _check_pair(references: Sequence[str], reading: Reading, values: Mapping[str, Any]) -> None:
    """Refuse a language pair of files that hold one each."""
    of_outputs = Reading(values.get("input_form"), encoding=values.get("encoding"))
    reading = replace(reading, fields={}, encoding=values.get("encoding"))
    others = [*values.get("inputs", ()), *values.get("candidates", ())]
    if not takes_pair(references, reading) and not takes_pair(others, of_outputs):
        raise UsageError(
            f"-l {reading.pair} has no use with {display_name(references[0])}, which holds one language pair",
            remedy="leave -l out",
        )


def _references(references: Sequence[str], test_set: str | None, source: str | None) -> tuple[str, ...]:
    if test_set is not None and references:
        raise UsageError(f"-t {test_set} and {references[0]} both name references", remedy="leave one of them out")
    if test_set is None and not references and source is not None:
        return ()
    if test_set is None and not references:
        raise UsageError("Missing argument 'REFS...'", remedy="the files of references; or name a test set: -t")
    return tuple(references) if test_set is None else (f"{SCHEME}{test_set}",)


def fields_from(values: Sequence[str]) -> dict[str, str]:
    """``--fields``: key -> role."""
    found: dict[str, str] = {}
    for value in values:
        key, _, role = value.rpartition("=")
        if not key or not role:
            raise UsageError(
                f"--fields {value!r}, expected KEY=ROLE", remedy="for example text=reference or 2=reference"
            )
        if found.setdefault(key, role) != role:
            raise UsageError(f"--fields gives {key} two roles: {found[key]} and {role}")
    return found


#: What a metric is called at the command line.
METRIC_HELP = (
    "A metric, or one with options of its own, such as 'chrf(combine=expected, beta=3)'. There are: "
    f"{', '.join(registry.metric_names())}."
)


def metric_options(command: F) -> F:
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
def _options() -> list[Callable[[F], F]]:
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


def _option(takers: Mapping[str, Option], families: Mapping[str, list[str]]) -> Callable[[F], F]:
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


#: What libraries of matrix products and torch read when they are loaded.
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def threads_option(command: F) -> F:
    """Add the option; it is obeyed without the command's doing."""
    return click.option(
        "--threads",
        type=click.IntRange(min=1),
        metavar="N",
        expose_value=False,
        callback=_obeyed,
        help="CPU threads of networks and matrix products. [default: the libraries' own]",
    )(command)


def announce_threads(arguments: Sequence[str]) -> None:
    """Tell libraries that are not loaded yet how many threads they may start, before a command is imported."""
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--threads" and "numpy" not in sys.modules:
            value = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
            if value.isdecimal() and int(value):
                os.environ.update(dict.fromkeys(_VARIABLES, value))


def _obeyed(context: click.Context, _option: click.Parameter, threads: int | None) -> None:
    context.meta["polyref.threads"] = threads  # for who repeats the command line
    if threads is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)

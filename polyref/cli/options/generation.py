"""The options of every command that generates paraphrases, declared once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

import click

from polyref.cli.commands import HeadedCommand
from polyref.cli.options.search import DIVERSE_BEAM, LISTS, SEARCH
from polyref.engine import ENGINES, Engine
from polyref.errors import ModelError, UsageError
from polyref.paraphrase.loading import (
    BACKENDS,
    DTYPES_CPU,
    DTYPES_ELSEWHERE,
    OPTIONS,
    PRISM_B,
    check_penalty,
    generators,
    named_generator,
)
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.processes import available

F = TypeVar("F", bound=Callable[..., Any])

#: Options of loading that are none of ``load_paraphraser``, or are decided by :func:`processes_for`.
_NOT_LOADED: Final = frozenset({"model", "jobs", "engine", "address", "gpus"})

#: Texts that make another process worth its start: it loads torch and the model before it begins.
FEWEST: Final = 64

_MODEL = (
    click.option(
        "--model",
        default="shipped",
        show_default=True,
        metavar="NAME|DIR",
        help="`shipped`, a model folder (polyref, fairseq, Hugging Face), a hub name, or a generator (below).",
    ),
)
_MODELS = (
    click.option(
        "--model",
        multiple=True,
        default=("shipped",),
        show_default=True,
        metavar="NAME|DIR",
        help="`shipped`, a model folder (polyref, fairseq, Hugging Face), a hub name, or a generator (below); several "
        "are merged.",
    ),
)
_DEVICE = (
    click.option(
        "--device",
        default="cpu",
        show_default=True,
        metavar="NAME",
        help="Torch device; cuda:0,1 is several, with a process each.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(tuple(dict.fromkeys((*DTYPES_CPU, *DTYPES_ELSEWHERE)))),
        help="What the network computes in; all but float32 are approximate. [default: int8 for models of the shipped "
        "kind on the CPU, else float32]",
    ),
    click.option("--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads. [default: torch's]"),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"Processes; they change no result. [default: one a core, for {FEWEST} texts each and more]",
    ),
    click.option(
        "--cache/--no-cache",
        default=True,
        show_default=True,
        help="Keep n-best lists in ~/.cache/polyref, or $POLYREF_CACHE; it changes no result.",
    ),
    click.option(
        "--memory",
        type=click.IntRange(min=1),
        metavar="MB",
        help="Of a batch, about. [default: 1024; on a GPU half of what is free]",
    ),
)
_ENGINE = (
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="local",
        show_default=True,
        help="`ray`: the workers of a Ray cluster, --jobs of them or as many as it has room for; the same bytes.",
    ),
    click.option(
        "--address",
        metavar="ADDRESS",
        help="Of the Ray cluster: auto, HOST:6379. [default: $RAY_ADDRESS, or one on this machine]",
    ),
    click.option("--gpus", type=float, metavar="X", help="GPUs of a Ray worker. [default: 1 with --device cuda]"),
)
_LOADING = (
    click.option(
        "--prefix", metavar="TOKEN", help="First token of every paraphrase, instead of the language's tag: <en>."
    ),
    click.option("--prism-a", type=float, metavar="A", help="Lexical copy penalty A * n ** B (Thompson & Post 2020b)."),
    click.option("--prism-b", type=float, metavar="B", help=f"See --prism-a. [default: {PRISM_B:g}]"),
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default="polyref",
        show_default=True,
        help="`fairseq` runs a fairseq checkpoint by fairseq 0.12.2 itself, `ctranslate2` a folder converted for "
        "CTranslate2, where they are installed.",
    ),
)


class GeneratingCommand(HeadedCommand):
    """A command whose help lists the generators that are installed.

    Where a command line begins with an option, each option takes one value and the words after it are files, as in
    ``--model DIR refs.en``; where it begins with files, as in ``refs.en --model A B``, an option may take several.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spread the values of options, or leave them as click takes them."""
        if args and args[0].startswith("-") and args[0] != "-":
            return click.Command.parse_args(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a generator."""
        with formatter.section("Generators (--model NAME or NAME:ARGUMENT)"):
            formatter.write_dl([(generator.name, generator.summary) for generator in generators()])


def generation_options(*, lists: bool = False, several: bool = False) -> Callable[[F], F]:
    """Add the options of loading and of the search; the command gets them as dictionaries ``loading`` and ``search``.

    Args:
        lists: Add ``--nbest`` and ``--nbest-per-group`` too, for commands that write the list of the search.
        several: Take several models: ``loading["model"]`` is a tuple. And take an engine, for :func:`engine_from`.
    """
    groups = (
        ("loading", _MODELS if several else _MODEL),
        ("search", DIVERSE_BEAM),
        ("loading", (*_DEVICE, *(_ENGINE if several else ()), *_LOADING)),
        ("search", (*LISTS, *SEARCH) if lists else SEARCH),
    )

    def decorate(command: F) -> F:
        names: dict[str, list[str]] = {"loading": [], "search": []}

        @wraps(command)
        def gathered(**values: Any) -> Any:
            parts = {part: {name: values.pop(name) for name in names[part]} for part in names}
            return command(**parts, **values)

        made: Any = gathered
        for part, options in reversed(groups):
            before = len(getattr(made, "__click_params__", ()))
            for option in reversed(options):
                made = option(made)
            names[part] += (parameter.name for parameter in made.__click_params__[before:])
        return made  # type: ignore[no-any-return]

    return decorate


def loading_from(loading: dict[str, Any], semantics: str | None) -> dict[str, Any]:
    """Keyword arguments of ``load_paraphraser``, checked before anything is loaded."""
    a, b, backend = loading["prism_a"], loading["prism_b"], loading["backend"]
    if b is not None and a is None:
        raise UsageError("--prism-b needs --prism-a")
    a, b = a or 0.0, PRISM_B if b is None else b
    check_penalty(a, b)
    if backend == "fairseq":
        if a:
            raise UsageError("--prism-a is an option of polyref's own search, not of --backend fairseq")
        if semantics not in (None, "fairseq"):
            raise UsageError(f"--semantics is {semantics}, but --backend fairseq searches as fairseq does")
    rest = {name: value for name, value in loading.items() if name not in _NOT_LOADED}
    return {**rest, "prism_a": a, "prism_b": b}


def arithmetic(loading: dict[str, Any]) -> dict[str, Any]:
    """What moves sums in their last digits, as given: on one machine the defaults stay the same."""
    given = {**loading, "device": None if loading["device"] == "cpu" else loading["device"]}
    return {name: given[name] for name in ("memory", "threads", "device") if given[name] is not None}


def engine_from(loading: dict[str, Any]) -> Engine | None:
    """Where whole shards are augmented; None: in this process, with the processes of :func:`processes_for`."""
    engine = Engine.on(*(loading[name] for name in ("device", "engine", "jobs", "address", "gpus")))
    return engine if engine.elsewhere else None


def options_for(
    name: str,
    loading: Mapping[str, Any],
    options: Mapping[str, Any],
    texts: int,
    also: Collection[str] = (),
) -> dict[str, Any]:
    """Keyword arguments of ``load_paraphraser`` for one generator of several, with those of :func:`processes_for`.

    Options that others have a use for are kept from those that have none; what nobody has a use for is refused where
    the generator is loaded.

    Args:
        name: Of the generator.
        loading: The options of loading.
        options: As :func:`loading_from` gives them, with ``rewriting``.
        texts: How many texts there are.
        also: Options that something else has a use for.
    """
    models = [loading["model"]] if isinstance(loading["model"], str) else loading["model"]
    taken = {one: _taken(one, loading["backend"]) for one in models}
    given = {one for one, value in loading.items() if one in OPTIONS and value not in (None, OPTIONS[one])}
    used = frozenset(also).union(*taken.values())
    made = {**options, **processes_for(dict(loading), texts, options["rewriting"])}
    return {
        one: value
        for one, value in made.items()
        if one not in OPTIONS or one in taken[name] or (one in given and one not in used)
    }


def _taken(name: str, backend: str) -> frozenset[str]:
    try:
        return named_generator(name, backend)[0].taken()
    except ModelError:  # which is said when it is loaded
        return frozenset(OPTIONS)


def processes_for(
    loading: dict[str, Any], texts: int, rewriting: RewritingOptions | None = None
) -> dict[str, int | None]:
    """``jobs`` and ``threads`` of ``load_paraphraser``: as asked, or one process a core where nothing else is said.

    Who asks for a number of processes gets one thread in each, so that the number does not matter to the last digit.

    Args:
        loading: The options of loading.
        texts: How many texts there are.
        rewriting: How a language model is asked: in one process, with several requests at a time.
    """
    jobs, threads = loading["jobs"], loading["threads"]
    if rewriting is not None:
        if jobs not in (None, 1):
            raise UsageError(f"--jobs is {jobs}, but language models are asked by one process", remedy="--concurrency")
        if loading.get("engine", "local") != "local":
            remedy = "run the model behind a server on the cluster: --base-url, --concurrency"
            raise UsageError("--engine is for networks, but language models are asked by one process", remedy=remedy)
        return {"jobs": 1, "threads": threads}
    if loading.get("engine", "local") != "local":
        return {"jobs": 1, "threads": threads or 1}
    if jobs is not None:
        return {"jobs": jobs, "threads": threads or 1}
    if threads is not None or loading["device"] != "cpu" or loading["backend"] == "fairseq":
        return {"jobs": 1, "threads": threads}
    jobs = max(1, min(available(), texts // FEWEST))
    return {"jobs": jobs, "threads": None if jobs == 1 else 1}

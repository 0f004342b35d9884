"""``polyref evaluate``: do more references agree better with people?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from polyref.cli.files import fields_from, fields_option, format_option
from polyref.cli.options import (
    HOW,
    MetricCommand,
    argument_or_option,
    metric_options,
    metric_parameters,
    options_of,
    quiet_option,
    threads_option,
)
from polyref.cli.printing import bars, json_object, remember, tell
from polyref.errors import UsageError, without_secrets
from polyref.eval.options import EvaluateOptions, Measured
from polyref.options import option
from polyref.progress import listening
from polyref.tables import name_as_text

#: Options that change nothing in a report.
_NO_SETTINGS: Final = frozenset({"output", "as_json", "width", "verbose"})
#: What a report calls parameters that have other names in Python.
_IN_REPORTS: Final = {"data": "set_dirs", "exclude": "excluded", "gold": "golds", "ref": "refs", "references": "extra"}
_NAMED: Final = re.compile(r"([\w.+-]+)=(.+)", re.DOTALL)


def named_files(values: Sequence[str]) -> dict[str, str]:
    """``--refs``: name -> file, from files, or NAME=FILE where several generators are compared."""
    pieces = []
    for value in values:
        match = None if Path(value).is_file() else _NAMED.fullmatch(value)
        if match:
            pieces.append((match[1], match[2]))
        else:
            pieces.append(("" if len(values) == 1 else name_as_text(Path(value).name.split(".")[0]), value))
    names = [name for name, _ in pieces]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"two --refs are called {twice!r}", remedy="name them: --refs NAME=FILE ...")
    return dict(pieces)


def files_of_judgements(values: Sequence[str]) -> dict[str, list[str]]:
    """``--judgements``: kind -> files, from KIND=FILE."""
    from polyref.eval.judgements.base import gold_reader

    pieces = [value.partition("=") for value in values]
    for value, (kind, _, file) in zip(values, pieces, strict=True):
        if not kind or not file:
            raise UsageError(f"--judgements {value!r}, expected KIND=FILE")
    files: dict[str, list[str]] = {}
    for kind, _, file in pieces:
        if kind in files and not gold_reader(kind).several:
            raise UsageError(f"--judgements {kind} is given twice", remedy="name one file of judgements")
        files.setdefault(kind, []).append(file)
    return files


def settings() -> dict[str, Any]:
    """Every option of this run with its value, defaults included."""
    given = {_IN_REPORTS.get(name, name): value for name, value in click.get_current_context().params.items()}
    # Sorted: click keeps the order of the command line.
    return {
        name: _written(given[name]) for name in sorted(given) if given[name] is not None and name not in _NO_SETTINGS
    }


def _written(value: Any) -> Any:
    """A value as JSON has it: no tuples, and names of files as text."""
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    return without_secrets(name_as_text(value)) if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What is written."""

    output: str | None = option(None, short="-o", metavar="DIR", help="Write a report: HTML, CSV, LaTeX and JSON.")
    as_json: bool = option(False, flag="--json", help="Print one JSON object.")
    width: int = option(4, short="-w", least=0, most=20, heading=HOW, without=("as_json",), help="Digits for people.")
    verbose: bool = option(False, short="-v", heading=HOW, without=("as_json",), help="Print signatures in full.")


@click.command(cls=MetricCommand)
@click.argument(
    "data", nargs=-1, required=True, metavar="SET_DIR...", type=click.Path(), shell_complete=argument_or_option
)
@options_of(Measured)
@format_option(what="the augmented set")
@fields_option
@options_of(EvaluateOptions, without=("form", "fields", "options"))
@metric_options
@options_of(Printed)
@quiet_option
@threads_option
def command(
    references: tuple[str, ...],
    judgements: tuple[str, ...],
    fields: tuple[str, ...],
    output: str | None,
    as_json: bool,
    width: int,
    verbose: bool,
    **options: Any,
) -> None:
    """Measure agreement with human judgements against the number of references.

    SET_DIR is a directory in the mt-metrics-eval layout or a WMT release, also one file of JSON lines or XML; several
    are measured one after the other. For every metric and k, with the gain over k = 0 and bootstrap intervals:
    agreement within segments (Kendall's tau without ties, accuracy with calibrated ties), Pearson's r of the systems'
    scores, and tau-b over all judged outputs. Translations made by people are left out.

    \b
    polyref evaluate wmt21.news -l zh-en --ref refA --gold mqm -m bleu chrf
    polyref evaluate wmt22 -l zh-en --ref refA --refs paraphrases.jsonl --gold wmt-z -m bleu -k 0 1 5 10 -o report
    """  # noqa: D301
    from polyref.eval.api import evaluate
    from polyref.eval.evaluation_table import signatures
    from polyref.metrics.table import advice

    if output is not None:
        from polyref.eval.report.write import check_report

        check_report(output)
        if options["peers"] is not None:
            raise UsageError("-o writes a report about systems, and --peers is about segments alone", remedy="--json")
    of_metrics = {name: options.pop(name) for name in metric_parameters()}
    with listening(bars):
        found = evaluate(
            **options,
            references=named_files(references),
            judgements=files_of_judgements(judgements),
            fields=fields_from(fields) or None,
            options=of_metrics,
            say=tell,
        )
    if options["peers"] is None and (better := advice(s for one in found.evaluations for s in one.signatures.values())):
        tell("note", better)
    if output is not None:
        page = found.report(output, settings())
        tell("note", f"report: {page}")
        if find_spec("matplotlib") is None:
            tell("note", "the report has no plots: they need matplotlib (pip install matplotlib)")
    if as_json:
        click.echo(json_object(found.signature, found.rows, circular=found.circular, notes=found.without_human))
        return
    remember(signatures(found))
    click.echo(found.text(width, full=verbose))

"""``polyref evaluate``: do more references agree better with people?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from polyref.cli.options.evaluate import HEADINGS, evaluate_options
from polyref.cli.options.metrics import metric_parameters
from polyref.cli.options.reading import fields_from
from polyref.cli.options.threads import threads_option
from polyref.cli.parsing.headings import HeadedCommand
from polyref.cli.printing import bars, json_object, remember, tell
from polyref.errors import UsageError
from polyref.progress import listening
from polyref.tables import name_as_text

_NAMED: Final = re.compile(r"([\w.+-]+)=(.+)", re.DOTALL)
#: Options that change nothing in a report.
_NO_SETTINGS: Final = frozenset({"output", "as_json", "width", "verbose", "keep"})


@click.command(cls=HeadedCommand, headings=HEADINGS)
@threads_option
@evaluate_options
def command(
    set_dirs: tuple[str, ...],
    pairs: tuple[str, ...],
    refs: tuple[str, ...],
    extra: tuple[str, ...],
    fields: tuple[str, ...],
    golds: tuple[str, ...],
    judgements: tuple[str, ...],
    excluded: tuple[str, ...],
    output: str | None,
    as_json: bool,
    width: int,
    verbose: bool,
    **options: Any,
) -> None:
    """Measure agreement with human judgements against the number of references.

    SET_DIR is a directory in the mt-metrics-eval layout or a WMT release; several are measured one after the other. For
    every metric and k, with the gain over k = 0 and bootstrap intervals: agreement within segments (Kendall's tau
    without ties, accuracy with calibrated ties), Pearson's r of the systems' scores, and tau-b over all judged outputs.
    Translations made by people are left out.

    \b
    polyref evaluate wmt21.news -l zh-en --ref refA --gold mqm -m bleu chrf
    polyref evaluate wmt22 -l zh-en --ref refA --refs paraphrases.jsonl --gold wmt-z -m bleu -k 0 1 5 10 -o report
    """  # noqa: D301
    from polyref.eval.api import evaluate
    from polyref.eval.text_tables import signatures

    if output is not None:
        from polyref.eval.report import check_report

        check_report(output)
    of_metrics = {name: options.pop(name) for name in metric_parameters()}
    with listening(bars):
        found = evaluate(
            set_dirs,
            pairs,
            references=named_files(extra),
            fields=fields_from(fields) or None,
            ref=refs,
            gold=golds,
            judgements=_kinds(judgements),
            exclude=excluded,
            options=of_metrics,
            say=tell,
            **options,
        )
    if output is not None:
        page = found.report(output, _settings())
        tell("note", f"report: {page}")
    if as_json:
        click.echo(json_object(found.signature, found.rows))
        return
    remember(signatures(found))
    click.echo(found.text(width, full=verbose))


def named_files(values: Sequence[str]) -> dict[str, str]:
    """``--refs``: name -> file, from files, or NAME=FILE where several generators are compared.

    Raises:
        UsageError: Several files, of which two have one name.
    """
    pieces = []
    for value in values:
        match = None if Path(value).is_file() else _NAMED.fullmatch(value)
        if match:
            pieces.append((match[1], match[2]))
        else:
            pieces.append(("" if len(values) == 1 else name_as_text(Path(value).name.split(".")[0]), value))
    names = [name for name, _ in pieces]
    if len(set(names)) < len(names):
        raise UsageError(f"two --refs are called {next(n for n in names if names.count(n) > 1)!r}",
                         remedy="name them: --refs NAME=FILE ...")  # fmt: skip
    return dict(pieces)


def _written(value: Any) -> Any:
    """A value as JSON has it: no tuples, and names of files as text."""
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    return name_as_text(value) if isinstance(value, str) else value


def _kinds(values: Sequence[str]) -> dict[str, str]:
    """``--judgements``: kind -> file, from KIND=FILE."""
    pieces = [value.partition("=") for value in values]
    for value, (kind, _, file) in zip(values, pieces, strict=True):
        if not kind or not file:
            raise UsageError(f"--judgements {value!r}, expected KIND=FILE")
    return {kind: file for kind, _, file in pieces}


def _settings() -> dict[str, Any]:
    """Every option of this run with its value, defaults included."""
    given = click.get_current_context().params
    # Sorted: click keeps the order of the command line.
    return {
        name: _written(given[name]) for name in sorted(given) if given[name] is not None and name not in _NO_SETTINGS
    }

"""``polyref evaluate``: do more references agree better with people?"""

from __future__ import annotations

from typing import Any

import click

from polyref.cli.files.named import files_of_judgements, named_files
from polyref.cli.options.evaluate import HEADINGS, evaluate_options, settings
from polyref.cli.options.metrics import metric_parameters
from polyref.cli.options.reading import fields_from
from polyref.cli.options.threads import threads_option
from polyref.cli.parsing.headings import HeadedCommand
from polyref.cli.printing import bars, json_object, remember, tell
from polyref.errors import UsageError
from polyref.progress import listening


@click.command(cls=HeadedCommand, headings=HEADINGS, useless={"width": ["as_json"], "verbose": ["as_json"]})
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

    SET_DIR is a directory in the mt-metrics-eval layout or a WMT release, also one file of JSON lines or XML; several
    are measured one after the other. For every metric and k, with the gain over k = 0 and bootstrap intervals:
    agreement within segments (Kendall's tau without ties, accuracy with calibrated ties), Pearson's r of the systems'
    scores, and tau-b over all judged outputs. Translations made by people are left out.

    \b
    polyref evaluate wmt21.news -l zh-en --ref refA --gold mqm -m bleu chrf
    polyref evaluate wmt22 -l zh-en --ref refA --refs paraphrases.jsonl --gold wmt-z -m bleu -k 0 1 5 10 -o report
    """  # noqa: D301
    from polyref.eval.api import evaluate
    from polyref.eval.text_tables import signatures
    from polyref.metrics.table import advice

    if output is not None:
        from polyref.eval.report import check_report

        check_report(output)
        if options["peers"] is not None:
            raise UsageError("-o writes a report about systems, and --peers is about segments alone", remedy="--json")
    of_metrics = {name: options.pop(name) for name in metric_parameters()}
    with listening(bars):
        found = evaluate(
            set_dirs,
            pairs,
            references=named_files(extra),
            fields=fields_from(fields) or None,
            ref=refs,
            gold=golds,
            judgements=files_of_judgements(judgements),
            exclude=excluded,
            options=of_metrics,
            say=tell,
            **options,
        )
    if options["peers"] is None and (better := advice(s for one in found.evaluations for s in one.signatures.values())):
        tell("note", better)
    if output is not None:
        page = found.report(output, settings())
        tell("note", f"report: {page}")
    if as_json:
        click.echo(json_object(found.signature, found.rows, circular=found.circular, notes=found.without_human))
        return
    remember(signatures(found))
    click.echo(found.text(width, full=verbose))

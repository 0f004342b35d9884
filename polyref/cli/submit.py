"""``polyref submit``: score files for the WMT metrics task, in the exact form of a year."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import click

from polyref.cli.files import fields_from, fields_option, format_option
from polyref.cli.options import (
    METRIC_HELP,
    HeadedOption,
    MetricCommand,
    metric_options,
    options_of,
    quiet_option,
    threads_option,
)
from polyref.cli.printing import bars, say, tell
from polyref.eval.options import EvaluateOptions
from polyref.metrics.registry import metric_names
from polyref.progress import listening
from polyref.tables import shown

_named = partial(click.option, cls=HeadedOption, heading="What the task calls it")


@click.command(cls=MetricCommand)
@click.argument("set_dir", type=click.Path())
@click.option("--year", type=click.IntRange(2020, 2026), required=True, help="Whose format to write.")
@click.option("-l", "--language-pair", "pairs", multiple=True, metavar="PAIR", help="Pairs. [default in 2026: all]")
@click.option("--ref", multiple=True, metavar="NAME", help="Human references; needed where there are several.")
@click.option(
    "--refs", "references", metavar="FILE", help="Augmented set made from --ref; {set} and {pair} are put in."
)
@format_option(what="the augmented set")
@fields_option
@click.option(
    "-m",
    "--metric",
    cls=HeadedOption,
    names=metric_names,
    default="bleu",
    show_default=True,
    metavar="METRIC",
    help=METRIC_HELP,
)
@click.option("-k", type=click.IntRange(min=0), metavar="K", help="Extra references. [default: all there are]")
@click.option("--without-reference", metavar="METRIC", help="In 2026: the metric of items that have no reference.")
@click.option("--name", required=True, metavar="NAME", help="What the submission calls the metric.")
@_named("--testset", default="", metavar="NAME", help="What the task calls the test set; not in 2026.")
@_named("--reference", metavar="NAME", help="What the task calls the reference. [default: from --ref, by year]")
@click.option("--exclude", multiple=True, metavar="SYSTEM", help="Leave systems out.")
@click.option(
    "-o", "--output", required=True, metavar="PATH", type=click.Path(), help="Directory to write to; in 2026, file."
)
@options_of(EvaluateOptions, "collection", "test_suites")
@quiet_option
@threads_option
@metric_options
def command(
    set_dir: str,
    pairs: tuple[str, ...],
    output: str,
    fields: tuple[str, ...],
    collection: str | None,
    test_suites: bool,
    **options: Any,
) -> None:
    """Write score files for the WMT metrics task.

    SET_DIR is a directory in the mt-metrics-eval layout or a WMT release; every system output in it is scored but the
    references used, of which a metric that reads the source alone uses none.
    Writes one system-level and one segment-level file, and NAME.provenance.json, which says where every kind of
    reference came from. Both files are read back and checked before the command ends. In 2026, SET_DIR is the task's
    test file and the result one file of its items.

    \b
    polyref submit generaltest2023 --year 2023 -l en-de zh-en --ref refA --refs refs/{pair}.jsonl -m bleu -k 10 \\
        --name parBLEU --testset generaltest2023 -o submission
    polyref submit mteval-test26.jsonl.gz --year 2026 --refs refs/{pair}.jsonl -m chrf++ --name parCHRF -o pred.jsonl.gz
    """  # noqa: D301
    from polyref.eval.submit import Submission, submit

    what = {one.name: options.pop(one.name) for one in dataclasses.fields(Submission) if one.name in options}
    with listening(bars):
        made = submit(
            set_dir,
            pairs,
            output,
            Submission(fields=fields_from(fields), **what),
            options=options,
            collection=collection,
            test_suites=test_suites,
            say=tell,
        )
    for path, checked in made.items():
        for pair, systems in checked.pairs.items():
            count = checked.segments.get(pair, "no")
            say(shown(f"{path}: {pair}, {len(systems)} systems, {count} segments"))

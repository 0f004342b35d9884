"""Score the systems of a set for the WMT metrics task, and write the files of a year."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polyref import __version__
from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import as_added, check_sources, chosen_references, reference_set, sources_alone
from polyref.eval.data.releases import check_patterns, filled, open_sets
from polyref.eval.data.task_files import LEVELS, TaskRow, file_name, read_rows, write_rows
from polyref.eval.options import Say
from polyref.eval.submission import (
    ALL,
    ITEMS_YEAR,
    NO_REFERENCE,
    UNKNOWN,
    Checked,
    TestSet,
    domains_to_score,
    reference_name,
    segment_rows,
    system_rows,
    validate,
)
from polyref.eval.submission import Submission as Submission
from polyref.eval.submit_items import submit_items
from polyref.metrics.api import warnings_of
from polyref.metrics.base import Metric
from polyref.metrics.copies import (
    Copies,
    Nearness,
    count_copies,
    near_originals,
    plain_copies,
    plain_originals,
    warnings_of_copies,
    warnings_of_originals,
)
from polyref.metrics.registry import make_metrics
from polyref.metrics.statistics import check_finite
from polyref.publishing import publish_together
from polyref.references import ReferenceSet
from polyref.values import texts


def submit(
    data: str | Path,
    pairs: str | Sequence[str],
    output: str | Path,
    what: Submission,
    *,
    options: Mapping[str, Any] | None = None,
    collection: str | None = None,
    test_suites: bool = False,
    say: Say = lambda kind, message: None,
) -> dict[Path, Checked]:
    """Write one system-level and one segment-level file, and ``NAME.provenance.json``; in 2026 one file of items.

    Every system output is scored but the references used, of which a metric that reads the source alone uses none.
    Files are read back and checked, and then appear together.

    Args:
        data: A folder in the mt-metrics-eval layout or a WMT release, as :func:`polyref.eval.api.evaluate` takes it;
            in 2026, the task's test file.
        pairs: Language pairs, such as ``zh-en``; in 2026, none are all of them.
        output: The folder to write to, made if need be; in 2026 the file, such as ``pred.jsonl.gz``.
        what: What to submit.
        options: Of the metric where its specification does not say otherwise, by the names of their flags.
        collection: Of a WMT XML release, submit this collection; default: all.
        test_suites: Of a WMT XML release, submit the test suites as well.
        say: Told every note as it comes up: ``note`` or ``warning``, and what it says.

    Returns:
        The files of scores, and what they hold.

    Raises:
        DataError: A file is missing or broken, or an output is unknown.
        UsageError: Something is asked for that the set or the metric does not have, or another metric's scores are
            in the folder.
    """
    _check_used(what, xml=collection is not None or test_suites)
    if what.year == ITEMS_YEAR:
        return submit_items(data, texts("pairs", pairs), Path(output), what, options or {}, say)
    folder = Path(output)
    names = {level: file_name(what.year, level, what.name) for level in LEVELS}
    if folder.exists() and not folder.is_dir():
        raise DataError("is a file, expected a directory to write to", file=output)
    _check_there(folder, what)
    sets = open_sets([data], texts("pairs", pairs), collection, test_suites)
    if isinstance(what.references, (str, Path)):
        check_patterns([str(what.references)], sets, "`references`")
    elif what.references is not None and len(sets) > 1:
        raise UsageError("one list of `references` for several language pairs", remedy="submit one pair, or give files")
    rows: dict[str, list[TaskRow]] = {level: [] for level in LEVELS}
    testsets: list[TestSet] = []
    provenance = {}
    for evalset in sets:
        if not isinstance(evalset, EvalSet):
            raise DataError(
                "holds scores without texts: there is nothing to score",
                file=evalset.directory,
                remedy="submit a set with system outputs",
            )
        testset, provenance[evalset.pair] = _pair(evalset, what, options, say, rows)
        testsets.append(testset)
    facts = {"metric": what.name, "year": what.year, "testset": what.testset, "polyref": __version__}
    text = json.dumps({**facts, "pairs": provenance}, ensure_ascii=False, indent=2) + "\n"
    # What UTF-8 cannot write becomes \udcff, which is how JSON has it.
    files = {folder / f"{what.name}.provenance.json": text.encode("utf-8", "backslashreplace")}
    checked = {}
    with TemporaryDirectory(prefix="polyref-") as temporary:
        for level in LEVELS:
            path, made = folder / names[level], Path(temporary) / names[level]
            try:
                write_rows(made, what.year, level, rows[level])
                checked[path] = validate(made, what.year, level, testsets)
            except DataError as error:
                raise DataError(error.message, file=path, line=error.line, remedy=error.remedy) from None
            files[path] = made.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    publish_together(files)
    return checked


def _check_used(what: Submission, *, xml: bool) -> None:
    """Refuse what nothing would be done with."""
    given = {"ref": what.ref, "testset": what.testset, "reference": what.reference, "collection` or `test_suites": xml}
    if what.year == ITEMS_YEAR:
        if useless := [name for name, value in given.items() if value]:
            found = f"`{useless[0]}` has no use with `year` {what.year}: the test file says it all"
            raise UsageError(found, remedy="leave it out")
    elif not what.testset:
        raise UsageError("no `testset`: what does the task call the test set?", remedy="for example generaltest2024")
    elif what.without_reference is not None:
        raise UsageError(f"`without_reference` is for `year` {ITEMS_YEAR}", remedy="leave it out")
    for name in ("form", "fields"):
        if getattr(what, name) and not isinstance(what.references, (str, Path)):
            found = f"`{name}` has no use without a file of `references`"
            raise UsageError(found, remedy="give `references`, or leave it out")
    if what.reference is not None and what.year == 2025:
        found = "`reference` has no use with `year` 2025, whose files name no reference"
        raise UsageError(found, remedy="leave it out")


def _check_there(folder: Path, what: Submission) -> None:
    """Refuse to write over another metric's scores: the files of 2025 are called the same for all."""
    if what.year < 2025:
        return  # The names of files hold the metric.
    for level in LEVELS:
        path = folder / file_name(what.year, level, what.name)
        for row in read_rows(path, what.year, level) if path.exists() else ():
            if row.fields["method"] != what.name:
                raise UsageError(
                    f"{path} holds the scores of {row.fields['method']!r}, not of {what.name!r}",
                    remedy="write to another directory (`output`): every metric has the same file names in this year",
                )


def _pair(
    evalset: EvalSet, what: Submission, options: Mapping[str, Any] | None, say: Say, rows: dict[str, list[TaskRow]]
) -> tuple[TestSet, dict[str, Any]]:
    """Add the lines of one language pair to ``rows``; what its test set is, and where its references came from."""
    metric, *more = make_metrics([what.metric], options, evalset.pair).values()
    if more:
        raise UsageError(f"`metric` names {1 + len(more)} metrics, expected one")
    chosen, references = _references(evalset, what, metric)
    extras = [len(segment.extras) for segment in references]
    for note in evalset.notes:
        say("note", f"{evalset.pair}: {note}")
    for warning in warnings_of([metric], references, what.k or 0):
        say("warning", f"{evalset.pair}: {warning}")
    asked = max(extras) if what.k is None else what.k
    k = min(asked, max(extras))
    if unknown := [system for system in what.exclude if system not in evalset.output_files]:
        there = ", ".join(evalset.output_files)
        raise UsageError(f"no system {unknown[0]!r} to leave out of {evalset.pair}, there are: {there}")
    left_out = {*evalset.copies_of(chosen), *what.exclude}
    systems = [system for system in evalset.output_files if system not in left_out]
    texts = evalset.outputs(systems)
    if not systems:
        raise DataError(f"no system outputs for {evalset.pair}", file=evalset.directory)
    if not evalset.known(texts).all():
        raise DataError(f"some outputs of {evalset.pair} are unknown: it cannot be submitted", file=evalset.directory)
    documents = evalset.documents or ((ALL, UNKNOWN),) * len(references)
    if len(documents) != len(references):
        raise DataError(f"{len(documents)} lines of documents, but {len(references)} segments", file=evalset.directory)
    testset = TestSet(evalset.pair, what.testset, tuple(d for _, d in documents), tuple(d for d, _ in documents))
    outputs = dict(zip(systems, texts, strict=True))
    copies, near = count_copies(references, outputs, [k]), near_originals(references, outputs)
    for warning in (*warnings_of_originals(near), *warnings_of_copies(copies)):
        say("warning", f"{evalset.pair}: {warning}")
    label = what.reference or reference_name(what.year, chosen[0] if chosen else NO_REFERENCE, what.testset)
    statistics = metric.statistics(outputs, references, ks=[k])
    sign = 1.0 if metric.higher_is_better else -1.0
    by_domain = {}
    for domain in domains_to_score(what.year, testset):
        scores = metric.aggregate(statistics, k=k, over=None if domain == ALL else testset.over(domain))
        by_domain[domain] = dict(zip(systems, map(float, sign * scores.system), strict=True))
    rows["sys"] += system_rows(what.year, what.name, testset, label, by_domain)
    segments = sign * metric.aggregate(statistics, k=k).segment
    check_finite(metric.label, segments, systems, statistics.segments)
    rows["seg"] += segment_rows(what.year, what.name, testset, label, dict(zip(systems, segments, strict=True)))
    signature = metric.aggregate(statistics, k=asked).signature
    return testset, _provenance(references, chosen, k, asked, signature, copies, near)


def _references(evalset: EvalSet, what: Submission, metric: Metric) -> tuple[tuple[str, ...], ReferenceSet]:
    """Names of the human references, and the set with the added ones."""
    if not metric.needs_references:
        has = {"ref": what.ref, "references": what.references is not None, "k": what.k, "reference": what.reference}
        if useless := [name for name, value in has.items() if value]:
            raise UsageError(f"`{useless[0]}` has no use: {metric.label} reads the source alone", remedy="leave it out")
        return (), sources_alone(evalset)
    chosen = chosen_references(evalset, what.ref, what.references is not None)
    if what.reference is None and len(chosen) > 1:
        found = f"{'+'.join(chosen)} are several references"
        raise UsageError(found, remedy="say what the task calls them: `reference`")
    given = what.references
    if isinstance(given, (str, Path)):
        added: str | ReferenceSet | None = filled(str(given), evalset)
    else:
        added = None if given is None else as_added(given)
    references = reference_set(evalset, chosen, added, what.form, what.fields)
    check_sources(evalset, references, [metric])
    if what.k and what.references is None:
        raise UsageError(f"k = {what.k} without added references", remedy="give them with `references`")
    return tuple(chosen), references


def _provenance(
    references: ReferenceSet,
    chosen: tuple[str, ...],
    k: int,
    asked: int,
    signature: str,
    copies: Sequence[Copies],
    near: Sequence[Nearness],
) -> dict[str, Any]:
    """Where the references came from; a segment has at most ``k`` extra ones in these scores, of ``asked``."""
    extras = [len(segment.extras) for segment in references]
    used = Counter(ref.kind for segment in references.take(k) for ref in segment.refs)
    return {
        "references": list(chosen),
        "k": k,
        "asked": asked,
        "available": [min(extras), max(extras)],
        "used": dict(sorted(used.items())),
        "added by": {key: value for key, value in references.meta.items() if key != "references"},
        **({"circular": plain_copies(copies)} if copies else {}),
        **({"originals": plain_originals(near)} if near else {}),
        "signature": signature,
    }

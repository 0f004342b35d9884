"""Make a report of evaluations and write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyref import __version__
from polyref.eval.evaluation import Evaluation
from polyref.eval.report import tables
from polyref.eval.report.data import derive, headline_rows, main_statistics
from polyref.eval.report.directory import check_report, write_directory
from polyref.eval.report.examples import examples
from polyref.eval.report.page import page
from polyref.eval.report.settings import Settings


def write_report(
    path: str | Path,
    evaluations: Sequence[Evaluation],
    averages: Sequence[dict[str, Any]] = (),
    settings: Settings | None = None,
) -> None:
    """Write the page and its tables into a directory: all of it, or nothing. Equal input gives equal bytes.

    Without matplotlib the page has no plots, and says how to get them.

    Args:
        path: The directory. An older report in it is replaced; anything else is not.
        evaluations: What was measured, one or more.
        averages: Averages over language pairs, from :func:`polyref.eval.averages.average_over_pairs`.
        settings: How it came about.
    """
    check_report(path)
    settings = settings or Settings()
    derived = [derive(one) for one in evaluations]
    shown = [examples(one) for one in evaluations]
    both = list(zip(evaluations, derived, strict=True))
    rows = [tables.flat(one, row) for one in evaluations for row in one.all_rows]
    systems = [row for one, found in both for row in tables.system_rows(one, found)]
    pairs = [row for one, found in both for row in tables.pair_rows(one, found)]
    wanted = main_statistics(evaluations)
    described = [
        {**tables.place(one), "signature": one.signature, "notes": list(one.notes),
         "excluded": {name: tables.finite(score) for name, score in one.excluded.items()},
         "signatures": [{"metric": m, "k": k, "signature": s} for (m, k), s in one.signatures.items()]}
        for one in evaluations
    ]  # fmt: skip
    data = {
        "polyref_report": tables.FORMAT, "version": __version__, "settings": settings.described(),
        "evaluations": described, "rows": rows, "averages": [dict(one) for one in averages], "systems": systems,
        "pairs": pairs,
    }  # fmt: skip
    front = ("set", "pair", "generator", "originals")
    write_directory(
        path,
        {
            "index.html": page(evaluations, derived, shown, averages, settings),
            "rows.csv": tables.csv_text(rows),
            "gains.tex": tables.latex_text(
                [(one, row) for one in evaluations for row in headline_rows(one, wanted)], settings.correction
            ),
            "systems.csv": tables.csv_text(systems, [*front, "system", "human", "outlier", "metric", "k", "score"]),
            "pairs.csv": tables.csv_text(
                pairs, [*front, "metric", "k", "better", "worse", "human_p", "metric_p", "outcome"]
            ),
            "report.json": tables.json_text(data),
        },
    )

"""A folder for people and for programs: the page, CSV, LaTeX and JSON. It appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os.path import realpath
from pathlib import Path
from typing import Any, Final

from polyref import __version__
from polyref.errors import DataError
from polyref.eval.agreement import Row
from polyref.eval.columns import Evaluated
from polyref.eval.evaluation import Evaluation
from polyref.eval.report.derived import Report
from polyref.eval.report.page import page
from polyref.eval.statistics.named import metric_names, statistic_name
from polyref.publishing import published_folder
from polyref.tables import escape_latex

#: Version of ``report.json``.
FORMAT: Final = 1
#: What makes a spreadsheet take a cell for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def flat(evaluation: Evaluation, row: Row) -> dict[str, Any]:
    """One row as plain values, intervals in two columns each; None where a value is undefined."""
    values = {**asdict(row), "control": row.control or "real"}
    for name in ("ci", "gain_ci"):
        values[f"{name}_low"], values[f"{name}_high"] = values.pop(name) or (None, None)
    told = evaluation.verdict(row)
    values |= {"claim": evaluation.claim(row), "verdict": told.word, "withheld": told.reason}
    return {**place(evaluation), **{key: finite(value) for key, value in values.items()}}


def place(evaluation: Evaluation) -> dict[str, Any]:
    """The columns that name an evaluation."""
    return {**evaluation.place, "generator": evaluation.generator}


def finite(value: Any) -> Any:
    """None for NaN, anything else as it is."""
    return None if isinstance(value, float) and math.isnan(value) else value


def system_rows(report: Report) -> list[dict[str, Any]]:
    """Human and metric scores of every system."""
    return [
        {
            **place(one),
            "system": system,
            "human": human,
            "outlier": system in scatter.outliers,
            "metric": scatter.metric,
            "k": k,
            "score": finite(scores[index]),
        }
        for one, found in report.scatters
        for scatter in found
        for k, scores in scatter.scores.items()
        for index, (system, human) in enumerate(zip(scatter.systems, scatter.human, strict=True))
    ]


def csv_text(rows: Sequence[Mapping[str, Any]], header: Sequence[str] = ()) -> str:
    """Rows with equal keys as CSV; undefined values are empty. Without rows, the header alone.

    Text that a spreadsheet would take for a formula has an apostrophe before it; numbers are as they are.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else list(header), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # The csv module puts quotes around a line feed, but not around a carriage return.
    return ("'" if value.startswith(_FORMULA) else "") + value.replace("\r", "\n")


def latex_text(rows: Sequence[tuple[Evaluation, Row]], correction: str | None = None) -> str:
    r"""The headline table for a paper (needs ``\usepackage{booktabs}``).

    Where p-values are corrected, those of the bootstrap, which are not, are left out.
    """
    metrics = metric_names(row.metric for _, row in rows)
    lines = [r"\begin{tabular}{llrlrrr}", r"\toprule"]
    lines += [r"Pair & Metric & $k$ & Statistic & Value & Gain & $p$ \\", r"\midrule"]
    for evaluation, row in rows:
        tests = (row.p_adjusted, row.p_perm_both, row.p, None if correction else row.p_bootstrap)
        gain = latex_number(row.gain, "+")
        if row.gain is not None and row.gain_ci is not None:
            gain += rf" {{\small [{', '.join(latex_number(end, '+') for end in row.gain_ci)}]}}"
        cells = [
            escape_latex(evaluation.name),
            escape_latex(metrics[row.metric]),
            "--" if row.k is None else str(row.k),
            escape_latex(statistic_name(row.statistic)),
            latex_number(row.value),
            gain,
            latex_number(next((p for p in tests if p is not None), None)),
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def latex_number(value: float | None, sign: str = "") -> str:
    """Three digits, with a real minus sign."""
    if value is None or math.isnan(value):
        return "--"
    return f"{value:{sign}.3f}".replace("-", "$-$").replace("+", "$+$")


#: Everything that a report holds.
FILES: Final = ("index.html", "rows.csv", "gains.tex", "pairs.csv", "systems.csv", "report.json")
#: What those of 0.1.0 hold as well: they are replaced, too.
_OLDER: Final = ("sizes.csv",)


def check_report(path: str | Path) -> None:
    """Refuse a place where no report can be written, before any work is done."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise DataError("exists and is no directory, expected one for a report", file=path, remedy="name another -o")
    if target.is_dir():
        entries = sorted(target.iterdir())
        others = [entry.name for entry in entries if entry.name not in {*FILES, *_OLDER} or entry.is_dir()]
        if others or (entries and not (target / "report.json").is_file()):
            raise DataError(
                f"is no report of polyref and is not overwritten: it holds {(others or ['other files'])[0]}",
                file=path,
                remedy="name another -o",
            )
    parent = Path(realpath(target)).parent
    if not parent.is_dir():
        raise DataError(f"cannot be written: no directory {parent}", file=path, remedy="create it first")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from None


def write_directory(path: str | Path, files: Mapping[str, str]) -> None:
    """Write all files into a fresh directory, which then takes the place of ``path``."""
    check_report(path)
    with published_folder(Path(realpath(path))) as fresh:
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8", newline="\n")


def write_report(path: str | Path, found: Evaluated) -> None:
    """Write the page and its tables into a directory: all of it, or nothing. Equal input gives equal bytes.

    An older report in the directory is replaced; anything else is not. Without matplotlib the page has no plots, and
    says how to get them.
    """
    check_report(path)
    report = Report(
        found.evaluations, found.averages, found.settings, found.bootstrap, found.correction, found.baseline
    )
    evaluations = report.evaluations
    rows = [flat(one, row) for one in evaluations for row in one.all_rows]
    systems = system_rows(report)
    # Every pair of systems that people tell apart, and what the metrics say.
    pairs = [
        {**place(one), "metric": found.metric, "k": found.k, **asdict(pair)}
        for one, found in report.outcomes
        for pair in found.pairs
    ]
    described = [
        {
            **place(one),
            "signature": one.signature,
            "notes": list(one.notes),
            "excluded": {name: finite(score) for name, score in one.excluded.items()},
            "signatures": [{"metric": m, "k": k, "signature": s} for (m, k), s in one.signatures.items()],
        }
        for one in evaluations
    ]
    data = {
        "polyref_report": FORMAT,
        "version": __version__,
        "settings": report.described(),
        "evaluations": described,
        "rows": rows,
        "averages": [dict(one) for one in report.averages],
        "systems": systems,
        "pairs": pairs,
    }
    front = ("set", "pair", "generator", "originals")
    files = {
        "index.html": page(report),
        "rows.csv": csv_text(rows),
        "gains.tex": latex_text(report.headline, report.correction),
        "systems.csv": csv_text(systems, [*front, "system", "human", "outlier", "metric", "k", "score"]),
        "pairs.csv": csv_text(pairs, [*front, "metric", "k", "better", "worse", "human_p", "metric_p", "outcome"]),
        "report.json": json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1, default=str) + "\n",
    }
    write_directory(path, files)

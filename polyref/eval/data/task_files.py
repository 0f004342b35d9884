"""Files of the WMT metrics task, by year: reading them strictly and writing them exactly.

Sources: the calls of 2021 to 2024, the published scores of 2020 (WMT-Metrics-task/wmt20-metrics) and the data of 2025.
All are tab-separated without quoting; only 2025 has a header. Segments count from 1: in 2020 within each document,
later through the pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from polyref.errors import DataError, UsageError
from polyref.eval.data.score_files import is_score, numbered_lines, shortened
from polyref.publishing import write_atomically

LEVELS: Final = ("sys", "seg")

_SYS_2020 = ("metric", "pair", "testset", "reference", "system", "score")
_SEG_2020 = ("metric", "pair", "testset", "reference", "system", "document", "segment", "score")
_SEG_2021 = ("metric", "pair", "testset", "reference", "system", "segment", "score")
_SYS_2022 = ("metric", "pair", "testset", "domain", "reference", "system", "score")
_SEG_2022 = ("metric", "pair", "testset", "domain", "document", "reference", "system", "segment", "score")
_BOTH_2025 = (
    "doc_id",
    "segment_id",
    "source_lang",
    "target_lang",
    "set_id",
    "system_id",
    "domain_name",
    "method",
    "overall",
)
#: (year, level) -> fields of a line.
FIELDS: Final[Mapping[tuple[int, str], tuple[str, ...]]] = {
    (2020, "sys"): _SYS_2020,
    (2020, "seg"): _SEG_2020,
    (2021, "sys"): _SYS_2020,
    (2021, "seg"): _SEG_2021,
    **{(year, "sys"): _SYS_2022 for year in (2022, 2023, 2024)},
    **{(year, "seg"): _SEG_2022 for year in (2022, 2023, 2024)},
    (2025, "sys"): _BOTH_2025,
    (2025, "seg"): _BOTH_2025,
}
YEARS: Final = tuple(sorted({year for year, _ in FIELDS}))


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One line of a submission.

    Attributes:
        fields: All columns but the score, by name.
        score: The score; larger is better in every year.
        line: 1-based line it was read from; 0 when it was not read.
    """

    fields: Mapping[str, str]
    score: float
    line: int = 0


def file_name(year: int, level: str, metric: str) -> str:
    """What the organisers call the file."""
    fields(year, level)
    check_name(metric)
    if year == 2025:
        return "systems.tsv" if level == "sys" else "segments.tsv"
    return f"{metric}.{level}.score" + (".gz" if year <= 2022 else "")


def check_name(metric: str) -> None:
    """Refuse a name of a metric that cannot be in the name of a file."""
    spoilt = metric.startswith(".") or "/" in metric or any(c.isspace() for c in metric)
    if not metric or spoilt or not _is_text(metric):
        raise UsageError(
            f"the metric's name {metric!r} holds a slash or white space, begins with a dot, is empty, or is no UTF-8"
        )


def fields(year: int, level: str) -> tuple[str, ...]:
    """Columns of a year's file, the score last."""
    try:
        return FIELDS[year, level]
    except KeyError:
        raise UsageError(f"no format for {year} {level}, there are {YEARS[0]} to {YEARS[-1]}, sys and seg") from None


def read_rows(path: str | Path, year: int, level: str) -> Iterator[TaskRow]:
    """Read a submission file."""
    names = fields(year, level)
    seen: dict[tuple[str, ...], int] = {}
    for number, line in numbered_lines(path):
        values = line.split("\t")
        if len(values) != len(names):
            wanted = " ".join(names)
            raise DataError(f"{len(values)} columns, expected {len(names)}: {wanted}", file=path, line=number)
        if year == 2025 and number == 1:
            if tuple(values) != names:
                raise DataError(f"the header is {line!r}, expected {chr(9).join(names)!r}", file=path, line=1)
            continue
        for name, value in zip(names, values, strict=True):
            if not value or value != value.strip():
                raise DataError(f"field {name!r} is {value!r}, expected a text without space", file=path, line=number)
        key = tuple(values[:-1])
        if key in seen:
            raise DataError(f"repeats the item of line {seen[key]}", file=path, line=number)
        seen[key] = number
        yield TaskRow(dict(zip(names[:-1], key, strict=True)), _score(values[-1], names[-1], path, number), number)
    if not seen:
        raise DataError("no scores", file=path)


def write_rows(path: str | Path, year: int, level: str, rows: Iterable[TaskRow], *, digits: int | None = None) -> None:
    """Write a submission file, compressed where its name ends in ``.gz``; it appears whole or not at all.

    Scores have so many ``digits`` after the point; None writes every digit that is needed to read the same number back.
    """
    names = fields(year, level)
    with write_atomically(path) as stream:
        if year == 2025:
            stream.write("\t".join(names) + "\n")
        for row in rows:
            values = []
            for name in names[:-1]:
                value = row.fields.get(name, "")
                if not value or any(c in value for c in "\t\n\r") or value != value.strip() or not _is_text(value):
                    raise DataError(f"field {name!r} is {value!r}: it cannot be written", file=path)
                values.append(value)
            if not math.isfinite(row.score):
                raise DataError(f"the score of {' '.join(values)} is {row.score}, expected a finite number", file=path)
            text = repr(float(row.score)) if digits is None else f"{row.score:.{digits}f}"
            stream.write("\t".join([*values, text]) + "\n")


def _is_text(value: str) -> bool:
    """Whether UTF-8 can write it: a file name or a command line can hold bytes that are no text."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _score(text: str, name: str, path: str | Path, number: int) -> float:
    if text == "None" or not is_score(text):
        raise DataError(f"field {name!r} is {shortened(text)}, expected a number", file=path, line=number)
    score = float(text)
    if not math.isfinite(score):
        raise DataError(f"field {name!r} is {shortened(text)}, expected a finite number", file=path, line=number)
    return score

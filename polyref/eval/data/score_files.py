"""Score files of the mt-metrics-eval layout: ``SYSTEM SCORE`` lines, for systems and for segments.

Format: mt-metrics-eval v2, ``mt_metrics_eval/data.py``. Values are split by any white space; ``None`` is a missing
human score and is never allowed in a metric's file. A missing score is NaN in memory, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError
from polyref.eval.judgements.gold import FloatArray as FloatArray
from polyref.formats.base import shortened as shortened
from polyref.formats.base import whole_number as whole_number
from polyref.textfiles import iter_lines

#: Rules for :func:`parse_score`: of metrics' scores, and of files that have a line for every judgement.
METRIC_RULE: Final = "a metric must score everything"
JUDGEMENT_RULE: Final = "every line is a judgement: leave out what was not judged"
#: Means of scores are rounded to so many digits.
_DIGITS: Final = 10


def mean_score(scores: Sequence[float]) -> float:
    """The mean of the scores that annotators gave, NaN without any.

    Rounded: outputs that are judged alike stay tied, however many annotators their means are of.
    """
    return round(math.fsum(scores) / len(scores), _DIGITS) if scores else math.nan


def read_system_scores(path: Path, *, allow_missing: bool) -> dict[str, float]:
    """Scores of systems in a ``.sys.score`` file, in its order; NaN for ``None``, where that is allowed."""
    scores: dict[str, float] = {}
    first: dict[str, int] = {}
    for number, line in numbered_lines(path):
        system, score = _parse(line, path, number, allow_missing)
        if system in scores:
            raise DataError(
                f"system {system!r} has a second score, the first is on line {first[system]}",
                file=path,
                line=number,
                remedy="one line a system",
            )
        scores[system] = score
        first[system] = number
    if not scores:
        raise DataError("the file is empty, expected one `SYSTEM SCORE` line a system", file=path)
    return scores


def read_segment_scores(path: Path, segments: int | None, *, allow_missing: bool) -> dict[str, FloatArray]:
    """Scores of outputs in a ``.seg.score`` file, shape (segments,); NaN for ``None``, where that is allowed.

    All segments of one system come in order, then the next system. ``segments`` is their number; None takes it from the
    first system of the file.
    """
    blocks: dict[str, list[float]] = {}
    current: str | None = None
    for number, line in numbered_lines(path):
        system, score = _parse(line, path, number, allow_missing)
        if system != current:
            if system in blocks:
                raise DataError(
                    f"system {system!r} starts a second block of scores",
                    file=path,
                    line=number,
                    remedy="all segments of a system in order, then the next system",
                )
            if current is not None:
                segments = _check_block(path, number - 1, current, len(blocks[current]), segments)
            blocks[system] = []
            current = system
        blocks[system].append(score)
    if current is None:
        raise DataError("the file is empty, expected one `SYSTEM SCORE` line a segment", file=path)
    _check_block(path, sum(map(len, blocks.values())), current, len(blocks[current]), segments)
    return {system: np.array(values, dtype=np.float64) for system, values in blocks.items()}


def _check_block(path: Path, number: int, system: str, found: int, expected: int | None) -> int:
    if expected is not None and found != expected:
        raise DataError(
            f"system {system!r} has {found} segments, expected {expected}",
            file=path,
            line=number,
            remedy="one line a segment; write None for one that was not judged",
        )
    return found


def _parse(line: str, path: Path, number: int, allow_missing: bool) -> tuple[str, float]:
    fields = line.split()
    if len(fields) != 2:
        raise DataError(f"{len(fields)} columns, expected 2: SYSTEM SCORE", file=path, line=number)
    return fields[0], parse_score(fields[1], path, number, allow_missing=allow_missing)


def parse_score(
    text: str,
    path: Path | str,
    number: int,
    *,
    allow_missing: bool = False,
    rule: str = METRIC_RULE,
) -> float:
    """Turn one field into a finite number; NaN for the token ``None`` where that is allowed.

    Args:
        text: The field.
        path: The file, for messages.
        number: Its line.
        allow_missing: Whether ``None`` is legal.
        rule: What to say where it is not.

    Raises:
        DataError: Anything else, ``nan`` and ``inf`` included.
    """
    if text == "None":
        if allow_missing:
            return math.nan
        raise DataError(f"the score is None, but {rule}", file=path, line=number)
    score = _number(text)
    if score is None:
        raise DataError(f"the score is {shortened(text)}, expected a number", file=path, line=number)
    if not math.isfinite(score):
        remedy = "write None for a missing judgement" if allow_missing else rule
        raise DataError(
            f"the score is {shortened(text)}, expected a finite number", file=path, line=number, remedy=remedy
        )
    return score


def is_score(text: str) -> bool:
    """Whether a field can be read as a score, ``None`` included."""
    return text == "None" or _number(text) is not None


def _number(text: str) -> float | None:
    # Python also takes 1_000 and the digits of other scripts, which nobody means by a score.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def table_rows(path: str | Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows of columns under a header, separated by white space of any kind, with their numbers."""
    for number, line in numbered_lines(path):
        values = line.split()
        if number == 1 and values != list(header):
            raise DataError(f"the header is {line!r}, expected {' '.join(header)!r}", file=path, line=1)
        if len(values) != len(header):
            wanted = f"expected {len(header)}: {' '.join(header)}"
            raise DataError(f"{len(values)} columns, {wanted}", file=path, line=number)
        if number > 1:
            yield number, values


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Lines with their number from 1, without the blank ones at the end of the file, which editors leave there."""
    blank: list[tuple[int, str]] = []
    for number, line in enumerate(iter_lines(path), 1):
        if not line or line.isspace():
            blank.append((number, line))
            continue
        if blank:
            yield from blank
            blank.clear()
        yield number, line

"""Baselines of BERTScore: its scores for texts that have nothing to do with each other.

The file is bert_score's: comma-separated in spite of its suffix ``.tsv``, with the header ``LAYER,P,R,F`` and a line
for every layer from 0, so that the files that come with bert_score can be read, and bert_score can read these.
"""

from __future__ import annotations

import csv
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError
from polyref.metrics.statistics import Floats
from polyref.textfiles import read_lines

HEADER: Final = ["LAYER", "P", "R", "F"]


@dataclass(frozen=True)
class Baseline:
    """Mean precision, recall and F of unrelated texts.

    Attributes:
        values: Shape (3,), each below 1.
        digest: SHA-256 over the values, 64 hex digits.
    """

    values: Floats

    @property
    def digest(self) -> str:
        """See above."""
        return hashlib.sha256(",".join(map(repr, self.values.tolist())).encode()).hexdigest()

    def rescale(self, scores: Floats) -> Floats:
        """(x - b) / (1 - b) of scores of shape (..., 3): unrelated texts get about 0, equal ones stay at 1."""
        rescaled: Floats = (scores - self.values) / (1 - self.values)
        return rescaled


def read_baseline(path: str | Path, layer: int) -> Baseline:
    """The line of a layer."""
    lines = read_lines(path)
    try:
        header, *rows = csv.reader(lines)
    except csv.Error as error:
        raise DataError(f"no lines of a layer and three numbers: {error}", file=path) from None
    if header != HEADER:
        raise DataError(f"the header is {lines[0]!r}, expected {','.join(HEADER)}", file=path, line=1)
    for number, row in enumerate(rows, 2):
        try:
            found, *values = int(row[0]), *map(float, row[1:])
        except (ValueError, IndexError):
            raise DataError(f"{','.join(row)!r}, expected a layer and three numbers", file=path, line=number) from None
        if found != number - 2 or len(values) != 3 or not all(math.isfinite(value) and value < 1 for value in values):
            raise DataError(
                f"{','.join(row)!r}, expected layer {number - 2} and three numbers below 1", file=path, line=number
            )
        if found == layer:
            return Baseline(np.array(values))
    raise DataError(
        f"has layers 0 to {len(rows) - 1}, but layer {layer} is used",
        file=path,
        remedy="is it a baseline of this encoder? scripts/bertscore_baseline.py in the repository makes one",
    )

"""The average of correlations over language pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from polyref.eval.agreement import Row
from polyref.eval.evaluation import Evaluation, plain


def fisher_average(correlations: Sequence[float], counts: Sequence[int]) -> float:
    """Average of correlations over language pairs by Fisher's z (Agrawal et al. 2021, section 3.3).

    z = atanh(r) has variance 1 / (n - 3), so pairs are weighted by n - 3; the mean is turned back by tanh.

    Args:
        correlations: One a language pair, -1 to 1; NaN is left out.
        counts: Number of points behind each, more than 3.

    Returns:
        The average; NaN where nothing is left.
    """
    total = weight = 0.0
    for r, n in zip(correlations, counts, strict=True):
        if math.isnan(r):
            continue
        # A perfect correlation has no finite z.
        total += (n - 3) * math.atanh(min(max(r, -1 + 1e-15), 1 - 1e-15))
        weight += n - 3
    return math.tanh(total / weight) if weight else math.nan


#: What an average is over: set, language pair, judgement, and which of several with the same names.
_Place = tuple[str, str, str, int]


def average_over_pairs(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Fisher-z averages over language pairs of Pearson's r at system level (Agrawal et al. 2021, section 3.3).

    Args:
        evaluations: Of several language pairs.

    Returns:
        One row for each generator, originals, metric and k, over the language pairs with more than three systems and a
        defined correlation: ``value``, ``gain`` (None for stored scores without a baseline), ``pairs`` and ``n``
        (systems in all). The gain is over those of them where the baseline's correlation is defined as well; None
        where that is nowhere.
    """
    grouped: dict[tuple[str, str, str, int | None], dict[_Place, Row]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for one, row in [(found, row) for found in evaluations for row in found.rows]:
        if row.level == "sys" and row.statistic == "pearson" and row.n > 3:
            key = (one.generator, one.originals, row.metric, row.k)
            named = (one.set_name, one.pair, row.gold)
            seen[key, named] += 1  # two sets may have one name
            if not math.isnan(row.value):
                grouped.setdefault(key, {})[(*named, seen[key, named])] = row

    def gain_of(rows: Iterable[Row]) -> float | None:
        """Over the pairs that have one: what a row gains over is its value without its gain, asked for or not."""
        gains = [row for row in rows if row.gain is not None and not math.isnan(row.gain)]
        if not gains:
            return None
        return _averaged(gains) - _averaged([replace(row, value=row.value - (row.gain or 0.0)) for row in gains])

    return [
        {
            "generator": generator,
            "originals": originals,
            "metric": metric,
            "k": k,
            "value": _averaged(list(rows.values())),
            "gain": gain_of(rows.values()),
            "pairs": len(rows),
            "n": sum(row.n for row in rows.values()),
        }
        for (generator, originals, metric, k), rows in grouped.items()
    ]


def average_rows(averages: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> list[dict[str, Any]]:
    """The averages as rows with an evaluation's keys; ``pair`` says ``average``, ``n`` counts all systems."""
    empty = dict.fromkeys(keys)
    return [
        {
            **empty,
            "pair": "average",
            "generator": one["generator"] or None,
            "originals": one["originals"],
            "level": "sys",
            "metric": one["metric"],
            "k": one["k"],
            "statistic": "pearson",
            "value": plain(one["value"]),
            "gain": plain(one["gain"]),
            "n": one["n"],
            "signature": f"fisher-z|pairs:{one['pairs']}",
            **({"control": "real"} if "control" in empty else {}),
        }
        for one in averages
    ]


def _averaged(rows: Sequence[Row]) -> float:
    return fisher_average([row.value for row in rows], [row.n for row in rows])

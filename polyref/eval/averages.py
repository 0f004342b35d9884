"""Averages over language pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from polyref.eval.experiments.evaluation import Evaluation, plain
from polyref.eval.statistics.agreement import Row
from polyref.eval.statistics.averages import fisher_average

#: What an average is over: set, language pair, judgement, and which of several with the same names.
_Place = tuple[str, str, str, int]


def average_over_pairs(evaluations: Sequence[Evaluation], baseline: str | None = None) -> list[dict[str, Any]]:
    """Fisher-z averages over language pairs of Pearson's r at system level (Agrawal et al. 2021, section 3.3).

    Args:
        evaluations: Of several language pairs.
        baseline: Metric that gains are measured from; default: each metric's own k = 0.

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

    def gain_of(generator: str, originals: str, metric: str, rows: Mapping[_Place, Row]) -> float | None:
        name = baseline or metric
        ks = (0, None) if baseline else (0,)
        start = next((grouped[key] for k in ks if (key := (generator, originals, name, k)) in grouped), {})
        common = [place for place in rows if place in start]
        if not common:
            return None
        return _averaged([rows[place] for place in common]) - _averaged([start[place] for place in common])

    return [
        {
            "generator": generator,
            "originals": originals,
            "metric": metric,
            "k": k,
            "value": _averaged(list(rows.values())),
            "gain": gain_of(generator, originals, metric, rows),
            "pairs": len(rows),
            "n": sum(row.n for row in rows.values()),
        }
        for (generator, originals, metric, k), rows in grouped.items()
    ]


def average_rows(averages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The averages as rows with an evaluation's keys; ``pair`` says ``average``, ``n`` counts all systems."""
    return [
        {
            "set": None,
            "pair": "average",
            "generator": one["generator"] or None,
            "originals": one["originals"],
            "gold": None,
            "level": "sys",
            "metric": one["metric"],
            "k": one["k"],
            "statistic": "pearson",
            "value": plain(one["value"]),
            "gain": plain(one["gain"]),
            "ci": None,
            "gain_ci": None,
            "n": one["n"],
            "segments": None,
            "p": None,
            "p_williams": None,
            "p_perm_both": None,
            "p_adjusted": None,
            "signature": f"fisher-z|pairs:{one['pairs']}",
        }
        for one in averages
    ]


def _averaged(rows: Sequence[Row]) -> float:
    return fisher_average([row.value for row in rows], [row.n for row in rows])

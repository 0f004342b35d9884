"""Which metric agrees best with people: every metric on the shipped models, with the human reference alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from material import AVERAGES, SETS, Judges, Material, Samples, measured
from pair_scores import metric_of
from parts.gains import COMPARED, numbers, offset

from polyref.eval.statistics.base import Bootstrap

KEY: Final = ("set", "metric", "level", "statistic")
COLUMNS: Final = (
    *KEY,
    *("value", "low", "high", "over_chrf", "over_low", "over_high", "p"),
    *("segments", "n", "resamples", "seed"),
)
#: BARTScore's mean of both directions is Prism where both have the same model, and is left out.
METRICS: Final = ("chrf++", "bleu", "ter", "prism", "bartscore-precision", "bartscore-recall", "bertscore", "esim")
#: Not advised, and slow: compared on development sets alone.
ON_DEVELOPMENT_SETS: Final = ("esim",)


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of metrics.csv; ``p`` is of the test that a metric agrees better about systems than chrF++ does."""
    found: dict[str, dict[str, Samples]] = {metric: {} for metric in METRICS}
    for name in names:
        material = Material.of(SETS[name], args.data, COMPARED[name])
        seed = args.seed + offset(name)
        judges = Judges(material, Bootstrap(args.resamples, seed=seed))
        metrics = {metric: metric_of(metric, "max", args.work) for metric in shown(name, METRICS)}
        series, _ = measured(material, material.references, metrics, [0], 0, seed, args.work / "statistics")
        # Metrics of pairs come last.
        by_name = {one.metric: one for one in series}
        print(f"{name}: {len(material.references)} segments", file=sys.stderr, flush=True)
        for metric in metrics:
            samples = found[metric][name] = judges.samples(by_name[metric], 0)
            p = judges.p_value(by_name[metric], 0, by_name["chrf++"], 0) if metric != "chrf++" else None
            sizes = {"segments": len(material.references), "seed": seed, "resamples": args.resamples}
            for key, row in _rows({"set": name, "metric": metric, **sizes}, samples, found["chrf++"][name]):
                known = p is not None and not np.isnan(p) and key[0] == "sys"
                yield {**row, "p": f"{p:.4f}" if known else "", "n": judges.counted(key)}
    for average, sets in AVERAGES.items():
        if set(sets) <= set(names):
            chrf = _mean(found["chrf++"], sets)
            for metric in [metric for metric in METRICS if set(sets) <= set(found[metric])]:
                head = {"set": average, "metric": metric, "seed": args.seed, "resamples": args.resamples}
                for _, row in _rows(head, _mean(found[metric], sets), chrf):
                    yield row


def shown(name: str, metrics: Sequence[str]) -> list[str]:
    """Those of the metrics that are measured on a set."""
    return [metric for metric in metrics if not SETS[name].frozen or metric not in ON_DEVELOPMENT_SETS]


def _mean(by_set: dict[str, Samples], sets: Sequence[str]) -> Samples:
    return {key: np.mean([by_set[name][key] for name in sets], axis=0) for key in by_set[sets[0]]}


def _rows(head: dict[str, Any], samples: Samples, chrf: Samples) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for key, values in samples.items():
        over = numbers(("over_chrf", "over_low", "over_high"), values - chrf[key])
        yield (
            key,
            {
                **dict.fromkeys(COLUMNS, ""),
                **head,
                "level": key[0],
                "statistic": key[1],
                **numbers(("value", "low", "high"), values),
                **(over if head["metric"] != "chrf++" else {}),
            },
        )

"""All metrics on the shipped models, and ensembles of them, on the same segments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from material import AVERAGES, LISTS, SETS, Fixed, Floats, Judges, Material, Samples, measured
from pair_scores import metric_of
from parts.gains import COMPARED, MADE, numbers, offset
from parts.metrics import shown

from polyref.eval.series import Series
from polyref.eval.statistics.base import Bootstrap

KEY: Final = ("set", "references", "members", "k", "level", "statistic", "row")
COLUMNS: Final = (*KEY, "value", "low", "high", "gain", "gain_low", "gain_high", "segments", "resamples", "seed")
#: Metrics of the table; those with added references take the use that the development sets favour.
USES: Final = {"bleu": "max", "chrf++": "max", "bertscore": "max"}
ALONE: Final = ("ter", "prism", "esim")
ENSEMBLES: Final = (
    ("bleu", "chrf++"),
    ("bleu", "chrf++", "bertscore"),
    ("bleu", "chrf++", "prism", "bertscore"),
    ("chrf++", "prism"),
    ("chrf++", "prism", "bertscore"),
    ("prism", "bertscore"),
)


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of ensembles.csv: gains are over the same members without added references.

    An ensemble's score of an output is the mean of its ranks by the members among all outputs of the set. Prism
    reads the human reference alone.
    """
    found: dict[tuple[str, str, int, str], dict[str, Samples]] = {}
    for name in names:
        references_by = generator(name)
        material = Material.of(SETS[name], args.data, MADE.get(name) if references_by == "shipped" else None)
        material = material.spread(COMPARED[name])
        seed = args.seed + offset(name)
        judges = Judges(material, Bootstrap(args.resamples, seed=seed))
        k = max(args.k)
        references = material.added(references_by, args.data, args.work, k)
        metrics = {metric: metric_of(metric, use, args.work) for metric, use in USES.items()}
        real, fakes = measured(material, references, metrics, [0, k], 1, seed, None)
        others = shown(name, ALONE)
        one = {metric: metric_of(metric, "max", args.work) for metric in others}
        single, _ = measured(material, material.references, one, [0], 0, seed, None)
        print(f"{name}: {len(material.references)} segments", file=sys.stderr, flush=True)
        plain = {**_ranked(material, real, USES, 0), **_ranked(material, single, others, 0)}
        more = {"real": _ranked(material, real, USES, k), "placebo": _ranked(material, fakes[0], USES, k)}
        exact = {series.metric: series for series in (*real, *single)}
        for members in (*((metric,) for metric in plain), *ENSEMBLES):
            # A metric alone is scored as it is: its system score is the corpus's.
            alone = exact[members[0]] if len(members) == 1 else _mean(material, plain, members)
            base = judges.samples(alone, 0)
            label = " + ".join(members)
            found.setdefault(("", label, 0, "real"), {})[name] = base
            yield from _rows({"set": name, "members": label, "k": 0, "row": "real"}, base, base, material, args, seed)
            if not set(members) & set(USES):
                continue
            row: dict[str, Samples] = {}
            for which, ranked in more.items():
                given = _mean(material, {**plain, **ranked}, members)
                if len(members) == 1:
                    index = list(USES).index(members[0])
                    row[which] = judges.samples((real if which == "real" else fakes[0])[index], k)
                else:
                    row[which] = judges.samples(given, 0)
            row["difference"] = {key: row["real"][key] - row["placebo"][key] for key in base}
            for which, values in row.items():
                found.setdefault((references_by, label, k, which), {})[name] = values
                head = {"set": name, "references": references_by, "members": label, "k": k, "row": which}
                yield from _rows(head, values, base, material, args, seed)
    for average, sets in AVERAGES.items():
        for (references_by, label, k, which), by_set in found.items():
            if set(sets) <= set(by_set):
                first = found["", label, 0, "real"]
                values, base = (
                    {key: np.mean([one[name][key] for name in sets], axis=0) for key in one[sets[0]]}
                    for one in (by_set, first)
                )
                head = {"set": average, "references": references_by, "members": label, "k": k, "row": which}
                yield from _rows(head, values, base, None, args, args.seed)


def generator(name: str) -> str:
    """Who wrote the added references of a set."""
    return "llm" if name in LISTS else "shipped"


def _ranked(material: Material, series: Sequence[Series], names: Any, k: int) -> dict[str, Floats]:
    """Ranks of all outputs by each metric, 0 to 1, shape (systems, segments)."""
    from scipy.stats import rankdata

    systems = list(material.outputs)
    ranks = {}
    for name, one in zip(names, series, strict=True):
        scores = one.segment(systems, k)
        assert scores is not None
        ranks[name] = (rankdata(scores) / scores.size).reshape(scores.shape)
    return ranks


def _mean(material: Material, ranks: dict[str, Floats], members: Sequence[str]) -> Fixed:
    return Fixed(np.mean([ranks[name] for name in members], axis=0), list(material.outputs))


def _rows(
    head: dict[str, Any],
    values: Samples,
    base: Samples,
    material: Material | None,
    args: argparse.Namespace,
    seed: int,
) -> Iterator[dict[str, Any]]:
    for key, one in values.items():
        gain = numbers(("gain", "gain_low", "gain_high"), one - base[key]) if head["row"] != "difference" else {}
        yield {
            **dict.fromkeys(COLUMNS, ""),
            **head,
            "level": key[0],
            "statistic": key[1],
            **numbers(("value", "low", "high"), one),
            **(gain if head["k"] else {}),
            "segments": "" if material is None else len(material.references),
            "resamples": args.resamples,
            "seed": seed,
        }

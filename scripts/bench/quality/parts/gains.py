"""What added references gain, what a placebo of them gains, and the difference: for every metric, use and number."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from material import AVERAGES, LISTS, SETS, Judges, Material, Samples, measured
from pair_scores import metric_of

from polyref.eval.statistics.base import Bootstrap, percentile_interval
from polyref.metrics.registry import metric_options

KEY: Final = ("set", "segments", "references", "metric", "use", "k", "level", "statistic", "row")
COLUMNS: Final = (
    *KEY,
    *("value", "low", "high", "gain", "gain_low", "gain_high", "p"),
    *("n", "placebos", "resamples", "seed"),
)
#: Rows whose value is an agreement with people; that of the others is a difference already.
GAINS: Final = ("real", "placebo")
#: A use against the maximum on the same redrawn test sets: by agreement, and by what it gains beyond the placebo.
OVER_MAX: Final = {"real": "over-max", "difference": "difference-over-max"}
#: Kendall within segments: tau-b of MQM, without ties of relative rankings.
WITHIN: Final = ("kendall-tau-b-items", "kendall-darr-without-ties")
#: Shares of the added references in a blend that were compared.
SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
#: Judged segments of the shipped model's references, which take .15 s a segment; spread evenly.
MADE: Final = {"lt": 400, "gu": 300, "wmt22-zh": 200}
#: Those of metrics that are compared with one reference.
COMPARED: Final = MADE | dict.fromkeys(AVERAGES["development"], 150)
#: Those of neural metrics with added references: ESIM and Prism read every pair of texts anew.
NEURAL: Final = {"bertscore": 200, "esim": 40, "prism": 60}
MORE: Final = {("bertscore", "lt"): 400, ("bertscore", "gu"): 300, ("prism", "wmt22-zh"): 100}


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of evidence.csv."""
    gathered = Gathered(args)
    for name in names:
        for generator in generators(name, args.references):
            for metric in args.metrics:
                yield from gathered.of(name, generator, metric, {use: {} for use in args.uses if knows(metric, use)})
    yield from gathered.averages(names)


def shares(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same for several shares of the added references in a blend, at the largest k."""
    gathered = Gathered(args, ks=(0, max(args.k)))
    for name in names:
        for generator in generators(name, args.references):
            for metric in args.metrics:
                uses = {"max": {}} | {f"blend {share:g}": {"blend": share} for share in SHARES}
                yield from gathered.of(name, generator, metric, uses)
    yield from gathered.averages(names)


def generators(name: str, wanted: Sequence[str]) -> list[str]:
    """Where the added references of a set come from: those of the wanted ones that it has."""
    there = {"human": SETS[name].other is not None, "llm": name in LISTS}
    return [one for one in wanted if there.get(one, True)]


def knows(metric: str, use: str) -> bool:
    """Whether a metric can combine references in this way."""
    return use in metric_options(metric)["combine"].choices


@dataclass
class Gathered:
    """Rows of sets one by one, and their averages in the end."""

    args: argparse.Namespace
    ks: Sequence[int] = ()
    #: (references, metric, use, k, row) -> set -> samples.
    found: dict[tuple[str, str, str, int, str], dict[str, Samples]] = field(default_factory=dict)
    _materials: dict[tuple[str, int | None, int | None], tuple[Material, Judges]] = field(default_factory=dict)

    def of(
        self, name: str, generator: str, metric: str, uses: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Rows of one metric with its uses on one set."""
        args = self.args
        limit = None if generator in {"human", "llm"} else MADE.get(name)
        material, judges = self._material(name, limit, MORE.get((metric, name), NEURAL.get(metric)))
        references = material.added(generator, args.data, args.work, max(args.k))
        metrics = {use: metric_of(metric, use.split()[0], args.work, **options) for use, options in uses.items()}
        ks = [0, 1] if generator == "human" else sorted({0, *(self.ks or args.k)})
        placebos = 1 if metric in NEURAL else args.placebo
        seed = args.seed + offset(name)
        real, fakes = measured(material, references, metrics, ks, placebos, seed, args.work / "statistics")
        print(f"{name} {generator} {metric}: {len(material.references)} segments", file=sys.stderr, flush=True)
        maximum: dict[tuple[int, str], Samples] = {}  # the first use, if it is `max`
        for number, (use, series) in enumerate(zip(metrics, real, strict=True)):
            base = judges.samples(series, 0)
            for k in ks:
                if not k and number:
                    continue  # the same for every use
                head = {"set": name, "references": generator.partition("=")[0], "metric": metric, "use": use, "k": k}
                last = k == max(ks)
                samples = {"real": judges.samples(series, k, pooled=last) if k else base}
                if k:
                    every = [judges.samples(fake[number], k, pooled=last) for fake in fakes]
                    keys = list(samples["real"])
                    samples["placebo"] = {key: np.mean([one[key] for one in every], axis=0) for key in keys}
                    samples["difference"] = {key: samples["real"][key] - samples["placebo"][key] for key in keys}
                    for row, over in OVER_MAX.items():
                        if use == "max" and not number:
                            maximum[k, row] = samples[row]
                        elif (k, row) in maximum:
                            samples[over] = {key: samples[row][key] - maximum[k, row][key] for key in keys}
                for row, values in samples.items():
                    self.found.setdefault((generator, metric, use, k, row), {})[name] = values
                    # Of a gain, or of what a use is above the maximum.
                    against = {"real": (series, 0), "over-max": (real[0], k)}.get(row)
                    p = judges.p_value(series, k, *against) if k and against else None
                    sizes = {
                        "segments": len(material.references),
                        "placebos": placebos if k else "",
                        "p": p,
                        "seed": seed,
                    }
                    yield from self._rows({**head, "row": row, **sizes}, values, base, judges)

    def averages(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Means over sets of a kind, redrawn independently; where one has no such number, there is no row."""
        for average, sets in AVERAGES.items():
            if not set(sets) <= set(names):
                continue
            for (generator, metric, use, k, row), by_set in self.found.items():
                first = next(
                    one for (g, m, _, other, _), one in self.found.items() if (g, m, other) == (generator, metric, 0)
                )
                if set(sets) <= set(by_set) and set(sets) <= set(first):
                    values, base = (
                        {key: np.mean([one[name][key] for name in sets], axis=0) for key in one[sets[0]]}
                        for one in (by_set, first)
                    )
                    head = {"set": average, "references": generator.partition("=")[0], "metric": metric, "use": use}
                    head |= {"k": k, "row": row}
                    yield from self._rows(head, values, base, None)

    def _material(self, name: str, limit: int | None, fewer: int | None) -> tuple[Material, Judges]:
        if (name, limit, fewer) not in self._materials:
            material = Material.of(SETS[name], self.args.data, limit)
            material = material if fewer is None else material.spread(fewer)
            bootstrap = Bootstrap(self.args.resamples, seed=self.args.seed + offset(name))
            self._materials[name, limit, fewer] = material, Judges(material, bootstrap)
        return self._materials[name, limit, fewer]

    def _rows(
        self, head: Mapping[str, Any], values: Samples, base: Samples, judges: Judges | None
    ) -> Iterator[dict[str, Any]]:
        for key, one in values.items():
            level, statistic = key
            p = head.get("p") if level == "sys" else None
            yield {
                **dict.fromkeys(COLUMNS, ""),
                **head,
                "level": level,
                "statistic": statistic,
                **numbers(("value", "low", "high"), one),
                **(numbers(("gain", "gain_low", "gain_high"), one - base[key]) if head["row"] in GAINS else {}),
                "p": "" if p is None or np.isnan(p) else f"{p:.4f}",
                "n": "" if judges is None else judges.counted(key),
                "resamples": self.args.resamples,
                "seed": head.get("seed", self.args.seed),
            }


def plot(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Gain within segments of the real references and of the placebo against their number, with the maximum."""
    from parts.curves import panels

    curves: dict[str, dict[str, list[tuple[float, float, float, float]]]] = {}
    for metric, title in (("bleu", "BLEU"), ("chrf++", "chrF++")):
        for name, generator, label in (
            ("wmt22-zh", "llm", "an LLM's, WMT22"),
            ("development", "default", "augment's default, development sets"),
        ):
            for kind in ("real", "placebo"):
                asked = {"set": name, "references": generator, "metric": metric, "use": "max", "row": kind}
                points = [
                    tuple(float(row[column]) for column in ("k", "gain", "gain_low", "gain_high"))
                    for row in rows
                    if all(row[column] == value for column, value in asked.items()) and row["statistic"] in WITHIN
                ]
                line = sorted({(0.0, 0.0, 0.0, 0.0), *points})
                what = label if kind == "real" else f"placebo of {label}"
                curves.setdefault(title, {})[what] = line  # type: ignore[assignment]
    panels(curves, path, "added references (k)", "gain within segments")


def offset(name: str) -> int:
    """Added to the seed: sets are redrawn independently. ``polyref evaluate --seed`` takes the sum."""
    return list(SETS).index(name)


def numbers(names: Sequence[str], samples: Any) -> dict[str, str]:
    """A number and its interval."""
    ends = percentile_interval(samples[1:]) or ("", "")
    return dict(zip(names, (digits(samples[0]), *map(digits, ends)), strict=True))


def digits(number: Any) -> str:
    """Four digits."""
    return number if isinstance(number, str) else f"{number:.4f}"

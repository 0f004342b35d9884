"""The curve of agreement against the number of references that people wrote, and against their quality.

`ort20.encs` has four translations of 160 segments by people, R1 to R3 by vendors and R4 by translatologists, and eleven
post-edits of each: 48 references of known quality (Zouhar and Bojar 2024).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from material import WITHIN, Judges, Material
from pair_scores import metric_of
from parts.gains import numbers
from sets import Set

from polyref.eval.series import ComputedSeries
from polyref.eval.statistics.base import Bootstrap
from polyref.references import ReferenceSet

KEY: Final = ("pool", "references", "metric", "use", "level", "statistic")
COLUMNS: Final = (*KEY, "draws", "value", "low", "high", "resamples", "seed")
SET: Final = Set("ort20", "ort20.encs", "en-cs", "R1", "wmt-z")
#: How often references are drawn from a pool.
DRAWS: Final = 6
NUMBERS: Final = (1, 2, 4, 7, 12, 24, 48)
METRICS: Final = ("bleu", "chrf++")
USES: Final = ("max", "mean")
_NAME: Final = re.compile(r"(R\d)(?:pe(layman|student|professional).*)?")


def table(_: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of people.csv: with several draws the mean over them, and the range of 90 % of them."""
    material = Material.of(SET, args.data)
    evalset = material.loaded.evalset
    names = [name for name in evalset.reference_files if _NAME.fullmatch(name)]
    texts = {name: [evalset.reference(name)[n] for n in material.loaded.chosen] for name in names}
    judges = Judges(material, Bootstrap(args.resamples, seed=args.seed))
    quick = Judges(material, Bootstrap(0))
    rng = np.random.default_rng(args.seed)
    for pool, members in pools(names).items():
        for number in [n for n in NUMBERS if n <= len(members)]:
            whole = number == len(members)
            drawn = [members] if whole else _drawn(members, number, rng)
            for metric in METRICS:
                for use in USES if number > 1 else USES[:1]:
                    # The range over draws is what counts where there are several.
                    judge = judges if whole else quick
                    found = [_samples(material, judge, texts, one, metric, use) for one in drawn]
                    for key in found[0]:
                        values = np.array([one[key][0] for one in found])
                        low, high = np.quantile(values, [0.05, 0.95])
                        yield {
                            "pool": pool,
                            "references": number,
                            "metric": metric,
                            "use": use,
                            "level": key[0],
                            "statistic": key[1],
                            "draws": len(drawn),
                            **(
                                numbers(("value", "low", "high"), found[0][key])
                                if whole
                                else {"value": f"{values.mean():.4f}", "low": f"{low:.4f}", "high": f"{high:.4f}"}
                            ),
                            "resamples": args.resamples if whole else "",
                            "seed": args.seed,
                        }


def pools(names: Sequence[str]) -> dict[str, list[str]]:
    """Name -> references among which some are drawn."""
    found: dict[str, list[str]] = {name: [name] for name in names if re.fullmatch(r"R\d", name)}
    found["R1 to R4"] = list(found)
    for name in list(found)[:4]:
        found[f"{name} and post-edits"] = [one for one in names if one.startswith(name)]
    for who in ("layman", "student", "professional"):
        found[f"post-edits, {who}"] = [one for one in names if f"pe{who}" in one]
    found["all"] = list(names)
    return found


def _drawn(members: Sequence[str], number: int, rng: np.random.Generator) -> list[list[str]]:
    if number == 1:
        return [[name] for name in members]
    return [[members[i] for i in rng.choice(len(members), number, replace=False)] for _ in range(DRAWS)]


def _samples(
    material: Material,
    judges: Judges,
    texts: Mapping[str, Sequence[str | None]],
    chosen: Sequence[str],
    metric: str,
    use: str,
) -> Any:
    rows = [[text for name in chosen if (text := texts[name][n]) is not None] for n in range(len(material.references))]
    references = ReferenceSet.from_texts(rows)
    made = metric_of(metric, use, Path())
    return judges.samples(ComputedSeries(made, material.outputs, references, [0]), 0)


def plot(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Agreement within segments against the number of references, one panel a metric."""
    from parts.curves import panels

    curves: dict[str, dict[str, list[tuple[float, float, float, float]]]] = {}
    for metric in METRICS:
        for pool in ("R1 to R4", "R1 and post-edits", "R4 and post-edits", "all"):
            for use in USES:
                points = [
                    (float(row["references"]), float(row["value"]), float(row["low"]), float(row["high"]))
                    for row in rows
                    if (row["metric"], row["pool"], row["statistic"]) == (metric, pool, WITHIN)
                    and (row["use"] == use or row["references"] == "1")
                ]
                curves.setdefault(metric, {})[f"{pool}, {use}"] = sorted(points)
    panels(curves, path, "references by people", "Kendall's tau-b within segments", logarithmic=True)

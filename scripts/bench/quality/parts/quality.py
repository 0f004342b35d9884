"""How good a generator must be: gains against the quality of added references, and against a share of wrong ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from material import LISTS, SETS, Judges, Material, measured
from pair_scores import metric_of
from parts.gains import MADE, WITHIN, numbers, offset

from polyref.eval.data.reference_sets import placebo
from polyref.eval.statistics.base import Bootstrap
from polyref.references import ReferenceSet

KEY: Final = ("set", "generator", "metric", "use", "level", "statistic")
COLUMNS: Final = (
    *("set", "generator", "human_score", "human_z", "metric", "use", "level", "statistic"),
    *("alone", "gain", "gain_low", "gain_high", "difference", "difference_low", "difference_high"),
    *("resamples", "seed"),
)
NOISE_KEY: Final = ("set", "references", "metric", "use", "k", "wrong", "level", "statistic")
NOISE_COLUMNS: Final = (*NOISE_KEY, "gain", "low", "high", "draws", "resamples", "seed")
METRICS: Final = ("bleu", "chrf++")
USES: Final = ("max", "blend")
NOISE_USES: Final = ("max", "expected", "blend")
#: Shares of wrong references, and how often it is drawn which ones they are.
WRONG: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
DRAWS: Final = 2
RESAMPLES: Final = 200
#: Segments of the noise curves, spread evenly.
SEGMENTS: Final = 400


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of generator-quality.csv: each system's outputs as the one added reference, the others are evaluated."""
    for name in names:
        whole = Material.of(SETS[name], args.data)
        people = whole.gold.system
        mean, spread = float(np.mean(list(people.values()))), float(np.std(list(people.values())))
        seed = args.seed + offset(name)
        for peer in [one for one in whole.outputs if one in people]:
            rest = whole.with_systems([one for one in whole.outputs if one != peer])
            judges = Judges(rest, Bootstrap(RESAMPLES, seed=seed), pooled=False)
            texts = [[text] if text else [] for text in whole.outputs[peer]]
            references = rest.with_texts(texts, peer)
            metrics = {f"{m} {use}": metric_of(m, use, args.work) for m in METRICS for use in USES}
            real, fakes = measured(rest, references, metrics, [0, 1], 1, seed, None)
            for label, series, fake in zip(metrics, real, fakes[0], strict=True):
                base, given = judges.samples(series, 0), judges.samples(series, 1)
                control = judges.samples(fake, 1)
                for key in base:
                    yield {
                        "set": name,
                        "generator": peer,
                        "human_score": f"{people[peer]:.4f}",
                        "human_z": f"{(people[peer] - mean) / spread:.3f}",
                        **dict(zip(("metric", "use"), label.split(), strict=True)),
                        "level": key[0],
                        "statistic": key[1],
                        "alone": f"{base[key][0]:.4f}",
                        **numbers(("gain", "gain_low", "gain_high"), given[key] - base[key]),
                        **numbers(("difference", "difference_low", "difference_high"), given[key] - control[key]),
                        "resamples": RESAMPLES,
                        "seed": seed,
                    }
        print(f"{name}: {len(whole.outputs)} systems", file=sys.stderr, flush=True)


def noise(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of noise.csv; wrong references are those of another segment of like length."""
    for name in names:
        kinds = [*(["human"] if SETS[name].other else []), *(["llm"] if name in LISTS else ["shipped"])]
        for kind in kinds:
            limit = MADE.get(name) if kind == "shipped" else None
            material = Material.of(SETS[name], args.data, limit).spread(SEGMENTS)
            seed = args.seed + offset(name)
            judges = Judges(material, Bootstrap(RESAMPLES, seed=seed), pooled=False)
            k = 1 if kind == "human" else max(args.k)
            references = material.added(kind, args.data, args.work, k)
            metrics = {f"{m} {use}": metric_of(m, use, args.work) for m in METRICS for use in NOISE_USES}
            for share in WRONG:
                draws = 1 if not share else DRAWS
                found = []
                for number in range(draws):
                    mixed = with_wrong(references, share, seed + number)
                    real, _ = measured(material, mixed, metrics, [0, k], 0, seed, None)
                    found.append([(judges.samples(one, 0), judges.samples(one, k)) for one in real])
                for index, label in enumerate(metrics):
                    for key in found[0][index][0]:
                        gains = np.mean([one[index][1][key] - one[index][0][key] for one in found], axis=0)
                        yield {
                            "set": name,
                            "references": kind,
                            **dict(zip(("metric", "use"), label.split(), strict=True)),
                            "k": k,
                            "wrong": f"{share:g}",
                            "level": key[0],
                            "statistic": key[1],
                            **numbers(("gain", "low", "high"), gains),
                            "draws": draws,
                            "resamples": RESAMPLES,
                            "seed": seed,
                        }
            print(f"{name} {kind}", file=sys.stderr, flush=True)


def with_wrong(references: ReferenceSet, share: float, seed: int) -> ReferenceSet:
    """A share of the added references exchanged for those of another segment, drawn one by one."""
    others = placebo(references, seed)
    rng = np.random.default_rng([seed, 1])
    segments = []
    for real, fake in zip(references, others, strict=True):
        pairs = zip(real.extras, fake.extras, strict=True)
        mixed = [wrong if rng.random() < share else right for right, wrong in pairs]
        segments.append(type(real)(real.id, (*real.originals, *mixed), real.source))
    return ReferenceSet(tuple(segments), {**references.meta, "wrong": share, "seed": seed})


def plot(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Gain within segments against the human score of the system that wrote the reference."""
    from parts.curves import panels

    curves: dict[str, dict[str, list[tuple[float, float, float, float]]]] = {}
    for metric, use in (("bleu", "max"), ("bleu", "blend"), ("chrf++", "max"), ("chrf++", "blend")):
        for name in dict.fromkeys(row["set"] for row in rows):
            points = [
                tuple(float(row[column]) for column in ("human_score", "gain", "gain_low", "gain_high"))
                for row in rows
                if (row["set"], row["metric"], row["use"]) == (name, metric, use) and row["statistic"] == WITHIN[1]
            ]
            if points:
                curves.setdefault(f"{metric}, {use}", {})[f"WMT19 {name}-en"] = sorted(points)  # type: ignore[arg-type]
    panels(curves, path, "direct assessment (z) of the system", "gain within segments", joined=False)


def plot_noise(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Gain within segments against the share of wrong references, one panel a metric and source of references."""
    from parts.curves import panels

    curves: dict[str, dict[str, list[tuple[float, float, float, float]]]] = {}
    for row in rows:
        if row["statistic"] in WITHIN and row["references"] != "human":
            title = f"{row['metric']}, {row['set']}, {row['references']}"
            point = (100 * float(row["wrong"]), *(float(row[column]) for column in ("gain", "low", "high")))
            curves.setdefault(title, {}).setdefault(row["use"], []).append(point)  # type: ignore[arg-type]
    panels(curves, path, "wrong references (%)", "gain within segments")

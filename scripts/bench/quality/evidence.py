"""All the evidence, by one command: tables and plots that say what agrees with people, and what references add to it.

    python scripts/bench/quality/evidence.py --data DIR --work DIR [--parts gains shares ...]
    python scripts/bench/quality/evidence.py --data DIR --work DIR --test

Development sets, on which settings are chosen: WMT21 news zh-en, and de-en, es-en and ru-en of its biomedical task
(all MQM); and WMT22 en-de (MQM) with ten LLM paraphrases a segment, which is measured where it is named (``--sets
wmt22-de --references llm``): how an LLM's references combine was chosen on it. Test sets, which are only looked at with
``--test``: WMT19 lt-en and gu-en (relative rankings) and WMT22 zh-en (MQM) with ten LLM paraphrases a segment; every
look is from a checkout without changes, and written to OUT/ledger.csv before anything of it is shown.

Parts, each with a table OUT/NAME.csv:

    metrics    metrics.csv: which metric agrees best, with one reference
    gains      evidence.csv, and a plot: every metric and use, with the references of a person, the shipped model and an
               LLM; three rows for every number of them: the real ones, the mean of the placebos, and the difference;
               of uses but ``max`` also how far the first and the third are above those of ``max``
    references references.csv: how many added references there are, and what is wrong with them, by detectors
    coverage   coverage.csv: how many of the words that outputs have and the reference lacks are in added references
    shares     blend-share.csv: the share of added references in a blend (development sets alone)
    layers     bertscore-layers.csv: layers of BERTScore's encoders (development sets alone)
    ensembles  ensembles.csv: rank averages of metrics, with and without added references, on the same segments
    people     people.csv, and a plot: 48 references by people for one Czech set
    quality    generator-quality.csv, and a plot: the outputs of one system as added references, against its quality
    noise      noise.csv, and a plot: some of the added references exchanged for those of another segment
    levels     false-positives.csv: how often a test calls two equal things different
    cost       cost.csv: time and memory of the metrics

Judged segments alone are scored. Another generator is compared by ``--references shipped NAME=MODEL``: any model that
``polyref augment`` takes, with ``;filter=strict`` and the like (see ``sets.py``). References are made once, and kept in
WORK with the statistics and scores of metrics. A run replaces the rows that it measured again and keeps the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parent.parent))
from looks import ORIGIN, clean_commit, commit, from_commit, note
from material import SETS
from pair_scores import NEURAL, metric_of, models_of
from parts import cost, coverage, ensembles, gains, layers, levels, metrics, people, quality, references
from raw_tables import read, update
from sets import Generator

from polyref.errors import PolyrefError, UsageError


@dataclass(frozen=True)
class Part:
    """One part of the evidence.

    Attributes:
        file: Its table.
        columns: Of the table.
        key: The columns that tell its rows apart.
        rows: Makes the rows, for the names of sets and the options of this run.
        plot: Draws the whole table, and the file it is drawn to.
        tests: Whether it looks at test sets.
        judged: Whether it looks at judgements, so that a look at a test set has to be noted.
    """

    file: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: Callable[[Sequence[str], argparse.Namespace], Iterable[dict[str, Any]]]
    plot: tuple[Callable[[Sequence[Any], Path], None], str] | None = None
    tests: bool = True
    judged: bool = True


#: Those that never look at test sets choose settings, have a set of their own (people), or read no judgement (cost).
PARTS: Final = {
    "metrics": Part("metrics.csv", metrics.COLUMNS, metrics.KEY, metrics.table),
    "gains": Part("evidence.csv", gains.COLUMNS, gains.KEY, gains.table, (gains.plot, "gains.svg")),
    "references": Part("references.csv", references.COLUMNS, references.KEY, references.table, judged=False),
    "coverage": Part("coverage.csv", coverage.COLUMNS, coverage.KEY, coverage.table, judged=False),
    "shares": Part("blend-share.csv", gains.COLUMNS, gains.KEY, gains.shares, tests=False),
    "layers": Part("bertscore-layers.csv", layers.COLUMNS, layers.KEY, layers.table, tests=False),
    "ensembles": Part("ensembles.csv", ensembles.COLUMNS, ensembles.KEY, ensembles.table),
    "people": Part(
        "people.csv", people.COLUMNS, people.KEY, people.table, (people.plot, "references-by-people.svg"), tests=False
    ),
    "quality": Part(
        "generator-quality.csv", quality.COLUMNS, quality.KEY, quality.table, (quality.plot, "generator-quality.svg")
    ),
    "noise": Part(
        "noise.csv", quality.NOISE_COLUMNS, quality.NOISE_KEY, quality.noise, (quality.plot_noise, "noise.svg")
    ),
    "levels": Part("false-positives.csv", levels.COLUMNS, levels.KEY, levels.table, tests=False),
    "cost": Part("cost.csv", cost.COLUMNS, cost.KEY, cost.table, tests=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="references and scores are kept here")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the tables")
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="folder of the plots")
    parser.add_argument("--test", action="store_true", help="look at the test sets instead of the others")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), help="default: all")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), help="some of them (default: all of the kind)")
    parser.add_argument(
        "--metrics", nargs="+", default=["bleu", "chrf++", "ter", "bertscore", "esim", "prism"], help="of gains"
    )
    parser.add_argument("--uses", nargs="+", default=["max", "mean", "expected", "blend"], help="of gains")
    parser.add_argument(
        "--references",
        nargs="+",
        default=["human", "shipped", "llm"],
        metavar="NAME[=MODEL]",
        help="of gains, shares, references and coverage: who wrote them",
    )
    parser.add_argument("--sheet", type=int, default=0, metavar="N", help="of references: N of them, to read by eye")
    parser.add_argument("--encoders", nargs="+", default=list(layers.DEFAULTS), choices=list(layers.DEFAULTS))
    parser.add_argument("--trials", type=int, default=1000, help="of levels")
    parser.add_argument("--kinds", nargs="+", choices=levels.KINDS, default=list(levels.KINDS), help="of levels")
    parser.add_argument("-k", type=int, nargs="+", default=[0, 1, 5, 10])
    parser.add_argument("--placebo", type=int, default=5, help="placebos of n-gram metrics; neural ones have one")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        here = clean_commit() if args.test else commit()
        names = wanted(args.sets, test=args.test)
        for part in args.parts or [name for name, part in PARTS.items() if part.tests or not args.test]:
            if args.test and not PARTS[part].tests:
                raise UsageError(f"`parts` has {part}, which has nothing to do with test sets")
            make(part, names, args, here)
    except PolyrefError as error:
        sys.exit(f"error: {error}")


def wanted(names: Sequence[str] | None, *, test: bool) -> list[str]:
    """The sets of this run: without names, those into English, which the shipped models read.

    Raises:
        UsageError: A test set is asked for without ``--test``, or another one with it.
    """
    kind = "a test set" if not test else "no test set"
    for name in names or ():
        if SETS[name].frozen != test:
            raise UsageError(f"`sets` has {name}, which is {kind}", remedy="give or leave out --test")
    return [
        name
        for name, one in SETS.items()
        if one.frozen == test and (name in names if names else one.pair.endswith("-en"))
    ]


def make(name: str, sets: Sequence[str], args: argparse.Namespace, here: str) -> None:
    """One table; looks at test sets are in the ledger before their rows are."""
    part = PARTS[name]
    specs = {one.partition("=")[0]: one for one in args.references}
    found = [from_commit(row, here, *models_behind(row, specs, args.work)) for row in part.rows(sets, args)]
    if args.test and part.judged:
        for one in sets:
            note_look(args.out / "ledger.csv", name, one, args, here)
    update(args.out / part.file, (*part.columns, *ORIGIN), part.key, found)
    if part.plot is not None:
        draw, image = part.plot
        draw(read(args.out / part.file), args.images / image)


def models_behind(row: Mapping[str, Any], specs: Mapping[str, str], work: Path) -> list[str]:
    """The models of a row's metrics and of who wrote its references (name -> how it was asked for)."""
    alone = f"bertscore {row['encoder']}" if "encoder" in row else row.get("metric", "")
    by = row.get("references")
    return [
        *(_models_of(metric, work) for metric in row.get("members", alone).split(" + ")),
        _writers(specs.get(by, by)) if isinstance(by, str) and by not in {"", "llm"} else "",
    ]


@cache
def _models_of(metric: str, work: Path) -> str:
    name, _, encoder = metric.partition(" ")
    if name.partition("-")[0] not in NEURAL:
        return ""
    return models_of(metric_of(name, "max", work, **({"model": encoder} if encoder else {})))


@cache
def _writers(spec: str) -> str:
    return Generator.parse(spec).models


def note_look(path: Path, part: str, name: str, args: argparse.Namespace, here: str) -> None:
    """Append a look at a test set to the ledger."""
    which = SETS[name]
    look = {
        "set": f"{which.folder} {which.pair} {which.reference} {which.gold}",
        "resamples": quality.RESAMPLES if part in {"quality", "noise"} else args.resamples,
        "seed": args.seed,
        "part": part,
    }
    note(path, commit=here, **look, **looked_at(part, name, args))


def looked_at(part: str, name: str, args: argparse.Namespace) -> dict[str, Any]:
    """What a part measures on a set, for the ledger."""
    if part == "metrics":
        return {"metrics": " ".join(metrics.shown(name, metrics.METRICS)), "ks": 0}
    best, generator = max(args.k), ensembles.generator(name)
    added = " ".join(one.partition("=")[0] for one in gains.generators(name, args.references))
    if part == "ensembles":
        used = " ".join(dict.fromkeys(ensembles.USES.values()))
        known = {"metrics": " ".join([*ensembles.USES, *metrics.shown(name, ensembles.ALONE)]), "placebos": 1}
        return {**known, "uses": used, "ks": f"0 {best}", "references": generator}
    if part == "gains":
        asked = {"metrics": args.metrics, "uses": args.uses, "ks": map(str, args.k)}
        known = {key: " ".join(values) for key, values in asked.items()}
        return {**known, "references": added, "placebos": args.placebo}
    known = {"metrics": " ".join(quality.METRICS)}
    if part == "quality":
        return {**known, "uses": " ".join(quality.USES), "references": "systems", "ks": "0 1"}
    return {**known, "uses": " ".join(quality.NOISE_USES), "ks": f"0 {best}"}


if __name__ == "__main__":
    main()

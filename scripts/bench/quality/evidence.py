"""All the evidence, by one command: tables and plots that say what agrees with people, and what references add to it.

    python scripts/bench/quality/evidence.py --data DIR --work DIR [--parts gains shares ...]
    python scripts/bench/quality/evidence.py --data DIR --work DIR --test

Development sets, on which settings are chosen: WMT21 news zh-en, and de-en, es-en and ru-en of its biomedical task
(all MQM). Test sets, which are only looked at with ``--test``: WMT19 lt-en and gu-en (relative rankings) and WMT22
zh-en (MQM) with ten LLM paraphrases a segment; every look is written to OUT/ledger.csv before anything of it is shown.

Parts, each with a table OUT/NAME.csv:

    gains      evidence.csv: every metric and use, with the references of a person, the shipped model and an LLM; three
               rows for every number of them: the real ones, the mean of the placebos, and the difference
    shares     blend-share.csv: the share of added references in a blend (development sets alone)
    layers     bertscore-layers.csv: layers of the shipped encoder (development sets alone)
    ensembles  ensembles.csv: all metrics on the shipped models, and rank averages of them, on the same segments
    people     people.csv, and a plot: 48 references by people for one Czech set
    quality    generator-quality.csv, and a plot: the outputs of one system as added references, against its quality
    noise      noise.csv, and a plot: some of the added references exchanged for those of another segment

Judged segments alone are scored. References of the shipped model are made once, and kept in WORK with the statistics
and scores of metrics. A run replaces the rows that it measured again and keeps the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from subprocess import run
from typing import Any, Final

from material import SETS
from parts import ensembles, gains, layers, people, quality

from polyref import __version__
from polyref.errors import PolyrefError, UsageError

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import read, update, write

#: Part -> its table, columns and key.
TABLES: Final = {
    "gains": ("evidence.csv", gains.COLUMNS, gains.KEY),
    "shares": ("blend-share.csv", gains.COLUMNS, gains.KEY),
    "layers": ("bertscore-layers.csv", layers.COLUMNS, layers.KEY),
    "ensembles": ("ensembles.csv", ensembles.COLUMNS, ensembles.KEY),
    "people": ("people.csv", people.COLUMNS, people.KEY),
    "quality": ("generator-quality.csv", quality.COLUMNS, quality.KEY),
    "noise": ("noise.csv", quality.NOISE_COLUMNS, quality.NOISE_KEY),
}
#: Parts that choose settings, and one whose set is neither a development nor a test set.
DEVELOPMENT: Final = ("shares", "layers", "people")
COLUMNS: Final = gains.COLUMNS
LOOK: Final = ("date", "polyref", "commit", "set", "metrics", "uses", "ks", "placebos", "resamples", "seed", "part")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="references and scores are kept here")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the tables")
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="folder of the plots")
    parser.add_argument("--test", action="store_true", help="look at the test sets instead of the others")
    parser.add_argument("--parts", nargs="+", choices=list(TABLES), help="default: all")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), help="some of them (default: all of the kind)")
    parser.add_argument("--metrics", nargs="+", default=["bleu", "chrf++", "ter", "bertscore"], help="of gains")
    parser.add_argument("--uses", nargs="+", default=["max", "expected", "blend"], help="of gains")
    parser.add_argument(
        "--references", nargs="+", default=["human", "shipped", "llm"], help="of gains and shares: who wrote them"
    )
    parser.add_argument("-k", type=int, nargs="+", default=[0, 1, 5, 10])
    parser.add_argument("--placebo", type=int, default=5, help="placebos of n-gram metrics; neural ones have one")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        names = wanted(args.sets, test=args.test)
        for part in args.parts or [part for part in TABLES if not (args.test and part in DEVELOPMENT)]:
            if args.test and part in DEVELOPMENT:
                raise UsageError(f"`parts` has {part}, which has nothing to do with test sets")
            make(part, names, args)
    except PolyrefError as error:
        sys.exit(f"error: {error}")


def wanted(names: Sequence[str] | None, *, test: bool) -> list[str]:
    """The sets of this run.

    Raises:
        UsageError: A test set is asked for without ``--test``, or another one with it.
    """
    kind = "a test set" if not test else "no test set"
    for name in names or ():
        if SETS[name].frozen != test:
            raise UsageError(f"`sets` has {name}, which is {kind}", remedy="give or leave out --test")
    return [name for name, one in SETS.items() if one.frozen == test and (not names or name in names)]


def make(part: str, names: Sequence[str], args: argparse.Namespace) -> None:
    """One table; looks at test sets are in the ledger before their rows are."""
    file, columns, key = TABLES[part]
    rows: Iterable[dict[str, Any]]
    if part == "people":
        rows = people.table(args)
    else:
        module: Any = {"layers": layers, "ensembles": ensembles}.get(
            part, gains if part in {"gains", "shares"} else quality
        )
        rows = getattr(module, {"shares": "shares", "noise": "noise"}.get(part, "table"))(names, args)
    found = list(rows)
    if args.test:
        for name in names:
            note_look(args.out / "ledger.csv", part, name, args)
    update(args.out / file, columns, key, found)
    if part == "people":
        people.plot(read(args.out / file), args.images / "references-by-people.svg")
    elif part == "quality":
        quality.plot(read(args.out / file), args.images / "generator-quality.svg")
    elif part == "noise":
        quality.plot_noise(read(args.out / file), args.images / "noise.svg")


def note_look(path: Path, part: str, name: str, args: argparse.Namespace) -> None:
    """Append a look at a test set to the ledger."""
    which = SETS[name]
    look = {
        "date": date.today().isoformat(),
        "polyref": __version__,
        "commit": commit(),
        "set": f"{which.folder} {which.pair} {which.reference} {which.gold}",
        "metrics": " ".join(args.metrics) if part == "gains" else "",
        "uses": " ".join(args.uses) if part == "gains" else "",
        "ks": " ".join(map(str, args.k)) if part == "gains" else "",
        "placebos": args.placebo if part == "gains" else "",
        "resamples": quality.RESAMPLES if part in {"quality", "noise"} else args.resamples,
        "seed": args.seed,
        "part": part,
    }
    write(path, LOOK, [*read(path), look])


def commit() -> str:
    """The commit of this script's checkout, with a + where files differ from it; empty outside of one."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--exclude=*"]
    return run(asked, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()

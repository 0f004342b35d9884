"""Does a metric that sees nothing but lengths get a verdict "better"? And does a planted gain?

    python scripts/bench/exactness/length_only.py --data ../shared/data --work /tmp/length-only [--sets NAME ...]

Three metrics, each a plug-in: how near the length of an output is to that of the nearest reference, in characters, in
words, and in characters rounded to ten. They read no word, so no added reference can make them better. The script
installs them in a folder of their own, and runs ``polyref evaluate`` with added references of people, of language
models and of the generator ``lexical``. Every statistic that gives verdicts is asked for. The planted gain is added
references that hold three words of four of the output that people liked best, and chrF's verdict on them.

docs/benchmarks/length_only.csv has how many verdicts there were and how many said ``better``. No setting is chosen by
them, and no metric of polyref is measured but on the planted references.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.metrics.pairs import PairMetric

HERE: Final = Path(__file__).resolve().parent
METRICS: Final = ("length-characters", "length-words", "length-tens")
#: Those that are not always computed.
STATISTICS: Final = ("spearman", "kendall-tau-b", "kendall-tau-c", "pairwise-accuracy", "soft-pairwise-accuracy",
                     "kendall-tau-b-items", "pearson-items")  # fmt: skip
PLANTED: Final = "planted"
KEY: Final = ("set", "gold", "ref", "added", "metric", "k")
COLUMNS: Final = (*KEY, "verdicts", "better", "worse", "unclear", "withheld", "said_better")


@dataclass(frozen=True, kw_only=True)
class Length(PairMetric):
    """How near an output's length is to a reference's, -100 times the logarithm of their ratio."""

    measures = ("closeness",)
    measured: ClassVar[Callable[[str], float]]

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        of = type(self).measured
        near = [-abs(math.log((1 + of(output)) / (1 + of(reference)))) for reference, output in pairs]
        return 100 * np.array(near).reshape(-1, 1)

    def _describe(self, references: Any, *, sentence: bool) -> str:
        return self.combination.described()


@dataclass(frozen=True, kw_only=True)
class Characters(Length):
    """In characters."""

    name = METRICS[0]
    label = "Characters"
    measured = len


@dataclass(frozen=True, kw_only=True)
class Words(Length):
    """In words."""

    name = METRICS[1]
    label = "Words"
    measured = staticmethod(lambda text: len(text.split()))


@dataclass(frozen=True, kw_only=True)
class Tens(Length):
    """In characters, rounded to ten."""

    name = METRICS[2]
    label = "Characters rounded to ten"
    measured = staticmethod(lambda text: round(len(text), -1))


def installed(home: Path) -> dict[str, str]:
    """The environment in which the three metrics are plug-ins that are installed in a folder."""
    info = home / "polyref_length-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: polyref-length\nVersion: 1.0\n")
    points = "".join(f"{name} = {Path(__file__).stem}:{one.__name__}\n"
                     for name, one in zip(METRICS, (Characters, Words, Tens), strict=True))  # fmt: skip
    (info / "entry_points.txt").write_text(f"[polyref.metrics]\n{points}")
    path = [str(home), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


@dataclass(frozen=True)
class Case:
    """References that are added to a set.

    Attributes:
        folder: The set.
        pair: Its language pair.
        gold: The judgement.
        ref: The human reference.
        added: What they are called.
        refs: ``--refs``; empty for those that the script makes.
        ks: Numbers of them.
    """

    folder: str
    pair: str
    gold: str
    ref: str
    added: str
    refs: str
    ks: tuple[int, ...] = (1, 5, 10)


LEXICAL: Final = "lexical"
DIMENSIONS: Final = ("relevance", "coherence", "fluency", "consistency")
CASES: Final = (
    *(
        one
        for pair in ("en-de", "zh-en")
        for one in (
            Case("wmt22.mqm", pair, "mqm", "refA", "ten of a language model", f"wmt22/paraphrases/{pair}.refA.jsonl"),
            Case("wmt22.mqm", pair, "mqm", "refA", "refB", "ref:refB", (1,)),
        )
    ),
    *(
        one
        for pair in ("de-en", "es-en", "ru-en")
        for one in (
            Case("bio21.mqm", pair, "mqm", "refA", "refB", "ref:refB", (1,)),
            Case("bio21.mqm", pair, "mqm", "refA", LEXICAL, ""),
        )
    ),
    Case("wmt23.mqm", "he-en", "mqm", "refA", "refB", "ref:refB", (1,)),
    Case("wmt23.mqm", "he-en", "mqm", "refB", "refA", "ref:refA", (1,)),
    Case("wmt23.mqm", "he-en", "mqm", "refA", LEXICAL, ""),
    *(
        Case("summeval", "en-en", gold, "refA", *names)
        for gold in DIMENSIONS
        for names in (("ten of a language model", "summeval/llm.jsonl"), ("ten of people", "summeval/people.jsonl"))
    ),
)


def evaluated(case: Case, refs: str | Path, metrics: Sequence[str], ks: Sequence[int], args: argparse.Namespace,
              environment: Mapping[str, str]) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of ``polyref evaluate --json``."""
    command = [sys.executable, "-m", "polyref", "evaluate", args.data / case.folder, "-l", case.pair, "--ref", case.ref,
               "--gold", case.gold, "--refs", refs, "-k", 0, *ks, "-m", *metrics, "--statistic", *STATISTICS,
               "--placebo", args.placebo, "-n", 0, "--json", "-qq"]  # fmt: skip
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=dict(environment), check=False)
    if done.returncode:
        sys.exit(f"error: {case}: {done.stderr}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def counted(case: Case, added: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Verdicts of every metric and k; those without the copied systems and references are others, and count."""
    real = [row for row in rows if row["k"] and row["control"] == "real" and row["verdict"]]
    for metric, k, generator in dict.fromkeys((row["metric"], row["k"], row["generator"]) for row in real):
        here = [row for row in real if (row["metric"], row["k"], row["generator"]) == (metric, k, generator)]
        words = Counter(row["verdict"] for row in here)
        better = [f"{row['statistic']} ({row['level']})" for row in here if row["verdict"] == "better"]
        label = " ".join(filter(None, [added, generator]))
        key = (f"{case.folder} {case.pair}", case.gold, case.ref, label, metric, k)
        counts = [len(here), *(words[word] for word in ("better", "worse", "unclear", "withheld")), "; ".join(better)]
        yield dict(zip(COLUMNS, (*key, *counts), strict=True))


def lexical(case: Case, args: argparse.Namespace) -> Path:
    """Ten references a segment by the generator ``lexical``."""
    path: Path = args.work / f"{case.folder}.{case.pair}.{case.ref}.lexical.jsonl"
    if not path.is_file():
        texts = args.data / case.folder / "references" / f"{case.pair}.{case.ref}.txt"
        command = [sys.executable, "-m", "polyref", "augment", texts, "-o", path, "--model", LEXICAL, "-k", "10", "-qq"]
        subprocess.run([*map(str, command)], check=True)
    return path


def planted(case: Case, args: argparse.Namespace) -> Path:
    """Most words of the output that people liked best; whole outputs would be circular references."""
    evalset = EvalSet(args.data / case.folder, case.pair)
    gold = evalset.gold(case.gold).segment
    names = [name for name in gold if not evalset.is_human(name)]
    outputs, human = evalset.outputs(names), np.stack([gold[name] for name in names])
    best = np.where(np.isnan(human), -np.inf, human).argmax(axis=0)
    words = [outputs[system][segment].split() for segment, system in enumerate(best)]
    texts = [" ".join([*(word for place, word in enumerate(one) if place % 4), "indeed"]) for one in words]
    path: Path = args.work / f"{case.folder}.{case.pair}.{case.gold}.planted.jsonl"
    lines = [json.dumps({"reference": own, "paraphrases": [text]}) + "\n"
             for own, text in zip(evalset.reference(case.ref), texts, strict=True)]  # fmt: skip
    path.write_text("".join(lines), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="references are kept here")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the table")
    parser.add_argument("--sets", nargs="+", default=[""], help="only those whose folder and pair have one of these")
    parser.add_argument("--added", nargs="+", default=[""], help="only references whose name has one of these in it")
    parser.add_argument("--placebo", type=int, default=5)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    environment = installed(args.work / "installed")
    sys.path.append(str(HERE.parent))
    from looks import TEST_SETS, clean_commit
    from raw_tables import read, update

    path, seen = args.out / "length_only.csv", set()
    chosen = [case for case in CASES if any(part in f"{case.folder} {case.pair}" for part in args.sets)]
    if any((case.folder, case.pair) in TEST_SETS for case in chosen):
        try:
            clean_commit()
        except UsageError as error:
            sys.exit(f"error: {error}")
    for case in chosen:
        found = []
        if any(part in case.added for part in args.added):
            refs = (
                case.refs
                if case.refs.startswith("ref:")
                else args.data / case.refs
                if case.refs
                else lexical(case, args)
            )
            found += counted(case, case.added, evaluated(case, refs, METRICS, case.ks, args, environment))
        target = (case.folder, case.pair, case.gold)
        if target not in seen and any(part in PLANTED for part in args.added):
            seen.add(target)
            found += counted(case, PLANTED, evaluated(case, planted(case, args), ["chrf"], [1], args, environment))
        update(path, COLUMNS, KEY, found)
        for row in found:
            print(*(f"{name}={row[name]}" for name in COLUMNS), flush=True)
    rows = [row for row in read(path) if row["added"] != PLANTED]
    better, of = (sum(int(row[name]) for row in rows) for name in ("better", "verdicts"))
    print(f"{better} of {of} verdicts of metrics that see only lengths are better")


if __name__ == "__main__":
    main()

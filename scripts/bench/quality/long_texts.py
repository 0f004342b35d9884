"""Agreement with people of long texts that are cut, and in windows: OUT/long-texts.csv.

    python scripts/bench/quality/long_texts.py --data DIR [--test]

Development set: WMT21 news zh-en, of which neighbouring judged segments are joined, six to a paragraph, with the mean
of their judgements; 40 paragraphs, spread evenly. With ``--test`` SummEval. A row is a metric with one human reference:
its agreement, and the gain over the same metric without windows. ``cut`` and ``divided`` count distinct texts.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polyref
from polyref.errors import PolyrefError, PolyrefWarning
from polyref.metrics.registry import read_specification
from polyref.textfiles import read_lines

sys.path.append(str(Path(__file__).parent.parent))
from looks import ORIGIN, clean_commit, commit, from_commit, models_in, note
from raw_tables import MACHINE, measured_with, update

KEY: Final = ("set", "gold", "metric", "windows", "level", "statistic")
COLUMNS: Final = (
    *KEY,
    *("segments", "value", "low", "high", "gain", "gain_low", "gain_high", "p", "cut", "divided"),
    *MACHINE,
    *ORIGIN,
)
METRICS: Final = ("prism", "bertscore", "bertscore(model=minilm)")
STATISTICS: Final = ("kendall-without-ties", "acc23", "pearson")
DIMENSIONS: Final = ("relevance", "coherence", "consistency", "fluency")
SEED, RESAMPLES, JOINED, PARAGRAPHS = 1, 1000, 6, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the table and the ledger")
    parser.add_argument("--test", action="store_true", help="look at SummEval")
    args = parser.parse_args()
    try:
        here = clean_commit() if args.test else commit()
        if args.test:
            look = {"set": f"summeval en-en refA {' '.join(DIMENSIONS)}", "metrics": " ".join(METRICS), "ks": 0}
            look |= {"placebos": 0, "resamples": RESAMPLES, "seed": SEED, "part": "long texts", "references": "refA"}
            note(args.out / "ledger.csv", commit=here, **look)
            rows = measured("summeval", args.data / "summeval", "en-en", DIMENSIONS)
        else:
            rows = joined(args.data / "wmt21.news", "zh-en")
        for row in rows:
            update(args.out / "long-texts.csv", COLUMNS, KEY, [from_commit(row, here, row.pop("models"))])
    except PolyrefError as error:
        sys.exit(f"error: {error}")


def joined(folder: Path, pair: str) -> Iterator[dict[str, Any]]:
    """The development set."""
    scores: dict[str, list[float | None]] = {}
    for line in read_lines(folder / "human-scores" / f"{pair}.mqm.seg.score"):
        system, value = line.split("\t")
        scores.setdefault(system, []).append(None if value == "None" else float(value))
    judged = [n for n, row in enumerate(zip(*scores.values(), strict=True)) if any(one is not None for one in row)]
    starts = [0, *(n + 1 for n, (a, b) in enumerate(pairwise(judged)) if b != a + 1), len(judged)]
    runs = [judged[a:b] for a, b in pairwise(starts)]
    parts = [run[n : n + JOINED] for run in runs for n in range(0, len(run) - JOINED + 1, JOINED)]
    parts = parts[:: len(parts) // PARAGRAPHS][:PARAGRAPHS]
    with TemporaryDirectory() as made:
        place = Path(made)
        for file in [*folder.glob(f"references/{pair}*"), *folder.glob(f"system-outputs/{pair}/*")]:
            lines = read_lines(file)
            _write(place / file.relative_to(folder), (" ".join(lines[n].strip() for n in part) for part in parts))
        _write(place / "sources" / f"{pair}.txt", ("" for _ in parts))
        means = {name: [_mean([row[n] for n in part]) for part in parts] for name, row in scores.items()}
        _write(place / f"human-scores/{pair}.mqm.seg.score", (f"{s}\t{one}" for s, row in means.items() for one in row))
        system = {name: _mean([one for one in row if one is not None]) for name, row in means.items()}
        _write(place / f"human-scores/{pair}.mqm.sys.score", (f"{name}\t{one}" for name, one in system.items()))
        yield from measured(f"wmt21.news, {JOINED} segments each", place, pair, ("mqm",))


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [one for one in scores if one is not None]
    return sum(known) / len(known) if known and len(known) == len(scores) else None


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def measured(name: str, folder: Path, pair: str, golds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of a set."""
    about = measured_with("polyref", "torch", "transformers")
    common: dict[str, Any] = {"ref": "refA", "ks": 0, "statistics": ("acc23",), "resamples": RESAMPLES, "seed": SEED}
    for metric in METRICS:
        bare, _, options = metric.rstrip(")").partition("(")
        both = [str(read_specification(one)) for one in (metric, f"{bare}({options}{', ' * bool(options)}windows=yes)")]
        for gold in golds:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", PolyrefWarning)
                table = polyref.evaluate(folder, pair, gold=gold, metrics=both, baseline=both[0], **common)
            found = [re.match(r"(\d+) texts? (?:is|are) longer .*`windows`", str(one.message)) for one in told]
            cut = sum(int(one[1]) for one in found if one)
            print(name, metric, gold, file=sys.stderr, flush=True)
            for row in table.rows:
                if row["statistic"] in STATISTICS:
                    yield {"set": name, "gold": gold, **about, **_row(row, both, cut)}


def _row(row: Mapping[str, Any], both: Sequence[str], cut: int) -> dict[str, Any]:
    windows = both.index(row["metric"])
    parts = row["signature"].split("|")
    divided = next((part.partition(":")[2] for part in parts if part.startswith("windows:")), "")
    gains = (row["gain"], *(row["gain_ci"] or (None, None)), row["p"]) if windows else [None] * 4
    numbers = [row["value"], *(row["ci"] or (None, None)), *gains]
    names = ("value", "low", "high", "gain", "gain_low", "gain_high", "p")
    return {
        **{name: row[name] for name in ("level", "statistic", "segments")},
        **{name: "" if one is None else f"{one:.4f}" for name, one in zip(names, numbers, strict=True)},
        **{"metric": both[0], "windows": "yes" if windows else "no", "cut": "" if windows else cut, "divided": divided},
        "models": models_in(parts),
    }


if __name__ == "__main__":
    main()

"""What added references gain on several tasks, by the verdicts of ``polyref evaluate``: OUT/tasks.csv.

    python scripts/bench/quality/tasks.py --data DIR [--runs NAME ...]
    python scripts/bench/quality/tasks.py --data DIR --test [--runs NAME ...]

Without ``--test`` the development set, WMT22 en-de. Test sets are measured from a checkout without changes, once a
release; a look at one is in OUT/ledger.csv before its rows are written. One row of the table is a metric with k added
references: its agreement, the gain over k = 0, the gain beyond the placebos, and the verdict. A run replaces the rows
that it measured again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

import polyref
from polyref.errors import PolyrefError, UsageError
from polyref.references import ReferenceSet

sys.path.append(str(Path(__file__).parent.parent))
from looks import ORIGIN, TEST_SETS, clean_commit, commit, from_commit, models_in, note
from raw_tables import update

KEY: Final = ("run", "gold", "references", "metric", "k", "level", "statistic")
COLUMNS: Final = (
    *KEY,
    *("segments", "value", "low", "high", "gain", "gain_low", "gain_high", "p"),
    *("beyond", "beyond_low", "beyond_high", "p_beyond", "claim", "verdict", "withheld"),
    *ORIGIN,
)
SHOWN: Final = ("kendall-without-ties", "acc23", "pearson", "pairwise-accuracy")
MAXIMUM: Final = ("bleu", "chrf++")
OTHERS: Final = tuple(f"{metric}(combine={use})" for metric in MAXIMUM for use in ("expected", "blend"))
SEED, RESAMPLES, PLACEBOS = 1, 1000, 5


@dataclass(frozen=True)
class Run:
    """One set with added references, and what is measured on it.

    Attributes:
        name: Of the run.
        folder: Of the set.
        pair: Its language pair.
        ref: The human reference.
        added: Who wrote the added references -> their file in the data folder, or ``ref:NAME`` of the set.
        ks: Numbers of them.
        golds: Its judgements.
        metrics: With ``max``, if they do not say otherwise.
        placebos: How many.
        options: Of ``polyref.evaluate``.
    """

    name: str
    folder: str
    pair: str
    ref: str
    added: Mapping[str, str]
    ks: tuple[int, ...]
    golds: tuple[str, ...] = ("mqm",)
    metrics: tuple[str, ...] = (*MAXIMUM, *OTHERS)
    placebos: int = PLACEBOS
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def test(self) -> bool:
        """Whether it is a test set."""
        return (self.folder, self.pair) in TEST_SETS


DE: Final = {"llm": "wmt22/paraphrases/en-de.refA.jsonl"}
ZH: Final = {"llm": "wmt22/paraphrases/zh-en.refA.jsonl"}
#: Learned metrics whose scores the set has, against its one reference: beside polyref's metrics of the other runs.
STORED: Final = ("stored:COMET", "stored:MetricX-23", "stored:XCOMET-Ensemble", "stored:BLEURT-20")
JUDGED: Final = ("relevance", "coherence", "fluency", "consistency")
RUNS: Final = (
    Run("wmt22-de", "wmt22.mqm", "en-de", "refA", DE, (0, 1, 5, 10)),
    Run("wmt22-de", "wmt22.mqm", "en-de", "refA", {"person": "ref:refB"}, (0, 1)),
    Run("wmt22-zh", "wmt22.mqm", "zh-en", "refA", ZH, (0, 1, 2, 3, 5, 7, 10), metrics=MAXIMUM),
    Run("wmt22-zh", "wmt22.mqm", "zh-en", "refA", ZH, (0, 1, 5, 10), metrics=OTHERS),
    Run("wmt22-zh", "wmt22.mqm", "zh-en", "refA", {"person": "ref:refB"}, (0, 1)),
    Run("wmt22-zh without outliers", "wmt22.mqm", "zh-en", "refA", ZH, (0, 10), options={"exclude_outliers": True}),
    Run("wmt23-he", "wmt23.mqm", "he-en", "refA", {"person": "ref:refB"}, (0, 1)),
    Run("wmt23-he from refB", "wmt23.mqm", "he-en", "refB", {"person": "ref:refA"}, (0, 1)),
    Run("wmt23-he, stored", "wmt23.mqm", "he-en", "refA", {}, (0,), metrics=STORED, placebos=0),
    Run("summeval", "summeval", "en-en", "refA", {"people": "summeval/people.jsonl"}, (0, 1, 5, 10), JUDGED),
    Run("summeval", "summeval", "en-en", "refA", {"llm": "summeval/llm.jsonl"}, (0, 1, 5, 10), JUDGED),
    Run("dailydialog", "dailydialog", "en-en", "refA", {"people": "dailydialog/people.jsonl"}, (0, 1, 3), ("rating",)),
    Run(
        "wmt22-zh, bertscore", "wmt22.mqm", "zh-en", "refA", ZH, (0, 10), placebos=1,
        metrics=tuple(f"bertscore(model=minilm,combine={use})" for use in ("max", "blend")),
    ),
    Run(
        "wmt22-zh, prism", "wmt22.mqm", "zh-en", "refA", ZH, (0, 10), placebos=1, options={"segments": 50},
        metrics=tuple(f"prism(combine={use})" for use in ("mean", "max")),
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the table and the ledger")
    parser.add_argument("--test", action="store_true", help="look at the test sets instead of the development set")
    parser.add_argument("--runs", nargs="+", choices=list(dict.fromkeys(run.name for run in RUNS)), help="default: all")
    parser.add_argument("--reason", default="", help="of another look at a test set in one release, for the ledger")
    args = parser.parse_args()
    try:
        chosen = wanted(args.runs, test=args.test)
        here = clean_commit() if args.test else commit()
        for run in chosen:
            found = [from_commit(row, here, row["models"]) for row in measured(run, args.data)]
            if run.test:
                note_look(args.out / "ledger.csv", run, here, args.reason)
            update(args.out / "tasks.csv", COLUMNS, KEY, found)
    except PolyrefError as error:
        sys.exit(f"error: {error}")


def wanted(names: Sequence[str] | None, *, test: bool) -> list[Run]:
    """The runs of this kind, or those of them with these names.

    Raises:
        UsageError: None is left.
    """
    found = [run for run in RUNS if run.test == test and (names is None or run.name in names)]
    if not found:
        raise UsageError(f"none of these runs is on {'a test' if test else 'the development'} set",
                         remedy="give or leave out --test")  # fmt: skip
    return found


def measured(run: Run, data: Path) -> Iterator[dict[str, Any]]:
    """The rows of a run, and what its added references cost."""
    files = {who: one if one.startswith("ref:") else data / one for who, one in run.added.items()}
    for gold in run.golds:
        start = time.process_time()
        table = polyref.evaluate(
            data / run.folder,
            run.pair,
            references=files,
            ref=run.ref,
            gold=gold,
            metrics=run.metrics,
            ks=run.ks,
            statistics=("acc23", "pairwise-accuracy"),
            placebo=run.placebos or None,
            resamples=RESAMPLES,
            seed=SEED,
            **run.options,
        )
        print(f"{run.name} {gold}: {time.process_time() - start:.0f} CPU seconds", file=sys.stderr, flush=True)
        yield from rows_of(table.rows, {"run": run.name, "gold": gold})
    for who, file in files.items():
        if isinstance(file, Path):
            yield from costs(run, who, file, data)


def rows_of(rows: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of an evaluation with placebos: each with its gain beyond them beside it."""
    beyond = {_place(row): row for row in rows if row.get("control") == "real - placebo"}
    for row in rows:
        control = row.get("control", "real")  # without placebos all rows are real
        again = not row["k"] and row["metric"] in OTHERS  # k = 0 is the same for every use
        if again or row["statistic"] not in SHOWN or control not in ("real", "length"):
            continue
        other = beyond.get(_place(row), {}) if control == "real" else {}
        yield {
            **dict.fromkeys(COLUMNS, ""),
            **head,
            "references": row.get("generator") or "",
            **{
                name: "" if row[name] is None else row[name]
                for name in ("metric", "k", "level", "statistic", "segments")
            },
            "models": models_in(row["signature"].split("|")),
            **_numbers(("value", "low", "high"), row["value"], row["ci"]),
            **(
                {
                    **_numbers(("gain", "gain_low", "gain_high"), row["gain"], row["gain_ci"]),
                    **_numbers(("beyond", "beyond_low", "beyond_high"), other.get("value"), other.get("ci")),
                    "p": _digits(row["p"]),
                    "p_beyond": _digits(other.get("p")),
                    "claim": _digits(row["claim"]),
                    "verdict": row["verdict"] or "",
                    "withheld": row.get("withheld", ""),
                }
                if row["k"]
                else {}
            ),
        }


def costs(run: Run, who: str, file: Path, data: Path) -> Iterator[dict[str, Any]]:
    """What k added references of each segment have in characters and in tokens of sacreBLEU's ``13a``, in all."""
    references, tokens = ReferenceSet.load(file), Tokenizer13a()
    for k in run.ks:
        texts = [ref.text for segment in references for ref in segment.extras[:k]]
        counted = {"characters": sum(map(len, texts)), "tokens": sum(len(tokens(text).split()) for text in texts)}
        for name, count in counted.items() if k else ():
            head = {"run": run.name, "references": who, "k": k, "level": "cost", "statistic": name}
            yield {**dict.fromkeys(COLUMNS, ""), **head, "segments": len(references), "value": count}


def note_look(path: Path, run: Run, here: str, reason: str) -> None:
    """Append a look at a test set to the ledger."""
    said = [" ".join(run.added), *(f"{name} {value}" for name, value in run.options.items()), reason]
    look = {
        "set": f"{run.folder} {run.pair} {run.ref} {' '.join(run.golds)}",
        "metrics": " ".join(run.metrics),
        "ks": " ".join(map(str, run.ks)),
        "placebos": run.placebos,
        "resamples": RESAMPLES,
        "seed": SEED,
        "part": "tasks",
        "references": "; ".join(filter(None, said)),
    }
    note(path, commit=here, **look)


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("generator", "metric", "k", "level", "statistic"))


def _numbers(names: Sequence[str], value: float | None, ends: Sequence[float] | None) -> dict[str, str]:
    return dict(zip(names, map(_digits, (value, *(ends or (None, None)))), strict=True))


def _digits(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.4f}"


if __name__ == "__main__":
    main()

"""The main job on WMT data: does agreement with human judgements rise with the number of references?

    python scripts/bench/quality/main_job.py --data DIR --work DIR [-k 20] [--csv FILE] > tables.md

Augments the judged references of WMT19 lt-en and gu-en, WMT21 news zh-en and TED talks zh-en with the shipped model
(one ``polyref augment`` each, timed, with peak memory) and runs ``polyref evaluate`` for every k. Where the
data has other references of its own (a second human reference, LLM paraphrases), they are measured in the same way.
Prints Markdown; ``--csv`` writes raw tables as well, such as docs/benchmarks/first-model.csv with
first-model-references.csv beside it for the cost of the references.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import write

#: Set folder, language pair, reference, gold.
SETS = (
    ("wmt19", "lt-en", "ref", "darr"),
    ("wmt19", "gu-en", "ref", "darr"),
    ("wmt21.news", "zh-en", "refA", "mqm"),
    ("wmt21.tedtalks", "zh-en", "refB", "mqm"),
)
#: Ways to use the references: max is ParBLEU's (and sacreBLEU's) rule.
USES = (("max", []), ("expected", ["--combine", "expected"]))
METRICS = (("bleu", []), ("chrf", []), ("chrf++", ["--chrf-word-order", "1", "--chrf-beta", "3"]))

COLUMNS = (
    *("set", "gold", "reference", "added", "use", "metric", "level", "statistic", "k"),
    *("value", "gain", "low", "high", "interval_excludes_zero"),
)


def polyref(*args: str | Path) -> str:
    command = [sys.executable, "-m", "polyref", *map(str, args)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def augment(references: Path, out: Path, k: int) -> dict[str, float]:
    """Run ``polyref augment``; wall and CPU seconds and peak memory (MB) of the process."""
    before = os.times()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "polyref", "augment", references, "-k", str(k), "-o", out, "--no-cache"]
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"polyref augment failed on {references}")
    after = os.times()
    return {
        "wall": time.monotonic() - began,
        "cpu": after.children_user + after.children_system - before.children_user - before.children_system,
        "peak_mb": usage.ru_maxrss / 1024,
    }


def judged_segments(folder: Path, pair: str, gold: str, total: int) -> list[int]:
    """0-based segments with a judgement of at least one output; all of them for relative rankings."""
    if gold == "darr":
        return list(range(total))
    lines = (folder / "human-scores" / f"{pair}.{gold}.seg.score").read_text("utf-8").rstrip("\n").split("\n")
    return sorted({number % total for number, line in enumerate(lines) if line.split()[1] != "None"})


def augment_judged(folder: Path, pair: str, ref: str, gold: str, out: Path, k: int) -> dict[str, float]:
    """Augment the judged segments; the others keep their reference alone, so that the set stays whole."""
    references = (folder / "references" / f"{pair}.{ref}.txt").read_text("utf-8").rstrip("\n").split("\n")
    judged = judged_segments(folder, pair, gold, len(references))
    part, made = out.with_suffix(".part.en"), out.with_suffix(".part.jsonl")
    part.write_text("".join(references[number] + "\n" for number in judged), "utf-8", newline="\n")
    cost = augment(part, made, k)
    header, *lines = made.read_text("utf-8").rstrip("\n").split("\n")
    found = dict(zip(judged, map(json.loads, lines), strict=True))
    with out.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(header + "\n")
        for number, reference in enumerate(references):
            refs = found[number]["refs"] if number in found else [{"text": reference, "kind": "human"}]
            stream.write(json.dumps({"id": str(number + 1), "refs": refs}, ensure_ascii=False) + "\n")
    return cost | {"segments": len(judged)}


def evaluate(
    folder: Path,
    pair: str,
    refs: list[str],
    gold: str,
    extra: Path | None,
    ks: list[int],
    use: list[str] | None = None,
) -> list[Any]:
    rows = []
    for metric, options in METRICS:
        options = [*options, *(use or [])]
        args: list[str | Path] = [folder, "-l", pair, "--ref", *refs, "--gold", gold, "-m", metric, *options, "--json"]
        if extra is not None:
            args += ["--refs", extra]
        rows += json.loads(polyref("evaluate", *args, "-k", *map(str, ks)))["rows"]
    return rows


def value(row: dict[str, Any]) -> str:
    text = f"{row['value']:.4f}"
    if row["gain"] is None or row["k"] == 0:
        return text
    low, high = row["gain_ci"]
    sure = low > 0 or high < 0
    gain = f"{row['gain']:+.4f} [{low:+.4f}, {high:+.4f}]"
    return f"{text} ({'**' + gain + '**' if sure else gain})"


def raw(rows: list[dict[str, Any]], *about: str) -> Iterator[dict[str, Any]]:
    """Rows of the raw table; ``about`` is set, gold, reference, what was added, and how it is used."""
    for row in rows:
        cells = [*about, row["metric"], row["level"], row["statistic"], row["k"], f"{row['value']:.4f}"]
        if row["gain"] is None or row["k"] == 0:
            cells += [""] * 4
        else:
            low, high = row["gain_ci"]
            cells += [f"{number:+.4f}" for number in (row["gain"], low, high)]
            cells.append("yes" if low > 0 or high < 0 else "no")
        yield dict(zip(COLUMNS, cells, strict=True))


def table(title: str, rows: list[dict[str, Any]], ks: list[int]) -> str:
    lines = [f"#### {title}", "", "| metric | statistic | " + " | ".join(f"k = {k}" for k in ks) + " |"]
    lines.append("|---|---|" + "---|" * len(ks))
    keys = dict.fromkeys((row["metric"], row["level"], row["statistic"]) for row in rows)
    for metric, level, statistic in keys:
        cells = {
            r["k"]: value(r) for r in rows if (r["metric"], r["level"], r["statistic"]) == (metric, level, statistic)
        }
        lines.append(f"| {metric} | {level} {statistic} | " + " | ".join(cells.get(k, "") for k in ks) + " |")
    return "\n".join(lines) + "\n"


def simple_form(references: Path, others: list[Path], out: Path) -> None:
    """Other references of the same segments, in the simple form, so that k counts them."""
    columns = [path.read_text("utf-8").rstrip("\n").split("\n") for path in (references, *others)]
    with out.open("w", encoding="utf-8", newline="\n") as stream:
        for number, (first, *rest) in enumerate(zip(*columns, strict=True), 1):
            stream.write(json.dumps({"id": number, "reference": first, "paraphrases": rest}, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where reference sets are kept")
    parser.add_argument("-k", type=int, default=20)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write, the cost to FILE-references")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    ks = [k for k in (0, 1, 5, 10, 20) if k <= options.k]
    versions = ", ".join(f"{name} {version(name)}" for name in ("polyref", "torch", "sacrebleu", "scipy"))
    print(f"{versions}; Python {platform.python_version()}\n")
    found: list[dict[str, Any]] = []
    costs: list[dict[str, Any]] = []
    for folder, pair, ref, gold in SETS:
        out = options.work / f"{folder}.{pair}.{ref}.jsonl"
        kept = out.with_suffix(".cost.json")
        if not kept.exists():
            cost = augment_judged(options.data / folder, pair, ref, gold, out, options.k)
            kept.write_text(json.dumps(cost))
        cost = json.loads(kept.read_text())
        segments = [json.loads(line)["refs"] for line in out.read_text("utf-8").split("\n") if '"refs"' in line]
        extras = sum(ref["kind"] == "paraphrase" for refs in segments for ref in refs)
        print(f"### {folder} {pair}, {ref}, {gold}\n")
        count = cost["segments"]
        print(
            f"{count} of {len(segments)} references augmented (those with judgements), {extras / count:.1f} "
            f"paraphrases each at k = {options.k}; {cost['cpu'] / count:.3f} CPU seconds a reference on one thread, "
            f"peak memory {cost['peak_mb']:.0f} MB\n"
        )
        costs.append(
            {
                "set": f"{folder} {pair}",
                "reference": ref,
                "references_augmented": count,
                "references_of_the_set": len(segments),
                f"paraphrases_each_at_k_{options.k}": f"{extras / count:.1f}",
                "seconds_a_reference": f"{cost['cpu'] / count:.3f}",
                "seconds_of": "CPU",
                "peak_memory_mb": f"{cost['peak_mb']:.0f}",
            }
        )
        for use, flags in USES:
            rows = evaluate(options.data / folder, pair, [ref], gold, out, ks, flags)
            print(table(f"Shipped model, --combine {use}", rows, ks))
            found += raw(rows, f"{folder} {pair}", gold, ref, "paraphrases of the shipped model", use)
    for folder, pair, ref, other, gold in (
        ("wmt21.news", "zh-en", "refA", "refB", "mqm"),
        ("wmt21.tedtalks", "zh-en", "refB", "refA", "mqm"),
        ("wmt22", "zh-en", "refA", "refB", "wmt-z"),
        ("wmt22", "de-en", "refA", "refB", "wmt-z"),
    ):
        base = options.data / folder / "references"
        out = options.work / f"{folder}.{pair}.{ref}+{other}.jsonl"
        simple_form(base / f"{pair}.{ref}.txt", [base / f"{pair}.{other}.txt"], out)
        print(f"### {folder} {pair}, {gold}: {ref} and, at k = 1, the human reference {other}\n")
        rows = evaluate(options.data / folder, pair, [ref], gold, out, [0, 1])
        print(table("Second human reference", rows, [0, 1]))
        found += raw(rows, f"{folder} {pair}", gold, ref, f"human reference {other}", "max")
    llm = options.data / "wmt22" / "paraphrases" / "zh-en.refA.jsonl"
    print("### wmt22 zh-en, wmt-z: refA and ten LLM paraphrases\n")
    ks = [0, 1, 2, 5, 10]
    rows = evaluate(options.data / "wmt22", "zh-en", ["refA"], "wmt-z", llm, ks)
    print(table("LLM", rows, ks))
    found += raw(rows, "wmt22 zh-en", "wmt-z", "refA", "LLM paraphrases", "max")
    if options.csv:
        write(options.csv, COLUMNS, found)
        write(options.csv.with_stem(f"{options.csv.stem}-references"), list(costs[0]), costs)


if __name__ == "__main__":
    main()

"""Peak memory and seconds of ``polyref`` ``augment --candidates``, ``score``, ``convert`` and ``inspect`` against the
number of references.

    python scripts/bench/speed/memory.py --segments 10000 100000 1000000 --work DIR --csv memory.csv

The texts are synthetic: English words at random, 8 to 24 a line, and five candidates a line that differ from it in
some words or in their order. Each command runs in a process of its own, as a user runs it; its peak memory is what
the kernel says of it. Files that are in DIR already are used again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import MACHINE, measured_with, update

COLUMNS = ("command", "references", "filter", "seconds", "cpu_seconds", "peak_mb", "written_mb", *MACHINE)
CANDIDATES = 5
PROGRAM = [sys.executable, "-m", "polyref"]


def words() -> list[str]:
    """The English words that the filter knows, of letters alone."""
    text = files("polyref").joinpath("augment/english_words.txt").read_text("utf-8")
    return [word for word in text.split() if word.isalpha() and word.isascii() and word.islower()]


def sentences(count: int, seed: int = 1) -> Iterator[tuple[str, list[str], str]]:
    """Reference, its candidates and a system's output, as many times."""
    draw, known = random.Random(seed), words()
    for _ in range(count):
        line = [draw.choice(known) for _ in range(draw.randint(8, 24))]
        yield (
            sentence(line),
            [sentence(changed(line, draw, known)) for _ in range(CANDIDATES)],
            sentence(changed(line, draw, known)),
        )


def changed(line: list[str], draw: random.Random, known: list[str]) -> list[str]:
    """Another word for about one in eight, and two halves exchanged half of the time."""
    found = [draw.choice(known) if draw.random() < 0.125 else word for word in line]
    at = draw.randrange(len(found)) if draw.random() < 0.5 else 0
    return [*found[at:], *found[:at]]


def sentence(line: list[str]) -> str:
    """Words as a sentence."""
    return f"{line[0].capitalize()} {' '.join(line[1:])}."


def make(folder: Path, count: int) -> None:
    """Write references, candidates, a set of both and outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("refs.en", "candidates.jsonl", "whole.jsonl", "sys.en")
    if all((folder / name).exists() for name in names):
        return
    with (
        (folder / "refs.en").open("w") as refs,
        (folder / "candidates.jsonl").open("w") as lists,
        (folder / "whole.jsonl").open("w") as sets,
        (folder / "sys.en.unfinished").open("w") as outputs,
    ):
        for number, (reference, candidates, output) in enumerate(sentences(count), 1):
            found = [{"text": text, "score": -0.1 * rank} for rank, text in enumerate(candidates, 1)]
            refs.write(f"{reference}\n")
            lists.write(json.dumps({"id": number, "text": reference, "paraphrases": found}) + "\n")
            sets.write(json.dumps({"id": str(number), "refs": [{"text": reference}, *map(added, found)]}) + "\n")
            outputs.write(f"{output}\n")
    (folder / "sys.en.unfinished").replace(folder / "sys.en")


def added(candidate: dict[str, Any]) -> dict[str, Any]:
    """A candidate as a reference."""
    score = candidate["score"]
    return {"text": candidate["text"], "kind": "paraphrase", "of": 0, "logprob": score, "generator": "synthetic"}


def measured(arguments: list[str | Path], written: Path) -> dict[str, float]:
    """Run a command of polyref: wall-clock and CPU seconds, and its peak memory."""
    start = time.perf_counter()
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen([*PROGRAM, *map(str, arguments)], stdout=nowhere, stderr=nowhere)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}: exit code {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024, 1),  # Linux counts kilobytes
        "written_mb": round(written.stat().st_size / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], metavar="N")
    every = ["augment", "score", "convert", "inspect"]
    parser.add_argument("--commands", nargs="+", default=every, choices=every)
    parser.add_argument("--combine", default="max", help="of score: how references combine")
    parser.add_argument("--filter", default="none", help="of augment; the default one takes most of the time")
    parser.add_argument("--work", type=Path, required=True, help="texts and results")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="rows are replaced or added here")
    options = parser.parse_args()
    for count in options.segments:
        folder = options.work / str(count)
        make(folder, count)
        whole, made, scores = folder / "whole.jsonl", folder / "set.jsonl", folder / "scores.json"
        table, page = folder / "set.tsv", folder / "set.html"
        commands: dict[str, list[str | Path]] = {
            "augment": [
                *("augment", folder / "refs.en", "--candidates", folder / "candidates.jsonl"),
                *("-k", "5", "--filter", options.filter, "-o", made, "--quiet"),
            ],
            "score": [
                *("score", whole, "-i", folder / "sys.en", "-m", "bleu", "chrf++"),
                *("-k", "0", "5", "--combine", options.combine, "--json", "-o", scores, "--quiet"),
            ],
            "convert": ["convert", "refs", whole, table],
            "inspect": ["inspect", whole, "-o", page, "--quiet"],
        }
        for command in options.commands:
            written = {"augment": made, "score": scores, "convert": table, "inspect": page}[command]
            named = options.filter if command == "augment" else ""
            shown = f"{command}, {options.combine}" if command == "score" and options.combine != "max" else command
            row = {"command": shown, "references": count, "filter": named, **measured(commands[command], written)}
            row |= measured_with("polyref")
            print(json.dumps(row), flush=True)
            if options.csv:
                update(options.csv, COLUMNS, COLUMNS[:3], [row])


if __name__ == "__main__":
    main()

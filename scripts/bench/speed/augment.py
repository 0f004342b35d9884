"""Peak memory and references a second of ``polyref augment`` on a plain file of references.

python scripts/bench/speed/augment.py REFS.en --references 2000 -k 10 [--threads 2] [-- any option of polyref augment]

Runs the command in a process of its own, as a user does; loading the model is part of the time that is printed, and
given apart. Prints one JSON object; with ``--csv`` it is also a row of a raw table, docs/benchmarks/speed-augment.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from raw_tables import MACHINE, measured_with, update

from polyref.textfiles import iter_lines

COLUMNS = ("references", "words", "k", "threads", "options", "seconds", "start_up_seconds", "cpu_seconds")
COLUMNS += ("references_per_second", "paraphrases_per_reference", "peak_rss_mb", "load_average", *MACHINE)

PROGRAM = [sys.executable, "-c", "from polyref.cli.main import main; main()", "augment"]


def timed(arguments: list[str]) -> tuple[float, float]:
    """Run the command; wall-clock seconds, and CPU seconds of it and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*PROGRAM, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--references", type=int, default=2000, metavar="N")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write")
    options, rest = parser.parse_known_args()
    passed = [argument for argument in rest if argument != "--"]
    with tempfile.TemporaryDirectory() as folder:
        refs, one, out = (Path(folder) / name for name in ("refs", "one", "out.jsonl"))
        lines = list(islice(iter_lines(options.file), options.references))
        refs.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        one.write_text("Yes.\n", "utf-8")
        shared = ["-k", str(options.k), "--threads", str(options.threads), "--no-cache", "--quiet", *passed]
        start_up, _ = timed([str(one), *shared, "-o", str(out)])
        wall, cpu = timed([str(refs), *shared, "-o", str(out)])
        extras = sum(len(json.loads(line).get("refs", [])) - 1 for line in islice(iter_lines(out), 1, None))
    result = {
        "references": len(lines),
        "words": sum(len(line.split()) for line in lines),
        "k": options.k,
        "threads": options.threads,
        "options": " ".join(passed),
        "seconds": round(wall, 1),
        "start_up_seconds": round(start_up, 1),
        "cpu_seconds": round(cpu, 1),
        "references_per_second": round(len(lines) / (wall - start_up), 2),
        "paraphrases_per_reference": round(extras / len(lines), 2),
        # Linux counts kilobytes; the largest child is the long run.
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, 1),
        "load_average": round(os.getloadavg()[0], 2),
        **measured_with("polyref", "torch"),
    }
    print(json.dumps(result))
    if options.csv:
        update(options.csv, COLUMNS, ("references", "words", "k", "threads", "options"), [result])


if __name__ == "__main__":
    main()

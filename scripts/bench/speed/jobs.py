"""References a second at k = 10 of augment, Prism and BERTScore with one and two processes, and their memory.

    python scripts/bench/speed/jobs.py --data DIR --csv docs/benchmarks/speed-jobs.csv --page docs/benchmarks.md

DIR holds WMT22 in the mt-metrics-eval layout with the ten paraphrases of each zh-en reference
(``wmt22/paraphrases/zh-en.refA.jsonl``). Each command runs as a user runs it, without the cache, on segments that are
spread evenly over the test set: 960 for augment, which hands out shards of 64, 300 for Prism, and all 1,875 for
BERTScore (with processes, and with threads). One system is scored. Start-up is what the command takes with one
reference, and left out of the rate. Memory is that of all processes of the command together, what they share
counted once (Linux: PSS, looked at five times a second).

With ``--csv``, rows of the table that were measured again are replaced. With ``--page`` as well, the table between the
two comments ``speed-jobs`` of that file is written anew, from all rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from polyref.references import ReferenceSet
from polyref.textfiles import read_lines

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import MACHINE, measured_with, read, update

COLUMNS = (
    *("work", "workers", "references", "seconds", "start_up_seconds", "references_per_second", "peak_mb", "gain"),
    *("load_average", *MACHINE),
)
K = 10
MARKS = ("<!-- speed-jobs: begin -->", "<!-- speed-jobs: end -->")
#: Segments, unless --references says otherwise.
REFERENCES = {"augment": 960, "prism": 300, "bertscore": 1875, "bertscore-threads": 1875}
LABELS = {
    "augment": "augment, shipped model",
    "prism": "parPrism, shipped model",
    "bertscore": "parBERTScore, shipped",
    "bertscore-threads": "the same, by threads",
}


def texts(data: Path, count: int, folder: Path) -> None:
    """Write references, the set of them with paraphrases, and outputs of a system; and the same of one segment."""
    home = data / "wmt22"
    known = ReferenceSet.load(home / "paraphrases" / "zh-en.refA.jsonl")
    files = sorted((home / "system-outputs" / "zh-en").glob("*.txt"))
    outputs = read_lines(next(file for file in files if not file.stem.startswith("ref")))
    for name, number in (("one", 1), ("all", count)):
        places = [len(known) * n // number for n in range(number)]
        chosen = [known[place] for place in places]
        ReferenceSet(tuple(chosen), known.meta).save(folder / f"{name}.jsonl")
        (folder / f"{name}.en").write_text("".join(f"{one.refs[0].text}\n" for one in chosen), "utf-8")
        (folder / f"{name}.sys").write_text("".join(f"{outputs[place]}\n" for place in places), "utf-8")


def arguments(work: str, workers: int, folder: Path, name: str) -> list[str]:
    """Of the command."""
    out = ["-k", str(K), "--no-cache", "--quiet", "-o", str(folder / f"{name}.out")]
    if work == "augment":
        return ["augment", str(folder / f"{name}.en"), "--jobs", str(workers), *out]
    metric, _, threads = work.partition("-")
    jobs, each = ("1", str(workers)) if threads else (str(workers), "1")
    how = ["-m", metric, "--threads", each, "--jobs", jobs]
    return ["score", str(folder / f"{name}.jsonl"), "-i", str(folder / f"{name}.sys"), *how, *out]


def family(process: int) -> Iterator[int]:
    """A process and all that it started."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from family(int(child))


def memory(process: int) -> float:
    """MB of a process and all that it started; what they share is counted once."""
    total = 0
    for one in family(process):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Seconds and peak memory of a command."""
    start, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(
        [sys.executable, "-m", "polyref", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while process.poll() is None:
        with suppress(OSError):  # it has just ended
            peak = max(peak, memory(process.pid))
        time.sleep(0.2)
    seconds = time.perf_counter() - start
    assert process.stderr is not None
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {process.stderr.read().decode()}")
    return seconds, peak


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """For the page."""
    lines = [
        "| work | processes | references | references a second | gain | start-up | memory | load before |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {LABELS[str(row['work'])]} | {row['workers']} | {row['references']} "
            f"| {row['references_per_second']} | {row['gain']}x | {row['start_up_seconds']} s "
            f"| {row['peak_mb']} MB | {row['load_average']} |"
            for row in rows
        ),
        "",
        f"{rows[0]['versions']}; {rows[0]['processor']}.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--references", type=int, metavar="N")
    parser.add_argument("--work", nargs="+", default=list(LABELS), choices=list(LABELS))
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    options = parser.parse_args()
    about = {"load_average": round(os.getloadavg()[0], 2), **measured_with("polyref", "torch")}
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for work in options.work:
            count = options.references or REFERENCES[work]
            texts(options.data, count, folder)
            first = 0.0
            for workers in options.workers:
                start_up, _ = timed(arguments(work, workers, folder, "one"))
                seconds, peak = timed(arguments(work, workers, folder, "all"))
                rate = count / max(seconds - start_up, 1e-3)
                first = first or rate
                row = {
                    "work": work,
                    "workers": workers,
                    "references": count,
                    "seconds": round(seconds, 1),
                    "start_up_seconds": round(start_up, 1),
                    "references_per_second": round(rate, 2),
                    "peak_mb": round(peak),
                    "gain": round(rate / first, 2),
                    **about,
                }
                print(row, flush=True)
                rows.append(row)
    if options.csv:
        update(options.csv, COLUMNS, ("work", "workers"), rows)
    if options.page:
        before, _, rest = options.page.read_text("utf-8").partition(MARKS[0])
        _, found, after = rest.partition(MARKS[1])
        if not found:
            raise SystemExit(f"{options.page}: no comments {' and '.join(MARKS)}")
        options.page.write_text(
            f"{before}{MARKS[0]}\n\n{table(read(options.csv) if options.csv else rows)}\n\n{MARKS[1]}{after}", "utf-8"
        )


if __name__ == "__main__":
    main()

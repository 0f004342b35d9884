"""Diverse beam search: CPU time and peak memory a sentence, polyref beside others, on the same work in the same run.

    python scripts/bench/speed/search.py                         # polyref, Transformers' beam search, the products
    python scripts/bench/speed/search.py --fairseq PYTHON        # also fairseq 0.12.2 in its own interpreter
    python scripts/bench/speed/search.py --transformers4 PYTHON  # also group beam search of Transformers 4.31 - 4.56
    python scripts/bench/speed/search.py --ctranslate2 PYTHON    # also CTranslate2's beam search, float32 and int8
    python scripts/bench/speed/search.py --shapes shipped base prism --threads 1 2

Networks have random weights and hypotheses a fixed length, so that everyone does the same number of steps. Every
measurement is a process of its own (CPU time, without loading; the best of the repetitions; the largest resident memory
after loading), and the contenders take turns, so that load from elsewhere meets them all. "products" is the time of the
matrix products alone, by the faster of PyTorch's two libraries: nobody who computes them in float32 with these is
faster than that. A profile says where polyref's own time goes. Prints Markdown; ``--csv`` writes
raw tables as well, such as docs/benchmarks/speed-search.csv with speed-search-parts.csv beside it for the profiles.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from search_contenders import CONTENDERS, SHAPES

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import MACHINE, processor, update

#: Shape: beam, groups, sentences a batch, steps.
WORK = {"shipped": (20, 10, 12, 33), "base": (100, 10, 1, 33), "prism": (100, 10, 4, 6), "small": (20, 10, 2, 9)}
KEY = ("shape", "threads", "program")
COLUMNS = (
    *(*KEY, "cpu_seconds_a_sentence", "wall_seconds_a_sentence", "against_polyref", "against_polyref_int8"),
    *("loaded_mb", "peak_mb", *MACHINE),
)
PARTS_KEY = ("shape", "threads", "part")
PARTS_COLUMNS = (*PARTS_KEY, "cpu_seconds_a_sentence", "percent", *MACHINE)


def memory(field):
    """Resident memory in MB: ``VmRSS`` now, ``VmHWM`` the largest so far."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.search(rf"{field}:\s+(\d+)", status.read_text())[1]) / 1024


def work(args):
    """One measurement: a line of JSON on stdout."""
    if args.worker.startswith("ctranslate2"):
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
    else:
        import torch

        torch.set_num_threads(args.threads)
    build, argument, _ = CONTENDERS[args.worker]
    decode, versions = build(args, args.groups if argument == "groups" else argument)
    sources = [[*range(10, 10 + args.source - 1), 2]] * args.batch
    if args.worker != "products":
        decode([[5, 2]])  # first calls allocate and choose kernels
    loaded = memory("VmRSS")
    reset = Path("/proc/self/clear_refs")
    if reset.is_file():
        reset.write_text("5")  # the largest so far starts again
    begin, clock = time.process_time(), time.perf_counter()
    result = decode(sources)
    seconds, wall = time.process_time() - begin, time.perf_counter() - clock
    row = {"seconds": seconds / args.batch, "wall": wall / args.batch, "loaded": loaded, "peak": memory("VmHWM")}
    if args.worker == "products":
        row["seconds"] = row["wall"] = result / args.batch
    print(json.dumps({**row, "versions": versions, "parts": result if args.worker == "profile" else None}))


def measure(names, interpreters, values, repeat):
    """``{name: [measurement, ...]}``, the contenders taking turns; one that fails is reported and left out."""
    found = {name: [] for name in names}
    environment = {**os.environ, "OMP_NUM_THREADS": str(values["threads"]), "MKL_NUM_THREADS": str(values["threads"])}
    for _ in range(repeat):
        for name in list(found):
            options = [part for key, value in values.items() for part in (f"--{key}", str(value))]
            command = [interpreters[name], str(Path(__file__).resolve()), "--worker", name, *options]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            if done.returncode:
                print(f"{name} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
                del found[name]
                continue
            found[name].append(json.loads(done.stdout.strip().split("\n")[-1]))
    return found


def report(found, values):
    """One Markdown table, the profile below; gives back the rows of both for the raw tables."""
    rows, parts = [], []
    about = (values["shape"], values["threads"])
    best = {name: min(runs, key=lambda run: run["seconds"]) for name, runs in found.items()}
    layers = SHAPES[values["shape"]]
    print(f"\n#### {values['shape']}, {values['threads']} thread(s)\n")
    print(
        f"{layers[0]}+{layers[1]} layers, d = {layers[2]}, ffn {layers[4]}, V = {layers[5]}; beam {values['beam']}, "
        f"{values['groups']} groups, {values['steps']} steps, {values['batch']} sentence(s) of {values['source']} "
        f"tokens a batch; seconds a sentence, best of {len(next(iter(found.values())))}\n"
    )
    print("| | CPU s | wall s | against polyref | against polyref-int8 | loaded MB | peak MB | versions |")
    print("|---|---|---|---|---|---|---|---|")
    for name, run in best.items():
        if name == "profile":
            continue
        ratios = [
            f"{run['seconds'] / best[other]['seconds']:.2f}" if other in best and name != other else ""
            for other in ("polyref", "polyref-int8")
        ]
        times, sizes = [f"{run['seconds']:.3f}", f"{run['wall']:.3f}"], [f"{run['loaded']:.0f}", f"{run['peak']:.0f}"]
        times_as_much = [ratio and f"{ratio}x" for ratio in ratios]
        print(f"| {' | '.join([name, *times, *times_as_much, *sizes, run['versions']])} |")
        rows.append(
            dict(zip(COLUMNS, (*about, name, *times, *ratios, *sizes, run["versions"], processor()), strict=True))
        )
    if "products" in best and "polyref" in best:
        share = best["products"]["seconds"] / best["polyref"]["seconds"]
        print(f"\nProducts alone are {100 * share:.0f} % of polyref's time in this run.")
    if "profile" in best:
        spent = best["profile"]["parts"]
        total = sum(spent.values())
        print(f"\nWhere the time goes (a run of its own, {total:.3f} CPU s a sentence with the watching):\n")
        print("| part | CPU s | % |\n|---|---|---|")
        for label, seconds in spent.items():
            cells = (label, f"{seconds:.3f}", f"{100 * seconds / total:.1f}")
            print(f"| {' | '.join(cells)} |")
            parts.append(
                dict(zip(PARTS_COLUMNS, (*about, *cells, best["profile"]["versions"], processor()), strict=True))
            )
    sys.stdout.flush()
    return rows, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["shipped", "base"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--beam", type=int, help="instead of the shape's own")
    parser.add_argument("--groups", type=int, help="instead of the shape's own")
    parser.add_argument("--batch", type=int, help="sentences decoded together, instead of the shape's own")
    parser.add_argument("--steps", type=int, help="target tokens with the end of sentence, instead of the shape's own")
    parser.add_argument("--source", type=int, default=31, help="source tokens")
    parser.add_argument("--repeat", type=int, default=3)
    for peer in ("fairseq", "transformers4", "ctranslate2"):
        parser.add_argument(f"--{peer}", metavar="PYTHON", help=f"interpreter that has {peer}")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write, the profiles to FILE-parts")
    parser.add_argument("--shape", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        (args.threads,) = args.threads
        work(args)
        return
    interpreters = {name: getattr(args, whose) if whose else sys.executable for name, (*_, whose) in CONTENDERS.items()}
    names = [name for name in args.only or CONTENDERS if interpreters[name]]
    print(f"{processor()}, Python {platform.python_version()}")
    for shape in args.shapes:
        own = dict(zip(("beam", "groups", "batch", "steps"), WORK[shape]))
        values = {key: getattr(args, key) or value for key, value in own.items()}
        for threads in args.threads:
            values |= {"shape": shape, "source": args.source, "threads": threads}
            found = measure(names, interpreters, values, args.repeat)
            rows, parts = report({name: runs for name, runs in found.items() if runs}, values)
            if args.csv:
                update(args.csv, COLUMNS, KEY, rows)
                if parts:
                    update(args.csv.with_stem(f"{args.csv.stem}-parts"), PARTS_COLUMNS, PARTS_KEY, parts)


if __name__ == "__main__":
    main()

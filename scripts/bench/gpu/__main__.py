"""polyref on a card, beside Transformers (and fairseq where there is one): one command, no network, no data.

    python scripts/bench/gpu                        # on the first CUDA device; meant for ten minutes
    python scripts/bench/gpu --peer PYTHON          # also what another interpreter has: fairseq, Transformers 4
    python scripts/bench/gpu --only prism           # pieces of work that have this in their names
    python scripts/bench/gpu --device cpu --small   # tries the command out where there is no card

It measures references a second at k = 10 (the shipped model from texts to texts; a network of Prism's shape, 743 M
random weights, with as many steps for everyone), forced scores, and BERTScore with an encoder of roberta-large's shape
and random weights. Each is run once to warm up and count, then three times, of which the shortest counts, by the clock
on the wall. The card's limits are those of one large product and one large copy in the same run. A row's share of
them is of the arithmetic of its products, and of the bytes that its operations read and write, as if nothing stayed
in a cache: above 1, something did. Lists and scores are compared with the CPU's in float32. Prints Markdown and writes
one CSV, with versions, card and commit in every row. A program that fails is reported and left out, and the command
ends with 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
BENCH = Path(__file__).resolve().parents[1]
sys.path += [str(Path(__file__).resolve().parent), str(BENCH), str(BENCH / "speed")]

COLUMNS = (
    *("work", "program", "dtype", "items", "unit", "seconds", "a_second", "tflops", "share_of_products"),
    *("gb_a_second", "share_of_traffic", "peak_mb", "agrees", "versions", "card", "commit"),
)
SHOWN = COLUMNS[:13]
PEERS = ("fairseq", "transformers4")
DTYPES = ("float32", "float16")


def card(device):
    """What computes, in words."""
    import torch

    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"
    return f"{device.type}, {platform.machine()}: no card"


def measured(run, device, repeat):
    """Seconds, arithmetic, bytes and largest memory of some work."""
    import torch
    from counted import Counted, seconds

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with Counted() as counted:
        run()
    best = seconds(run, device, repeat)
    peak = torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else 0
    return {"seconds": best, "flops": counted.flops, "bytes": counted.bytes, "peak_mb": f"{peak:.0f}" if peak else ""}


def row(about, found, limits):
    """A row of the table, of what was measured; ``limits`` are those of its type of number."""
    products, traffic = limits
    flops, moved = found["flops"] / found["seconds"], found["bytes"] / found["seconds"]
    return {
        **about,
        "seconds": f"{found['seconds']:.4g}",
        "a_second": f"{about['items'] / found['seconds']:.4g}",
        "tflops": f"{flops / 1e12:.4g}",
        "share_of_products": f"{flops / products:.3f}",
        "gb_a_second": f"{moved / 1e9:.4g}",
        "share_of_traffic": f"{moved / traffic:.3f}",
        "peak_mb": found["peak_mb"],
    }


def worker(args):
    """A peer of another interpreter, which need not have polyref: a line of JSON on stdout."""
    import torch
    from search_contenders import CONTENDERS

    build = CONTENDERS[args.worker][0]
    decode, versions = build(args, 2)
    sources = json.loads(args.sources)
    print(
        json.dumps({**measured(lambda: decode(sources), torch.device(args.device), args.repeat), "versions": versions})
    )


def by_peer(python, name, args, size, shape, dtype, sources):
    """What another interpreter measures, or None where it does not have that program."""
    module = name.rstrip("4")
    there = subprocess.run(
        [python, "-c", f"import {module}; print({module}.__version__)"], capture_output=True, text=True
    )
    if there.returncode or (name == "transformers4" and not there.stdout.startswith("4.")):
        return None
    values = {"worker": name, "device": args.device, "shape": shape, "dtype": dtype, "beam": size.k}
    values |= {"steps": size.steps, "repeat": args.repeat, "sources": json.dumps(sources)}
    options = [part for key, value in values.items() for part in (f"--{key}", str(value))]
    done = subprocess.run([python, str(Path(__file__).parent), *options], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def rows(args, device, size):
    """Every row as it is measured; a RuntimeError in the place of one that failed."""
    import torch
    from counted import limits
    from pieces import pieces, sources

    def freed():
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()

    dtypes = DTYPES if device.type != "cpu" else DTYPES[:1]
    known = {dtype: limits(device, getattr(torch, dtype), size.rows, size.numbers) for dtype in dtypes}
    for dtype, (products, traffic) in known.items():
        about = {"work": "the card's limits", "program": "one product, one copy", "dtype": dtype}
        yield {**about, "tflops": f"{products / 1e12:.4g}", "gb_a_second": f"{traffic / 1e9:.4g}"}
    freed()
    with tempfile.TemporaryDirectory() as scratch:
        for name, build in pieces(size, device, dtypes, Path(scratch)):
            if args.only not in name:
                continue
            piece = None
            try:
                piece = build()
                about = {key: getattr(piece, key) for key in ("work", "program", "dtype", "items", "unit")}
                found = measured(piece.run, device, args.repeat)
                yield {**row(about, found, known[piece.dtype]), "agrees": piece.agrees()}
            except Exception as error:  # out of memory, say: the others are measured
                yield RuntimeError(f"{name}: {type(error).__name__}: {error}")
            finally:
                del piece
                freed()
    for python in args.peer:
        for shape, name, dtype in ((s, n, d) for s in dict.fromkeys(size.shapes) for n in PEERS for d in dtypes):
            if shape == size.shapes[0] and dtype != DTYPES[0]:
                continue
            try:
                found = by_peer(python, name, args, size, shape, dtype, sources(size))
            except RuntimeError as error:
                yield RuntimeError(f"{name}, {shape}, {dtype}: {error}")
                continue
            if found is not None:
                about = {"work": f"search, {shape}", "program": name, "dtype": dtype, "items": size.batch}
                about["unit"] = "references"
                yield {**row(about, found, known[dtype]), "versions": found["versions"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="seconds instead of minutes: tries the command out")
    parser.add_argument("--only", default="", metavar="TEXT", help="pieces that have this in their names")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs, of which the shortest counts")
    parser.add_argument("--peer", action="append", default=[], metavar="PYTHON", help="interpreter with other programs")
    parser.add_argument("--csv", type=Path, default=Path("gpu.csv"), metavar="FILE", help="table to write")
    for hidden in ("worker", "shape", "dtype", "sources"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    for hidden in ("beam", "steps"):
        parser.add_argument(f"--{hidden}", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    import torch

    if args.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(
            f"no card: torch {torch.__version__} sees no CUDA device, and nothing was measured "
            "(--device cpu --small tries the command out)"
        )
    torch.set_float32_matmul_precision("highest")
    if args.worker:
        worker(args)
        return
    import transformers
    from looks import commit
    from pieces import SMALL, Size
    from raw_tables import write

    import polyref

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    device = torch.device(args.device)
    versions = {"polyref": polyref.__version__, "torch": torch.__version__, "transformers": transformers.__version__}
    told = ", ".join(f"{name} {value}" for name, value in versions.items())
    origin = {"versions": f"{told}, Python {platform.python_version()}", "card": card(device), "commit": commit()}
    print(f"{origin['card']}; {origin['versions']}; commit {origin['commit']}\n")
    print(f"| {' | '.join(SHOWN)} |\n{'|---' * len(SHOWN)}|")
    begin, table, failed = time.perf_counter(), [], 0
    for found in rows(args, device, SMALL if args.small else Size()):
        if isinstance(found, RuntimeError):
            print(f"failed: {found}", file=sys.stderr)
            failed = 1
            continue
        table.append({**dict.fromkeys(COLUMNS, ""), **origin, **found})
        print(f"| {' | '.join(str(table[-1][column]) for column in SHOWN)} |", flush=True)
        write(args.csv, COLUMNS, table)
    print(f"\n{len(table)} rows in {args.csv}, after {time.perf_counter() - begin:.0f} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()

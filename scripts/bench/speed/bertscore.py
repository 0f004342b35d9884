"""Speed of BERTScore over 14 systems and many references, against bert_score, on one thread.

    OMP_NUM_THREADS=1 python scripts/bench/speed/bertscore.py --data DIR --peer PYTHON [--segments 100] > bertscore.md

DIR is as for scripts/bench/speed/metrics.py, whose systems and references are used; PYTHON has bert_score 0.3.13 and
transformers 4. The encoder is all-MiniLM-L6-v2 (the extra minilm; --model takes another folder), one layer of it. Each
side runs in a process of its own, one after the other, and is timed without imports and loading; bert_score's
``BERTScorer`` is loaded once and scores one system after the other, as its command line does. Times are processor
seconds, so that a busy machine changes them little. Scores are compared. ``--csv`` writes the figures to a raw table as
well, such as docs/benchmarks/speed-bertscore.csv.
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
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import MACHINE, processor, update

COLUMNS = (
    *("references", "bert_score_cpu_seconds", "polyref_cpu_seconds", "ratio", "polyref_filling_the_cache"),
    *("one_more_system_later", "texts_it_encodes", "of_all_texts", "peak_memory_mb", "bert_score_peak_memory_mb"),
    *("largest_difference", *MACHINE),
)


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "--worker":
        job = json.loads(Path(sys.argv[3]).read_text("utf-8"))
        print(json.dumps({"peer": peer, "ours": ours}[sys.argv[2]](job)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--layer", type=int, default=4)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--references", type=int, nargs="+", default=[11, 50])
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write")
    options = parser.parse_args()
    model = options.model or minilm()
    rows, notes = [], ""
    for count in options.references:
        job = texts(options.data, count, options.segments) | {"model": str(model), "layer": options.layer}
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "job.json"
            place.write_text(json.dumps(job), "utf-8")
            there = worker(options.peer, "peer", place, folder)
            here = worker(sys.executable, "ours", place, folder)
        apart = max(abs(a - b) for x, y in zip(there["f"], here["f"], strict=True) for a, b in zip(x, y, strict=True))
        if apart > 1e-6:
            sys.exit(f"scores differ by {apart}")
        notes = ", ".join(f"{name} {v}" for name, v in {**here["versions"], **there["versions"]}.items())
        rows.append({**cells(count, there, here, apart), "versions": notes, "processor": processor()})
    print(f"{notes}; {processor()}")
    print(f"{len(job['systems'])} systems, {options.segments} segments, layer {options.layer} of {model.parent.name}\n")
    columns = ("references", "bert_score", "polyref", "ratio", "polyref, filling the cache on the disk")
    columns += ("one more system later", "texts it encodes", "of all texts", "peak memory", "bert_score's", "apart")
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    units = ("", " s", " s", "x", " s", " s", "", "", " MB", " MB", "")
    for row in rows:
        print("| " + " | ".join(row[name] + unit for name, unit in zip(COLUMNS, units, strict=False)) + " |")
    if options.csv:
        update(options.csv, COLUMNS, ("references",), rows)


def cells(count: int, there: dict[str, Any], here: dict[str, Any], apart: float) -> dict[str, str]:
    """A row of the table: what bert_score and polyref took with some number of references."""
    values = [f"{count}", f"{there['seconds']:.1f}", f"{here['seconds']:.1f}"]
    values += [f"{there['seconds'] / here['seconds']:.1f}", f"{here['cached']:.1f}", f"{here['later']:.2f}"]
    values += [f"{here['later_encoded']}", f"{here['encoded']}", f"{here['megabytes']:.0f}"]
    values += [f"{there['megabytes']:.0f}", f"{apart:.0e}"]
    return dict(zip(COLUMNS[: len(values)], values, strict=True))


def minilm() -> Path:
    from polyref.models.encoders import load_encoder

    return Path(load_encoder("minilm")._folder)  # type: ignore[attr-defined]


def texts(data: Path, references: int, segments: int) -> dict[str, Any]:
    from metrics import load

    systems, refset = load(data, references)
    chosen = range(0, len(refset), max(1, len(refset) // segments))[:segments]
    return {
        "systems": {name: [outputs[n] for n in chosen] for name, outputs in systems.items()},
        "references": [refset.texts()[n] for n in chosen],
    }


def worker(python: str, side: str, job: Path, folder: str) -> Any:
    environment = {**os.environ, "POLYREF_CACHE": folder, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [python, str(Path(__file__).resolve()), "--worker", side, str(job)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peer(job: dict[str, Any]) -> dict[str, Any]:
    import torch
    from bert_score import BERTScorer

    torch.set_num_threads(1)
    scorer = BERTScorer(model_type=job["model"], num_layers=job["layer"], device="cpu")
    scorer.score(["warm up"], [["warm up"]])
    start = time.process_time()
    found = [scorer.score(outputs, job["references"])[2].tolist() for outputs in job["systems"].values()]
    versions = {"bert_score": version("bert-score"), "its transformers": version("transformers")}
    return {"seconds": time.process_time() - start, "f": found, "versions": versions, "megabytes": megabytes()}


def ours(job: dict[str, Any]) -> dict[str, Any]:
    import torch

    from polyref.metrics import get_metric
    from polyref.references import ReferenceSet

    torch.set_num_threads(1)
    texts = job["references"]
    references = ReferenceSet.from_texts([row[:1] for row in texts], paraphrases=[row[1:] for row in texts])
    options = {"model": job["model"], "layer": job["layer"], "combine": "max-each"}

    def run(names: list[str], **more: Any) -> tuple[float, Any, Any]:
        metric = get_metric("bertscore", **options, **more)
        systems = {name: job["systems"][name] for name in names}
        start = time.process_time()
        stats = metric.statistics(systems, references, ks=[len(texts[0]) - 1])
        scores = metric.aggregate(stats, k=len(texts[0]) - 1)
        return time.process_time() - start, metric, scores

    get_metric("bertscore", **options, cache=False).vectors.embeddings.encode(["warm up"])
    names = list(job["systems"])
    seconds, metric, scores = run(names, cache=False)
    peak = megabytes()
    cached, _, _ = run(names[:-1])
    later, last, _ = run(names)
    return {
        "seconds": seconds,
        "encoded": metric.vectors.embeddings.encoded,
        "cached": cached,
        "later": later,
        "later_encoded": last.vectors.embeddings.encoded,
        "f": scores.segment.tolist(),
        "versions": {name: version(name) for name in ("polyref", "torch", "transformers")},
        "megabytes": peak,
    }


if __name__ == "__main__":
    main()

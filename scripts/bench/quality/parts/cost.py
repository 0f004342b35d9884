"""What metrics cost: CPU time of a pair of texts with one reference and with eleven, and peak memory.

Each metric runs in a process of its own, on one thread: this file, with the name of a metric and a data folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from raw_tables import MACHINE, measured_with

KEY: Final = ("metric",)
COLUMNS: Final = (
    *(*KEY, "seconds_a_pair", "seconds_a_pair_11_references", "peak_mb", "peak_mb_before", "outputs"),
    *MACHINE,
)
METRICS: Final = ("bleu", "chrf++", "ter", "prism", "bertscore", "esim")
#: WMT22 zh-en with ten LLM paraphrases; its texts alone are read.
SEGMENTS: Final = 10
ADDED: Final = 10


def table(_: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of cost.csv."""
    threads = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[1:3])),
    }
    for metric in METRICS:
        command = [sys.executable, __file__, metric, str(args.data)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=threads)
        yield {"metric": metric, **json.loads(done.stdout), **measured_with("polyref", "torch", "numpy")}


def measured(metric: str, data: Path) -> dict[str, Any]:
    """The figures of one metric in this process."""
    from material import LISTS, SETS, Material

    from polyref.eval.data.reference_sets import reference_set
    from polyref.metrics.registry import get_metric
    from polyref.references import ReferenceSet

    whole = Material.of(SETS["wmt22-zh"], data)
    material = whole.spread(SEGMENTS)
    lists = {one.id: one for one in reference_set(whole.loaded.evalset, ["refA"], data / LISTS["wmt22-zh"])}
    references = ReferenceSet(tuple(lists[segment.id] for segment in material.references))
    options = {"cache": False} if metric in {"prism", "bertscore", "esim"} else {}
    scorer = get_metric(metric, **options, **({"jobs": 1} if metric == "prism" else {}))
    warm = {name: texts[:1] for name, texts in material.outputs.items()}
    before = peak()
    scorer.statistics(warm, ReferenceSet(references[:1]), ks=[0])
    pairs = sum(len(set(texts)) for texts in zip(*material.outputs.values(), strict=True))
    spent = []
    for k in (0, ADDED):
        began = time.process_time()
        stats = scorer.statistics(material.outputs, references, ks=[k])
        scorer.aggregate(stats, k=k)
        spent.append((time.process_time() - began) / (pairs * (1 + k)))
    return {
        "seconds_a_pair": f"{spent[0]:.5f}",
        "seconds_a_pair_11_references": f"{spent[1]:.5f}",
        "peak_mb": f"{peak():.0f}",
        "peak_mb_before": f"{before:.0f}",
        "outputs": pairs,
    }


def peak() -> float:
    """Peak memory of this process in MB; the kernel's other figure may be that of the process which started it."""
    status = Path("/proc/self/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))

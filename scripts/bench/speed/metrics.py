"""Speed and memory of BLEU, chrF++ and TER with many references, against sacreBLEU in the same run, on one thread.

    OMP_NUM_THREADS=1 python scripts/bench/speed/metrics.py --data DIR --path c [--segments 30] [--full] > c.md
    OMP_NUM_THREADS=1 python scripts/bench/speed/metrics.py --data DIR --path numpy [--segments 30] [--full] > numpy.md

DIR holds WMT22 in the mt-metrics-eval layout with the ten paraphrases of each zh-en reference
(``wmt22/paraphrases/zh-en.refA.jsonl``). Further references are made by disturbing these at random: the counting does
not care what they say. sacreBLEU is used as carefully as its API allows: a metric reads its references once
(``BLEU(references=...)``), each output is counted once, and scores of corpus and sentences come from the same counts.
Times are processor seconds, so that a busy machine changes them little: medians of ``--runs`` runs, in which both take
turns. The first ``--segments`` segments alone are scored; by TER three systems and a third as many segments, spread
evenly. Caches of tokenisers are emptied before every run. All scores that are timed are also compared. ``--full`` adds
polyref's own time and peak memory on the whole set, each in a process of its own. ``--csv`` writes the times to a raw
table as well, such as docs/benchmarks/speed-metrics.csv, and keeps the other path's.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

from polyref.metrics import Metric, get_metric
from polyref.metrics.ngram import native
from polyref.metrics.significance import paired_bootstrap
from polyref.references import ReferenceSet
from polyref.textfiles import read_lines

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import MACHINE, measured_with, update

KS = (0, 1, 2, 5, 10, 25, 50, 100)
#: References of a segment in the rows with one number of them.
NUMBERS = (11, 101)
SYSTEMS = 12
Systems = dict[str, list[str]]
#: What was done, and the seconds of polyref and sacreBLEU.
Times = tuple[str, float, float]
KEY = ("path", "task")
COLUMNS = (*KEY, "polyref_cpu_seconds", "sacrebleu_cpu_seconds", "ratio", "runs", *MACHINE)


def load(data: Path, references: int) -> tuple[Systems, ReferenceSet]:
    home = data / "wmt22"
    paths = sorted((home / "system-outputs" / "zh-en").glob("*.txt"))[:SYSTEMS]
    systems = {path.stem: read_lines(path) for path in paths}
    known = ReferenceSet.load(home / "paraphrases" / "zh-en.refA.jsonl").texts()
    rng = random.Random(1)
    vocabulary = [word for texts in known for word in texts[0].split()]

    def disturbed(text: str) -> str:
        words = text.split()
        for place in rng.sample(range(len(words)), max(1, len(words) // 5)) if words else []:
            words[place] = rng.choice(vocabulary)
        return " ".join(words)

    extras = [texts[1:references] for texts in known]
    extras = [
        [*row, *(disturbed(rng.choice(texts)) for _ in range(references - 1 - len(row)))]
        for row, texts in zip(extras, known, strict=True)
    ]
    return systems, ReferenceSet.from_texts([texts[:1] for texts in known], paraphrases=extras)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds and the result."""
    for tokenizer in (Tokenizer13a, TokenizerRegexp, TercomTokenizer):
        tokenizer.__call__.cache_clear()
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def by_turns(runs: int, *calls: Callable[[], Any]) -> list[tuple[float, Any]]:
    """For each call the median of its processor seconds, and the result; they take turns."""
    found = [[timed(call) for call in calls] for _ in range(runs)]
    return [(statistics.median(seconds for seconds, _ in one), one[-1][1]) for one in zip(*found, strict=True)]


def sweep(metric: Metric, systems: Systems, references: ReferenceSet, ks: tuple[int, ...]) -> list[Any]:
    stats = metric.statistics(systems, references, ks=ks)
    return [metric.aggregate(stats, k=k) for k in ks]


def sacrebleu_sweep(
    peer: Callable[..., Any], sentence: Any, systems: Systems, references: ReferenceSet, ks: tuple[int, ...]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores of corpus and sentences from one reading of the references, and one count of every output."""
    results = []
    for k in ks:
        metric = peer(references=[list(rank) for rank in zip(*references.take(k).texts(), strict=True)])
        scores, sentences = [], []
        for outputs in systems.values():
            rows = metric._extract_corpus_statistics(outputs, None)
            scores.append(metric._aggregate_and_compute(rows).score)
            sentences.append([sentence._compute_score_from_stats(row).score for row in rows])
        results.append((np.array(scores), np.array(sentences)))
    return results


def cells(path: str, times: Times, runs: int, machine: Mapping[str, str]) -> dict[str, str]:
    """A row of the table."""
    task, ours, theirs = times
    values = (path, task, f"{ours:.4f}", f"{theirs:.2f}", f"{theirs / ours:.1f}", str(runs), *machine.values())
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--path", choices=("c", "numpy"), required=True)
    parser.add_argument("--segments", type=int, default=30)
    parser.add_argument("--references", type=int, default=101, help="most references of a segment")
    parser.add_argument("--runs", type=int, default=5, help="of polyref and of sacreBLEU, in turns")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write")
    parser.add_argument("--memory", metavar="METRIC", help="only time and peak memory of a metric on the whole set")
    args = parser.parse_args()
    os.environ[native.ENVIRONMENT] = "1" if args.path == "c" else "0"
    ks = tuple(k for k in KS if k < args.references)
    if args.memory:
        memory(args.memory, args.data, args.references, ks)
        return
    systems, references = load(args.data, args.references)
    few = {name: outputs[: args.segments] for name, outputs in systems.items()}
    part = ReferenceSet(references.segments[: args.segments])
    path = "C" if native.available() else "NumPy"
    machine = measured_with("polyref", "sacrebleu", "numpy")
    print(
        f"{path} path, one thread; {len(systems)} systems, {len(part)} segments, k = {', '.join(map(str, ks))}; "
        f"processor seconds, medians of {args.runs} runs. {', '.join(machine.values())}.\n"
    )
    print("| | polyref | sacreBLEU | ratio |\n|---|---|---|---|")
    sets = systems, references, few, part
    plus = partial(CHRF, word_order=2)
    rows = []
    for times in chain(
        compare("BLEU", get_metric("bleu"), BLEU, BLEU(effective_order=True), sets, ks, args.runs),
        compare("chrF++", get_metric("chrf++"), plus, plus(), sets, ks, args.runs),
        compare_ter(systems, references, args.segments, args.runs),
    ):
        row = cells(path, times, args.runs, machine)
        task, ours, theirs, ratio = [*row.values()][1:5]
        print(f"| {task} | {ours} s | {theirs} s | {ratio}x |", flush=True)
        rows.append(row)
    if args.csv:
        update(args.csv, COLUMNS, KEY, rows)
    if args.full:
        print(f"\npolyref alone, {len(references)} segments, corpus and sentences:\n")
        print("| | k | seconds | peak memory |\n|---|---|---|---|", flush=True)
        for name in ("bleu", "chrf++"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--memory", name], check=True)


def memory(name: str, data: Path, references: int, ks: tuple[int, ...]) -> None:
    systems, refset = load(data, references)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds, scores = timed(lambda: sweep(get_metric(name), systems, refset, ks))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"| {scores[0].name} | {', '.join(map(str, ks))} | {seconds:.2f} | "
        f"{peak:.2f} GB, {before:.2f} of them the texts and the interpreter |",
        flush=True,
    )


def compare(
    label: str,
    metric: Metric,
    peer: Callable[..., Any],
    sentence: Any,
    sets: tuple[Systems, ReferenceSet, Systems, ReferenceSet],
    ks: tuple[int, ...],
    runs: int,
) -> Iterator[Times]:
    systems, references, few, part = sets
    for number in NUMBERS:
        if number <= ks[-1] + 1:
            alone = swept(metric, peer, sentence, few, part, (number - 1,), runs)
            yield f"{label}, {number} references, corpus and sentences", *alone
    yield f"{label}, all k, corpus and sentences", *swept(metric, peer, sentence, few, part, ks, runs)

    human = references.take(0)
    ranks = [list(rank) for rank in zip(*human.texts(), strict=True)]
    stats = bootstrap(metric, systems, human)
    (whole, _), (stored, _), (theirs, _) = by_turns(
        runs,
        lambda: bootstrap(metric, systems, human),
        lambda: paired_bootstrap(metric, stats, k=0),
        lambda: PairedTest(list(systems.items()), {"x": peer()}, ranks, "bs", 1000)(),
    )
    yield f"{label}, paired bootstrap, {len(human)} segments, text read", whole, theirs
    yield f"{label}, paired bootstrap, statistics stored", stored, theirs


def swept(
    metric: Metric,
    peer: Callable[..., Any],
    sentence: Any,
    systems: Systems,
    references: ReferenceSet,
    ks: tuple[int, ...],
    runs: int,
) -> tuple[float, float]:
    """Seconds of both, whose scores are equal."""
    (ours, scores), (theirs, expected) = by_turns(
        runs,
        lambda: sweep(metric, systems, references, ks),
        lambda: sacrebleu_sweep(peer, sentence, systems, references, ks),
    )
    for found, (corpus, sentences) in zip(scores, expected, strict=True):
        np.testing.assert_allclose(found.system, corpus, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.segment, sentences, rtol=0, atol=1e-9)
    return ours, theirs


def bootstrap(metric: Metric, systems: Systems, references: ReferenceSet) -> Any:
    stats = metric.statistics(systems, references)
    paired_bootstrap(metric, stats, k=0)
    return stats


def compare_ter(systems: Systems, references: ReferenceSet, segments: int, runs: int) -> Iterator[Times]:
    # It is slow everywhere, and how slow depends on the texts: segments from all of the set.
    rows = np.linspace(0, len(references) - 1, max(segments // 3, 1)).round().astype(int)
    three = {name: [outputs[n] for n in rows] for name, outputs in list(systems.items())[:3]}
    part = ReferenceSet(tuple(references[int(n)] for n in rows))
    for number in NUMBERS:
        if number <= len(part[0].refs):
            alone = swept(get_metric("ter"), TER, TER(), three, part, (number - 1,), runs)
            yield f"TER, {number} references, {number * len(rows) * 3} pairs", *alone


if __name__ == "__main__":
    main()

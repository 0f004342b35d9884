"""Speed of BLEU, chrF++ and TER with many references, against sacreBLEU in the same run, on one thread.

    OMP_NUM_THREADS=1 python scripts/bench/metrics.py --data DIR [--segments 100] [--references 101] [--full]

DIR holds WMT22 in the mt-metrics-eval layout with the ten paraphrases of each zh-en reference
(``wmt22/paraphrases/zh-en.refA.jsonl``). Further references are made by disturbing these at random: the counting does
not care what they say. Times are processor seconds, so that a busy machine changes them little. sacreBLEU runs on the
first ``--segments`` segments only (a sweep over the whole set takes it most of an hour), as polyref does for the ratio.
``--full`` adds polyref's own time and memory on the whole set.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from polyref.augment.formats import read_references
from polyref.metrics import Metric, get_metric
from polyref.metrics.paired import paired_bootstrap
from polyref.references import ReferenceSet
from polyref.textfiles import read_lines

KS = (0, 1, 2, 5, 10, 25, 50, 100)
Systems = dict[str, list[str]]


def load(data: Path, references: int) -> tuple[Systems, ReferenceSet]:
    home = data / "wmt22"
    systems = {path.stem: read_lines(path) for path in sorted((home / "system-outputs" / "zh-en").glob("*.txt"))}
    known = read_references([home / "paraphrases" / "zh-en.refA.jsonl"]).texts()
    rng = random.Random(1)
    vocabulary = [word for texts in known for word in texts[0].split()]

    def disturbed(text: str) -> str:
        words = text.split()
        for place in rng.sample(range(len(words)), max(1, len(words) // 5)) if words else []:
            words[place] = rng.choice(vocabulary)
        return " ".join(words)

    # The 14th system.
    systems["disturbed"] = [disturbed(text) for text in systems["DLUT"]]
    extras = [texts[1:references] for texts in known]
    extras = [
        [*row, *(disturbed(rng.choice(texts)) for _ in range(references - 1 - len(row)))]
        for row, texts in zip(extras, known, strict=True)
    ]
    return systems, ReferenceSet.from_texts([texts[:1] for texts in known], paraphrases=extras)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def sweep(metric: Metric, systems: Systems, references: ReferenceSet, ks: tuple[int, ...]) -> list[Any]:
    stats = metric.statistics(systems, references, ks=ks)
    return [metric.aggregate(stats, k=k) for k in ks]


def sacrebleu_sweep(
    corpus: Any, sentence: Any, systems: Systems, references: ReferenceSet, ks: tuple[int, ...]
) -> list[np.ndarray]:
    """Corpus scores by the public call, sentence scores from the statistics it keeps: the cheapest way it has."""
    results = []
    for k in ks:
        ranks = [list(rank) for rank in zip(*references.take(k).texts(), strict=True)]
        scores = []
        for outputs in systems.values():
            scores.append(corpus.corpus_score(outputs, ranks).score)
            for row in sentence._extract_corpus_statistics(outputs, ranks):
                sentence._compute_score_from_stats(row)
        results.append(np.array(scores))
    return results


def sacrebleu_cached(peer: Callable[..., Any], systems: Systems, references: ReferenceSet) -> list[float]:
    ranks = [list(rank) for rank in zip(*references.texts(), strict=True)]
    metric = peer(references=ranks)
    return [metric.corpus_score(outputs, None).score for outputs in systems.values()]


def report(name: str, ours: float, theirs: float) -> None:
    print(f"{name:<58}{ours:9.2f} s{theirs:10.2f} s{theirs / ours:8.1f} x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--references", type=int, default=101)
    parser.add_argument("--full", action="store_true")
    args = parser.parse_args()
    systems, references = load(args.data, args.references)
    ks = tuple(k for k in KS if k < args.references)
    few = {name: outputs[: args.segments] for name, outputs in systems.items()}
    part = ReferenceSet(references.segments[: args.segments])
    print(f"{len(systems)} systems, {len(part)} segments, {args.references} references, k = {', '.join(map(str, ks))}")
    print(f"{'processor seconds':<58}{'polyref':>11}{'sacreBLEU':>12}{'ratio':>10}")
    sets = systems, references, few, part
    compare("BLEU", get_metric("bleu"), BLEU, BLEU(effective_order=True), sets, ks, args.full)
    plus = partial(CHRF, word_order=2)
    compare("chrF++", get_metric("chrf++"), plus, plus(), sets, ks, args.full)
    # TER is slow everywhere: three systems, eleven references.
    three = dict(list(few.items())[:3])
    ours, scores = timed(lambda: sweep(get_metric("ter"), three, part.take(10), (10,)))
    theirs, expected = timed(lambda: sacrebleu_cached(TER, three, part.take(10)))
    np.testing.assert_allclose(scores[0].system, expected, rtol=0, atol=1e-9)
    report("TER: k = 10 alone, 3 systems, cached references", ours, theirs)


def compare(
    label: str,
    metric: Metric,
    peer: Callable[..., Any],
    sentence: Any,
    sets: tuple[Systems, ReferenceSet, Systems, ReferenceSet],
    ks: tuple[int, ...],
    full: bool,
) -> None:
    systems, references, few, part = sets
    ours, scores = timed(lambda: sweep(metric, few, part, ks))
    theirs, expected = timed(lambda: sacrebleu_sweep(peer(), sentence, few, part, ks))
    for found, wanted in zip(scores, expected, strict=True):
        np.testing.assert_allclose(found.system, wanted, rtol=0, atol=1e-9)
    report(f"{label}: all k, corpus and sentences", ours, theirs)
    ours, _ = timed(lambda: sweep(metric, few, part, ks[-1:]))
    theirs, _ = timed(lambda: sacrebleu_cached(peer, few, part))
    report(f"{label}: k = {ks[-1]} alone, sacreBLEU with cached references", ours, theirs)

    human = references.take(0)
    reading, stats = timed(lambda: metric.statistics(systems, human))
    ours, _ = timed(lambda: paired_bootstrap(metric, stats, k=0))
    ranks = [list(rank) for rank in zip(*human.texts(), strict=True)]
    theirs, _ = timed(lambda: PairedTest(list(systems.items()), {"x": peer()}, ranks, "bs", 1000)())
    report(f"{label}: paired bootstrap, {len(human)} segments, text read", ours + reading, theirs)
    report(f"{label}: paired bootstrap, statistics stored", ours, theirs)
    if full:
        ours, _ = timed(lambda: sweep(metric, systems, references, ks))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{label}: all k, corpus and sentences, {len(references)} segments: {ours:.2f} s, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()

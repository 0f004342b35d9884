"""Time of the whole k sweep of one language pair, and of PERM-BOTH: what docs/benchmarks.md says about evaluation.

    python scripts/bench/speed/eval.py [--systems 12] [--segments 1900] [--most 100] [--resamples 1000]

The texts are random words, so that no data is needed; the sizes are those of a WMT test set. Statistics of the texts
are made first and timed apart: ``eval.experiments.cached_series`` keeps them on disk, and a sweep starts from them.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from polyref.eval.agreement import agreement
from polyref.eval.data.score_files import Gold
from polyref.eval.series import ComputedSeries
from polyref.eval.statistics.base import Bootstrap
from polyref.eval.statistics.significance import perm_both
from polyref.metrics.registry import get_metric
from polyref.references import ReferenceSet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=12)
    parser.add_argument("--segments", type=int, default=1900)
    parser.add_argument("--most", type=int, default=100, help="largest k")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--metric", default="bleu")
    options = parser.parse_args()
    generator = np.random.default_rng(1)
    vocabulary = np.array([f"w{i}" for i in range(2000)])

    def sentence(of: np.ndarray, kept: float) -> np.ndarray:
        return np.where(generator.random(len(of)) < kept, of, generator.integers(0, 2000, len(of)))

    truth = [generator.integers(0, 2000, generator.integers(5, 40)) for _ in range(options.segments)]

    def text(words: np.ndarray) -> str:
        return " ".join(vocabulary[words])

    paraphrases = [[text(sentence(words, 0.7)) for _ in range(options.most)] for words in truth]
    references = ReferenceSet.from_texts([[text(words)] for words in truth], paraphrases=paraphrases)
    names = [f"s{i}" for i in range(options.systems)]
    outputs = {name: [text(sentence(words, 0.3 + 0.03 * i)) for words in truth] for i, name in enumerate(names)}
    human = np.round(generator.normal(size=(options.systems, options.segments)), 2)
    human += 0.05 * np.arange(options.systems)[:, None]
    gold = Gold(
        "random", "random", dict(zip(names, human.mean(axis=1), strict=True)), dict(zip(names, human, strict=True))
    )
    times: dict[str, float] = {}

    start = time.perf_counter()
    series = ComputedSeries(get_metric(options.metric), outputs, references, range(options.most + 1))
    times["statistics"] = time.perf_counter() - start

    wall, cpu = time.perf_counter(), time.process_time()
    known = np.ones((options.systems, options.segments), dtype=bool)
    rows = agreement([series], gold, known=known, systems=names, bootstrap=Bootstrap(options.resamples))
    times["sweep"], times["sweep, processor"] = time.perf_counter() - wall, time.process_time() - cpu
    assert len(rows) == 2 * (options.most + 1)

    zero, most = (series.segment(names, k) for k in (0, options.most))
    assert zero is not None and most is not None
    start = time.perf_counter()
    perm_both(most, zero, human, resamples=options.resamples)
    times["PERM-BOTH"] = time.perf_counter() - start
    print(json.dumps({**vars(options), "seconds": {name: round(value, 2) for name, value in times.items()}}))


if __name__ == "__main__":
    main()

"""Which layer of an encoder BERTScore should read, which measure it should give, and whether to pool."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from material import AVERAGES, SETS, Fixed, Judges, Material, Samples
from parts.gains import numbers, offset

from polyref.eval.statistics.base import Bootstrap

KEY: Final = ("encoder", "set", "layer", "measure", "level", "statistic")
COLUMNS: Final = (
    *KEY,
    "value",
    "low",
    "high",
    "over_default",
    "over_low",
    "over_high",
    "segments",
    "resamples",
    "seed",
)
MEASURES: Final = ("precision", "recall", "f", "pooled")
#: BERTScore's layer with each encoder.
DEFAULTS: Final = {"shipped": 3, "minilm": 4}
SEGMENTS: Final = 150


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of bertscore-layers.csv; ``pooled`` is the cosine of the mean vectors of two texts."""
    for encoder in args.encoders:
        yield from of_encoder(encoder, names, args)


def of_encoder(which: str, names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Those of one encoder."""
    from polyref.metrics.embedding.bertscore import Side, match
    from polyref.models.embeddings import Embeddings
    from polyref.models.encoders import load_encoder

    encoder = load_encoder(which)
    layers = range(encoder.layers + 1)
    found: dict[tuple[int, str], dict[str, Samples]] = {}
    for name in names:
        material = Material.of(SETS[name], args.data, SEGMENTS)
        seed = args.seed + offset(name)
        judges = Judges(material, Bootstrap(args.resamples, seed=seed))
        embeddings = Embeddings(encoder, layers, memory=0)
        systems = list(material.outputs)
        scores = np.empty((len(layers), len(MEASURES), len(systems), len(material.references)))
        for n, segment in enumerate(material.references):
            texts = [segment.originals[0].text, *(material.outputs[system][n] for system in systems)]
            tokens, vectors = embeddings.tokens(texts), embeddings.encode(texts)
            for layer in layers:
                target, *sides = [Side.of(v[layer], t, None) for v, t in zip(vectors, tokens, strict=True)]
                scores[layer, :3, :, n] = match(sides, [target])[0, :, 0].T
                means = np.stack([np.asarray(v[layer]).mean(axis=0) for v in vectors])
                means /= np.linalg.norm(means, axis=1, keepdims=True)
                scores[layer, 3, :, n] = means[1:] @ means[0]
        print(f"{which} on {name}: {len(material.references)} segments", file=sys.stderr, flush=True)
        for layer in layers:
            for number, measure in enumerate(MEASURES):
                samples = judges.samples(Fixed(scores[layer, number], systems), 0)
                found.setdefault((layer, measure), {})[name] = samples
    for name, sets in {**{name: (name,) for name in names}, **AVERAGES}.items():
        if not set(sets) <= set(names):
            continue
        base = _mean(found[DEFAULTS[which], "f"], sets)
        for (layer, measure), by_set in found.items():
            for key, values in _mean(by_set, sets).items():
                yield {
                    "encoder": which,
                    "set": name,
                    "layer": layer,
                    "measure": measure,
                    "level": key[0],
                    "statistic": key[1],
                    **numbers(("value", "low", "high"), values),
                    **numbers(("over_default", "over_low", "over_high"), values - base[key]),
                    "segments": SEGMENTS * len(sets),
                    "resamples": args.resamples,
                    "seed": args.seed,
                }


def _mean(by_set: dict[str, Samples], sets: Sequence[str]) -> Samples:
    return {key: np.mean([by_set[name][key] for name in sets], axis=0) for key in by_set[sets[0]]}

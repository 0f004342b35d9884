"""``teach``: with a trained teacher, make the sources of a recipe that are of the kind ``taught``.

A teacher is a larger network of the same kind and vocabulary. It judges pairs by equivalence: the mean log-probability
of a token of each text given the other, less that given itself, summed. What it judges are pairs of other sources, or
its own samples that the rules keep. A source's folder gets its pairs, and ``taught.json`` says how they were made.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
import torch
from torch import Tensor
from tqdm import tqdm

from training.batches import MAX_PIECES, NEAR_COPY, Ragged, SourceBatches, save_pairs
from training.loop import averaged, check_device
from training.package import CLOSENESS, EOS, PAD, BatchedDecoder, PointerModel, PointerScorer, PointerTransformer
from training.recipe import Recipe, Teaching
from training.rules import right_samples

#: Pieces of a sentence that samples are drawn of.
SHORTEST, LONGEST = 6, 64
#: Samples are drawn so many at a time, each token from so many at most.
ROWS, MOST = 4096, 40
#: A sample has at most this share of its source's pieces, and so many more.
ROOM = (1.3, 4)

Tokens = tuple[int, ...]


class Found(NamedTuple):
    """A pair that may be taught, and how good it is (nats; set once it is judged)."""

    source: Tokens
    target: Tokens
    closeness: int
    cluster: Hashable
    value: float = 0.0


def teach(recipe: Recipe, options: argparse.Namespace) -> None:
    """Make the taught sources in the folder ``options.run`` that ``prepare`` filled."""
    check_device(options.device)
    run: Path = options.run
    teacher: Path = options.teacher
    taught = {name: source.teaching for name, source in recipe.sources.items() if source.teaching}
    if not taught:
        sys.exit(f'no source in {options.recipe} is of the kind "taught"')
    lexicon = ["lexicon.json"] if any(one.samples for one in taught.values()) else []
    for needed in ("spm.model", *lexicon, *(f"sources/{of}" for one in taught.values() for of in one.of)):
        if not (run / needed).exists():
            sys.exit(f"no {run}/{needed}: `prepare` makes it")
    for needed, command in (("spm.model", "prepare"), ("checkpoint.pt", "train")):
        if not (teacher / needed).exists():
            sys.exit(f"no {teacher}/{needed}: `{command}` makes it")
    if (run / "spm.model").read_bytes() != (teacher / "spm.model").read_bytes():
        sys.exit(f"{teacher}/spm.model is not {run}/spm.model: train the teacher in a copy of the prepared folder")
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    saved = torch.load(teacher / "checkpoint.pt", map_location="cpu", weights_only=True)
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    network = averaged(saved, spm.get_piece_size()).place(options.device).requires_grad_(False)
    if options.device == "cuda":
        network.decodes = BatchedDecoder
    # The scorer packs the weights of its network, and knows its own closeness, 1.
    model = PointerModel(deepcopy(network), spm, "teacher", "en", 0.0, min_score=None, search=None, digest="teacher")
    value = partial(equivalence, PointerScorer(model, options.device))
    facts = {
        "sha256": hashlib.sha256((teacher / "checkpoint.pt").read_bytes()).hexdigest(),
        "network": saved["settings"]["recipe"]["network"],
        "tokens": saved["progress"]["tokens"],
    }
    for name, teaching in taught.items():
        rng = np.random.default_rng([recipe.seed, *name.encode()])
        if teaching.samples:
            drawn = _samples(_sentences(run, teaching, rng), network, teaching, recipe.seed)
            found = _best_samples(_judged(_right(run, drawn, spm, teaching, options.processes), value))
        else:
            found = _judged(list(_pairs(run, teaching, rng)), value)
        _write(run / "sources" / name, found, teaching, facts)


def equivalence(scorer: PointerScorer, pairs: Sequence[tuple[Tokens, Tokens]]) -> list[float]:
    """Of pairs of texts, as token ids without end marks: 0 if each follows from the other as well as from itself."""
    jobs = [((*a, EOS), (*b, EOS)) for x, y in pairs for a, b in ((x, y), (y, y), (y, x), (x, x))]
    means = np.array([row.mean(dtype=np.float64) for row in scorer.score(jobs)])
    values: list[float] = (means.reshape(-1, 4) @ (1, -1, 1, -1)).tolist()
    return values


# -- pairs that are there ----------------------------------------------------------------------------------------


def _pairs(run: Path, teaching: Teaching, rng: np.random.Generator) -> Iterator[Found]:
    """Different pairs of the sources, in a random choice."""
    seen: set[tuple[Tokens, Tokens]] = set()
    for name, most in teaching.of.items():
        pairs = SourceBatches(run / "sources" / name, 1, 1, 1)
        assert pairs.source is not None
        usable = np.flatnonzero((pairs.lengths > 0) & (pairs.lengths <= MAX_PIECES))
        for row in np.sort(rng.permutation(usable)[:most]).tolist():
            pair = tuple(pairs.source[row]), tuple(pairs.target[row])
            if pair not in seen:
                seen.add(pair)
                yield Found(*pair, int(pairs.closeness[row]), (name, int(pairs.cluster[row])))


def _judged(found: Sequence[Found], value: Callable[..., list[float]]) -> list[Found]:
    values = value([(pair.source, pair.target) for pair in found])
    return [pair._replace(value=pair.value + more) for pair, more in zip(found, values, strict=True)]


# -- samples -----------------------------------------------------------------------------------------------------


def _sentences(run: Path, teaching: Teaching, rng: np.random.Generator) -> list[Tokens]:
    """A random choice of the different sentences of the sources, the shortest first."""
    chosen: dict[Tokens, None] = {}
    for name, most in teaching.of.items():
        folder = run / "sources" / name
        rows = Ragged(folder / ("source.npz" if (folder / "source.npz").exists() else "target.npz"))
        usable = np.flatnonzero((rows.lengths >= SHORTEST) & (rows.lengths <= LONGEST))
        different = sorted({rows.flat[rows.offsets[row] : rows.offsets[row + 1]].tobytes() for row in usable})
        for number in rng.permutation(len(different))[:most].tolist():
            chosen[tuple(np.frombuffer(different[number], rows.flat.dtype).tolist())] = None
    return sorted(chosen, key=len)


def _samples(
    sentences: Sequence[Tokens], network: PointerTransformer, teaching: Teaching, seed: int
) -> Iterator[tuple[Tokens, list[Tokens]]]:
    """Every sentence with its different samples."""
    generator = torch.Generator(network.device).manual_seed(seed)
    count = len(teaching.samples)
    size = max(1, ROWS // count)
    for at in tqdm(range(0, len(sentences), size), desc="samples", mininterval=2):
        part = sentences[at : at + size]
        sources, levels = [one for one in part for _ in range(count)], list(teaching.samples) * len(part)
        drawn = sample(network, sources, levels, teaching.temperature, teaching.top_p, generator)
        for number, one in enumerate(part):
            different = dict.fromkeys(drawn[number * count : (number + 1) * count])
            yield one, [found for found in different if found and found != one]


@torch.inference_mode()
def sample(
    network: PointerTransformer,
    sources: Sequence[Tokens],
    levels: Sequence[int],
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[Tokens | None]:
    """One sample of each source (token ids without end marks) at its closeness; None where it did not end."""
    state = network.encode([(*source, EOS) for source in sources])
    tokens = torch.tensor(levels, device=network.device) + CLOSENESS
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    steps: list[Tensor] = []
    while len(steps) < int(ROOM[0] * max(map(len, sources))) + ROOM[1] and not bool(ended.all()):
        scores = network.step_rows(state, tokens)
        scores[:, network.unk] = -torch.inf
        scores, ids = scores.topk(min(MOST, scores.shape[1]))
        shares = scores.softmax(1)
        scores = (scores / temperature).masked_fill_(shares.cumsum(1) - shares >= top_p, -torch.inf)
        drawn = torch.multinomial(scores.softmax(1), 1, generator=generator)
        tokens = ids.gather(1, drawn)[:, 0].masked_fill(ended, PAD)
        steps.append(tokens)
        ended = ended | (tokens == EOS)
    rows = torch.stack(steps, 1).tolist()
    return [tuple(row[: row.index(EOS)]) if EOS in row else None for row in rows]


def _right(
    run: Path,
    drawn: Iterator[tuple[Tokens, list[Tokens]]],
    spm: sentencepiece.SentencePieceProcessor,
    teaching: Teaching,
    processes: int,
) -> list[Found]:
    """The samples that the rules keep; what their scores count is their value so far."""
    every = [[source, *samples] for source, samples in drawn]
    texts = [spm.decode([list(one) for one in family]) for family in every]
    judge = partial(right_samples, run / "lexicon.json", teaching.least)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        kept = list(pool.map(judge, texts, chunksize=200) if processes > 1 else map(judge, texts))
    return [
        Found(family[0], family[number], level, family[0], teaching.score * score)
        for family, right in zip(every, kept, strict=True)
        for number, level, score in right
        if level < NEAR_COPY
    ]


def _best_samples(judged: Sequence[Found]) -> list[Found]:
    """The best sample of each sentence and closeness."""
    best: dict[tuple[Tokens, int], Found] = {}
    for pair in sorted(judged, key=lambda pair: -pair.value):
        best.setdefault((pair.source, pair.closeness), pair)
    return list(best.values())


# -- writing -----------------------------------------------------------------------------------------------------


def _write(folder: Path, found: Sequence[Found], teaching: Teaching, teacher: dict[str, Any]) -> None:
    """Write the best share of the pairs of each closeness."""
    chosen: list[Found] = []
    for level in range(NEAR_COPY + 1):
        alike = sorted((pair for pair in found if pair.closeness == level), key=lambda pair: -pair.value)
        chosen += alike[: int(teaching.share * len(alike))]
    if not chosen:
        sys.exit(f"nothing is left for {folder}: the teacher may have been trained too little")
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "taught.json"
    done.unlink(missing_ok=True)
    columns = zip(*((pair.source, pair.target, pair.closeness, pair.cluster) for pair in chosen), strict=True)
    facts = {
        "judged": len(found),
        "pairs": len(chosen),
        "closeness": save_pairs(folder, *columns),
        "teaching": asdict(teaching),
        "teacher": teacher,
    }
    done.write_text(json.dumps(facts, indent=1), "utf-8")
    print(json.dumps({folder.name: facts}), flush=True)

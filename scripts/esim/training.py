"""Training ESIM, by regression on judgements or by relative rankings; a run that is killed goes on where it was.

The settings of Mathur et al. 2019 are the defaults: Adam, batches of texts of like length, gradients clipped, the
learning rate halved after every epoch that does not improve validation, the best epoch kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from esim.judgements import Judged, Ranked, TrainingSet
from esim.network import DroppingNetwork, Masks
from esim.state import TrainingOptions, TrainingState
from polyref.errors import DataError, UsageError
from polyref.metrics.esim.network import EsimNetwork, Reader, compare_texts, padded, read_texts

#: Weight of the squared scores beside the ranking loss, which by itself leaves their level and scale open.
PIN: Final = 1e-3
#: Lengths are multiplied by 1 +- this before sorting, so that batches differ from epoch to epoch.
_NOISE: Final = 0.1
#: Texts that are encoded between two movements of the progress bar.
_CHUNK: Final = 256


@dataclass(frozen=True)
class Trained:
    """What came out.

    Attributes:
        network: The best epoch's, with weights rounded to float16 as they are stored.
        figure: Its validation figure: Pearson's r (judgements) or Kendall's tau (rankings).
        history: One entry an epoch: ``epoch``, ``loss``, ``valid``, ``rate``.
    """

    network: EsimNetwork
    figure: float
    history: tuple[dict[str, float], ...]


def hold_out(data: TrainingSet, share: float, seed: int) -> tuple[TrainingSet, TrainingSet]:
    """Set whole references aside: the rest, and about ``share`` of the references, at least one.

    Raises:
        DataError: There are fewer than two references.
    """
    references = data.references()
    if len(references) < 2:
        raise DataError(f"{len(references)} reference, expected at least 2", remedy="give validation data of its own")
    count = min(len(references) - 1, max(1, round(share * len(references))))
    chosen = {references[i] for i in np.random.default_rng(seed).permutation(len(references))[:count]}
    return data.of(ref for ref in references if ref not in chosen), data.of(chosen)


def encode(reader: Reader, texts: Sequence[str], *, progress: bool) -> dict[str, Tensor]:
    """The layers' vectors of distinct texts, in float16: they are read in every epoch."""
    found: dict[str, Tensor] = {}
    # Like lengths together, so that each chunk makes full batches.
    order = sorted(texts, key=len)
    with tqdm(total=len(order), desc="encode", unit="text", disable=None if progress else True) as bar:
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            found |= {text: states.half() for text, states in zip(chunk, reader(chunk), strict=True)}
            bar.update(len(chunk))
    return found


def agreement(data: TrainingSet, scores: Mapping[tuple[str, str], float]) -> float:
    """How well scores of (reference, output) pairs agree with people.

    Returns:
        Judgements: Pearson's r, 0 without any spread. Rankings: Kendall's tau, (concordant - discordant) / all, ties
        discordant, as in the WMT metrics task of 2017 to 2020.
    """
    if data.ranked:
        right = sum(scores[row.ref, row.better] > scores[row.ref, row.worse] for row in data.ranked)
        return 2 * right / len(data.ranked) - 1
    x = np.array([scores[row.ref, row.sys] for row in data.judged])
    y = np.array([row.score for row in data.judged])
    if len(x) < 2 or x.std() < 1e-9 or y.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def score_all(network: EsimNetwork, data: TrainingSet, states: Mapping[str, Tensor]) -> dict[tuple[str, str], float]:
    """Scores of the (reference, output) pairs in ``data``."""
    texts = data.texts()
    read = dict(zip(texts, read_texts(network, [states[text] for text in texts]), strict=True))
    pairs = list(dict.fromkeys(pair for row in data.rows for pair in _pairs(row)))
    return dict(zip(pairs, compare_texts(network, read, pairs).tolist(), strict=True))


def train(
    data: TrainingSet,
    valid: TrainingSet,
    states: Mapping[str, Tensor],
    options: TrainingOptions,
    *,
    partial: Path,
    inputs: Mapping[str, Any],
    save_every: int = 100,
    progress: bool = False,
) -> Trained:
    """Train, or go on with what ``partial`` holds.

    The same data, options and versions give the same network on one thread, however often the run was interrupted.

    Args:
        data: What to learn.
        valid: By what to choose the epoch: rows of the same kind.
        states: Text -> vectors of its layers, shape (L, T, d), of all texts in both.
        options: How to train.
        partial: File with the state of the run; the caller removes it when the result is safe.
        inputs: What else the result depends on (hashes of data and encoder), as JSON values.
        save_every: Steps between two savings.
        progress: Whether to show a bar on stderr.

    Raises:
        DataError: ``partial`` is another run's, or no such file.
        UsageError: ``valid`` is of another kind than ``data``.
    """
    if data.kind != valid.kind:
        raise UsageError(f"training data are {data.kind}, but validation data are {valid.kind}")
    run = TrainingState.start(states, options, partial, {"options": asdict(options), **inputs})
    lengths = {text: state.shape[1] for text, state in states.items()}
    while not run.finished:
        order = list(_batches(data, lengths, options.batch, np.random.default_rng([options.seed, run.epoch])))
        # None: no bar where stderr is no terminal.
        off = None if progress else True
        bar = tqdm(total=len(order), initial=run.step, desc=f"epoch {run.epoch + 1}", disable=off)
        with bar:
            for step in range(run.step, len(order)):
                masks = Masks(options.dropout, (options.seed * 1_000 + run.epoch) * 1_000_000 + step)
                run.learn(_loss(run.network, order[step], states, masks))
                bar.update()
                if run.step % save_every == 0:
                    run.save()
            found = agreement(valid, score_all(run.network, valid, states))
            run.end_epoch(found)
            bar.set_postfix(run.history[-1])
        run.save()
    network = EsimNetwork(run.network.config)
    network.load_state_dict({name: weight.half().float() for name, weight in run.best.items()})
    network.eval().requires_grad_(False)
    return Trained(network, agreement(valid, score_all(network, valid, states)), tuple(run.history))


def _pairs(row: Judged | Ranked) -> tuple[tuple[str, str], ...]:
    if isinstance(row, Judged):
        return ((row.ref, row.sys),)
    return (row.ref, row.better), (row.ref, row.worse)


Batch = list[Judged | Ranked]


def _batches(data: TrainingSet, lengths: Mapping[str, int], size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Rows in batches of about ``size`` pairs of like length, in random order."""
    units: list[Batch] = [[row] for row in data.judged]
    by_reference: dict[str, Batch] = {}
    for row in data.ranked:
        by_reference.setdefault(row.ref, []).append(row)
    units += by_reference.values()
    keys = []
    for unit in units:
        noise = 1 + _NOISE * rng.uniform(-1, 1, 2)
        longest = max(lengths[output] for row in unit for _, output in _pairs(row))
        keys.append((lengths[unit[0].ref] * noise[0], longest * noise[1]))
    batches: list[Batch] = []
    filled = size
    for place in sorted(range(len(units)), key=keys.__getitem__):
        count = len({pair for row in units[place] for pair in _pairs(row)})
        if filled + count > size:
            batches.append([])
            filled = 0
        batches[-1] += units[place]
        filled += count
    for place in rng.permutation(len(batches)):
        yield batches[place]


def _loss(network: DroppingNetwork, batch: Batch, states: Mapping[str, Tensor], masks: Masks) -> Tensor:
    pairs = {pair: place for place, pair in enumerate(dict.fromkeys(pair for row in batch for pair in _pairs(row)))}
    texts = {text: place for place, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
    together, lengths = padded([states[text] for text in texts])
    network.masks = masks
    read = network.read(together, lengths)
    a = torch.tensor([texts[ref] for ref, _ in pairs])
    b = torch.tensor([texts[output] for _, output in pairs])
    m, n = lengths[a], lengths[b]
    scores = network.compare(read[a][:, : int(m.max())], read[b][:, : int(n.max())], m, n)
    network.masks = None
    if isinstance(batch[0], Judged):
        target = torch.tensor([row.score for row in batch if isinstance(row, Judged)], dtype=torch.float32)
        return functional.mse_loss(
            scores[_places(pairs, [(row.ref, row.sys) for row in batch if isinstance(row, Judged)])], target
        )
    ranked = [row for row in batch if isinstance(row, Ranked)]
    better = scores[_places(pairs, [(row.ref, row.better) for row in ranked])]
    worse = scores[_places(pairs, [(row.ref, row.worse) for row in ranked])]
    weights = torch.tensor([row.weight for row in ranked], dtype=torch.float32)
    # Not over the sum of the weights: a batch of light rankings is to move the network little.
    loss = (weights * functional.softplus(worse - better)).mean()
    return loss + PIN * scores.square().mean()


def _places(known: Mapping[tuple[str, str], int], pairs: Sequence[tuple[str, str]]) -> Tensor:
    return torch.tensor([known[pair] for pair in pairs])

"""Train the shipped paraphraser and write it, with its model card, into the package.

    python scripts/train_paraphraser.py prepare --data DIR --run runs/en
    python scripts/train_paraphraser.py train   --run runs/en --steps 9000
    python scripts/train_paraphraser.py export  --run runs/en --data DIR --out polyref/paraphrase/shipped/en

``prepare`` cleans the clusters, makes the pairs and the vocabulary; ``train`` copy-pretrains on single sentences
(denoising) and then trains on pairs, writing a checkpoint every ``--save`` steps; started again, it goes on from the
last one. Batches, noise and dropout are functions of (seed, step) alone, so that an interrupted run ends with the
same weights as an uninterrupted one (same versions and thread count). Keep ``--run`` outside version control.

Speed on a CPU: activations and weights are bfloat16 with float32 master weights (matrix products run on AMX or
AVX-512 units), attention is written out, dropout takes slices of one random mask, and the loss over the vocabulary
never stores its softmax.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from paraphrase_pairs import clean_texts, pairs_of, read_clusters, split, training_pairs
from torch import Tensor
from tqdm import tqdm

from polyref.paraphrase.pointer import BOS, CLOSENESS, EOS, MASK, PAD, UNK, PointerConfig, PointerTransformer
from polyref.paraphrase.pointer_files import load_pointer

VOCABULARY = 12_000
MAX_PIECES = 128


# -- data --------------------------------------------------------------------------------------------------------


def prepare(data: Path, run: Path, seed: int, most: int, most_suite: int) -> None:
    run.mkdir(parents=True, exist_ok=True)
    source = data / "wmt.en.jsonl.gz"
    train, valid = split(read_clusters(source))
    texts = [text.text for cluster in train for text in clean_texts(cluster)]
    if not (run / "spm.model").exists():
        sample = random.Random(seed).sample(texts, min(250_000, len(texts)))
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_prefix=str(run / "spm"),
            vocab_size=VOCABULARY,
            model_type="unigram",
            byte_fallback=True,
            split_digits=True,
            character_coverage=0.9998,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=["<p0>", "<p1>", "<p2>", "<p3>", "<mask>"],
            num_threads=2,
            minloglevel=2,
        )
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    assert spm.id_to_piece(CLOSENESS) == "<p0>" and spm.id_to_piece(MASK) == "<mask>"
    made = training_pairs(train, most=most, most_suite=most_suite, seed=seed)
    pairs = [cluster for cluster in tqdm(made, total=len(train), desc="pairs") if cluster]
    held = [pair for cluster in valid for pair in pairs_of(cluster, 4, random.Random(f"{seed}/{cluster.id}"))]
    facts = {
        "data": {"file": source.name, "sha256": hashlib.sha256(source.read_bytes()).hexdigest()},
        "clusters": len(train),
        "held_out_clusters": len(valid),
        "texts": len(texts),
        "pairs": sum(map(len, pairs)),
        "most": most,
        "most_suite": most_suite,
        "held_out_pairs": len(held),
        "held_out_words": sum(len(pair.target.split()) for pair in held),
        "seed": seed,
    }
    flat = [pair for cluster in pairs for pair in cluster]
    _save_ragged(run / "source.npz", spm.encode([pair.source for pair in flat]))
    _save_ragged(run / "target.npz", spm.encode([pair.target for pair in flat]))
    np.save(run / "closeness.npy", np.array([pair.closeness for pair in flat], np.uint8))
    np.save(run / "cluster.npy", np.repeat(np.arange(len(pairs)), [len(cluster) for cluster in pairs]))
    _save_ragged(run / "single.npz", spm.encode(sorted(set(texts))))
    (run / "valid.json").write_text(
        json.dumps([[pair.source, pair.target, pair.closeness] for pair in held], ensure_ascii=False), "utf-8"
    )
    (run / "facts.json").write_text(json.dumps(facts, indent=1), "utf-8")
    print(json.dumps(facts, indent=1))


def _save_ragged(path: Path, rows: list[list[int]]) -> None:
    lengths = np.array([len(row) for row in rows])
    flat = np.fromiter((token for row in rows for token in row), np.uint16, int(lengths.sum()))
    np.savez(path, flat=flat, offsets=np.concatenate([[0], lengths.cumsum()]))


class Ragged:
    """Rows of token ids in one flat array."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as packed:
            self.flat, self.offsets = packed["flat"], packed["offsets"]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> list[int]:
        return self.flat[self.offsets[row] : self.offsets[row + 1]].tolist()

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def bucket(lengths: np.ndarray, order: np.ndarray, tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Cut ``order`` into batches of similar length and about ``tokens`` padded tokens, in random order."""
    batches: list[np.ndarray] = []
    for start in range(0, len(order), 40_000):
        chunk = order[start : start + 40_000]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        current, longest = 0, 0
        for index, row in enumerate(chunk):
            longest = max(longest, int(lengths[row]))
            if longest * (index + 1 - current) > tokens and index > current:
                batches.append(chunk[current:index])
                current, longest = index, int(lengths[row])
        batches.append(chunk[current:])
    return [batches[i] for i in rng.permutation(len(batches))]


def noisy(row: list[int], rng: random.Random) -> list[int]:
    """A corrupted copy: pieces dropped, hidden in spans, and shuffled within a window of three."""
    out: list[int] = []
    hide = 0
    for token in row:
        if hide:
            hide -= 1
        elif (draw := rng.random()) < 0.08:
            continue
        elif draw < 0.12:
            hide = rng.randrange(3)
            out.append(MASK)
        else:
            out.append(token)
    keys = sorted(range(len(out)), key=lambda i: i + rng.random() * 2.5)
    return [out[i] for i in keys] if rng.random() < 0.6 else out


Rows = tuple[list[list[int]], list[list[int]], list[int]]


class Batches:
    """Batch number ``step`` of training, as a function of (seed, step): nothing else is state."""

    def __init__(self, run: Path, tokens: int, denoise: int, seed: int, per_cluster: int) -> None:
        self.source, self.target = Ragged(run / "source.npz"), Ragged(run / "target.npz")
        self.single = Ragged(run / "single.npz")
        self.closeness, self.cluster = np.load(run / "closeness.npy"), np.load(run / "cluster.npy")
        self.tokens, self.denoise, self.seed, self.per_cluster = tokens, denoise, seed, per_cluster
        self._epochs: dict[tuple[str, int], list[np.ndarray]] = {}

    def _epoch(self, kind: str, number: int) -> list[np.ndarray]:
        key = (kind, number)
        if key not in self._epochs:
            rng = np.random.default_rng([self.seed, len(kind), number])
            if kind == "single":
                lengths = self.single.lengths
                order = rng.permutation(np.flatnonzero(lengths <= MAX_PIECES))
            else:
                lengths = np.maximum(self.source.lengths, self.target.lengths)
                order = rng.permutation(np.flatnonzero(lengths <= MAX_PIECES))
                # The first `per_cluster` pairs of each cluster in this epoch's random order.
                by_cluster = order[np.argsort(self.cluster[order], kind="stable")]
                _, first, counts = np.unique(self.cluster[by_cluster], return_index=True, return_counts=True)
                rank = np.arange(len(by_cluster)) - np.repeat(first, counts)
                order = rng.permutation(by_cluster[rank < self.per_cluster])
            self._epochs = {key: bucket(lengths, order, self.tokens, rng)}
        return self._epochs[key]

    def _locate(self, kind: str, step: int) -> np.ndarray:
        number = 0
        while step >= len(batches := self._epoch(kind, number)):
            step -= len(batches)
            number += 1
        return batches[step]

    def __call__(self, step: int) -> Rows:
        if step < self.denoise:
            rng = random.Random(f"{self.seed}/noise/{step}")
            rows = [self.single[row] for row in self._locate("single", step)]
            return [noisy(row, rng) for row in rows], rows, [3] * len(rows)
        rows = self._locate("pairs", step - self.denoise)
        return [self.source[r] for r in rows], [self.target[r] for r in rows], self.closeness[rows].tolist()


def tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Padded source, decoder input (control token first) and decoder output."""
    sources, targets, levels = rows
    return (
        _pad([[*row, EOS] for row in sources]),
        _pad([[CLOSENESS + level, *row] for row, level in zip(targets, levels, strict=True)]),
        _pad([[*row, EOS] for row in targets]),
    )


def _pad(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


# -- loss and optimiser ------------------------------------------------------------------------------------------


class VocabularyLogProb(torch.autograd.Function):
    """Log-softmax at the targets over a large vocabulary; logits are made in slices and made again for the gradient."""

    SLICE = 512

    @staticmethod
    def forward(ctx: Any, states: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        picked = torch.empty(len(states))
        totals = torch.empty(len(states))
        for at in range(0, len(states), VocabularyLogProb.SLICE):
            part = slice(at, at + VocabularyLogProb.SLICE)
            logits = (states[part] @ embedding.T).float()
            chosen = logits.gather(1, targets[part, None])[:, 0]
            top = logits.amax(1)
            totals[part] = logits.sub_(top[:, None]).exp_().sum(1).log_().add_(top)
            picked[part] = chosen - totals[part]
        ctx.save_for_backward(states, embedding, targets, totals)
        return picked

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        states, embedding, targets, totals = ctx.saved_tensors
        (grad,) = grads
        d_states = torch.empty_like(states)
        d_embedding = torch.zeros(embedding.shape)
        for at in range(0, len(states), VocabularyLogProb.SLICE):
            part = slice(at, at + VocabularyLogProb.SLICE)
            logits = (states[part] @ embedding.T).float()
            delta = logits.sub_(totals[part, None]).exp_().mul_(-grad[part, None])
            delta.scatter_add_(1, targets[part, None], grad[part, None])
            low = delta.to(states.dtype)
            d_states[part] = low @ embedding
            d_embedding += low.T @ states[part]
        return d_states, d_embedding.to(embedding.dtype), None


class MaskPool:
    """Dropout from slices of one random mask: drawing fresh bits costs more than the layer they hide."""

    def __init__(self, rate: float, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        keep = torch.rand(1 << 24, generator=generator) >= rate
        self.pool = keep.to(torch.bfloat16) / (1 - rate)
        self.rng = random.Random(seed)

    def at(self, step: int) -> None:
        self.rng.seed(step)

    def __call__(self, x: Tensor) -> Tensor:
        start = self.rng.randrange(len(self.pool) - x.numel())
        return x * self.pool[start : start + x.numel()].view(x.shape)


class Adam:
    """Adam on float32 master copies of bfloat16 weights, with a running average of the weights (EMA)."""

    def __init__(self, model: PointerTransformer, average: float) -> None:
        self.params = list(model.parameters())
        self.master = [p.detach().float().clone() for p in self.params]
        self.first = [torch.zeros_like(p) for p in self.master]
        self.second = [torch.zeros_like(p) for p in self.master]
        self.mean = [p.clone() for p in self.master]
        self.average = average

    def step(self, number: int, rate: float, clip: float = 1.0) -> float:
        grads = [p.grad.float() for p in self.params if p.grad is not None]
        assert len(grads) == len(self.params)
        norm = math.sqrt(sum(float(n) ** 2 for n in torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, min(1.0, clip / (norm + 1e-6)))
        b1, b2 = 0.9, 0.98
        torch._foreach_lerp_(self.first, grads, 1 - b1)
        torch._foreach_mul_(self.second, b2)
        torch._foreach_addcmul_(self.second, grads, grads, 1 - b2)
        scale = math.sqrt(1 - b2**number) / (1 - b1**number)
        denominator = torch._foreach_sqrt(self.second)
        torch._foreach_add_(denominator, 1e-8)
        torch._foreach_addcdiv_(self.master, self.first, denominator, -rate * scale)
        torch._foreach_lerp_(self.mean, self.master, 1 - min(self.average, number / (number + 10)))
        with torch.no_grad():
            for p, m in zip(self.params, self.master, strict=True):
                p.copy_(m)
                p.grad = None
        return norm

    def state(self) -> dict[str, list[Tensor]]:
        return {"master": self.master, "first": self.first, "second": self.second, "mean": self.mean}

    def load(self, state: dict[str, list[Tensor]]) -> None:
        for name, values in state.items():
            for mine, theirs in zip(getattr(self, name), values, strict=True):
                mine.copy_(theirs)
        with torch.no_grad():
            for p, m in zip(self.params, self.master, strict=True):
                p.copy_(m)


# -- training ----------------------------------------------------------------------------------------------------


def validation_rows(run: Path, spm: sentencepiece.SentencePieceProcessor) -> Iterator[Rows]:
    held = json.loads((run / "valid.json").read_text("utf-8"))
    for at in range(0, len(held), 64):
        part = held[at : at + 64]
        sources, targets = spm.encode([p[0] for p in part]), spm.encode([p[1] for p in part])
        yield [row[:MAX_PIECES] for row in sources], [row[:MAX_PIECES] for row in targets], [p[2] for p in part]


@torch.inference_mode()
def validate(model: PointerTransformer, batches: list[Rows]) -> tuple[float, float]:
    """Negative log-likelihood of the held-out targets: total nats, and nats a token."""
    total, count = 0.0, 0
    for rows in batches:
        logprob = model(*tensors(rows), VocabularyLogProb.apply)
        total -= float(logprob.double().sum())
        count += len(logprob)
    return total, total / count


def _warm_start(model: PointerTransformer, run: Path, folder: Path) -> None:
    """Take the weights of an exported model, whose vocabulary must be the run's."""
    if (folder / "spm.model").read_bytes() != (run / "spm.model").read_bytes():
        sys.exit(f"{folder}/spm.model is not {run}/spm.model: copy it there before `prepare`")
    model.load_state_dict(load_pointer(folder).network.state_dict())


def close_pointer(model: PointerTransformer) -> None:
    """Give the vocabulary the whole of the distribution: the copy shares, and all gradients through them, become 0."""
    torch.nn.init.constant_(model.sentinel.bias, 1e4)


def train(run: Path, options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    facts = json.loads((run / "facts.json").read_text("utf-8"))
    spm = sentencepiece.SentencePieceProcessor(model_file=str(run / "spm.model"))
    config = PointerConfig(
        spm.get_piece_size(),
        options.width,
        options.width // 64,
        4 * options.width,
        options.encoder_layers,
        options.decoder_layers,
    )
    model = PointerTransformer(config)
    if options.init is None:
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and "embedding" not in name:
                torch.nn.init.xavier_uniform_(weight)
    else:
        _warm_start(model, run, options.init)
    if options.no_pointer:
        close_pointer(model)
    optimiser = Adam(model, options.average)
    model.bfloat16()
    optimiser.params = list(model.parameters())
    drop = MaskPool(options.dropout, options.seed) if options.dropout else None
    batches = Batches(run, options.tokens, options.denoise, options.seed, options.per_cluster)
    held = list(validation_rows(run, spm))
    settings = {k: v for k, v in vars(options).items() if type(v) in (int, float) and k not in ("threads", "save")}
    if options.no_pointer:
        settings["pointer"] = False
    if options.init is not None:
        settings["init"] = load_pointer(options.init).digest
    first, elapsed, seen = 0, 0.0, 0
    if (run / "checkpoint.pt").exists():
        saved = torch.load(run / "checkpoint.pt", weights_only=True)
        if saved["settings"] != settings:
            sys.exit(f"{run}/checkpoint.pt was made with {saved['settings']}, not {settings}: use another --run")
        optimiser.load(saved["optimiser"])
        first, elapsed, seen = saved["step"], saved["seconds"], saved["tokens"]

    def save(step: int) -> None:
        state = {"step": step, "settings": settings, "optimiser": optimiser.state(), "seconds": elapsed, "tokens": seen}
        torch.save(state, run / "checkpoint.tmp")
        (run / "checkpoint.tmp").replace(run / "checkpoint.pt")

    bar = tqdm(range(first, options.steps), initial=first, total=options.steps, mininterval=5)
    loss_sum, loss_count = 0.0, 0
    for step in bar:
        began = time.monotonic()
        source, target_in, target_out = tensors(batches(step))
        if drop is not None:
            drop.at(options.seed * 1_000_003 + step)
        logprob = model(source, target_in, target_out, VocabularyLogProb.apply, drop)
        loss = -logprob.mean()
        loss.backward()
        warm = min(1.0, (step + 1) / options.warmup)
        rate = options.rate * warm * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * step / options.steps)))
        optimiser.step(step + 1, rate)
        elapsed += time.monotonic() - began
        seen += len(logprob)
        loss_sum, loss_count = loss_sum + float(loss), loss_count + 1
        done = step + 1
        if done % options.log == 0 or done == options.steps:
            total, each = _validate_average(model, optimiser, held)
            row = {
                "step": done,
                "tokens": seen,
                "seconds": round(elapsed, 1),
                "train": round(loss_sum / loss_count, 5),
                "valid": round(each, 5),
                "valid_per_word": round(total / facts["held_out_words"], 5),
            }
            with (run / "log.jsonl").open("a") as log:
                log.write(json.dumps(row) + "\n")
            bar.set_postfix(row, refresh=False)
            loss_sum, loss_count = 0.0, 0
        if done % options.save == 0 or done == options.steps:
            save(done)


def _validate_average(model: PointerTransformer, optimiser: Adam, held: list[Rows]) -> tuple[float, float]:
    with torch.no_grad():
        for p, m in zip(optimiser.params, optimiser.mean, strict=True):
            p.copy_(m)
    result = validate(model, held)
    with torch.no_grad():
        for p, m in zip(optimiser.params, optimiser.master, strict=True):
            p.copy_(m)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("--data", type=Path, required=True, help="folder with wmt.en.jsonl.gz")
    one.add_argument("--most", type=int, default=24, help="pairs of a cluster with a human reference")
    one.add_argument("--most-suite", type=int, default=6, help="pairs of a cluster of a test suite")
    two = commands.add_parser("train")
    two.add_argument("--init", type=Path, help="model folder to start from, with the run's vocabulary")
    two.add_argument("--steps", type=int, default=9000)
    two.add_argument("--denoise", type=int, default=800, help="steps of copy pretraining")
    two.add_argument("--tokens", type=int, default=6000, help="padded target tokens a batch")
    two.add_argument("--per-cluster", type=int, default=8, help="pairs of a cluster an epoch")
    two.add_argument("--width", type=int, default=384)
    two.add_argument("--encoder-layers", type=int, default=5)
    two.add_argument("--decoder-layers", type=int, default=2)
    two.add_argument("--no-pointer", action="store_true", help="the vocabulary's distribution alone, for comparison")
    two.add_argument("--rate", type=float, default=1e-3)
    two.add_argument("--warmup", type=int, default=400)
    two.add_argument("--dropout", type=float, default=0.1)
    two.add_argument("--average", type=float, default=0.998)
    two.add_argument("--threads", type=int, default=2)
    two.add_argument("--log", type=int, default=250)
    two.add_argument("--save", type=int, default=250)
    three = commands.add_parser("export")
    three.add_argument("--data", type=Path, required=True, help="folder with wmt.en.jsonl.gz")
    three.add_argument("--out", type=Path, required=True, help="model folder to write")
    three.add_argument("--name", default="polyref-en")
    three.add_argument("--closeness", type=int, default=1, help="default of the model")
    three.add_argument("--strength", type=float, default=0.5, help="default diversity strength of the model")
    three.add_argument("--min-score", type=float, help="candidates below this are not offered")
    three.add_argument("--examples", type=Path, default=Path(__file__).with_name("paraphraser_examples.json"))
    for command in (one, two, three):
        command.add_argument("--run", type=Path, required=True, help="working folder, kept out of git")
        command.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.data, options.run, options.seed, options.most, options.most_suite)
    elif options.command == "train":
        train(options.run, options)
    else:
        from export_paraphraser import export

        export(
            options.run,
            options.out,
            options.data,
            options.examples,
            options.name,
            closeness=options.closeness,
            strength=options.strength,
            min_score=options.min_score,
        )


if __name__ == "__main__":
    main()

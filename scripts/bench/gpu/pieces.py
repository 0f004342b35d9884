"""What is measured on a card: pieces of work, each by polyref and by the programs beside it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch
from search_contenders import network, run_polyref, run_transformers, transformers_model
from torch.nn.utils.rnn import pad_sequence

SENTENCES: Final = Path(__file__).parents[2] / "paraphraser_sentences.txt"
#: Before sentences, so that there are more of them.
OPENINGS: Final = (
    "",
    "In short: ",
    "She said: ",
    "They wrote: ",
    "As he put it: ",
    "We hear: ",
    "It seems: ",
    "Well: ",
)
#: Pairs, or texts, of a batch of a plain loop.
BATCH: Final = 64


@dataclass(frozen=True)
class Size:
    """How much is done.

    Attributes:
        texts: That the shipped model paraphrases; ``checked`` of them on the CPU too.
        k: Paraphrases of each.
        longest: Most tokens of a paraphrase (0: the model's own rule).
        shapes: That of the shipped model and that of Prism's, as search_contenders.py has them.
        batch: Sentences of ``source`` tokens that a network with random weights decodes at once, by ``steps``.
        pairs: That are scored.
        segments: Of BERTScore, with ``references`` each and an output of four systems.
        encoder: Layers, width, heads, inner width and vocabulary of an encoder; ``layer`` is used.
        rows, numbers: Of the matrix and of the copy that tell what the card can do.
    """

    texts: int = 240
    checked: int = 24
    k: int = 10
    longest: int = 0
    shapes: tuple[str, str] = ("shipped", "prism")
    batch: int = 64
    source: int = 32
    steps: int = 33
    pairs: int = 1024
    segments: int = 60
    references: int = 8
    encoder: tuple[int, int, int, int, int] = (24, 1024, 16, 4096, 50265)
    layer: int = 17
    rows: int = 8192
    numbers: int = 1 << 28


SMALL: Final = Size(
    *(1, 1, 2, 2, ("small", "small"), 1, 4, 2, 2, 1, 2),
    *((1, 16, 2, 16, 300), 1, 64, 1 << 12),
)


@dataclass
class Piece:
    """What is run, again and again.

    Attributes:
        work: What kind of work it is, ``program`` who does it, ``dtype`` in which numbers.
        items: How many it does; ``unit`` is what one is.
        run: Does them.
        agrees: Compares the results, once, and says how.
    """

    work: str
    program: str
    dtype: str
    items: int
    unit: str
    run: Callable[[], Any]
    agrees: Callable[[], str] = str


#: A piece that is built when it is its turn: its work and program, for messages, and what makes it.
Built = tuple[str, Callable[[], Piece]]


def pieces(size: Size, device: torch.device, dtypes: Sequence[str], scratch: Path) -> Iterator[Built]:
    """Everything that runs in this interpreter, in order."""
    shipped, prism = size.shapes
    yield "shipped model, polyref", partial(paraphrased, size, device)
    yield f"search, {shipped}, Transformers", partial(decoded, size, shipped, device, "float32", "transformers")
    for dtype in dtypes:
        yield f"search, {prism}, polyref, {dtype}", partial(decoded, size, prism, device, dtype, "polyref")
        yield f"search, {prism}, Transformers, {dtype}", partial(decoded, size, prism, device, dtype, "transformers")
    yield "forced scores, shipped model, polyref", partial(scored_texts, size, device)
    for dtype in dtypes:
        given = (size, prism, device, dtype)
        yield f"forced scores, {prism}, polyref, {dtype}", partial(scored, *given)
        yield f"forced scores, {prism}, Transformers, {dtype}", partial(scored_by_transformers, *given)
    yield "BERTScore, polyref", partial(matched, size, device, scratch)
    yield "BERTScore, Transformers", partial(matched_by_transformers, size, device, scratch)


def texts(count: int) -> list[str]:
    sentences = SENTENCES.read_text("utf-8").splitlines()
    return [opening + sentence for opening in OPENINGS for sentence in sentences][:count]


# --- the search ---


def paraphrased(size: Size, device: torch.device) -> Piece:
    """References of the shipped model, from texts to texts."""
    from polyref.paraphrase import SearchOptions, load_paraphraser

    def loaded(on: str) -> Callable[[Sequence[str]], list[list[tuple[str, float]]]]:
        made = load_paraphraser("shipped", device=on, dtype="float32", cache=False)
        decoding = SearchOptions(size.k, 2, max_len_b=size.longest) if size.longest else None

        def lists(of: Sequence[str]) -> list[list[tuple[str, float]]]:
            found = made.generate(of, size.k, decoding=decoding)
            return [[(one.text, one.score or 0.0) for one in nbest.hypotheses] for nbest in found]

        return lists

    given, lists = texts(size.texts), loaded(str(device))

    def agrees() -> str:
        few = given[: size.checked]
        expected, found = loaded("cpu")(few), lists(few)
        same = [[text for text, _ in one] == [text for text, _ in other] for one, other in zip(expected, found)]
        apart = [abs(a - b) for one, other in zip(expected, found) for (_, a), (_, b) in zip(one, other)]
        return f"{sum(same)} of {len(same)} lists are the CPU's; scores within {max(apart, default=0):.0e}"

    return Piece("shipped model", "polyref", "float32", len(given), "references", lambda: lists(given), agrees)


def settings(size: Size, shape: str, device: torch.device, dtype: str) -> argparse.Namespace:
    """As search_contenders.py takes them."""
    return argparse.Namespace(shape=shape, beam=size.k, steps=size.steps, device=str(device), dtype=dtype)


def sources(size: Size) -> list[list[int]]:
    drawn = np.random.default_rng(1)
    return [[*map(int, drawn.integers(10, 500, size.source - 1)), 2] for _ in range(size.batch)]


def decoded(size: Size, shape: str, device: torch.device, dtype: str, program: str) -> Piece:
    """References of a network with random weights: as many steps, and as long sources, for everyone."""
    args = settings(size, shape, device, dtype)
    build = {"polyref": run_polyref, "transformers": run_transformers}[program]
    groups, name = 2, program
    if program == "transformers":
        import transformers

        if int(transformers.__version__.split(".")[0]) > 4:
            groups, name = 1, "transformers, beam search"
    decode, _ = build(args, groups)
    given = sources(size)
    return Piece(f"search, {shape}", name, dtype, len(given), "references", lambda: decode(given))


# --- forced scores ---


def scored_texts(size: Size, device: torch.device) -> Piece:
    """Pairs by the shipped model."""
    from polyref.models.forced import ForcedScorer
    from polyref.models.scorers import load_scorer

    given = texts(max(size.pairs // 8, 2))
    pairs = [(given[n % len(given)], given[(n + n // len(given)) % len(given)]) for n in range(size.pairs)]

    scorer = load_scorer("shipped", device=str(device))

    def run(by: ForcedScorer = scorer, of: Sequence[tuple[str, str]] = pairs) -> list[Any]:
        return by.score([(by.source(a), by.target(b)) for a, b in of])

    def agrees() -> str:
        few = pairs[: size.checked]
        both = zip(run(of=few), run(load_scorer("shipped"), few))
        return f"within {max(float(np.abs(one - other).max()) for one, other in both):.0e} of the CPU's"

    return Piece("forced scores, shipped model", "polyref", "float32", len(pairs), "pairs", run, agrees)


def forced(size: Size) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Sources and targets: eight targets a source."""
    drawn = np.random.default_rng(2)

    def tokens(count: int) -> list[tuple[int, ...]]:
        return [(*map(int, row), 2) for row in drawn.integers(10, 500, (count, size.source - 1))]

    few = tokens(max(size.pairs // 8, 1))
    return [few[n % len(few)] for n in range(size.pairs)], tokens(size.pairs)


def scored(size: Size, shape: str, device: torch.device, dtype: str) -> Piece:
    """Pairs of token ids by polyref's network with random weights."""
    from polyref.models.scorers import LeanScorer

    model = network(shape, device, getattr(torch, dtype))
    codec: Any = SimpleNamespace(languages=())
    scorer = LeanScorer(model, codec, None, name=shape, digest="", dtype=dtype)
    read, written = forced(size)

    def run() -> list[Any]:
        return scorer.compute((read, written, None))

    return Piece(f"forced scores, {shape}", "polyref", dtype, size.pairs, "pairs", run)


def scored_by_transformers(size: Size, shape: str, device: torch.device, dtype: str) -> Piece:
    """The same by Transformers' own forward, in batches: every pair's source is encoded anew."""
    model = transformers_model(settings(size, shape, device, dtype))
    read, written = forced(size)

    @torch.inference_mode()
    def run() -> list[float]:
        found: list[float] = []
        for start in range(0, len(read), BATCH):
            ids, labels = (torch.tensor(side[start : start + BATCH]).to(device) for side in (read, written))
            logits = model(input_ids=ids, labels=labels).logits.float()
            found += logits.log_softmax(-1).gather(2, labels[..., None]).sum((1, 2)).cpu().tolist()
        return found

    return Piece(f"forced scores, {shape}", "transformers", dtype, size.pairs, "pairs", run)


# --- BERTScore ---


def encoder(size: Size, scratch: Path) -> Path:
    """The folder of a RoBERTa with random weights, and byte pairs of its own."""
    folder = scratch / "encoder"
    if folder.is_dir():
        return folder
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    layers, width, heads, inner, vocabulary = size.encoder
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pairs = ByteLevelBPETokenizer()
    pairs.train_from_iterator(texts(1 << 10), vocab_size=vocabulary, special_tokens=specials, show_progress=False)
    torch.manual_seed(1)
    model = transformers.RobertaModel(
        transformers.RobertaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=514,
        ),
        add_pooling_layer=False,
    )
    model.save_pretrained(folder)
    pairs.save_model(str(folder))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "RobertaTokenizer", "model_max_length": 512, "add_prefix_space": true}', "utf-8"
    )
    return folder


def judged(size: Size) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Outputs of four systems, and references of every segment: a sentence with its words in other orders."""
    sentences = SENTENCES.read_text("utf-8").splitlines()[: size.segments]

    def turned(sentence: str, by: int) -> str:
        words = sentence.split()
        return " ".join(words[by % len(words) :] + words[: by % len(words)])

    systems = {name: [turned(sentence, n + 1) for sentence in sentences] for n, name in enumerate("ABCD")}
    return systems, [[turned(sentence, -n) for n in range(size.references)] for sentence in sentences]


def matched(size: Size, device: torch.device, scratch: Path) -> Piece:
    """F of every output with every reference."""
    from polyref.metrics import get_metric
    from polyref.references import ReferenceSet

    systems, references = judged(size)
    refset = ReferenceSet.from_texts([row[:1] for row in references], paraphrases=[row[1:] for row in references])
    extras = size.references - 1

    def run() -> Any:
        options = {"model": str(encoder(size, scratch)), "layer": size.layer, "combine": "mean", "cache": False}
        metric = get_metric("bertscore", device=str(device), **options)
        return metric.aggregate(metric.statistics(systems, refset, ks=[extras]), k=extras).segment

    def agrees() -> str:
        other = np.array(matched_by_transformers(size, device, scratch).run()).reshape(len(systems), size.segments, -1)
        return f"within {np.abs(run() - other.mean(2)).max():.0e} of the loop's"

    count = len(systems) * size.segments * size.references
    return Piece("BERTScore, a large encoder", "polyref", "float32", count, "pairs", run, agrees)


def matched_by_transformers(size: Size, device: torch.device, scratch: Path) -> Piece:
    """As bert_score does it: texts by length in padded batches, then pairs in batches, on the card throughout."""
    import transformers

    folder = encoder(size, scratch)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False).to(device).eval()
    model.encoder.layer = model.encoder.layer[: size.layer]
    systems, references = judged(size)
    pairs = [(output, one) for row in systems.values() for output, refs in zip(row, references) for one in refs]

    @torch.inference_mode()
    def run() -> list[float]:
        vectors: dict[str, torch.Tensor] = {}
        distinct = sorted({text for pair in pairs for text in pair}, key=len)
        for start in range(0, len(distinct), BATCH):
            part = distinct[start : start + BATCH]
            read = tokenizer(part, padding=True, return_tensors="pt")
            lengths = read["attention_mask"].sum(1).tolist()
            states = model(**{name: ids.to(device) for name, ids in read.items()}).last_hidden_state
            states = states / states.norm(dim=-1, keepdim=True)
            vectors.update((text, row[:n]) for text, row, n in zip(part, states, lengths))
        found: list[float] = []
        for start in range(0, len(pairs), BATCH):
            part_pairs = pairs[start : start + BATCH]
            sides = [[vectors[pair[side]] for pair in part_pairs] for side in (0, 1)]
            outputs, refs = (pad_sequence(side, batch_first=True) for side in sides)
            similar = outputs @ refs.transpose(1, 2)
            # The first and the last token weigh nothing.
            precision, recall = (
                (best * weights).sum(1)
                for best, weights in zip((similar.amax(2), similar.amax(1)), (_weights(side, device) for side in sides))
            )
            found += (2 * precision * recall / (precision + recall)).cpu().tolist()
        return found

    return Piece("BERTScore, a large encoder", "transformers", "float32", len(pairs), "pairs", run)


def _weights(side: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    lengths = torch.tensor([len(one) for one in side])
    places = torch.arange(int(lengths.max()))
    inside = (places > 0) & (places < lengths[:, None] - 1)
    return (inside / inside.sum(1, keepdim=True)).to(device)

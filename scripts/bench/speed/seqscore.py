"""Speed of Prism and BARTScore with 11 references and 4 systems, against plain loops over the same models' forward.

    OMP_NUM_THREADS=1 python scripts/bench/speed/seqscore.py --data DIR [--segments 8] [--models shipped,bart,...]

DIR holds WMT22 in the mt-metrics-eval layout with the ten paraphrases of each zh-en reference
(``wmt22/paraphrases/zh-en.refA.jsonl``) and, for ``fairseq`` and ``m2m``, ``fairseq-golden``. ``m2m`` has the shape
of the base transformer, ``bart`` that of BART base and ``t5`` that of T5 small, with random weights and tokenisers
that are there or are trained on the references: no model is downloaded, and speed does not care what the weights say.
The plain loop is what the published programs do: every system against every reference, both directions, batches of 4
in the order of the test set, all of the model's own forward. Times are processor seconds of one thread. Both are run
on the same texts and their largest difference is shown. A Markdown table is written to standard output, and with
``--csv`` a raw table, such as docs/benchmarks/speed-likelihood.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyref.metrics import get_metric
from polyref.metrics.likelihood import SequenceMetric
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.checkpoints.seq2seq import load_fairseq
from polyref.models.opening import SHIPPED
from polyref.references import ReferenceSet
from polyref.textfiles import read_lines

sys.path.append(str(Path(__file__).parent.parent))
from raw_tables import MACHINE, measured_with, update

KEY = ("model", "metric")
COLUMNS = (*KEY, "plain_loop_cpu_seconds", "polyref_cpu_seconds", "ratio", "largest_difference_of_a_segment", *MACHINE)
SYSTEMS = 4
BATCH = 4
#: Mean token log-probabilities of targets given sources, of one batch.
Forward = Callable[[Sequence[str], Sequence[str]], list[float]]


def texts(data: Path, segments: int) -> tuple[dict[str, list[str]], ReferenceSet]:
    """Segments evenly spread over the test set, so that their lengths are its own."""
    home = data / "wmt22"
    known = ReferenceSet.load(home / "paraphrases" / "zh-en.refA.jsonl")
    chosen = np.linspace(0, len(known) - 1, segments).astype(int)
    files = sorted((home / "system-outputs" / "zh-en").glob("*.txt"))
    files = [file for file in files if not file.stem.startswith("ref")][:SYSTEMS]
    systems = {file.stem: [read_lines(file)[i] for i in chosen] for file in files}
    return systems, ReferenceSet(tuple(known[i] for i in chosen), known.meta)


def plain_loop(forward: Forward, systems: dict[str, list[str]], references: ReferenceSet) -> np.ndarray:
    """Shape (S, N): the mean over references of the mean of both directions."""
    refs = references.texts()
    rows = []
    for outputs in systems.values():
        found = []
        for r in range(max(map(len, refs))):
            have = [n for n, row in enumerate(refs) if r < len(row)]
            pairs = [(refs[n][r], outputs[n]) for n in have]
            both = [_batches(forward, pairs), _batches(forward, [(b, a) for a, b in pairs])]
            column = np.full(len(refs), np.nan)
            column[have] = np.mean(both, axis=0)
            found.append(column)
        rows.append(np.nanmean(found, axis=0))
    return np.array(rows)


def _batches(forward: Forward, pairs: Sequence[tuple[str, str]]) -> list[float]:
    found: list[float] = []
    for start in range(0, len(pairs), BATCH):
        part = pairs[start : start + BATCH]
        found += forward([a for a, _ in part], [b for _, b in part])
    return found


def padded(rows: Sequence[Sequence[int]], pad: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(list(row)) for row in rows], True, pad)


def means(picked: torch.Tensor, mask: torch.Tensor) -> list[float]:
    return ((picked * mask).sum(1) / mask.sum(1)).tolist()


def transformers_forward(folder: Path, tags: int = 0) -> Forward:
    """``tags``: leading target tokens that do not count."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=False).eval()

    @torch.inference_mode()
    def forward(sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        read, written = (
            tokenizer(list(part), padding=True, return_tensors="pt", truncation=True, max_length=1024)
            for part in (sources, targets)
        )
        logits = model(
            input_ids=read["input_ids"], attention_mask=read["attention_mask"], labels=written["input_ids"]
        ).logits
        picked = logits.log_softmax(-1).gather(2, written["input_ids"][..., None])[..., 0]
        return means(picked[:, tags:], written["attention_mask"][:, tags:])

    return forward


def shipped_forward() -> Forward:
    model = load_pointer(SHIPPED / "en")
    network = model.network

    def logprobs(hidden: torch.Tensor, embedding: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return (hidden @ embedding.T).log_softmax(-1).gather(1, tokens[:, None])[:, 0]

    @torch.inference_mode()
    def forward(sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        read, written = (
            padded([[*model.spm.encode(" ".join(text.split())), network.eos] for text in part], network.pad)
            for part in (sources, targets)
        )
        inputs = torch.cat((torch.full_like(written[:, :1], network.start), written[:, :-1]), 1)
        flat = network(read, inputs, written, logprobs)
        picked = torch.zeros(written.shape).masked_scatter(written != network.pad, flat)
        return means(picked, written != network.pad)

    return forward


def fairseq_forward(folder: Path) -> Forward:
    model = load_fairseq(folder)
    network, tag = model.network, model.codec.prefix("en")

    @torch.inference_mode()
    def forward(sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        states, bias = network.encode_states([model.codec.encode(text) for text in sources])
        written = padded([[*tag, *model.codec.encode_target(text)] for text in targets], network.pad)
        inputs = torch.cat((torch.full_like(written[:, :1], network.start), written[:, :-1]), 1)
        logits = network.project(network.decode(states, bias, inputs))
        picked = logits.log_softmax(-1).gather(2, written[..., None])[..., 0]
        return means(picked[:, 1:], (written != network.pad)[:, 1:])

    return forward


def write_m2m(folder: Path, golden: Path) -> Path:
    """An M2M100 of the base transformer's shape, with the pieces of a small SentencePiece model."""
    import transformers

    folder.mkdir()
    pieces = [line.split(" ")[0] for line in read_lines(golden / "dict.src.txt")]
    names = ["<s>", "<pad>", "</s>", "<unk>", *(piece for piece in pieces if not piece.startswith("<"))]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    shutil.copyfile(golden / "spm.model", folder / "sentencepiece.bpe.model")
    tokenizer = transformers.M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), src_lang="en", tgt_lang="en"
    )
    torch.manual_seed(1)
    sizes = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "vocab_size": 32000}
    sizes |= {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    model = transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(**sizes, encoder_ffn_dim=2048, decoder_ffn_dim=2048)
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_random(kind: str, folder: Path, lines: Iterator[str]) -> Path:
    """A model of a common shape with random weights, and a tokeniser for it."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        lines,
        trainers.BpeTrainer(vocab_size=20000, special_tokens=specials, initial_alphabet=alphabet, show_progress=False),
    )
    single = "<s> $A </s>" if kind == "bart" else "$A </s>"
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0), ("</s>", 2)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    torch.manual_seed(1)
    model: Any
    if kind == "bart":
        sizes = {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "vocab_size": 50265}
        sizes |= {"encoder_attention_heads": 12, "decoder_attention_heads": 12}
        config = transformers.BartConfig(**sizes, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
        model = transformers.BartForConditionalGeneration(config)
    else:
        config = transformers.T5Config(pad_token_id=1, eos_token_id=2, decoder_start_token_id=1)  # the small one
        model = transformers.T5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--models", default="shipped,fairseq,m2m,bart,t5")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="raw table to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    systems, references = texts(args.data, args.segments)
    counts = references.counts()
    print(
        f"{len(systems)} systems, {len(references)} segments, {counts[0]} to {counts[1]} references, one thread, ",
        end="",
    )
    machine = measured_with("polyref", "torch", "transformers")
    print(f"{'; '.join(machine.values())}\n")
    print("| model | metric | plain loop, s | polyref, s | times as fast | largest difference of a segment's score |")
    print("|---|---|---|---|---|---|")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.models.split(","):
            kind, metric, forward = prepared(name, args.data, Path(scratch))
            model = metric.scorer  # loaded outside of the clock, as the plain loop's is
            forward(["a"], ["b"])
            model.score([(model.source("a"), model.target("b"))], metric._target_lang)
            plain, expected = timed(lambda f=forward: plain_loop(f, systems, references))
            ours, stats = timed(lambda m=metric: m.statistics(systems, references))
            scores = metric.aggregate(stats, k=stats.most_extras)
            worst = float(np.abs(scores.segment - expected).max())
            cells = (kind, scores.name, f"{plain:.2f}", f"{ours:.2f}", f"{plain / ours:.1f}", f"{worst:.1e}")
            print(f"| {' | '.join(cells)} |", flush=True)
            rows.append({**dict(zip(COLUMNS[: len(cells)], cells, strict=True)), **machine})
    if args.csv:
        update(args.csv, COLUMNS, KEY, rows)


def prepared(name: str, data: Path, scratch: Path) -> tuple[str, SequenceMetric, Forward]:
    """What to call the model, the metric on it, and the plain forward."""
    metric: Any
    if name == "shipped":
        return "shipped paraphraser", get_metric("prism"), shipped_forward()  # type: ignore[return-value]
    if name == "fairseq":
        folder = scratch / "fairseq"
        folder.mkdir()
        for file in ("dict.src.txt", "dict.tgt.txt", "spm.model", "pre/checkpoint.pt"):
            os.symlink((data / "fairseq-golden" / file).resolve(), folder / Path(file).name)  # noqa: PTH211
        return "fairseq, toy size", get_metric("prism", model=str(folder)), fairseq_forward(folder)  # type: ignore[return-value]
    if name == "m2m":
        folder = write_m2m(scratch / name, data / "fairseq-golden")
        metric = get_metric("prism", model=str(folder))
        return "M2M100, the base transformer's shape", metric, transformers_forward(folder, tags=1)
    lines = (ref for row in ReferenceSet.load(data / "wmt22/paraphrases/zh-en.refA.jsonl").texts() for ref in row)
    folder = write_random(name, scratch / name, lines)
    metric = get_metric("bartscore", model=str(folder))
    label = {"bart": "BART, base's shape", "t5": "T5, small's shape, through Transformers"}[name]
    return label, metric, transformers_forward(folder)


if __name__ == "__main__":
    main()

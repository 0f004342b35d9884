"""Write tiny random MetricX checkpoints and what MetricX's own classes make of them: tests/data/learned/metricx*.

    scripts/learned/make_metricx.py OUT                     # makes the environment, and runs itself in it
    scripts/learned/make_metricx.py OUT --seed 7 --scale 2  # other weights, other sizes

The texts are those of tests/data/learned/inputs.jsonl. MetricX is no package: its repository is cloned beside OUT, or
named by ``--repository``. Nothing else is downloaded but packages. ``metricx`` in OUT has the checkpoints as they are
published, their weights packed with gzip, and a tokeniser of mT5's kind; ``metricx-goldens`` has the token ids and
errors of every text. Scores are of one text at a time, as ``predict.py`` needs it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = "torch==2.13.0 numpy<2 transformers==4.30.2 tokenizers==0.13.3 sentencepiece==0.1.99 protobuf==3.20.3"
ADDRESS = "https://github.com/google-research/metricx"
INPUTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "learned" / "inputs.jsonl"
#: mT5's, with its unused words: the error is the logit of <extra_id_10>, and words from 250,060 on have one.
WORDS, FIRST_LOGIT, LOGIT = 250_112, 250_060, 250_089
#: Release, whether it reads no reference (None: both ways), width, width and number of heads, inner width, layers of
#: encoder and decoder, file, type.
CHECKPOINTS: dict[str, tuple[int, bool | None, int, int, int, int, int, int, str, str]] = {
    "metricx-23-tiny": (23, False, 32, 8, 4, 48, 3, 3, "bin", "float32"),
    "metricx-23-qe-tiny": (23, True, 16, 8, 2, 40, 2, 3, "safetensors", "float32"),
    "metricx-24-hybrid-tiny": (24, None, 32, 8, 4, 48, 3, 2, "safetensors", "float32"),
    "metricx-24-hybrid-tiny-bfloat16": (24, None, 24, 8, 3, 32, 2, 2, "safetensors", "bfloat16"),
}
LONGEST = {23: 1024, 24: 1536}
Row = dict[str, Any]


def text_of(release: int, qe: bool, row: Row, reference: str) -> str:
    """As predict.py of the release writes it."""
    if release == 23:
        return f"candidate: {row['hyp']} " + (f"source: {row['src']}" if qe else f"reference: {reference}")
    return f"source: {row['src']} candidate: {row['hyp']}" + ("" if qe else f" reference: {reference}")


def write_tokenizer(folder: Path, rows: list[Row]) -> Any:
    """A SentencePiece model of the texts, in the files that mT5's folder has; read as predict.py reads it."""
    import sentencepiece
    import transformers

    folder.mkdir(parents=True)
    lines = folder / "texts"
    texts = [text for row in rows for text in (row["src"], row["hyp"], *row["refs"])]
    lines.write_text("\n".join([*texts, "source: candidate: reference:"]), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(lines), model_prefix=str(folder / "spiece"), vocab_size=800, hard_vocab_limit=False, num_threads=1,
        model_type="unigram", byte_fallback=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    for path in (lines, folder / "spiece.vocab"):
        path.unlink()
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    more = {"extra_ids": 0, "additional_special_tokens": None, "tokenizer_class": "T5Tokenizer", "sp_model_kwargs": {}}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "tokenizer_config.json").write_text(json.dumps({**special, **more}))
    transformers.MT5Config(vocab_size=WORDS, tokenizer_class="T5Tokenizer").save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


def network(kind: Any, name: str, seed: int, scale: int, ids: list[list[int]], words: int) -> Any:
    """Random weights; those of the error are such that texts get errors of 0 to 25, and some are clipped."""
    import torch
    import transformers

    _, _, width, head, heads, inner, encoder, decoder, _, _ = CHECKPOINTS[name]
    width *= scale
    config = transformers.MT5Config(
        vocab_size=WORDS, d_model=width, d_kv=head, num_heads=heads, d_ff=inner * scale, num_layers=encoder,
        num_decoder_layers=decoder, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        tokenizer_class="T5Tokenizer", architectures=["MT5ForRegression"],
    )  # fmt: skip
    model = kind(config).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part, weight in model.named_parameters():
            random = torch.randn(weight.shape if weight.shape[0] != WORDS else (words, width), generator=draw)
            if weight.shape[0] == WORDS:
                weight.zero_()
                first = FIRST_LOGIT if part.startswith("lm_head") else 0
                weight[first : first + words] = random[: WORDS - first]
            elif "layer_norm" in part:
                weight.copy_(1 + 0.2 * random)
            else:
                heads_too = head if part.endswith(".q.weight") else 1  # mT5 does not scale its attention
                weight.copy_(1.2 * random / math.sqrt(weight.shape[1] * heads_too))
        states: list[Any] = []
        hook = model.decoder.register_forward_hook(lambda _, __, out: states.append(out[0][:, 0].clone()))
        for one in ids:
            model(input_ids=torch.tensor([one]))
        hook.remove()
        state = torch.cat(states)
        mean = state.mean(0)
        away = torch.randn(width, generator=draw)
        away -= mean * (away @ mean) / (mean @ mean)
        away *= 9 / (state @ away).std()
        model.lm_head.weight[LOGIT] = away + mean * ((11 - (state @ away).mean()) / (state @ mean).mean())
    return model


def write(out: Path, seed: int, scale: int) -> None:
    """Everything, in the environment."""
    import torch
    import transformers

    torch.set_num_threads(1)
    shutil.copyfile(INPUTS, out / "inputs.jsonl")
    rows = [json.loads(line) for line in INPUTS.read_text("utf-8").splitlines()]
    tokenizer = write_tokenizer(out / "metricx" / "tokenizer-mt5", rows)
    (out / "metricx-goldens").mkdir()
    about = {
        "script": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "seed": seed,
        "scale": scale,
    }
    for number, (name, (release, only, *_, form, dtype)) in enumerate(CHECKPOINTS.items()):
        kind = import_module(f"metricx{release}.models").MT5ForRegression
        modes = [False, True] if only is None else [only]

        def ids_of(qe: bool, release: int = release, **limit: Any) -> list[tuple[Row, int | None, list[int]]]:
            pairs = [(row, at) for row in rows for at in ([None] if qe else range(len(row["refs"])))]
            texts = [text_of(release, qe, row, row["refs"][at or 0]) for row, at in pairs]
            return [(*pair, tokenizer(text, **limit)["input_ids"]) for pair, text in zip(pairs, texts)]

        limit = {"max_length": LONGEST[release], "truncation": True}
        first = [ids[:-1] for _, at, ids in ids_of(modes[0], **limit) if not at]
        model = network(kind, name, seed + 31 * number, scale, first, len(tokenizer))
        folder = out / "metricx" / name
        model.to(getattr(torch, dtype)).save_pretrained(folder, safe_serialization=form == "safetensors")
        model = kind.from_pretrained(folder, **({"torch_dtype": "auto"} if release == 24 else {})).eval()
        found: dict[str, Any] = {}
        for qe in modes:
            mode, lines = "qe" if qe else "ref", []
            for (row, at, whole), (_, _, ids) in zip(ids_of(qe), ids_of(qe, **limit)):
                read = ids[:-1]  # without </s>, or the last that fits
                with torch.no_grad():
                    score = float(model(input_ids=torch.tensor([read])).predictions[0])
                shown: Any = read if len(read) <= 120 else {"first": read[:16], "last": read[-16:]}
                cut = {"n_tokens": len(read), "truncated": len(whole) > LONGEST[release]}
                line = {"id": row["id"], "ref": at, "score": score, **cut, "input_ids": shown}
                lines.append(line)
            found[mode] = {"rows": lines}
            scores = [line["score"] for line in lines]
            print(name, mode, f"{len(scores)} texts, {min(scores):.3f} to {max(scores):.3f}", flush=True)
        golden = {"dtype": dtype, "max_input_length": LONGEST[release], **about, "modes": found}
        (out / "metricx-goldens" / f"{name}.json").write_text(json.dumps(golden) + "\n", "utf-8")
        for path in [*folder.glob("*.bin"), *folder.glob("*.safetensors")]:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            path.unlink()
        (folder / "generation_config.json").unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder that is not there")
    parser.add_argument("--environment", type=Path, help="where the packages are, or are installed (default: OUT.venv)")
    parser.add_argument("--python", default=sys.executable, help="that of the environment: 3.8 to 3.11")
    parser.add_argument("--repository", type=Path, help="MetricX's (default: cloned to OUT.metricx)")
    parser.add_argument("--seed", type=int, default=424)
    parser.add_argument("--scale", type=int, default=1, help="widths are so many times as large")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    out = args.out.resolve()
    if args.inside:
        out.mkdir(parents=True)
        write(out, args.seed, args.scale)
        return
    environment = (args.environment or out.with_suffix(".venv")).resolve()
    if not environment.is_dir():
        subprocess.run([args.python, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", *PACKAGES.split()], check=True)
    repository = (args.repository or out.with_suffix(".metricx")).resolve()
    if not repository.is_dir():
        subprocess.run(["git", "clone", "--depth", "1", ADDRESS, repository], check=True)
    command = [environment / "bin" / "python", Path(__file__).resolve(), *sys.argv[1:], "--inside"]
    offline = {"PYTHONPATH": str(repository), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    subprocess.run(command, check=True, env={**os.environ, **offline})


if __name__ == "__main__":
    main()

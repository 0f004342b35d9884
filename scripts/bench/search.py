"""Diverse beam search: CPU time and peak memory a sentence, polyref beside others, on the same work in the same run.

    python scripts/bench/search.py                              # polyref, Transformers' beam search, the products alone
    python scripts/bench/search.py --fairseq ENV/bin/python     # also fairseq 0.12.2 in its own interpreter
    python scripts/bench/search.py --transformers4 ENV/bin/python  # also group beam search of Transformers 4.31 - 4.56

Networks have random weights and hypotheses a fixed length, so that everyone does the same number of steps. Every
measurement is a process of its own (CPU time, without loading; the best of the repetitions; peak resident memory), and
the contenders take turns, so that load from elsewhere meets them all. "products" is the time of the decoder's matrix
products alone, by the faster of PyTorch's two libraries: nobody who computes them in float32 is faster than that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

#: Name: layers of encoder and decoder, d, heads, ffn, vocabulary.
SHAPES = {"base": (6, 512, 8, 2048, 32000), "prism": (8, 1280, 20, 12288, 64000), "small": (2, 64, 4, 256, 2048)}
CONTENDERS = ("polyref", "polyref-beam", "transformers", "transformers4", "fairseq", "products")


def network(shape):
    import math

    import torch

    from polyref.paraphrase.transformer import Transformer, TransformerConfig

    layers, d, heads, ffn, vocab = SHAPES[shape]
    generator = torch.Generator().manual_seed(1)

    def random(rows, columns):
        return torch.randn(rows, columns, generator=generator) * columns**-0.5

    embedding = random(vocab, d)
    weights = {f"{name}.weight": embedding for name in ("encoder.embed_tokens", "decoder.embed_tokens", "output")}
    for side, blocks in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        for layer in range(layers):
            at = f"{side}.layers.{layer}."
            sizes = {f"{b}.{p}_proj": (d, d) for b in blocks for p in ("q", "k", "v", "out")}
            sizes.update(fc1=(ffn, d), fc2=(d, ffn))
            for name, size in sizes.items():
                weights[f"{at}{name}.weight"], weights[f"{at}{name}.bias"] = random(*size), torch.zeros(size[0])
            for norm in [f"{b}_layer_norm" for b in blocks] + ["final_layer_norm"]:
                weights[f"{at}{norm}.weight"], weights[f"{at}{norm}.bias"] = torch.ones(d), torch.zeros(d)
        weights[f"{side}.layer_norm.weight"], weights[f"{side}.layer_norm.bias"] = torch.ones(d), torch.zeros(d)
    config = TransformerConfig(
        dim=d,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_heads=heads,
        decoder_heads=heads,
        encoder_pre_norm=True,
        decoder_pre_norm=True,
        activation="relu",
        scale=math.sqrt(d),
        encoder_positions="fairseq",
        decoder_positions="fairseq",
        pad=1,
        eos=2,
        unk=3,
        start=2,
        max_source=1024,
        max_target=1024,
    )
    return Transformer(config, weights)


def run_polyref(args, groups):
    import torch

    import polyref
    from polyref.paraphrase.search import SearchOptions, search

    model = network(args.shape)
    options = SearchOptions(
        beam=args.beam,
        groups=groups,
        strength=1.0,
        semantics="fairseq",
        min_len=args.steps - 1,
        max_len_b=args.steps - 1,
    )
    versions = f"polyref {polyref.__version__}, torch {torch.__version__}"
    return lambda sources: search(model, sources, options), versions


def run_transformers(args, groups):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    layers, d, heads, ffn, vocab = SHAPES[args.shape]
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", ffn))
    }
    config = transformers.M2M100Config(
        vocab_size=vocab, d_model=d, activation_function="relu", decoder_start_token_id=2, **sides
    )
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    diverse = {"num_beam_groups": groups, "diversity_penalty": 1.0} if groups > 1 else {}
    settings = {
        "num_beams": args.beam,
        "num_return_sequences": args.beam,
        "max_length": args.steps + 1,
        "min_length": args.steps + 1,
        **diverse,
    }

    def decode(sources):
        with torch.inference_mode():
            return model.generate(torch.tensor(sources), **settings)

    return decode, f"transformers {transformers.__version__}, torch {torch.__version__}"


def run_fairseq(args, groups):
    import fairseq
    import torch
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerModel, base_architecture
    from fairseq.search import DiverseBeamSearch
    from fairseq.sequence_generator import SequenceGenerator

    layers, d, heads, ffn, vocab = SHAPES[args.shape]
    dictionary = Dictionary()
    for number in range(vocab - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    options = argparse.Namespace(share_all_embeddings=True)
    for side in ("encoder", "decoder"):
        values = {"layers": layers, "embed_dim": d, "ffn_embed_dim": ffn, "attention_heads": heads}
        for name, value in values.items():
            setattr(options, f"{side}_{name}", value)
        setattr(options, f"{side}_normalize_before", True)
    base_architecture(options)
    options.max_source_positions = options.max_target_positions = 1024
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = TransformerModel.build_model(options, task).eval()
    generator = SequenceGenerator(
        [model],
        dictionary,
        beam_size=args.beam,
        max_len_b=args.steps - 1,
        min_len=args.steps - 1,
        search_strategy=DiverseBeamSearch(dictionary, groups, 1.0),
    )

    def decode(sources):
        tokens = torch.tensor(sources)
        lengths = torch.full((len(sources),), tokens.shape[1])
        return generator.generate([model], {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})

    return decode, f"fairseq {fairseq.__version__}, torch {torch.__version__}"


def run_products(args, groups):
    import torch

    layers, d, _, ffn, vocab = SHAPES[args.shape]
    per_layer = [(d, 3 * d), (d, d), (d, d), (d, d), (d, ffn), (ffn, d)]

    def decode(sources):
        rows = args.beam * len(sources)
        total, best = 0.0, {}
        for inputs, outputs in {*per_layer, (d, vocab)}:
            x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.zeros(outputs)
            ways = [lambda x=x, w=weight, b=bias: torch.nn.functional.linear(x, w, b)]
            if hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
                packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
                ways.append(lambda x=x, w=packed, b=bias: torch.ops.mkldnn._linear_pointwise(x, w, b, "none", [], ""))
            times = []
            for way in ways:
                way()
                begin = time.process_time()
                for _ in range(5):
                    way()
                times.append((time.process_time() - begin) / 5)
            best[inputs, outputs] = min(times)
        total = args.steps * (layers * sum(best[size] for size in per_layer) + best[d, vocab])
        return total

    return decode, f"torch {torch.__version__}"


WORKERS = {
    "polyref": (run_polyref, True),
    "polyref-beam": (run_polyref, False),
    "transformers": (run_transformers, False),
    "transformers4": (run_transformers, True),
    "fairseq": (run_fairseq, True),
    "products": (run_products, False),
}


def work(args):
    """One measurement: a line of JSON on stdout."""
    import torch

    torch.set_num_threads(args.threads)
    build, diverse = WORKERS[args.worker]
    decode, versions = build(args, args.groups if diverse else 1)
    sources = [[*range(10, 10 + args.source - 1), 2]] * args.batch
    decode([[5, 2]] if args.worker != "products" else sources)  # first calls allocate and choose kernels
    begin = time.process_time()
    result = decode(sources)
    seconds = result if args.worker == "products" else time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds / args.batch, "peak_mb": peak, "versions": versions}))


def processor():
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().split("\n"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--beam", type=int, default=100)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1, help="sentences decoded together")
    parser.add_argument("--source", type=int, default=31, help="source tokens")
    parser.add_argument("--steps", type=int, default=33, help="target tokens, with the end of sentence")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--fairseq", metavar="PYTHON", help="interpreter that has fairseq 0.12.2")
    parser.add_argument("--transformers4", metavar="PYTHON", help="interpreter that has transformers 4.31 - 4.56")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    interpreters = dict.fromkeys(CONTENDERS, sys.executable)
    interpreters.update(fairseq=args.fairseq, transformers4=args.transformers4)
    names = [name for name in args.only or CONTENDERS if interpreters[name]]
    found = {name: [] for name in names}
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "MKL_NUM_THREADS": str(args.threads)}
    for _ in range(args.repeat):
        for name in names:
            values = {k: getattr(args, k) for k in ("shape", "beam", "groups", "batch", "source", "steps", "threads")}
            options = [part for k, v in values.items() for part in (f"--{k}", str(v))]
            command = [interpreters[name], str(Path(__file__).resolve()), "--worker", name, *options]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            if done.returncode:
                sys.exit(f"{name} failed:\n{done.stderr}")
            found[name].append(json.loads(done.stdout.strip().split("\n")[-1]))
    rows = [
        {
            "name": name,
            "seconds": min(one["seconds"] for one in runs),
            "peak_mb": max(one["peak_mb"] for one in runs),
            "versions": runs[0]["versions"],
        }
        for name, runs in found.items()
    ]
    if args.json:
        print(json.dumps({"cpu": processor(), "settings": vars(args), "rows": rows}))
        return
    ours = next((row["seconds"] for row in rows if row["name"] == "polyref"), rows[0]["seconds"])
    print(f"{processor()}, {args.threads} thread(s); shape {args.shape} {SHAPES[args.shape]}, beam {args.beam},")
    print(
        f"{args.groups} groups, {args.steps} steps, {args.batch} a batch; CPU seconds a sentence, best of {args.repeat}"
    )
    for row in rows:
        ratio = row["seconds"] / ours
        print(f"{row['name']:14} {row['seconds']:8.3f} s {ratio:6.2f} x  {row['peak_mb']:7.0f} MB  {row['versions']}")


if __name__ == "__main__":
    main()

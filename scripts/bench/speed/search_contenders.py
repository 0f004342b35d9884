"""Who takes part in search.py: polyref, the programs beside it and the bare matrix products, all with random weights.

Each ``run_*`` builds a network of the shape asked for and gives back what decodes a batch, and its versions. A peer is
imported where it runs: it may live in another interpreter, without polyref. ``args`` may name a ``device`` and, for
others than the CPU, a ``dtype``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter

#: Name: layers of encoder and decoder, d, heads, ffn, vocabulary.
SHAPES = {
    "shipped": (5, 2, 384, 6, 1536, 12000),
    "base": (6, 6, 512, 8, 2048, 32000),
    "prism": (8, 8, 1280, 20, 12288, 64000),
    "small": (2, 2, 64, 4, 256, 2048),
}


def placed(args):
    """The device, and torch's type of number on it."""
    import torch

    return getattr(args, "device", "cpu"), getattr(torch, getattr(args, "dtype", "float32"))


def network(shape, device="cpu", dtype=None):
    import math

    import torch

    from polyref.models.networks.transformer import Transformer, TransformerConfig

    encoder_layers, decoder_layers, d, heads, ffn, vocab = SHAPES[shape]
    generator = torch.Generator().manual_seed(1)

    def random(rows, columns):
        return torch.randn(rows, columns, generator=generator) * columns**-0.5

    embedding = random(vocab, d)
    weights = {f"{name}.weight": embedding for name in ("encoder.embed_tokens", "decoder.embed_tokens", "output")}
    sides = (("encoder", encoder_layers, ["self_attn"]), ("decoder", decoder_layers, ["self_attn", "encoder_attn"]))
    for side, layers, blocks in sides:
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
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
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
    return Transformer(config, weights, device=device, dtype=dtype or torch.float32)


def run_polyref(args, groups, dtype="float32"):
    import torch

    import polyref
    from polyref.models.networks.matmul import computing_in
    from polyref.paraphrase.search import SearchOptions, search

    with computing_in(dtype):
        model = network(args.shape, *placed(args))
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


def transformers_model(args):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    encoder_layers, decoder_layers, d, heads, ffn, vocab = SHAPES[args.shape]
    sides = {
        f"{side}_{name}": value
        for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers))
        for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", ffn))
    }
    config = transformers.M2M100Config(
        vocab_size=vocab, d_model=d, activation_function="relu", decoder_start_token_id=2, **sides
    )
    device, dtype = placed(args)
    return transformers.M2M100ForConditionalGeneration(config).to(device=device, dtype=dtype).eval()


def run_transformers(args, groups):
    import torch
    import transformers

    model = transformers_model(args)
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
            return model.generate(torch.tensor(sources).to(model.device), **settings)

    return decode, f"transformers {transformers.__version__}, torch {torch.__version__}"


def run_fairseq(args, groups):
    import fairseq
    import torch
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerModel, base_architecture
    from fairseq.search import DiverseBeamSearch
    from fairseq.sequence_generator import SequenceGenerator

    encoder_layers, decoder_layers, d, heads, ffn, vocab = SHAPES[args.shape]
    dictionary = Dictionary()
    for number in range(vocab - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    options = argparse.Namespace(share_all_embeddings=True)
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        values = {"layers": layers, "embed_dim": d, "ffn_embed_dim": ffn, "attention_heads": heads}
        for name, value in values.items():
            setattr(options, f"{side}_{name}", value)
        setattr(options, f"{side}_normalize_before", True)
    base_architecture(options)
    options.max_source_positions = options.max_target_positions = 1024
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    device, dtype = placed(args)
    model = TransformerModel.build_model(options, task).eval().to(device=device, dtype=dtype)
    generator = SequenceGenerator(
        [model],
        dictionary,
        beam_size=args.beam,
        max_len_b=args.steps - 1,
        min_len=args.steps - 1,
        search_strategy=DiverseBeamSearch(dictionary, groups, 1.0),
    )

    def decode(sources):
        tokens = torch.tensor(sources).to(device)
        lengths = torch.full((len(sources),), tokens.shape[1], device=device)
        return generator.generate([model], {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})

    return decode, f"fairseq {fairseq.__version__}, torch {torch.__version__}"


def run_ctranslate2(args, compute):
    import ctranslate2
    import numpy
    from ctranslate2.specs import Activation, TransformerSpec

    encoder_layers, decoder_layers, d, heads, ffn, vocab = SHAPES[args.shape]
    spec = TransformerSpec.from_config((encoder_layers, decoder_layers), heads, activation=Activation.RELU)
    random = numpy.random.default_rng(1)

    def linear(part, inputs, outputs):
        part.weight = (random.standard_normal((outputs, inputs)) * inputs**-0.5).astype("float32")
        part.bias = numpy.zeros(outputs, dtype="float32")

    def norm(part):
        part.gamma, part.beta = numpy.ones(d, dtype="float32"), numpy.zeros(d, dtype="float32")

    def attention(part, sizes):
        norm(part.layer_norm)
        for one, outputs in zip(part.linear, sizes):
            linear(one, d, outputs)

    embedding = (random.standard_normal((vocab, d)) * d**-0.5).astype("float32")
    positions = (random.standard_normal((1024, d)) * 0.1).astype("float32")
    for side in (spec.encoder, spec.decoder):
        part = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        part.weight, side.position_encodings.encodings = embedding, positions
        side.scale_embeddings = True
        norm(side.layer_norm)
        for layer in side.layer:
            attention(layer.self_attention, (3 * d, d))
            if side is spec.decoder:
                attention(layer.attention, (d, 2 * d, d))
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, d, ffn)
            linear(layer.ffn.linear_1, ffn, d)
    spec.decoder.projection.weight = embedding
    words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(vocab - 3))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    spec.optimize()
    folder = tempfile.TemporaryDirectory()
    spec.save(folder.name)
    model = ctranslate2.Translator(folder.name, compute_type=compute, inter_threads=1, intra_threads=args.threads)
    settings = {
        "beam_size": args.beam,
        "num_hypotheses": args.beam,
        "min_decoding_length": args.steps,
        "max_decoding_length": args.steps,
    }

    def decode(sources):
        found = model.translate_batch([[words[token] for token in source] for source in sources], **settings)
        assert all(len(one.hypotheses) == args.beam for one in found) and folder
        return found

    return decode, f"ctranslate2 {ctranslate2.__version__}"


def run_products(args, groups):
    import torch

    encoder_layers, decoder_layers, d, _, ffn, vocab = SHAPES[args.shape]
    per_layer = [(d, 3 * d), (d, d), (d, d), (d, d), (d, ffn), (ffn, d)]
    in_encoder = [(d, 3 * d), (d, d), (d, ffn), (ffn, d)]

    def seconds(rows, inputs, outputs):
        x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.zeros(outputs)
        ways = [lambda: torch.nn.functional.linear(x, weight, bias)]
        if hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
            ways.append(lambda: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], ""))
        times = []
        for way in ways:
            way()
            for _ in range(3):
                begin = time.process_time()
                for _ in range(5):
                    way()
                times.append((time.process_time() - begin) / 5)
        return min(times)

    def decode(sources):
        # As the work is done: the first step has one row a sentence, the vocabulary is projected in parts.
        rows, source = args.beam * len(sources), sum(map(len, sources))
        most = max(((1 << 23) - 1) // vocab, 1)
        parts = -(-rows // most)
        encoder = encoder_layers * sum(seconds(source, *size) for size in in_encoder)
        encoder += decoder_layers * seconds(source, d, 2 * d)
        layers = decoder_layers * sum(seconds(rows, *size) for size in per_layer)
        return encoder + (args.steps - 1) * (layers + parts * seconds(rows // parts, d, vocab))

    return decode, f"torch {torch.__version__}"


def run_profile(args, groups):
    """Where polyref's time goes: CPU seconds of its parts, without what they call."""
    from polyref.models.networks import attention as ancestry
    from polyref.models.networks import matmul as products
    from polyref.models.networks import transformer
    from polyref.paraphrase.search import engine, fairseq, selection, state

    spent, running = Counter(), []

    def watch(owner, name, label):
        inner = getattr(owner, name)

        def outer(*given, **named):
            begin = time.process_time()
            running.append(0.0)
            result = inner(*given, **named)
            passed = time.process_time() - begin
            spent[label] += passed - running.pop()
            if running:
                running[-1] += passed
            return result

        setattr(owner, name, outer)

    watch(products.Product, "__call__", "products")
    watch(ancestry.AncestryCache, "attend", "self-attention")
    watch(ancestry.AncestryCache, "extend", "self-attention")
    watch(transformer, "attend", "cross- and encoder attention")
    watch(transformer, "norm", "layer normalisation")
    watch(state.Constraints, "_log_probabilities", "log-softmax")
    watch(selection.Selector, "__init__", "selection")
    watch(selection.Selector, "best", "selection")
    watch(selection.Selector, "count", "selection")
    watch(fairseq.FairseqRule, "advance", "selection")
    watch(state.Beams, "extend", "hypotheses")
    watch(state.Beams, "hypotheses", "hypotheses")
    watch(state.Layout, "shared", "hypotheses")
    watch(engine, "run", "the rest, Python included")
    decode, versions = run_polyref(args, groups)

    def measured(sources):
        spent.clear()
        decode(sources)
        return {label: seconds / len(sources) for label, seconds in spent.most_common()}

    return measured, versions


#: Name: what builds it, with which argument (groups: as asked, or 1), whose interpreter.
CONTENDERS = {
    "polyref": (run_polyref, "groups", None),
    "polyref-beam": (run_polyref, 1, None),
    "polyref-bfloat16": (lambda args, groups: run_polyref(args, groups, "bfloat16"), "groups", None),
    "polyref-int8": (lambda args, groups: run_polyref(args, groups, "int8"), "groups", None),
    "fairseq": (run_fairseq, "groups", "fairseq"),
    "transformers4": (run_transformers, "groups", "transformers4"),
    "transformers-beam": (run_transformers, 1, None),
    "ctranslate2-beam": (run_ctranslate2, "float32", "ctranslate2"),
    "ctranslate2-int8-beam": (run_ctranslate2, "int8", "ctranslate2"),
    "products": (run_products, 1, None),
    "profile": (run_profile, "groups", None),
}

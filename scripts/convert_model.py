"""Write a fairseq checkpoint as a Hugging Face directory that Transformers itself loads, with the same scores.

    python scripts/convert_model.py SRC OUT [--no-check]

SRC holds checkpoint.pt, dict.src.txt, dict.tgt.txt and spm.model (Prism's m39v1 is one). OUT is made.

fairseq's transformer is one class with many switches, Transformers has a class for every published combination of them.
The one that computes exactly the same is chosen, or the checkpoint is refused:

| layers | norm of the embeddings | positions | class |
|---|---|---|---|
| pre-norm | no | sinusoidal | M2M100 |
| pre-norm | no | learned, none | Blenderbot |
| pre-norm | yes | any | mBART |
| post-norm | yes | any | BART |
| post-norm | no | sinusoidal | FSMT |

Classes with learned positions take fairseq's sinusoids as their table. The tokeniser is Marian's, which looks
SentencePiece pieces up in a dictionary of their own, as fairseq does.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch import Tensor

from polyref.errors import ModelError, PolyrefError, UsageError
from polyref.models.checkpoints.seq2seq import FairseqParts, load_transformers, read_fairseq
from polyref.models.networks.attention import sinusoids
from polyref.models.networks.transformer import Transformer, TransformerConfig
from polyref.models.opening import is_fairseq_directory
from polyref.models.scorers import LeanScorer
from polyref.publishing import published_folder

#: Log-probabilities (nats) of a converted model may differ this much from the original's: rounding of float32.
TOLERANCE: Final = 1e-4
_ACTIVATIONS: Final = {"gelu_tanh": "gelu_new"}
#: What a token costs that only fills the table up (a log-probability of minus infinity).
_NEVER: Final = -math.inf


@dataclass(frozen=True)
class HuggingFaceClass:
    """A model class of Transformers.

    Attributes:
        model_type: As in ``config.json``.
        architecture: Name of the class.
        offset: Rows of its table before the first position (None: it computes fairseq's sinusoids itself).
        bias: Whether it adds a bias to the logits.
    """

    model_type: str
    architecture: str
    offset: int | None
    bias: bool


M2M100: Final = HuggingFaceClass("m2m_100", "M2M100ForConditionalGeneration", None, False)
FSMT: Final = HuggingFaceClass("fsmt", "FSMTForConditionalGeneration", None, False)
BLENDERBOT: Final = HuggingFaceClass("blenderbot", "BlenderbotForConditionalGeneration", 0, True)
MBART: Final = HuggingFaceClass("mbart", "MBartForConditionalGeneration", 2, True)
BART: Final = HuggingFaceClass("bart", "BartForConditionalGeneration", 2, True)


@dataclass(frozen=True)
class Conversion:
    """What was written.

    Attributes:
        source: The fairseq directory.
        target: The Hugging Face directory.
        architecture: The class of Transformers that loads it.
        tensors: Number of weights written.
        difference: Greatest difference of a token's log-probability between Transformers' forward of what was written
            and the original, in nats (None: not checked).
    """

    source: Path
    target: Path
    architecture: str
    tensors: int
    difference: float | None


def convert_to_huggingface(source: str | Path, target: str | Path, *, check: bool = True) -> Conversion:
    """Write a fairseq directory as a Hugging Face directory, in float32.

    Args:
        source: Directory with ``checkpoint.pt``, ``dict.src.txt``, ``dict.tgt.txt`` and ``spm.model``.
        target: Directory to write; it appears whole or not at all.
        check: Load what was written with Transformers and compare its log-probabilities.

    Raises:
        UsageError: ``target`` exists.
        ModelError: ``source`` is no fairseq directory, no class of Transformers computes the same, or the check found
            a difference of more than ``TOLERANCE``.
    """
    source, target = Path(source), Path(target)
    check_target(target)
    if not is_fairseq_directory(source):
        raise ModelError("no fairseq model: no checkpoint.pt", file=source)
    parts = read_fairseq(source)
    try:
        network = Transformer(parts.config, parts.weights)
        chosen = choose_class(parts.config, parts.weights)
    except ModelError as error:
        raise ModelError(error.message, file=source / "checkpoint.pt", remedy=error.remedy) from None
    settings, tensors = rename(chosen, parts.config, parts.weights)
    with published_folder(target.resolve()) as part:
        _write_model(part, settings, tensors)
        _write_tokenizer(part, parts)
        difference = greatest_difference(network, part) if check else None
        if difference is not None and not difference <= TOLERANCE:
            raise ModelError(
                f"log-probabilities of the converted model differ by {difference:.2g}, expected at most {TOLERANCE:g}",
                file=source,
                remedy="nothing was written; please report this checkpoint's architecture",
            )
    return Conversion(source, target, chosen.architecture, len(tensors), difference)


def check_target(target: Path) -> None:
    """Refuse a directory that cannot be made.

    Raises:
        UsageError: It exists, or its parent does not.
    """
    if target.exists():
        raise UsageError(f"{target} exists", remedy="name a directory that does not exist yet")
    if not target.resolve().parent.is_dir():
        raise UsageError(f"there is no directory {target.resolve().parent} to write {target.name} in")


def choose_class(config: TransformerConfig, weights: Mapping[str, Tensor]) -> HuggingFaceClass:
    """The class of Transformers that computes exactly what the checkpoint does.

    Raises:
        ModelError: There is none; the message says which property it lacks.
    """
    pre = config.encoder_pre_norm
    if pre != config.decoder_pre_norm:
        raise ModelError("one of encoder and decoder is pre-norm, the other post-norm: Transformers has no such class")
    if config.encoder_positions != config.decoder_positions:
        raise ModelError("encoder and decoder have positions of different kinds: Transformers has no such class")
    normed = _on_both_sides(weights, "layernorm_embedding", "a norm of the embeddings")
    final = _on_both_sides(weights, "layer_norm", "a final norm")
    if final != pre:
        kind = "pre-norm without a final norm" if pre else "post-norm with a final norm"
        raise ModelError(f"the layers are {kind}: Transformers has no such class")
    sinusoidal = config.encoder_positions == "fairseq"
    # A target vocabulary smaller than the source's is filled up with tokens that a bias forbids.
    filled = len(weights["output.weight"]) < len(weights["encoder.embed_tokens.weight"])
    if normed:
        return MBART if pre else BART
    if pre:
        return M2M100 if sinusoidal and not filled else BLENDERBOT
    if sinusoidal:
        return FSMT
    raise ModelError(
        "post-norm layers without a norm of the embeddings and without sinusoidal positions: no such class"
    )


def _on_both_sides(weights: Mapping[str, Tensor], name: str, what: str) -> bool:
    found = {side: f"{side}.{name}.weight" in weights for side in ("encoder", "decoder")}
    if found["encoder"] != found["decoder"]:
        raise ModelError(f"only one of encoder and decoder has {what}: Transformers has no such class")
    return found["encoder"]


def rename(
    chosen: HuggingFaceClass, config: TransformerConfig, weights: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """``config.json`` and the weights under Transformers' names."""
    left = dict(weights)
    encoder, decoder, output = (
        left.pop(name) for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "output.weight")
    )
    longest = min(config.max_source, config.max_target)
    tensors: dict[str, Tensor] = {}
    for side in ("encoder", "decoder"):
        table = left.pop(f"{side}.positions", None)
        if chosen is FSMT:  # its own sinusoids, which it looks for in the file
            own = sinusoids(longest + config.pad + 1, config.dim, 0)
            own[config.pad] = 0.0
            tensors[f"model.{side}.embed_positions.weight"] = own
        if chosen.offset is None:
            continue
        if table is None:
            sinusoidal = config.encoder_positions == "fairseq"
            table = sinusoids(longest, config.dim, config.pad + 1) if sinusoidal else torch.zeros(longest, config.dim)
        longest = min(longest, len(table))
        rows = torch.cat((torch.zeros(chosen.offset, config.dim), table[:longest].float()))
        tensors[f"model.{side}.embed_positions.weight"] = rows
    tensors.update((f"model.{name}", value) for name, value in left.items())
    tied = encoder.data_ptr() == decoder.data_ptr() == output.data_ptr()
    sizes = _embeddings(chosen, tensors, encoder, decoder, output, tied)
    settings: dict[str, Any] = {
        "architectures": [chosen.architecture],
        "model_type": chosen.model_type,
        **sizes,
        "d_model": config.dim,
        "max_position_embeddings": longest,
        "activation_function": _ACTIVATIONS.get(config.activation, config.activation),
        "scale_embedding": config.scale != 1.0,
        "tie_word_embeddings": tied,
        "is_encoder_decoder": True,
        "bos_token_id": 0,
        "pad_token_id": config.pad,
        "eos_token_id": config.eos,
        "unk_token_id": config.unk,
        "decoder_start_token_id": config.start,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }
    for side, layers, heads in (
        ("encoder", config.encoder_layers, config.encoder_heads),
        ("decoder", config.decoder_layers, config.decoder_heads),
    ):
        settings[f"{side}_layers"] = layers
        settings[f"{side}_attention_heads"] = heads
        settings[f"{side}_ffn_dim"] = len(weights[f"{side}.layers.0.fc1.weight"])
    return settings, {name: value.float().contiguous().clone() for name, value in tensors.items()}


def _embeddings(
    chosen: HuggingFaceClass, tensors: dict[str, Tensor], encoder: Tensor, decoder: Tensor, output: Tensor, tied: bool
) -> dict[str, Any]:
    """Add the embeddings and the output projection; returns the sizes of the vocabularies."""
    if chosen is FSMT:
        tensors["model.encoder.embed_tokens.weight"] = encoder
        tensors["model.decoder.embed_tokens.weight"] = decoder
        tensors["model.decoder.output_projection.weight"] = output
        if tied:
            del tensors["model.encoder.embed_tokens.weight"], tensors["model.decoder.output_projection.weight"]
        return {"src_vocab_size": len(encoder), "tgt_vocab_size": len(output), "langs": ["src", "tgt"]}
    size = max(len(encoder), len(output))
    bias = torch.zeros(1, size)
    bias[:, len(output) :] = _NEVER
    encoder, decoder, output = (
        torch.nn.functional.pad(table, (0, 0, 0, size - len(table))) if len(table) < size else table
        for table in (encoder, decoder, output)
    )
    tensors["model.shared.weight"] = encoder
    if not tied:
        # Transformers 5 keeps four tables then, though it never reads the first.
        tensors["model.encoder.embed_tokens.weight"] = encoder
        tensors["model.decoder.embed_tokens.weight"] = decoder
        tensors["lm_head.weight"] = output
    if chosen.bias:
        tensors["final_logits_bias"] = bias
    return {"vocab_size": size}


def _write_model(folder: Path, settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    from safetensors.torch import save_file

    _write_json(folder / "config.json", settings)
    tokens = ("bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id")
    generation = {name: settings[name] for name in tokens}
    _write_json(folder / "generation_config.json", {**generation, "max_length": 200})
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes files private


def _write_tokenizer(folder: Path, parts: FairseqParts) -> None:
    """Files of a ``MarianTokenizer``: pieces looked up in the dictionaries, the end of sentence added, no tag."""
    codec = parts.codec
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(parts.sentencepiece, folder / name)
    _write_json(folder / "vocab.json", codec.source.index)
    separate = codec.source.index != codec.target.index
    if separate:
        _write_json(folder / "target_vocab.json", codec.target.index)
    tags = {lang: codec.prefix(lang)[0] for lang in codec.languages}
    settings: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": parts.config.max_source,
        "separate_vocabs": separate,
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        # The text "<en>" is text; the tag is forced as first target token (forced_bos_token_id).
        "split_special_tokens": True,
        "language_tags": tags,
    }
    if not separate:  # Transformers looks special tokens up in the source's dictionary alone
        settings["additional_special_tokens"] = [codec.target.symbols[token] for token in tags.values()]
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


@torch.inference_mode()
def greatest_difference(network: Transformer, folder: Path) -> float:
    """Greatest difference (nats) of a token's log-probability between Transformers' forward of ``folder`` and ours.

    On three pairs of token sequences spread over the vocabularies, as long as the positions allow, up to 40.
    """
    loaded = load_transformers(folder).eval()
    worst = 0.0
    codec: Any = SimpleNamespace(languages=())  # no text is read
    scorer = LeanScorer(network, codec, None, name="", digest="", dtype="float32")
    for length in (2, 11, 40):
        sides = []
        for size, most in (
            (len(network.source_embedding), network.max_source),
            (network.vocab_size, network.max_target),
        ):
            count = min(length, most) - 1
            sides.append([*(4 + (7 + 31 * i) * size // 257 % max(size - 4, 1) for i in range(count)), network.eos])
        source, target = sides
        (expected,) = scorer.compute(([tuple(source)], [tuple(target)], None))
        logits = loaded(
            input_ids=torch.tensor([source]),
            attention_mask=torch.ones(1, len(source), dtype=torch.int64),
            decoder_input_ids=torch.tensor([[network.start, *target[:-1]]]),
            use_cache=False,  # with it, FSMT expects one token at a time
        ).logits
        found = torch.log_softmax(logits[0].float(), dim=-1).gather(1, torch.tensor(target)[:, None])[:, 0]
        worst = max(worst, float((found - torch.from_numpy(expected)).abs().max()))
    return worst


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SRC")
    parser.add_argument("target", type=Path, metavar="OUT")
    parser.add_argument("--no-check", action="store_true", help="do not compare with the original's scores")
    options = parser.parse_args(argv)
    try:
        done = convert_to_huggingface(options.source, options.target, check=not options.no_check)
    except PolyrefError as error:
        parser.exit(error.exit_code, f"error: {error}\n")
    checked = "not checked" if done.difference is None else f"log-probabilities within {done.difference:.1e} nats"
    print(f"{done.target}: {done.architecture}, {done.tensors} tensors, {checked}")


if __name__ == "__main__":
    main()

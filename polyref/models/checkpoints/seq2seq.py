"""Encoder-decoders of fairseq and of Hugging Face's BART family, read without running what is in their files.

Weights are renamed for :class:`Transformer`; Transformers itself is only asked for the tokeniser, and for networks of
other families.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from polyref.errors import ModelError, PolyrefError
from polyref.models.checkpoints.text import (
    FairseqCodec,
    FairseqDictionary,
    HuggingFaceCodec,
    TextCodec,
    load_sentencepiece,
    load_tokenizer,
)
from polyref.models.networks.transformer import Positions, Transformer, TransformerConfig
from polyref.models.opening import check_archive, faults_of, find, from_folder, hash_files, read_config, read_weights
from polyref.models.opening import load_network as load_automodel


@dataclass(frozen=True)
class Seq2Seq:
    """A loaded model.

    Attributes:
        family: ``fairseq`` or the Hugging Face model type.
        name: ``prism-m39v1`` where it is recognised, else the directory's name.
        fingerprint: SHA-256 of the model's files, in hexadecimal.
    """

    network: Transformer
    codec: TextCodec
    family: str
    name: str
    fingerprint: str
    path: Path


#: Prism's released model (Thompson & Post 2020): md5 over its four files, in the order of ``FINGERPRINTED``.
PRISM_MD5: Final = "8412b2044da4b9b2c0a8ce87b305d0d1"
# fmt: off
PRISM_LANGUAGES: Final = (
    "ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "eo", "es", "et", "fi", "fr", "he", "hr", "hu", "id", "it",
    "ja", "kk", "lt", "lv", "mk", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "tr", "uk", "vi",
    "zh",
)
# fmt: on
FINGERPRINTED: Final = ("checkpoint.pt", "spm.model", "dict.src.txt", "dict.tgt.txt")

_FAIRSEQ_ACTIVATIONS: Final = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "swish": "swish",
    "tanh": "tanh",
    "linear": "linear",
}
# Copies that fairseq 0.12.2 writes for its fused inference path.
_FUSED_COPIES: Final = ("in_proj_", "out_proj_", "fc1_", "fc2_")


@dataclass(frozen=True)
class FairseqParts:
    """What lies in a fairseq directory: settings and ``state`` as it has them, weights by polyref's names."""

    settings: Mapping[str, Any]
    state: Mapping[str, Tensor]
    config: TransformerConfig
    weights: Mapping[str, Tensor]
    codec: FairseqCodec
    sentencepiece: Path
    name: str
    fingerprint: str


def read_fairseq(path: str | Path) -> FairseqParts:
    """Read a fairseq directory: ``checkpoint.pt``, ``dict.src.txt``, ``dict.tgt.txt`` and ``spm.model``.

    Dictionaries may also be named after the languages of the checkpoint's task (``dict.de.txt``), and the SentencePiece
    model ``sentencepiece.bpe.model``.
    """
    directory = Path(path)
    settings, state = read_fairseq_checkpoint(directory / "checkpoint.pt")
    source = FairseqDictionary(_first(directory, "dict.src.txt", f"dict.{settings.get('source_lang')}.txt"))
    target = FairseqDictionary(_first(directory, "dict.tgt.txt", f"dict.{settings.get('target_lang')}.txt"))
    sentencepiece = _first(directory, "spm.model", "sentencepiece.bpe.model")
    pieces = load_sentencepiece(sentencepiece)
    # Every dictionary: which of them are read hangs on the languages of the task.
    read = [directory / "checkpoint.pt", sentencepiece, *sorted(directory.glob("dict.*.txt"))]
    fingerprint = hash_files(read)
    with faults_of(directory / "checkpoint.pt"):
        config, weights = convert_fairseq(settings, state)
    for dictionary, table, file in (
        (source, weights["encoder.embed_tokens.weight"], "dict.src.txt"),
        (target, weights["output.weight"], "dict.tgt.txt"),
    ):
        if len(dictionary) != len(table):
            raise ModelError(
                f"{len(dictionary)} tokens with the 4 special ones, but the checkpoint has {len(table)}",
                file=directory / file,
                remedy="use the dictionary the model was trained with",
            )
    prism = _md5(directory) == PRISM_MD5
    codec = FairseqCodec(pieces, source, target, PRISM_LANGUAGES if prism else None)
    name = "prism-m39v1" if prism else directory.resolve().name
    return FairseqParts(settings, state, config, weights, codec, sentencepiece, name, fingerprint)


def load_fairseq(
    path: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Seq2Seq:
    """Load a fairseq directory, see :func:`read_fairseq`."""
    directory = Path(path)
    parts = read_fairseq(directory)
    with faults_of(directory / "checkpoint.pt"):
        network = Transformer(parts.config, parts.weights, device=device, dtype=dtype)
    return Seq2Seq(network, parts.codec, "fairseq", parts.name, parts.fingerprint, directory)


def read_fairseq_checkpoint(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and weights of a fairseq checkpoint, of the ``args`` and of the ``cfg`` layout.

    The pickle may name tensors, plain containers and ``argparse.Namespace``, nothing else: nothing in it is run.
    """
    if not Path(path).is_file():
        raise ModelError("no such file", file=path, remedy="a fairseq model is a directory with a checkpoint.pt")
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols; what cannot be read fails anyway
            check_archive(Path(path))
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except PolyrefError:
        raise
    except pickle.UnpicklingError as error:
        if refused := _refused_global(str(error)):
            raise ModelError(
                f"the checkpoint names {refused}, expected nothing but weights and plain settings; nothing was run",
                file=path,
                remedy="load only checkpoints you trust; fairseq itself can re-save this one without it",
            ) from None
        raise ModelError("no checkpoint that can be read safely", file=path, remedy="is it complete?") from None
    except Exception as error:  # a broken file can fail anywhere in the reader
        reason = str(error).split("\n")[0]
        raise ModelError(f"no checkpoint that can be read: {reason}", file=path, remedy="is it complete?") from None
    if not isinstance(stored, dict) or not isinstance(stored.get("model"), Mapping):
        raise ModelError("no fairseq checkpoint: it holds no weights under 'model'", file=path)
    settings = _settings(stored)
    if settings is None:
        raise ModelError("no fairseq checkpoint: it holds no settings under 'args' or 'cfg'", file=path)
    weights = {str(k): v for k, v in stored["model"].items() if isinstance(v, Tensor)}
    return settings, weights


def _refused_global(message: str) -> str | None:
    for line in message.split("\n"):
        for marker in ("GLOBAL ", "Unsupported global: GLOBAL ", "Unsupported class "):
            if marker in line:
                return line.split(marker, 1)[1].split(" ")[0].rstrip(".,:`")
    return None


def _settings(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    if stored.get("args") is not None:
        return dict(_plain(stored["args"]))
    cfg = stored.get("cfg")
    if not isinstance(cfg, Mapping) or cfg.get("model") is None:
        return None
    # The architecture's settings; the task adds the languages and the longest positions.
    task = cfg.get("task")
    merged = dict(_plain(task)) if task is not None else {}
    merged.update(_plain(cfg["model"]))
    return merged


def _plain(settings: Any) -> Mapping[str, Any]:
    if isinstance(settings, argparse.Namespace):
        return vars(settings)
    return settings if isinstance(settings, Mapping) else {}


def convert_fairseq(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The network's configuration, and its weights under polyref's names. A missing setting has fairseq's default."""

    def flag(name: str) -> bool:
        return bool(settings.get(name, False))

    for name in ("adaptive_input", "no_cross_attention", "cross_self_attention", "char_inputs"):
        if flag(name):
            raise ModelError(f"the architecture uses {name}, which is not supported")
    if settings.get("adaptive_softmax_cutoff"):
        raise ModelError("the architecture uses an adaptive softmax, which is not supported")
    if "decoder.embed_tokens.weight" not in tensors or "encoder.embed_tokens.weight" not in tensors:
        raise ModelError("the checkpoint is no encoder-decoder transformer: it has no embeddings of that kind")
    weights = {name: value for name, value in tensors.items() if not _is_extra(name)}
    for table in (weights["encoder.embed_tokens.weight"], weights["decoder.embed_tokens.weight"]):
        if table.dim() != 2:
            raise ModelError(f"the embeddings have shape {tuple(table.shape)}, expected tokens x width")
    dim = weights["encoder.embed_tokens.weight"].shape[1]
    tied = flag("share_all_embeddings") or flag("share_decoder_input_output_embed")
    target = weights["decoder.embed_tokens.weight"]
    if flag("share_all_embeddings"):
        weights["encoder.embed_tokens.weight"] = target
    if tied:
        weights.pop("decoder.output_projection.weight", None)
        weights["output.weight"] = target
    else:
        old = weights.pop("decoder.embed_out", None)
        weights["output.weight"] = weights.pop("decoder.output_projection.weight", old)  # type: ignore[arg-type]
        if weights["output.weight"] is None:
            raise ModelError("the checkpoint has no output projection")
    positions: dict[str, Positions] = {}
    longest = {"encoder": settings.get("max_source_positions"), "decoder": settings.get("max_target_positions")}
    limits = {}
    for side, limit in longest.items():
        limits[side] = int(limit or 1024)
        positions[side] = "fairseq"
        if flag("no_token_positional_embeddings"):
            positions[side] = "none"
        elif flag(f"{side}_learned_pos"):
            positions[side] = "learned"
            learned = weights.pop(f"{side}.embed_positions.weight", None)
            if learned is None:
                raise ModelError(f"the checkpoint has no learned {side} positions")
            # Rows up to the padding token's are never used.
            weights[f"{side}.positions"] = learned[2:]
            limits[side] = min(limits[side], len(learned) - 2)
        # Old checkpoints hold a final norm that their version did not use.
        version = float(tensors.get(f"{side}.version", torch.tensor([1.0]))[0])
        if version < (2 if side == "encoder" else 3):
            weights.pop(f"{side}.layer_norm.weight", None)
            weights.pop(f"{side}.layer_norm.bias", None)
    _split_fused(weights)
    activation = str(settings.get("activation_fn") or "relu")
    if activation not in _FAIRSEQ_ACTIVATIONS:
        raise ModelError(f"activation is {activation!r}, expected one of {', '.join(_ACTIVATIONS)}")
    config = TransformerConfig(
        dim=dim,
        encoder_layers=_layers(weights, "encoder"),
        decoder_layers=_layers(weights, "decoder"),
        encoder_heads=int(settings.get("encoder_attention_heads", 8)),
        decoder_heads=int(settings.get("decoder_attention_heads", 8)),
        encoder_pre_norm=flag("encoder_normalize_before"),
        decoder_pre_norm=flag("decoder_normalize_before"),
        activation=_FAIRSEQ_ACTIVATIONS[activation],
        scale=1.0 if flag("no_scale_embedding") else math.sqrt(dim),
        encoder_positions=positions["encoder"],
        decoder_positions=positions["decoder"],
        pad=1,
        eos=2,
        unk=3,
        start=2,
        max_source=limits["encoder"],
        max_target=limits["decoder"],
    )
    return config, weights


def _is_extra(name: str) -> bool:
    parts = name.split(".")
    fused = len(parts) == 4 and parts[1] == "layers" and parts[3].startswith(_FUSED_COPIES)
    return fused or parts[-1] in ("version", "_float_tensor")


def _split_fused(weights: dict[str, Tensor]) -> None:
    """Old checkpoints hold the query, key and value projections of an attention block in one tensor."""
    for name in [name for name in weights if ".in_proj_" in name]:
        block, kind = name.split(".in_proj_")
        for letter, part in zip("qkv", weights.pop(name).chunk(3)):
            weights[f"{block}.{letter}_proj.{kind}"] = part


def _layers(weights: Mapping[str, Tensor], side: str) -> int:
    numbers = {int(name.split(".")[2]) for name in weights if name.startswith(f"{side}.layers.")}
    if not numbers:
        raise ModelError(f"the checkpoint has no {side} layers")
    return max(numbers) + 1


def _first(directory: Path, *names: str) -> Path:
    for name in names:
        if (directory / name).is_file():
            return directory / name
    return directory / names[0]


def _md5(directory: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for name in FINGERPRINTED:
        file = _first(directory, name, "sentencepiece.bpe.model") if name == "spm.model" else directory / name
        if file.is_file():
            with file.open("rb") as stream:
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
    return digest.hexdigest()


#: Model type to (pre-norm, kind of positions).
FAMILIES: Final[Mapping[str, tuple[bool, Positions]]] = {
    "bart": (False, "learned"),
    "mbart": (True, "learned"),
    "marian": (False, "marian"),
    "m2m_100": (True, "fairseq"),
    "blenderbot": (True, "learned"),
    "fsmt": (False, "fairseq"),
}
_ACTIVATIONS: Final = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "swish",
    "silu": "swish",
    "tanh": "tanh",
    "linear": "linear",
}
# BART's and mBART's positions are filled from row 2 on (the padding token's row and the one before it are never used).
_LEARNED_OFFSET: Final = {"blenderbot": 0}


def load_family(
    directory: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Transformer:
    """The network of a Hugging Face directory of the family."""
    directory = Path(directory)
    config = read_config(directory)
    with faults_of(directory):
        return Transformer(*convert(config, read_weights(directory)), device=device, dtype=dtype)


def convert(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The network's configuration and its weights under polyref's names."""
    family = str(config.get("model_type"))
    if family not in FAMILIES:
        raise ModelError(f"model type is {family!r}, expected one of {', '.join(FAMILIES)}")
    pre, kind = FAMILIES[family]
    activation = str(config.get("activation_function", "gelu"))
    if activation not in _ACTIVATIONS:
        raise ModelError(f"activation is {activation!r}, expected one of {', '.join(_ACTIVATIONS)}")
    weights = {name.removeprefix("model."): value for name, value in tensors.items()}
    shared = weights.pop("shared.weight", None)
    if family == "fsmt":  # fairseq's names; tied tables are there once
        shared = weights.get("decoder.embed_tokens.weight")
        head = weights.pop("decoder.output_projection.weight", None)
    else:
        head = weights.pop("lm_head.weight", None)
    for side in ("encoder", "decoder"):
        name = f"{side}.embed_tokens.weight"
        if weights.get(name, shared) is None:
            raise ModelError(f"the model has no weight {name!r}")
        weights.setdefault(name, shared)  # type: ignore[arg-type]
        table = weights.pop(f"{side}.embed_positions.weight", None)
        weights.pop(f"{side}.embed_positions.weights", None)
        if kind == "learned":
            if table is None:
                raise ModelError(f"the model has no learned {side} positions")
            weights[f"{side}.positions"] = table[_LEARNED_OFFSET.get(family, 2) :]
    tied = config.get("tie_word_embeddings", True)
    weights["output.weight"] = weights["decoder.embed_tokens.weight"] if tied or head is None else head
    bias = weights.pop("final_logits_bias", None)
    if bias is not None and bool(bias.any()):
        weights["output.bias"] = bias.flatten()
    dim = int(_needed(config, "d_model"))
    start = config.get("decoder_start_token_id")
    eos = config.get("eos_token_id", 2)
    longest = int(config.get("max_position_embeddings", 1024))
    return TransformerConfig(
        dim=dim,
        encoder_layers=int(_needed(config, "encoder_layers")),
        decoder_layers=int(_needed(config, "decoder_layers")),
        encoder_heads=int(_needed(config, "encoder_attention_heads")),
        decoder_heads=int(_needed(config, "decoder_attention_heads")),
        encoder_pre_norm=pre,
        decoder_pre_norm=pre,
        activation=_ACTIVATIONS[activation],
        scale=math.sqrt(dim) if config.get("scale_embedding", False) else 1.0,
        encoder_positions=kind,
        decoder_positions=kind,
        pad=int(config.get("pad_token_id", 1)),
        eos=int(eos[0] if isinstance(eos, list) else eos),
        unk=int(config.get("unk_token_id") or (1 if family == "marian" else 3)),
        start=int(eos if start is None else start),
        max_source=longest,
        max_target=longest,
    ), weights


def _needed(config: Mapping[str, Any], name: str) -> Any:
    if config.get(name) is None:
        raise ModelError(f"the configuration has no {name}")
    return config[name]


def check_family(config: Mapping[str, Any], directory: Path) -> None:
    """Refuse what neither polyref nor Transformers, without code from the model, can run as an encoder-decoder."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

    family = config.get("model_type")
    if family in FAMILIES:
        return
    # Among those that Transformers lists are models of speech without an encoder for texts.
    known = family in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    if not known or not getattr(CONFIG_MAPPING[family], "is_encoder_decoder", False):
        raise ModelError(
            f"model type is {family!r}, no encoder-decoder that Transformers can load by itself",
            file=directory,
            remedy="paraphrases need an encoder-decoder model; code that comes with a model is never run",
        )


def load_transformers(directory: Path) -> Any:
    """The model of a Hugging Face directory as Transformers' own class for encoder-decoders, in float32."""
    check_family(read_config(directory), directory)
    return load_automodel("AutoModelForSeq2SeqLM", directory, "encoder-decoder")


def read_generation(folder: Path) -> dict[str, Any]:
    """The generation settings of a folder that have a value, as ``generate`` of Transformers finds them.

    They are in ``generation_config.json``, in older folders in ``config.json``.
    """
    file = folder / "generation_config.json"
    source: dict[str, Any] = {}
    if not file.is_file():
        file, source = folder / "config.json", {"config_file_name": "config.json", "_from_model_config": True}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = from_folder("GenerationConfig", folder, **source)
    except Exception as error:  # settings of any kind may be wrong in any way
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"no generation settings that Transformers can read: {reason}", file=file) from None
    # What is no setting of its own it keeps as it was given.
    return {name: value for name, value in found.to_dict().items() if value is not None and name != "trust_remote_code"}


def load_checkpoint(
    name: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Seq2Seq:
    """Load a fairseq or Hugging Face directory, or a model of the Hugging Face hub by its name."""
    found = find(name, "generator")
    if found.kind == "fairseq":
        return load_fairseq(found.folder, device=device, dtype=dtype)
    network = load_family(found.folder, device=device, dtype=dtype)
    tokenizer = load_tokenizer(found.folder)
    if tokenizer.unk_token_id is not None:
        network.unk = int(tokenizer.unk_token_id)
    return Seq2Seq(network, HuggingFaceCodec(tokenizer), found.family, found.name, found.digest, found.folder)

"""Loading Hugging Face directories of the BART family into :class:`~polyref.models.networks.transformer.Transformer`.

Marian, M2M100 (and NLLB's dense models, which are M2M100), BART and mBART: the weights are read from the files and
renamed; Transformers itself is only asked for the tokeniser.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from polyref.errors import ModelError
from polyref.models.checkpoints.fairseq import Seq2Seq, load_fairseq
from polyref.models.checkpoints.text import HuggingFaceCodec, load_tokenizer
from polyref.models.checkpoints.weights import faults_of, read_weights
from polyref.models.networks.transformer import Positions, Transformer, TransformerConfig
from polyref.models.opening import find, from_folder, read_config
from polyref.models.opening import load_network as load_automodel

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


def load_network(
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
    network = load_network(found.folder, device=device, dtype=dtype)
    tokenizer = load_tokenizer(found.folder)
    if tokenizer.unk_token_id is not None:
        network.unk = int(tokenizer.unk_token_id)
    return Seq2Seq(network, HuggingFaceCodec(tokenizer), found.family, found.name, found.digest, found.folder)

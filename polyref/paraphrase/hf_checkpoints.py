"""Loading Hugging Face directories of the BART family into :class:`~polyref.paraphrase.transformer.Transformer`.

Marian, M2M100 (and NLLB's dense models, which are M2M100), BART and mBART: the weights are read from the files and
renamed; Transformers itself is only asked for the tokeniser.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from polyref.errors import ModelError, PolyrefError, UsageError
from polyref.paraphrase.languages import resolve
from polyref.paraphrase.transformer import Transformer
from polyref.paraphrase.transformer_config import Positions, TransformerConfig
from polyref.paraphrase.vocabulary import TextCodec

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


def read_config(directory: str | Path) -> dict[str, Any]:
    """The ``config.json`` of a Hugging Face directory.

    Raises:
        ModelError: It is missing or no JSON object.
    """
    path = Path(directory) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            "no such file", file=path, remedy="a Hugging Face model is a directory with this file"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"no JSON: {error}", file=path) from None
    if not isinstance(config, dict):
        raise ModelError("no JSON object", file=path)
    return config


def load_network(
    directory: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Transformer:
    """The network of a Hugging Face directory of the family.

    Raises:
        ModelError: A file is missing or broken, or the model is of another family.
    """
    directory = Path(directory)
    config = read_config(directory)
    with faults_of(directory):
        return Transformer(*convert(config, read_weights(directory)), device=device, dtype=dtype)


@contextmanager
def faults_of(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is a fault of the model at ``path``: its settings and weights may be anything.

    Raises:
        ModelError: Something went wrong.
    """
    try:
        yield
    except PolyrefError as error:
        raise error if error.file else ModelError(error.message, file=path, remedy=error.remedy) from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(
            f"settings and weights that make no model: {reason}", file=path, remedy="is it complete and unaltered?"
        ) from error


def read_weights(directory: Path) -> dict[str, Tensor]:
    """All tensors of a directory: safetensors where there are any, else ``pytorch_model.bin``, weights only.

    Raises:
        ModelError: There are no weights, or a file of them is missing or broken.
    """
    for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
        index = directory / f"{stem}.{suffix}.index.json"
        if index.is_file():
            try:
                names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            except (ValueError, KeyError, AttributeError, TypeError):
                raise ModelError("no index of weights", file=index) from None
            merged: dict[str, Tensor] = {}
            for name in names:
                merged.update(_read(directory / Path(name).name))
            return merged
        if (directory / f"{stem}.{suffix}").is_file():
            return _read(directory / f"{stem}.{suffix}")
    raise ModelError("no weights, expected model.safetensors or pytorch_model.bin", file=directory)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ModelError("no such file", file=path, remedy="download the model again")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ModelError("the file holds more than weights, nothing was run", file=path) from None
    except Exception as error:  # a broken file can fail anywhere in the readers
        raise ModelError(f"no weights that can be read: {error}", file=path, remedy="is it complete?") from None
    return {str(name): value for name, value in stored.items() if isinstance(value, Tensor)}


def convert(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The network's configuration and its weights under polyref's names.

    Raises:
        ModelError: The model is of another family or a needed setting is missing.
    """
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


class HuggingFaceCodec:
    """A Hugging Face tokeniser: source and target texts, and the language codes of multilingual models.

    Args:
        tokenizer: The tokeniser.
        longest: Most source tokens.

    Attributes:
        tag_starts: Whether the language's tag is the decoder's first input instead of its first output.
    """

    def __init__(self, tokenizer: Any, longest: int) -> None:
        self._tokenizer = tokenizer
        self._longest = longest
        self._codes = language_codes(tokenizer)
        self._marks_source = hasattr(tokenizer, "src_lang")
        # The first mBART starts its decoder with the tag; its successors force it as the first token.
        self.tag_starts = type(tokenizer).__name__ == "MBartTokenizer"
        self.languages = tuple(sorted(self._codes))

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        """Source token ids with the end of sentence; multilingual models mark the source with ``lang``."""
        return [int(token) for token in self._source(text, lang)["input_ids"]]

    def _source(self, text: str, lang: str | None) -> Any:
        if self._codes and lang is not None:
            code = resolve(lang, self.languages)
            if self._marks_source:
                self._tokenizer.src_lang = code
        return self._tokenizer(text, truncation=True, max_length=self._longest)

    def encode_target(self, text: str, lang: str | None = None) -> list[int]:
        """Target token ids with the end of sentence, without the tag of ``lang``."""
        if self._codes and lang is not None:
            code = resolve(lang, self.languages)
            if self._marks_source:
                self._tokenizer.tgt_lang = code
        encoded = self._tokenizer(text_target=text, truncation=True, max_length=self._longest)["input_ids"]
        tags = set(self._codes.values())
        return [int(token) for token in encoded if token not in tags]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens, without special tokens and tags."""
        tags = set(self._codes.values())
        kept = [int(token) for token in tokens if token not in tags]
        return str(self._tokenizer.decode(kept, skip_special_tokens=True)).strip()

    def prefix(self, lang: str | None) -> list[int]:
        """The tag of ``lang``, forced as the first target token.

        Raises:
            UsageError: The model has no such language, or has several and none is named.
        """
        if not self._codes:
            if lang is None:
                return []
            raise UsageError(f"language {lang!r} was named, but the model has no language codes")
        return [self._codes[resolve(lang, self.languages)]]

    def token(self, token: str) -> int | None:
        """Id of a target token, None if there is no such token."""
        known = self._vocabulary().get(token)
        return None if known is None else int(known)

    def pieces(self, text: str, lang: str | None = None) -> list[str]:
        """Source tokens as text, without tags and the end of sentence; unknown ones are spelled out."""
        return [str(piece) for piece in self._tokenizer.tokenize(text)]

    def symbols(self) -> list[str]:
        """Target tokens by id; numbers that no token has are empty."""
        vocabulary = self._vocabulary()
        found = [""] * (max(vocabulary.values()) + 1)
        for token, number in vocabulary.items():
            found[number] = token
        return found

    def _vocabulary(self) -> dict[str, int]:
        separate = getattr(self._tokenizer, "separate_vocabs", False)
        return dict(self._tokenizer.target_encoder if separate else self._tokenizer.get_vocab())


def language_codes(tokenizer: Any) -> dict[str, int]:
    """Language codes of a tokeniser (M2M100, mBART, NLLB, converted fairseq) and their token ids; empty for others."""
    tags = tokenizer.init_kwargs.get("language_tags")
    if isinstance(tags, dict):  # written by polyref.paraphrase.convert
        return {str(code): int(token) for code, token in tags.items()}
    to_token = getattr(tokenizer, "lang_code_to_token", None)
    if to_token:  # M2M100: "en" stands for "__en__"
        return {code: int(tokenizer.convert_tokens_to_ids(token)) for code, token in to_token.items()}
    to_id = getattr(tokenizer, "lang_code_to_id", None)
    if to_id:
        return {code: int(number) for code, number in to_id.items()}
    if not hasattr(tokenizer, "src_lang"):
        return {}
    extra = [str(token) for token in getattr(tokenizer, "extra_special_tokens", None) or []]
    return {token: int(tokenizer.convert_tokens_to_ids(token)) for token in extra if "_" in token and token[0] != "<"}


def load_codec(directory: str | Path, network: Transformer) -> TextCodec:
    """The tokeniser of a Hugging Face directory.

    Raises:
        ModelError: It has none that can be loaded.
    """
    tokenizer = load_tokenizer(directory)
    if tokenizer.unk_token_id is not None:
        network.unk = int(tokenizer.unk_token_id)
    return HuggingFaceCodec(tokenizer, network.max_source)


def load_tokenizer(directory: str | Path) -> Any:
    """The tokeniser of a Hugging Face directory, from its files alone.

    Raises:
        ModelError: It has none that can be loaded.
    """
    from transformers import AutoTokenizer

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")  # for a method nobody calls
            found = AutoTokenizer.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(
            f"no tokeniser that can be loaded: {reason}", file=directory, remedy=_tokenizer_remedy(Path(directory))
        ) from None
    check_tokenizer(found, directory)
    return found


def check_tokenizer(tokenizer: Any, directory: str | Path) -> None:
    """Refuse a tokeniser without words: what Transformers makes of a folder that holds the network alone.

    Raises:
        ModelError: It knows special tokens only.
    """
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ModelError(
            f"no vocabulary: its tokeniser knows {len(tokenizer.get_vocab())} special tokens and no others",
            file=directory,
            remedy="save the tokeniser into the same folder: tokenizer.save_pretrained",
        )


def _tokenizer_remedy(directory: Path) -> str | None:
    """Transformers asks for another package when it is the reader of SentencePiece files that is missing."""
    from transformers.utils import is_protobuf_available

    slow = any((directory / name).is_file() for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"))
    if slow and not (directory / "tokenizer.json").is_file() and not is_protobuf_available():
        return "Transformers needs protobuf to read this model's SentencePiece file: pip install protobuf"
    return None


def check_family(config: Mapping[str, Any], directory: Path) -> None:
    """Refuse what neither polyref nor Transformers, without code from the model, can run as an encoder-decoder.

    Raises:
        ModelError: The model is of such a type.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

    family = config.get("model_type")
    if family not in FAMILIES and family not in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        raise ModelError(
            f"model type is {family!r}, no encoder-decoder that Transformers can load by itself",
            file=directory,
            remedy="paraphrases need an encoder-decoder model; code that comes with a model is never run",
        )


def load_transformers(directory: Path) -> Any:
    """The model of a Hugging Face directory as Transformers' own class for encoder-decoders, in float32.

    Raises:
        ModelError: Transformers cannot load it as one.
    """
    import transformers
    from transformers.utils import logging

    check_family(read_config(directory), directory)
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        # No remote code, and nothing but weights is unpickled: Transformers' defaults, said aloud.
        return transformers.AutoModelForSeq2SeqLM.from_pretrained(
            str(directory), local_files_only=True, trust_remote_code=False, weights_only=True, dtype="float32"
        )
    except (ValueError, OSError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"no encoder-decoder that Transformers can load: {reason}", file=directory) from None
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def fingerprint(directory: Path) -> str:
    """md5 over the configuration and the weights."""
    digest = hashlib.md5(usedforsecurity=False)
    files = [directory / "config.json", *sorted(directory.glob("*.safetensors"))]
    if len(files) == 1:
        files += sorted(directory.glob("pytorch_model*.bin"))
    for file in files:
        with file.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()

"""What a model is, without running it: family, size, languages, vocabulary, precision, hash, default decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from polyref.models.opening import Found, find
from polyref.paraphrase.decoding import STRENGTH, DiverseBeam
from polyref.paraphrase.loading import DTYPE_SHIPPED, find_generator, load_paraphraser

#: Paraphrases that the default decoding is told for, the command line's default.
K: Final = 10


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A model's properties, in the order in which they are told."""

    name: str
    kind: str  # polyref (the shipped kind), fairseq or huggingface
    family: str  # pointer, transformer (fairseq's) or the Hugging Face model type
    path: Path
    layers: tuple[int, int]  # of encoder and decoder
    dim: int
    parameters: int  # distinct weights: tables that are shared count once
    bytes: int  # of the files with its weights
    stored: str  # number type of its weights in the files: float32, int8+float16
    precision: str = "float32"  # what it computes in on the CPU unless told otherwise
    languages: tuple[str, ...]  # empty when unknown or when it has no tags
    source_vocabulary: int
    target_vocabulary: int
    max_source: int | None  # most tokens, the end of sentence included; None: no limit of its own
    max_target: int | None
    hash: str
    signature: str = ""
    decoding: str = field(default_factory=lambda: DiverseBeam(strength=STRENGTH).resolve(K).describe())

    def __post_init__(self) -> None:
        if not self.signature:
            object.__setattr__(self, "signature", f"{self.name}|sha:{self.hash[:12]}")


def model_info(name_or_path: str | Path = "shipped") -> ModelInfo:
    """Describe a model that ``load_paraphraser`` takes. Weights are read, nothing is computed."""
    found = find(name_or_path, "generator")
    if found.kind == "shipped":
        return _pointer(found.folder)
    return _fairseq(found.folder) if found.kind == "fairseq" else _huggingface(found)


def properties(name_or_path: str | Path = "shipped") -> dict[str, Any]:
    """What ``load_paraphraser`` makes of a name, as plain values.

    Of models these are all of :class:`ModelInfo`; of plug-ins, and of fairseq as a generator, which are loaded for it,
    the name, kind, languages, signature and decoding.
    """
    found = find_generator(str(name_or_path))
    if found is None or found[0].name in ("shipped", "checkpoint"):
        info = model_info(name_or_path if found is None else found[1] or "shipped")
        return {**asdict(info), "path": str(info.path), "layers": list(info.layers), "languages": list(info.languages)}
    paraphraser = load_paraphraser(name_or_path)
    return {
        "name": paraphraser.name,
        "kind": found[0].name,
        "languages": list(paraphraser.languages),
        "signature": paraphraser.signature,
        "decoding": paraphraser.describe_decoding(None, K),
    }


def _pointer(folder: Path) -> ModelInfo:
    from safetensors.torch import load_file

    from polyref.models.checkpoints.pointer import load_pointer

    model, paraphraser = load_pointer(folder), load_paraphraser(folder)
    network, config = model.network, model.network.config
    return ModelInfo(
        name=model.name,
        kind="polyref",
        family="pointer",
        path=folder,
        layers=(config.encoder_layers, config.decoder_layers),
        dim=config.d_model,
        parameters=sum(p.numel() for p in network.parameters()),
        bytes=(folder / "model.safetensors").stat().st_size,
        stored=_stored(v for k, v in load_file(folder / "model.safetensors").items() if not k.endswith(".scale")),
        precision=DTYPE_SHIPPED,
        languages=(model.language,),
        source_vocabulary=network.vocab_size,
        target_vocabulary=network.vocab_size,
        max_source=config.max_source,
        max_target=config.max_target,
        hash=model.digest,
        signature=paraphraser.signature,
        decoding=paraphraser.describe_decoding(None, K),
    )


def _fairseq(folder: Path) -> ModelInfo:
    from polyref.models.checkpoints.seq2seq import read_fairseq

    parts = read_fairseq(folder)
    return ModelInfo(
        name=parts.name,
        kind="fairseq",
        family="transformer",
        path=folder,
        layers=(parts.config.encoder_layers, parts.config.decoder_layers),
        dim=parts.config.dim,
        parameters=_distinct(parts.weights),
        bytes=(folder / "checkpoint.pt").stat().st_size,
        stored=_stored(parts.weights.values()),
        languages=parts.codec.languages,
        source_vocabulary=len(parts.codec.source),
        target_vocabulary=len(parts.codec.target),
        max_source=parts.config.max_source,
        max_target=parts.config.max_target,
        hash=parts.fingerprint,
    )


def _huggingface(found: Found) -> ModelInfo:
    from polyref.models.checkpoints import seq2seq as hf
    from polyref.models.checkpoints.text import HuggingFaceCodec, load_tokenizer
    from polyref.models.opening import faults_of, read_weights

    folder, config = found.folder, found.config
    hf.check_family(config, folder)
    tensors = read_weights(folder)
    stored = _stored(tensors.values())
    files = next((there for form in ("*.safetensors", "pytorch_model*.bin") if (there := list(folder.glob(form)))), [])
    positions: int | None = config.get("max_position_embeddings")
    if found.family in hf.FAMILIES:
        with faults_of(folder):
            network, weights = hf.convert(config, tensors)
        layers, dim = (network.encoder_layers, network.decoder_layers), network.dim
        vocabulary = len(weights["encoder.embed_tokens.weight"]), len(weights["output.weight"])
    else:
        weights, dim = tensors, int(config.get("d_model") or config.get("hidden_size") or 0)
        encoder = int(config.get("num_layers") or config.get("encoder_layers") or 0)
        layers = encoder, int(config.get("num_decoder_layers") or config.get("decoder_layers") or encoder)
        vocabulary = (int(config.get("vocab_size") or 0),) * 2
    return ModelInfo(
        name=found.name,
        kind="huggingface",
        family=found.family,
        path=folder,
        layers=layers,
        dim=dim,
        parameters=_distinct(weights),
        bytes=sum(file.stat().st_size for file in files),
        stored=stored,
        languages=HuggingFaceCodec(load_tokenizer(folder)).languages,
        source_vocabulary=vocabulary[0],
        target_vocabulary=vocabulary[1],
        max_source=positions,
        max_target=positions,
        hash=found.digest,
    )


def _distinct(weights: Mapping[str, Tensor]) -> int:
    return sum({value.data_ptr(): value.numel() for value in weights.values()}.values())


def _stored(tensors: Iterable[Tensor]) -> str:
    """Number types by their share of the weights."""
    found: Counter[str] = Counter()
    for tensor in tensors:
        found[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    return "+".join(name for name, _ in found.most_common())

"""From a name or a path to a model for forced scoring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from polyref.errors import UsageError
from polyref.models import find
from polyref.models.checkpoints import huggingface
from polyref.models.checkpoints.fairseq import is_fairseq_directory, load_fairseq
from polyref.models.checkpoints.files import hash_model, read_config
from polyref.models.checkpoints.hub import locate
from polyref.models.checkpoints.pointer import is_pointer_folder, load_pointer
from polyref.models.checkpoints.tokenizer import HuggingFaceCodec, load_tokenizer
from polyref.models.checkpoints.vocabulary import FairseqCodec, load_sentencepiece
from polyref.models.device import own_device, torch_device
from polyref.models.networks.huggingface import HuggingFaceModel
from polyref.models.scoring.base import DTYPES, ForcedScorer
from polyref.models.scoring.huggingface import HuggingFaceScorer
from polyref.models.scoring.lean import LeanScorer
from polyref.models.scoring.pointer import PointerScorer
from polyref.models.scoring.segmentations import Segmenter


def load_scorer(name_or_path: str | Path = "shipped", *, device: str = "cpu", dtype: str = "float32") -> ForcedScorer:
    """Load a model for forced scoring; names and kinds are those of :func:`polyref.paraphrase.load_paraphraser`.

    Args:
        name_or_path: ``shipped``, a folder of a model of that kind, a fairseq folder (Prism's is one), a Hugging Face
            folder of any encoder-decoder, or a name on the Hugging Face hub (the only case that uses the network).
        device: A torch device; of several, :func:`polyref.models.device.own_device`.
        dtype: ``float32``, ``bfloat16`` or ``float16``; models of the shipped kind compute in float32 only.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device or type cannot be used.
    """
    if dtype not in DTYPES:
        raise UsageError(f"the type is {dtype!r}, expected one of {', '.join(DTYPES)}")
    device = own_device(device)
    torch_device(device)
    name = str(name_or_path)
    folder = find.shipped_folder(name)
    if folder is None and is_pointer_folder(Path(name)):
        folder = Path(name)
    if folder is not None:
        if dtype != "float32":
            raise UsageError(f"{name} computes in float32 only, not in {dtype}")
        return load_pointer_scorer(folder, device)
    return load_checkpoint_scorer(name, device, dtype)


def load_pointer_scorer(folder: Path, device: str) -> ForcedScorer:
    """A model of the shipped kind."""
    return PointerScorer(load_pointer(folder), device)


def load_checkpoint_scorer(name: str, device: str, dtype: str) -> ForcedScorer:
    """A fairseq or Hugging Face model."""
    kind: torch.dtype = getattr(torch, dtype)
    folder = locate(name)
    if is_fairseq_directory(folder):
        model = load_fairseq(folder, device=device, dtype=kind)
        assert isinstance(model.codec, FairseqCodec)
        segmenter = _fairseq_segmenter(folder, model.codec)
        return LeanScorer(model.network, model.codec, segmenter, name=model.name, digest=model.fingerprint, dtype=dtype)
    label = folder.resolve().name if Path(name).is_dir() else name
    tokenizer = load_tokenizer(folder)
    about: dict[str, Any] = {
        "name": label,
        "digest": hash_model(folder),
        "dtype": dtype,
        "marks_sources": hasattr(tokenizer, "src_lang"),
    }
    codec = HuggingFaceCodec(tokenizer)
    sampler = _hf_segmenter(tokenizer)
    if read_config(folder).get("model_type") in huggingface.FAMILIES:
        network = huggingface.load_network(folder, device=device, dtype=kind)
        return LeanScorer(network, codec, sampler, **about)
    loaded = huggingface.load_transformers(folder).to(device=device, dtype=kind)
    return HuggingFaceScorer(HuggingFaceModel(loaded.eval()), codec, sampler, **about)


def _fairseq_segmenter(folder: Path, codec: FairseqCodec) -> Segmenter:
    names = ("spm.model", "sentencepiece.bpe.model")
    file = next((folder / name for name in names if (folder / name).is_file()), folder / names[0])

    def to_ids(side: str, pieces: Sequence[str]) -> list[int]:
        dictionary = codec.source if side == "source" else codec.target
        return [dictionary.index.get(piece, dictionary.unk) for piece in pieces]

    return Segmenter(load_sentencepiece(file), to_ids)


def _hf_segmenter(tokenizer: Any) -> Segmenter | None:
    pieces = getattr(tokenizer, "sp_model", None)
    if pieces is None or not hasattr(pieces, "NBestEncodeAsPieces"):
        return None
    return Segmenter(pieces, lambda side, found: [int(i) for i in tokenizer.convert_tokens_to_ids(list(found))])

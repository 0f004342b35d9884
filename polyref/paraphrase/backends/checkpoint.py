"""The generator ``checkpoint``: fairseq checkpoints and Hugging Face encoder-decoders, searched by polyref.

Networks of fairseq and of the BART family run on polyref's own engine, all others through Transformers' forward.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints import huggingface
from polyref.models.checkpoints.fairseq import is_fairseq_directory
from polyref.models.checkpoints.files import hash_model, read_config
from polyref.models.checkpoints.hub import locate
from polyref.models.checkpoints.load import load_checkpoint
from polyref.models.checkpoints.tokenizer import HuggingFaceCodec, load_tokenizer
from polyref.models.checkpoints.vocabulary import LanguageCodec, first_tokens
from polyref.models.device import torch_device, use_threads
from polyref.models.find import LONGEST_SOURCE
from polyref.models.networks.huggingface import HuggingFaceModel, token_ids
from polyref.models.networks.matmul import computing_in
from polyref.paraphrase.loading_options import PRISM_B, check_dtype
from polyref.paraphrase.rules.copy_penalty import CopyPenaltyRules
from polyref.paraphrase.search.saved import SavedGeneration
from polyref.paraphrase.search_paraphraser import SearchParaphraser, batch_limits, read_as

if TYPE_CHECKING:
    from polyref.models.checkpoints.vocabulary import TextCodec
    from polyref.models.networks.matmul import Precision
    from polyref.models.networks.transformer import Transformer


def load(
    argument: str | None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    lang: str | None = None,
    prefix: str | None = None,
    prism_a: float = 0.0,
    prism_b: float = PRISM_B,
    dtype: str = "float32",
    memory: int | None = None,
) -> SearchParaphraser:
    """A model of a folder, or of the Hugging Face hub."""
    if not argument:
        raise ModelError("no model is named", remedy="checkpoint:FOLDER, or checkpoint:OWNER/MODEL of the hub")
    use_threads(threads)
    torch_device(device)
    check_dtype(dtype, device)
    folder = locate(argument)
    label = None if Path(argument).is_dir() else argument
    about: dict[str, Any] = dict(batch_limits(memory, device))
    if prefix is None:
        about["lang"] = lang

    def rules(codec: TextCodec) -> CopyPenaltyRules | None:
        return CopyPenaltyRules(codec, prism_a, prism_b) if prism_a else None

    if not is_fairseq_directory(folder) and read_config(folder).get("model_type") not in huggingface.FAMILIES:
        if dtype != "float32":
            raise UsageError(f"`dtype` is {dtype!r}, but models run by Transformers itself compute in float32")
        huggingface.check_family(read_config(folder), folder)
        codec = HuggingFaceCodec(load_tokenizer(folder))
        network = HuggingFaceModel(huggingface.load_transformers(folder).to(device).eval())
        first = first_tokens(codec, lang, prefix)
        return SearchParaphraser(
            network,
            LanguageCodec(codec, lang if codec.languages else None),
            name=label or folder.resolve().name,
            digest=hash_model(folder)[:12] + read_as(lang, codec.languages, prefix),
            max_source=min(network.max_source, LONGEST_SOURCE),
            languages=codec.languages,
            prefix=first,
            rules=rules(codec),
            saved=SavedGeneration(huggingface.read_generation(folder), network.ends, tagged=bool(first)),
            **about,
        )
    stored = torch.float32 if device == "cpu" else getattr(torch, dtype)
    with computing_in(cast("Precision", dtype if device == "cpu" else "float32")):
        model = load_checkpoint(folder, device=device, dtype=stored)
    first = first_tokens(model.codec, lang, prefix)
    saved = None if is_fairseq_directory(folder) else _saved(folder, model.network, tagged=bool(first))
    if prefix is None and getattr(model.codec, "tag_starts", False):
        (model.network.start,), first = first, []
    digest = model.fingerprint[:12] + ("" if dtype == "float32" else f"|dtype:{dtype}")
    return SearchParaphraser(
        model.network,
        LanguageCodec(model.codec, lang if model.codec.languages else None),
        name=label or model.name,
        digest=digest + read_as(lang, model.codec.languages, prefix),
        max_source=min(model.network.max_source, LONGEST_SOURCE),
        languages=model.codec.languages,
        prefix=first,
        rules=rules(model.codec),
        saved=saved,
        **about,
    )


def _saved(folder: Path, network: Transformer, *, tagged: bool) -> SavedGeneration:
    """The generation settings of a folder; where its network begins and ends is as they say."""
    values = huggingface.read_generation(folder)
    ends = token_ids(values.get("eos_token_id", network.eos))
    network.eos = ends[0]
    network.start = token_ids(values.get("decoder_start_token_id", network.start))[0]
    return SavedGeneration(values, ends, tagged)

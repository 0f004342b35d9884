"""The generator ``checkpoint``: fairseq checkpoints and Hugging Face encoder-decoders, searched by polyref.

Networks of fairseq and of the BART family run on polyref's own engine, all others through Transformers' forward.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints import seq2seq
from polyref.models.checkpoints.seq2seq import load_checkpoint
from polyref.models.checkpoints.text import HuggingFaceCodec, LanguageCodec, first_tokens, load_tokenizer
from polyref.models.device import torch_device, use_threads
from polyref.models.networks.hugging_face import HuggingFaceModel, token_ids
from polyref.models.networks.matmul import computing_in
from polyref.models.opening import LONGEST_SOURCE, find
from polyref.paraphrase.copy_penalty import CopyPenaltyRules
from polyref.paraphrase.loading import LoadingOptions, check_dtype, told_dtype
from polyref.paraphrase.search.huggingface import SavedGeneration
from polyref.paraphrase.search_paraphraser import SearchParaphraser, batch_limits, read_as

if TYPE_CHECKING:
    from polyref.models.checkpoints.text import TextCodec
    from polyref.models.networks.matmul import Precision
    from polyref.models.networks.transformer import Transformer


#: A function of the language to write, the prefix instead of its tag, and the language to read, if that is another.
Opened = Callable[[str | None, str | None, str | None], SearchParaphraser]


def load(argument: str | None, options: LoadingOptions) -> SearchParaphraser:
    """A model of a folder, or of the Hugging Face hub."""
    return opened(argument, options)(options.lang, options.prefix, options.source_lang)


def opened(argument: str | None, options: LoadingOptions) -> Opened:
    """The same, for any of its languages, which share the network."""
    if not argument:
        raise ModelError("no model is named", remedy="checkpoint:FOLDER, or checkpoint:OWNER/MODEL of the hub")
    device, dtype = options.device, options.dtype or "float32"
    use_threads(options.threads)
    torch_device(device)
    check_dtype(dtype, device)
    found = find(argument, "generator")
    folder, name = found.folder, found.name
    network: Any
    codec: TextCodec
    saved: Callable[..., SavedGeneration] | None
    if found.kind != "fairseq" and found.family not in seq2seq.FAMILIES:
        if dtype != "float32":
            raise UsageError(f"`dtype` is {dtype!r}, but models run by Transformers itself compute in float32")
        seq2seq.check_family(found.config, folder)
        codec = HuggingFaceCodec(load_tokenizer(folder), source_tags=True)
        network = HuggingFaceModel(seq2seq.load_transformers(folder).to(device).eval())
        digest = found.digest[:12]
        saved = partial(SavedGeneration, seq2seq.read_generation(folder), network.ends)
    else:
        stored = torch.float32 if device == "cpu" else getattr(torch, dtype)
        with computing_in(cast("Precision", dtype if device == "cpu" else "float32")):
            model = load_checkpoint(folder, device=device, dtype=stored)
        network, codec = model.network, model.codec
        name = model.name if found.kind == "fairseq" else name  # Prism's has a name of its own
        digest = model.fingerprint[:12] + told_dtype(dtype)
        saved = None if found.kind == "fairseq" else _saved(folder, network)

    def of_languages(lang: str | None, prefix: str | None, reads: str | None) -> SearchParaphraser:
        first = first_tokens(codec, lang, prefix)
        own = network
        settings = None if saved is None else saved(tagged=bool(first))
        if prefix is None and getattr(codec, "tag_starts", False):
            own = copy.copy(network)  # the same weights
            (own.start,), first = first, []
        several = lang if codec.languages else None
        return SearchParaphraser(
            own,
            LanguageCodec(codec, several, reads),
            name=name,
            digest=digest + read_as(reads or lang, codec.languages, "" if reads else prefix),
            max_source=min(network.max_source, LONGEST_SOURCE),
            languages=codec.languages,
            prefix=first,
            rules=CopyPenaltyRules(codec, options.prism_a, options.prism_b) if options.prism_a else None,
            saved=settings,
            lang=lang if prefix is None else None,
            **batch_limits(options.memory, device),
        )

    return of_languages


def _saved(folder: Path, network: Transformer) -> Callable[..., SavedGeneration]:
    """The generation settings of a folder; where its network begins and ends is as they say."""
    values = seq2seq.read_generation(folder)
    ends = token_ids(values.get("eos_token_id", network.eos))
    network.eos = ends[0]
    network.start = token_ids(values.get("decoder_start_token_id", network.start))[0]
    return partial(SavedGeneration, values, ends)

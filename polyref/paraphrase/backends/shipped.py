"""The generator ``shipped``: small models with a copying network, such as the one in the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from polyref.errors import ModelError, UsageError
from polyref.languages import base
from polyref.models.checkpoints.pointer import load_pointer
from polyref.models.checkpoints.text import SentencePieceCodec
from polyref.models.device import torch_device, use_threads
from polyref.models.opening import find_model
from polyref.paraphrase.diverse_beam import DiverseBeam
from polyref.paraphrase.loading_options import DTYPE_SHIPPED, PRISM_B, check_dtype
from polyref.paraphrase.rules.base import BothRules, Rules
from polyref.paraphrase.rules.copy_penalty import CopyPenaltyRules
from polyref.paraphrase.rules.shipped import ShippedRules
from polyref.paraphrase.search_paraphraser import SearchParaphraser, batch_limits

if TYPE_CHECKING:
    from polyref.models.networks.matmul import Precision


def load(
    argument: str | None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    lang: str | None = None,
    prism_a: float = 0.0,
    prism_b: float = PRISM_B,
    dtype: str | None = None,
    memory: int | None = None,
) -> SearchParaphraser:
    """A model of the package (``shipped``, ``shipped/LANGUAGE``), or of a folder of that kind."""
    use_threads(threads)
    kind = torch_device(device).type
    dtype = dtype or (DTYPE_SHIPPED if kind == "cpu" else "float32")
    check_dtype(dtype, kind)
    if dtype != "float32" and kind != "cpu":
        raise UsageError(f"`dtype` is {dtype!r}, but models of the shipped kind compute in float32 on {device}")
    name = argument or "shipped"
    folder, of_this_kind = find_model(name)
    if not of_this_kind:
        raise ModelError("no model of the shipped kind", file=folder, remedy="leave `shipped:` out")
    model = load_pointer(folder)
    model.network.precision = cast("Precision", dtype)
    if lang is not None and base(lang) != model.language:
        raise UsageError(f"{model.name} writes {model.language}, not {lang!r}", remedy="choose another `model`")
    codec = SentencePieceCodec(model.spm, model.network.eos)
    rules: Rules = ShippedRules(model.spm, model.network.eos)
    if prism_a:
        rules = BothRules(rules, CopyPenaltyRules(codec, prism_a, prism_b))
    return SearchParaphraser(
        model.network.place(device),
        codec,
        name=model.name,
        digest=model.digest + ("" if dtype == "float32" else f"|dtype:{dtype}"),
        max_source=model.network.config.max_source,
        languages=[model.language],
        rules=rules,
        defaults=DiverseBeam(strength=model.strength, closeness=model.network.closeness),
        # Longer candidates of this model repeat themselves and fall to the filter; the search ends sooner without them.
        room=(1.25, 5),
        min_score=model.min_score,
        **batch_limits(memory, device),
    )

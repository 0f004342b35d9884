"""Everything that the training scripts use of polyref itself, in one place."""

from __future__ import annotations

from functools import cache

from polyref import __version__ as VERSION
from polyref.augment.filters import FilterChain, filter_chain
from polyref.models.checkpoints.pointer import FORMAT, load_pointer
from polyref.models.networks.pointer import BOS, CLOSENESS, EOS, MASK, PAD, UNK, PointerConfig, PointerTransformer
from polyref.paraphrase import DiverseBeam, SearchParaphraser, load_paraphraser
from polyref.paraphrase.lexical import Token, form, tokens
from polyref.publishing import write_atomically

__all__ = [
    "BOS",
    "CLOSENESS",
    "EOS",
    "FORMAT",
    "MASK",
    "PAD",
    "UNK",
    "VERSION",
    "DiverseBeam",
    "FilterChain",
    "PointerConfig",
    "PointerTransformer",
    "SearchParaphraser",
    "Token",
    "filter_chain",
    "form",
    "load_paraphraser",
    "load_pointer",
    "refusal",
    "tokens",
    "write_atomically",
]


@cache
def _strict() -> FilterChain:
    return filter_chain("strict")


def refusal(source: str, target: str) -> str | None:
    """Why the package's strict filter would not take ``target`` as a paraphrase of ``source``; None if it would."""
    return _strict().start([source]).offer(source, target)

"""Everything that the training scripts use of polyref itself, in one place."""

from __future__ import annotations

from polyref import __version__ as VERSION
from polyref.augment.filters import FilterChain, filter_chain
from polyref.augment.measures import Equivalence
from polyref.errors import UsageError
from polyref.models.checkpoints.pointer import FORMAT, PointerModel, load_pointer
from polyref.models.networks.batched import BatchedDecoder
from polyref.models.networks.pointer import BOS, CLOSENESS, EOS, MASK, PAD, UNK, PointerConfig, PointerTransformer
from polyref.models.scorers import PointerScorer
from polyref.paraphrase import DiverseBeam, NBest, SearchParaphraser, load_paraphraser
from polyref.paraphrase.lexical import Token, form, tokens
from polyref.paraphrase.shipped import JudgedSearch
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
    "BatchedDecoder",
    "DiverseBeam",
    "Equivalence",
    "FilterChain",
    "JudgedSearch",
    "NBest",
    "PointerConfig",
    "PointerModel",
    "PointerScorer",
    "PointerTransformer",
    "SearchParaphraser",
    "Token",
    "UsageError",
    "filter_chain",
    "form",
    "load_paraphraser",
    "load_pointer",
    "tokens",
    "write_atomically",
]

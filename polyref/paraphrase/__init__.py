"""Texts become n-best paraphrases: generators, search and forced scoring. Torch is loaded only when a model is."""

from __future__ import annotations

from polyref.paraphrase.loading import load_paraphraser, shipped_languages
from polyref.paraphrase.paraphraser import Decoding, DiverseBeam, Hypothesis, NBest, Paraphraser, SearchParaphraser
from polyref.paraphrase.search import SearchOptions

__all__ = [
    "Decoding",
    "DiverseBeam",
    "Hypothesis",
    "NBest",
    "Paraphraser",
    "SearchOptions",
    "SearchParaphraser",
    "load_paraphraser",
    "shipped_languages",
]

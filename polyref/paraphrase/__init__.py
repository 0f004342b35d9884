"""Texts become n-best paraphrases: generators and their search. Torch is loaded only when a model is."""

from __future__ import annotations

from polyref.models.opening import shipped_languages
from polyref.paraphrase.decoding import Decoding, DiverseBeam
from polyref.paraphrase.loading import load_paraphraser
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.search import SearchOptions
from polyref.paraphrase.search_paraphraser import SearchParaphraser

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

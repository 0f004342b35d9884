"""From references to augmented reference sets."""

from __future__ import annotations

from polyref.augment.candidates import Dropped
from polyref.augment.filters import FilterChain, filter_chain
from polyref.augment.in_memory import augment
from polyref.augment.pipeline import Augmentation, Tally
from polyref.augment.writer import augment_file

__all__ = ["Augmentation", "Dropped", "FilterChain", "Tally", "augment", "augment_file", "filter_chain"]

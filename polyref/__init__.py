"""polyref: reference augmentation and multi-reference evaluation of generated text.

Public names are resolved lazily, so that ``import polyref`` loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev3"

if TYPE_CHECKING:
    from polyref.errors import PolyrefError as PolyrefError
    from polyref.eval.api import evaluate as evaluate
    from polyref.eval.inspection.inspection import inspect as inspect
    from polyref.metrics.api import score as score
    from polyref.metrics.registry import get_metric as get_metric
    from polyref.paraphrase import DiverseBeam as DiverseBeam
    from polyref.paraphrase import Paraphraser as Paraphraser
    from polyref.paraphrase import load_paraphraser as load_paraphraser
    from polyref.references import Reference as Reference
    from polyref.references import ReferenceSet as ReferenceSet
    from polyref.references import Segment as Segment

_HOMES = {
    "DiverseBeam": "polyref.paraphrase",
    "Paraphraser": "polyref.paraphrase",
    "PolyrefError": "polyref.errors",
    "evaluate": "polyref.eval.api",
    "get_metric": "polyref.metrics.registry",
    "inspect": "polyref.eval.inspection.inspection",
    "score": "polyref.metrics.api",
    "Reference": "polyref.references",
    "ReferenceSet": "polyref.references",
    "Segment": "polyref.references",
    "load_paraphraser": "polyref.paraphrase",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'polyref' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""What the checkpoints of metrics that were trained on judgements share: COMET's and MetricX's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polyref.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor


def taken(wanted: Mapping[str, tuple[int, ...]], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The wanted weights, by name and shape; refused where one is missing or of another size."""
    if missing := [name for name in wanted if name not in weights]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(f"lacks the weight {missing[0]!r}{more}", remedy="is it complete?")
    for name, shape in wanted.items():
        if (found := tuple(weights[name].shape)) != shape:
            raise ModelError(f"weight {name!r} has shape {found}, expected {shape}", remedy="do its settings fit?")
    return {name: weights[name] for name in wanted}


def split_as_before(backend: Any) -> Any:
    """A tokeniser of SentencePiece as Transformers 4 made it, with which the metrics were trained.

    Transformers 5 splits at spaces first, which loses those at the end of a text.
    """
    from tokenizers import Regex, normalizers, pre_tokenizers

    own = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([*own, normalizers.Replace(Regex(" {2,}"), " ")])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return backend

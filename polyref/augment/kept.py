"""Candidates that are kept in the set, with the reasons of those that were not added; and how they are used again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from polyref.augment.select import Candidate
from polyref.augment.sources import Merge, Proposed, Proposing, Source
from polyref.errors import DataError, UsageError
from polyref.segments import KINDS, Segment

#: The key of a segment that holds its candidates, and of the header that says so.
KEPT: Final = "candidates"
#: Why a candidate that passed the filter is not a reference.
SURPLUS: Final = "surplus"
#: What the header says of a run only where it applies.
OPTIONAL: Final = ("lists", "share", "merge", KEPT, "select", "seed")
_RUN: Final = ("generator", "decoding", "k", "filters", "lang", "inputs", "polyref", *OPTIONAL)


def entries(candidates: Iterable[Candidate], reasons: Iterable[str | None]) -> list[dict[str, Any]]:
    """Candidates as they are kept: in the order in which the filter saw them, defaults left out.

    Args:
        candidates: What the filter saw.
        reasons: Why each is not in the set; None for those that are.
    """
    return [_entry(one, reason) for one, reason in zip(candidates, reasons, strict=True)]


def _entry(candidate: Candidate, reason: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {"text": candidate.text, "of": candidate.of, "rank": candidate.rank}
    if candidate.score is not None:
        values["logprob"] = candidate.score
    if candidate.generator is not None:
        values["generator"] = candidate.generator
    if candidate.kind != "paraphrase":
        values["kind"] = candidate.kind
    for name in ("group", "source", "truncated", "composed"):
        if found := getattr(candidate, name):
            values[name] = found
    return values if reason is None else {**values, "reason": reason}


class Kept(Source):
    """The candidates that a set keeps.

    Attributes:
        k: Paraphrases a segment that the set was made with.
        lang: Language that it was made with.
        seed: As it was given then.

    Args:
        meta: The header of the set.
        name: Of its file, for messages.

    Raises:
        UsageError: The set keeps no candidates, or those of several runs.
    """

    def __init__(self, meta: Mapping[str, Any], name: str) -> None:
        self._name = name
        if isinstance(meta.get("generator"), list):
            raise UsageError(
                f"{name} was made in {len(meta['generator'])} runs, expected a set that one run made",
                remedy="filter the set of the first run again, then repeat the others",
            )
        if meta.get(KEPT) is not True:
            raise UsageError(
                f"{name} keeps no candidates that could be filtered again",
                remedy="make it with `keep_dropped`, or filter lists of candidates: `candidates`",
            )
        self.signature = str(meta.get("generator"))
        self.decoding = str(meta.get("decoding"))
        self.facts = {key: meta[key] for key in ("lists", "share", "merge") if key in meta}
        self.k, self.lang, self.seed = int(meta.get("k", 10)), str(meta.get("lang", "en")), meta.get("seed")
        self._inputs = meta.get("inputs", [])
        self._before = {key: value for key, value in meta.items() if key not in _RUN}
        self.merge = Merge.read(meta)

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """See :class:`~polyref.augment.sources.Source`."""
        return lambda: [self._proposed(segment) for segment in segments]

    def _proposed(self, segment: Segment) -> Proposed:
        found = tuple(self._candidates(segment))
        return Proposed(found, len({one.of for one in found if one.truncated}))

    def _candidates(self, segment: Segment) -> Iterator[Candidate]:
        try:
            for values in segment.extra.get(KEPT, []):
                yield _candidate(values, len(segment.refs))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"segment {segment.id} keeps a candidate that is not understood: {error}", file=self._name
            ) from None

    def before(self, segment: Segment) -> Segment:
        """The segment without what the run added and kept."""
        added = {values["text"] for values in segment.extra.get(KEPT, []) if "reason" not in values}
        refs = tuple(ref for ref in segment.refs if ref.original or ref.text not in added)
        extra = {key: value for key, value in segment.extra.items() if key != KEPT}
        return replace(segment, refs=refs, extra=extra)

    def origin(
        self, meta: Mapping[str, Any], inputs: Sequence[Mapping[str, str]]
    ) -> tuple[Mapping[str, Any], Sequence[Mapping[str, str]]]:
        """Those of the run that made the set."""
        return self._before, self._inputs


def _candidate(values: Mapping[str, Any], references: int) -> Candidate:
    """One entry.

    Raises:
        KeyError, TypeError, ValueError: It is not as :func:`entries` writes it.
    """
    text, of, kind = values["text"], values["of"], values.get("kind", "paraphrase")
    if not isinstance(text, str) or not 0 <= of < references or kind not in KINDS:
        raise ValueError(str(dict(values)))
    score = values.get("logprob")
    return Candidate(
        text,
        of,
        int(values["rank"]),
        None if score is None else float(score),
        int(values.get("group", 0)),
        generator=values.get("generator"),
        kind=kind,
        source=int(values.get("source", 0)),
        truncated=bool(values.get("truncated", False)),
        composed=bool(values.get("composed", False)),
    )

"""Leave-one-out: every system is scored with the outputs of the others as references.

It measures how near a system is to what the others write, within a segment. It ranks no systems: relatives raise each
other's scores, and a translation that is better than the others, such as one by a person, is far from them. So there
are scores of segments alone, and no way to combine references in which a single near one decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np

from polyref.comparison import Repeats, dice, ngrams
from polyref.errors import DataError, UsageError
from polyref.metrics.base import Metric
from polyref.metrics.combination import Blend, ExpectedCredit, Mean
from polyref.metrics.results.scores import MetricScores, measured
from polyref.references import Reference, ReferenceSet

LEAVE_ONE_OUT: Final = "leave-one-out"
#: Two outputs are near copies from this word F1 on: the Dice coefficient of their words, which may stand in any order.
NEAR_COPY: Final = 0.88
#: What a reader has to know of every such score.
CONSENSUS: Final = (
    f"`peers` {LEAVE_ONE_OUT} measures how far outputs agree with those of the other systems (consensus): it ranks no "
    "systems"
)
_COMBINATIONS: Final = (Mean, ExpectedCredit, Blend)


def check_leave_one_out(
    peers: str,
    systems: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    metrics: Mapping[str, Metric],
    ks: int | Sequence[int] | None,
    test: str | None,
) -> None:
    """Refuse what leave-one-out cannot do.

    Raises:
        DataError: A system has another number of segments than the references.
        UsageError: There are no such peers, fewer than three systems, added references, numbers of references or a
            test; or a metric combines references in another way.
    """
    if peers != LEAVE_ONE_OUT:
        raise UsageError(
            f"`peers` is {peers!r}, expected {LEAVE_ONE_OUT}",
            remedy="polyref augment adds the outputs of systems that are not compared",
        )
    what = f"`peers` {LEAVE_ONE_OUT}"
    if len(systems) < 3:
        raise UsageError(f"{what} needs 3 systems or more, but there are {len(systems)}")
    if test is not None:
        raise UsageError(f"{what} gives scores of segments alone: there is nothing for `{test}` to test")
    if ks is not None:
        raise UsageError(f"{what} takes all other systems as references: `ks` is of no use")
    if any(segment.extras for segment in references):
        raise UsageError(f"{what} adds references to those of people, but `references` has added ones already")
    for name, metric in metrics.items():
        how = metric.combination
        if type(how) not in _COMBINATIONS:
            known = ", ".join(one.name for one in _COMBINATIONS if one in metric.combinations)
            raise UsageError(
                f"{what} is for references that combine by mean, expected or blend, but {name} "
                + (f"combines them by {how.name}" if how else "does not combine any"),
                remedy=f"set `combine` to one of {known}" if known else "leave it out",
            )
    for name, texts in systems.items():
        if len(texts) != len(references):
            raise DataError(f"{name} has {len(texts)} segments, but the references have {len(references)}")


def leave_one_out(systems: Mapping[str, Sequence[str]], references: ReferenceSet) -> dict[str, ReferenceSet]:
    """The references of every system: those that are there, and the outputs of the other systems.

    What repeats the output that is scored, another reference or nothing is left out, in the sense of the filters
    ``copy``, ``duplicate`` and ``empty``; so are near copies of that output (:data:`NEAR_COPY`).

    Args:
        systems: Name to outputs, one per segment of ``references``.
        references: N segments.
    """
    words = {name: [ngrams(text, 1) for text in texts] for name, texts in systems.items()}
    meta = {**references.meta, **_provenance(systems)}

    def with_peers(system: str) -> ReferenceSet:
        segments = []
        for place, segment in enumerate(references):
            repeats = Repeats([*(ref.text for ref in segment.refs), systems[system][place]])
            refs = list(segment.refs)
            for other, texts in systems.items():
                text = texts[place]
                near = other == system or dice(words[system][place], words[other][place]) >= NEAR_COPY
                if not near and repeats.reason(text) is None:
                    repeats.take(text)
                    refs.append(Reference(text, "pseudo", generator=other))
            segments.append(replace(segment, refs=tuple(refs)))
        return ReferenceSet(tuple(segments), meta)

    return {system: with_peers(system) for system in systems}


def _provenance(systems: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What the header of such a set says."""
    digest = hashlib.sha256()
    for name, texts in systems.items():
        for text in (name, *texts):
            encoded = text.encode()
            digest.update(b"%d:" % len(encoded) + encoded)
    return {
        "generator": f"{len(systems)} systems|sha:{digest.hexdigest()[:12]}",
        "peers": LEAVE_ONE_OUT,
        "filters": f"near-copy:{NEAR_COPY:g}",
    }


def segment_scores(
    name: str,
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    references: Mapping[str, ReferenceSet],
    *,
    allow_missing: bool = False,
) -> MetricScores:
    """Score every system with its own references.

    Args:
        name: What rows call the metric.
        metric: The metric.
        systems: Name to outputs.
        references: What :func:`leave_one_out` made of them.
        allow_missing: Outputs without any reference have no score, instead of being refused.

    Returns:
        Scores of segments; those of systems are NaN.
    """
    names = tuple(systems)
    first = references[names[0]]
    # One after the other as one system: what is loaded is loaded once, and all have one signature.
    joined = ReferenceSet(tuple(chain.from_iterable(references[one] for one in names)), first.meta)
    k = len(names) - 1
    outputs = {"": [*chain.from_iterable(systems.values())]}
    stats = metric.statistics(outputs, joined, ks=[k], allow_missing=allow_missing)
    found = measured(name, metric, stats, k, None, None, 0)
    shape = len(names), len(first)
    unscored, alone = ((counts == 0).reshape(shape).any(axis=0).sum() for counts in (stats.counts(k), stats.extras))
    scores = replace(
        found.scores,
        systems=names,
        segments=tuple(segment.id for segment in first),
        system=np.full(len(names), np.nan),
        segment=found.scores.segment.reshape(shape),
        signature=found.scores.segment_signature,
        missing=int(unscored),
    )
    return replace(
        found,
        scores=scores,
        signature=scores.signature,
        details=[{} for _ in names],
        coverage=(found.coverage[0], int(alone)),
    )

"""What a form cannot hold of a reference set, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from polyref.formats.roles import NAME
from polyref.formats.writing.layout import Layout
from polyref.segments import Reference

#: What a form can hold besides the texts of references: parts of a segment; ``names`` of references, their ``kinds``,
#: or at least which are ``paraphrases``; ``several`` human ones of a segment, added ones (``extras``) beside them,
#: ``ragged`` numbers of them, and ``none`` at all; references that are ``empty``; ``spaces`` at the ends of texts,
#: ``lines``, line ends of Windows (``returns``) and ``tabs`` in them; ``logprob``; their ``generator``, weight and
#: other keys; ``keys`` of segments that polyref does not know; ``meta``.
ALL: Final = frozenset(
    ("id", "source", "doc", "lang", "kinds", "paraphrases", "names", "several", "extras", "ragged", "none", "empty",
     "spaces", "lines", "returns", "tabs", "logprob", "generator", "keys", "meta")
)  # fmt: skip


def losses(
    made: Layout, holds: frozenset[str], known: frozenset[str] = frozenset(), taken: Callable[[str], bool] | None = None
) -> list[str]:
    """What is lost, one phrase each, with counts.

    Args:
        made: The set.
        holds: What the form can hold, of :data:`ALL`.
        known: Keys of segments that it holds all the same.
        taken: Which keys of segments it does not hold, because they mean something there.
    """
    segments = made.segments
    texts = [ref.text for segment in segments for ref in segment.refs]
    counts = [len(segment.refs) for segment in segments]
    several = sum(max(len(segment.originals) - 1, 0) for segment in segments)
    found = [
        ("id", sum(one.id != str(place) for place, one in enumerate(segments, 1)), "ids", "segment"),
        ("source", sum(one.source is not None for one in segments), "sources", "segment"),
        ("doc", sum(one.doc is not None for one in segments), "documents", "segment"),
        ("lang", sum(one.lang is not None for one in segments), "languages", "segment"),
        ("keys", sum(bool(one.extra.keys() - known) for one in segments), "other keys", "segment"),
        ("", sum(any(map(taken, one.extra)) for one in segments) if taken else 0, "other keys", "segment"),
        ("ragged", sum(count < len(made.columns) for count in counts if count),
         "different numbers of references: the first is repeated", "segment"),
        ("none", sum(not count for count in counts), "no reference at all: an empty one is written", "segment"),
        ("several", several, "further human references, which are left out", "reference"),
        ("extras", sum(len(one.extras if one.originals else one.extras[1:]) for one in segments),
         "added references, which are left out", "reference"),
        ("empty", _empty(made), "whether a reference is empty or absent", "reference"),
        ("lines", sum("\n" in text or "\r" in text for text in texts), "line ends, which become spaces", "text"),
        ("returns", sum("\r\n" in text for text in texts), "line ends of Windows, which become line feeds", "text"),
        ("tabs", sum("\t" in text for text in texts), "tabs, which become spaces", "text"),
        ("spaces", sum(text != text.strip() for text in texts), "spaces at the ends", "text"),
        ("meta", len(made.meta), "what the header says", "key"),
    ]  # fmt: skip
    phrases = [
        f"{what} ({count} {unit}{'s' * (count != 1)})" for key, count, what, unit in found if count and key not in holds
    ]
    return phrases + list(_provenance(made, holds))


def _empty(made: Layout) -> int:
    """References that are empty texts, but for a segment's only one."""
    return sum(not ref.text for segment in made.segments for ref in segment.refs if len(segment.refs) > 1)


def _provenance(made: Layout, holds: frozenset[str]) -> Iterator[str]:
    """Where references came from, as far as kind and place do not say it."""
    lost: dict[str, int] = {}
    total = 0
    for segment, row in zip(made.segments, made.rows, strict=True):
        originals = [place for place, ref in enumerate(segment.refs) if ref.original]
        places: dict[str, int] = {}
        for place, ref in enumerate(segment.refs):
            if "extras" not in holds and not ref.original and (originals or place):
                continue
            named = any(one is ref and column == ref.extra.get(NAME) for column, one in row.items())
            names = set(_lost(ref, holds if named else holds - {"names"}))
            if not ref.original:
                rank = places[ref.kind] = places.get(ref.kind, -1) + 1
                if ref.rank not in {None, rank}:
                    names.add("rank")
                if ref.of is not None and originals != [ref.of]:
                    names.add("of")
                if not {"kinds", "paraphrases" if ref.kind == "paraphrase" else "kinds"} & holds:
                    names = {"kind", *names - {"rank", "of"}}
            if originals and ref.original and originals[-1] != len(originals) - 1 and place == originals[-1]:
                names.add("place before an original")
            total += bool(names)
            for name in names:
                lost[name] = lost.get(name, 0) + 1
    if lost:
        yield f"{', '.join(sorted(lost))} ({total} reference{'s' * (total != 1)})"


def _lost(ref: Reference, holds: frozenset[str]) -> Sequence[str]:
    names = []
    if "generator" not in holds:
        names += [name for name in ("weight", "generator") if getattr(ref, name) is not None]
        names += ["other keys"] if ref.extra.keys() - {NAME} else []
    if ref.logprob is not None and "logprob" not in holds:
        names.append("logprob")
    if ref.kind == "postedit" and "kinds" not in holds:
        names.append("kind")
    if NAME in ref.extra and "names" not in holds:
        names.append("name")
    return names

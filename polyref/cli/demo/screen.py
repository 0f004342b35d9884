"""What ``polyref demo`` shows: references with a paraphrase, the scores, what changed and why, what to try next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from polyref.cli.demo.folder import K
from polyref.references import ReferenceSet, Segment
from polyref.tables import text_table

#: Segments that are shown.
_SHOWN: Final = ("1", "2", "3")
_RIGHT, _WRONG = "sysA.en", "sysB.en"


def screen(
    references: ReferenceSet,
    outputs: Sequence[Sequence[str]],
    rows: Sequence[Mapping[str, Any]],
    dropped: Sequence[str],
    folder: Path,
) -> str:
    """The whole screen.

    Args:
        references: With the paraphrases.
        outputs: Lines of the right system, then of the wrong one.
        rows: The scores.
        dropped: The reasons for which candidates were dropped, one a candidate.
        folder: Where the files are.
    """
    added = sum(len(segment.extras) for segment in references)
    parts = [
        f"{len(references)} references and {added} paraphrases{_filter(dropped)}. Three of the references:",
        *_examples(references, outputs),
        f"{_scores(rows)}\n",
        _why(rows),
        "All texts were written before the model read them: an illustration, no evidence that it helps elsewhere.\n",
        "Try next: texts of your own; a better writer (--model openai:NAME, README); --open for a page.",
        "  polyref augment YOUR-REFERENCES -k 10 -o refs.polyref.jsonl",
        "  polyref score refs.polyref.jsonl -i YOUR-OUTPUTS -m bleu chrf++",
    ]
    return "\n".join(parts)


def _examples(references: ReferenceSet, outputs: Sequence[Sequence[str]]) -> Iterator[str]:
    for place, (segment, right, wrong) in enumerate(zip(references, *outputs, strict=True), 1):
        if str(place) in _SHOWN and segment.extras:
            yield f"reference   {segment.originals[0].text}"
            yield f"paraphrase  {_nearest(segment, right)}"
            yield f"sysA right  {right}"
            yield f"sysB wrong  {wrong}\n"


def _nearest(segment: Segment, text: str) -> str:
    """The paraphrase with most of a text's words: the one that the text has most to thank for."""
    words = _words(text)
    return max((ref.text for ref in segment.extras), key=lambda one: (_words(one) & words).total())


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def _scores(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a system, one column a metric and k."""
    columns = dict.fromkeys((row["name"], row["k"]) for row in rows)
    cells = {(row["system"], row["name"], row["k"]): f"{row['score']:.1f}" for row in rows}
    header = ["system", *(name if k == 0 else f"{name} k={k}" for name, k in columns)]
    named = ((_RIGHT, "right, in other words"), (_WRONG, "wrong, in the reference's words"))
    return text_table(
        header, [[f"{system} ({what})", *(cells[(system, *column)] for column in columns)] for system, what in named]
    )


def _why(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the paraphrases changed, read off the scores."""
    bleu = {(row["system"], row["k"]): float(row["score"]) for row in rows if row["metric"] == "bleu"}
    before, after = (bleu[_WRONG, k] - bleu[_RIGHT, k] for k in (0, K))
    right, wrong = (bleu[system, K] - bleu[system, 0] for system in (_RIGHT, _WRONG))
    lead = f"still leads, by {after:.1f}" if after > 0 else "no longer leads"
    return (
        f"With one reference, the wrong system leads by {before:.1f} BLEU: it repeats the reference.\n"
        f"The paraphrases add {right:.1f} to the right system and {wrong:.1f} to the wrong one. It {lead}."
    )


def _filter(dropped: Sequence[str]) -> str:
    """What the filter dropped, the most frequent reasons first."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in Counter(dropped).most_common(4))
    return f" ({len(dropped)} more were dropped: {reasons} ...)" if dropped else ""

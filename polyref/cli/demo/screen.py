"""What ``polyref demo`` shows: references with a paraphrase, the scores, what changed and why, what to try next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from polyref.cli.demo.folder import K
from polyref.references import ReferenceSet, Segment
from polyref.tables import text_table

#: Segments that are shown.
_SHOWN: Final = ("1", "3", "10")
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
        f"{len(references)} references and {added} paraphrases{_filter(dropped)}. Three of them:",
        *_examples(references, outputs),
        f"{_scores(rows)}\n",
        _why(rows),
        "The texts were written to show how it works: an illustration, no evidence that it helps elsewhere.\n",
        "Try next: Prism, which needs no paraphrases to get this right; references of your own; --open for a page.",
        f"  polyref score {folder / 'refs.en'} -i {folder / _RIGHT} {folder / _WRONG} -m prism",
        f"  polyref augment YOUR-REFERENCES -k {K} -o refs.polyref.jsonl",
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
    """The paraphrase that is most like a text: the one that the text has most to thank for."""
    words = text.split()
    return max((ref.text for ref in segment.extras), key=lambda one: SequenceMatcher(None, one.split(), words).ratio())


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
    best = {k: max((row for row in rows if row["metric"] == "bleu" and row["k"] == k), key=_score)["system"]
            for k in (0, K)}  # fmt: skip
    without = "the wrong system wins: it repeats the reference" if best[0] == _WRONG else "the right system wins"
    added = (
        "the right one wins: its own words are among them" if best[K] == _RIGHT
        else "it still wins: few words of the right one are among them"
    )  # fmt: skip
    return f"With one reference, {without}.\nWith the paraphrases, {added}."


def _score(row: Mapping[str, Any]) -> float:
    return float(row["score"])


def _filter(dropped: Sequence[str]) -> str:
    """What the filter dropped, the most frequent reasons first."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in Counter(dropped).most_common(4))
    return f" ({len(dropped)} more were dropped: {reasons} ...)" if dropped else ""

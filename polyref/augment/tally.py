"""What happened to the candidates of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from polyref.tables import text_table


@dataclass
class Tally:
    """What happened to the candidates.

    Attributes:
        segments: Segments seen.
        references: References paraphrased.
        empty: References that are empty or white space: kept, not paraphrased.
        truncated: References longer than the paraphraser reads: kept whole, paraphrased from their beginning.
        short: Segments with something to paraphrase that got fewer than k.
        candidates: Candidates looked at.
        kept: Candidates that became references.
        surplus: Candidates that passed the filter but were not selected.
        dropped: Candidates that the filter refused, by reason.
        failed: References for which the paraphraser failed, by reason.
    """

    segments: int = 0
    references: int = 0
    empty: int = 0
    truncated: int = 0
    short: int = 0
    candidates: int = 0
    kept: int = 0
    surplus: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, Any]:
        """The counts as JSON values, for :meth:`of_record`."""
        return {**vars(self), "dropped": dict(self.dropped), "failed": dict(self.failed)}

    @classmethod
    def of_record(cls, values: Mapping[str, Any]) -> Tally:
        """The counts in a record of the shape :data:`RECORD`."""
        kept: dict[str, Any] = {name: values[name] for name in RECORD}
        return cls(**kept | {name: Counter(kept[name]) for name in ("dropped", "failed")})

    def add(self, other: Tally) -> None:
        """Count ``other`` in."""
        for name in ("segments", "references", "empty", "truncated", "short", "candidates", "kept", "surplus"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.dropped.update(other.dropped)
        self.failed.update(other.failed)

    def as_row(self, reasons: Iterable[str]) -> dict[str, Any]:
        """All counts as plain values; ``reasons`` are those that the filter can give, in their order."""
        return {
            "segments": self.segments,
            "references": self.references,
            "candidates": self.candidates,
            "kept": self.kept,
            "surplus": self.surplus,
            "dropped": {reason: self.dropped[reason] for reason in self._reasons(reasons)},
            "short": self.short,
            "empty": self.empty,
            "truncated": self.truncated,
            **({"failed": dict(sorted(self.failed.items()))} if self.failed else {}),
        }

    def outcomes(self, reasons: Iterable[str]) -> list[tuple[str, int]]:
        """What became of the candidates, for people: a few words and a count; reasons that were none are left out."""
        surplus = [("not selected", self.surplus)] if self.surplus else []
        return [
            ("kept", self.kept),
            *surplus,
            *((f"dropped: {one}", self.dropped[one]) for one in self._reasons(reasons) if self.dropped[one]),
        ]

    def _reasons(self, known: Iterable[str]) -> Iterable[str]:
        """The reasons that are given, then those that came up besides."""
        return dict.fromkeys((*known, *sorted(reason for reason, count in self.dropped.items() if count)))

    def summary(self, reasons: Iterable[str], k: int) -> str:
        """The outcomes as a table, and how many segments got fewer than ``k``."""
        total = max(self.candidates, 1)
        lines = [[name, str(count), f"{100 * count / total:.1f}"] for name, count in self.outcomes(reasons)]
        table = text_table(["candidates", "count", "%"], lines)
        short = f"polyref: {self.short} of {self.segments} segments got fewer than {k} new references"
        return f"{table}\n{short}" if self.short else table

    def warnings(self, *, translated: bool = False) -> list[str]:
        """What a user should know about references, or sources, that are empty, too long, or failed."""
        found = []
        if translated:
            return self._of_sources()
        if self.empty:
            some = "reference is" if self.empty == 1 else "references are"
            found.append(f"{self.empty} {some} empty: kept, without paraphrases")
        if self.truncated:
            some = "reference is" if self.truncated == 1 else "references are"
            found.append(
                f"{self.truncated} {some} longer than the model reads: kept whole, the paraphrases are of the beginning"
            )
        if self.failed:
            some = "reference" if self.failed.total() == 1 else "references"
            why = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.failed.items()))
            found.append(f"{self.failed.total()} {some} failed and got no paraphrases: {why}")
        return found

    def _of_sources(self) -> list[str]:
        why = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.failed.items()))
        counts = {
            "empty": self.empty,
            "longer than the model reads: what was made of the beginning is left out": self.truncated,
            f"without a translation: {why}": self.failed.total(),
        }
        return [f"{count} source{'' if count == 1 else 's'} {what}" for what, count in counts.items() if count]


#: The shape of a record (see :func:`polyref.json_files.misfit`).
RECORD: Final[dict[str, Any]] = {
    one.name: {str: int} if one.name in ("dropped", "failed") else int for one in fields(Tally)
}

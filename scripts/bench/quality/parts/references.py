"""What added references are like: how many there are, and what is wrong with them, by detectors."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from faults import faults, measure
from material import SETS
from parts.gains import MADE, generators
from sets import Augmented, Generator, Loaded

KEY: Final = ("set", "references")
#: Column -> figure, its format.
_FIGURES: Final = {
    "usable": ("usable", "{:.2f}"),
    "five_or_more": ("five", "{:.4f}"),
    "copies": ("copy", "{:.4f}"),
    "duplicates": ("duplicates", "{:.4f}"),
    "repeats": ("repeats", "{:.4f}"),
    "numbers_changed": ("numbers", "{:.4f}"),
    "negation_changed": ("negation", "{:.4f}"),
    "names_changed": ("names", "{:.4f}"),
    "ill_formed": ("form", "{:.4f}"),
    "length_ratio": ("length_ratio", "{:.3f}"),
    "word_f1": ("word_f1", "{:.3f}"),
    "self_bleu": ("self_bleu", "{:.1f}"),
}
COLUMNS: Final = (*KEY, "segments", "k", *_FIGURES, "made_by")


def table(names: Sequence[str], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of references.csv, of models' references; faults are shares of the added references."""
    for name in names:
        for text in generators(name, args.references):
            if text in {"human", "llm"}:
                continue
            generator = Generator.parse(text)
            loaded = Loaded(SETS[name], args.data, MADE.get(name))
            augmented = generator.augment(loaded, max(args.k), args.work)
            if augmented is None:
                continue
            found = figures(augmented)
            shown = {
                column: "" if found.get(figure) is None else form.format(found[figure])
                for column, (figure, form) in _FIGURES.items()
            }
            if args.sheet:
                write_sheet(args.work / f"sheet-{name}-{generator.name}.tsv", augmented, args.sheet)
            print(f"{name} {generator.name}: {augmented.described}", file=sys.stderr, flush=True)
            yield {
                "set": name,
                "references": generator.name,
                "segments": len(loaded.chosen),
                "k": max(args.k),
                **shown,
                "made_by": augmented.described,
            }


def figures(augmented: Augmented) -> dict[str, Any]:
    """The figures of a set with added references."""
    segments = []
    for segment in augmented.references:
        human = [ref.text for ref in segment.originals]
        segments.append((human, [(ref.text, human[ref.of or 0]) for ref in segment.extras]))
    return measure(segments)


def write_sheet(path: Path, augmented: Augmented, count: int, seed: int = 1) -> None:
    """Added references at random, for reading by eye: segment, rank, what the detectors say, reference, added one."""
    rows = []
    for segment in augmented.references:
        human = [ref.text for ref in segment.originals]
        for ref in segment.extras:
            of = human[ref.of or 0]
            alarms = ",".join(fault for fault, present in faults(ref.text, human, of).items() if present)
            rows.append([segment.id, str(ref.rank), alarms, of, ref.text])
    chosen = random.Random(seed).sample(rows, min(count, len(rows)))
    lines = ("\t".join(cell.replace("\t", " ") for cell in row) for row in chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")

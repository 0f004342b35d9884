"""The test file of the metrics task of 2026, written by hand: items of any pairs, with their traps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows_of(
    pair: str,
    sources: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str] | None,
    kind: str = "postedit",
    of: str = "official",
) -> list[Row]:
    """An item a segment, in order; the outputs of every item in an order of its own."""
    source, target = pair.split("-")
    draw = random.Random(pair)
    made = []
    for place, text in enumerate(sources):
        names = draw.sample([*systems], len(systems))
        row: Row = {
            "item_id": f"{of}_###_{source}_###_{target}_###_news_###_doc.{place // 2}_###_{place % 2}",
            "src": text,
        }
        if references is not None:
            row["ref"] = {"text": references[place], "type": kind}
        made.append({**row, "hyps": {name: systems[name][place] for name in names}})
    return made


def write_items(path: Path, rows: Iterable[Row], seed: int | None = 1) -> Path:
    """Write them, shuffled unless ``seed`` is None."""
    rows = list(rows)
    if seed is not None:
        random.Random(seed).shuffle(rows)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path

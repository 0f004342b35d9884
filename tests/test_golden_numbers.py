"""Numbers cannot move without the version: it parts the caches and signatures of before from those of now.

``golden_numbers.json`` holds the version they were computed with. Where a change moves a number on purpose, raise
``polyref.__version__`` (0.2.0.dev2 to 0.2.0.dev3), say in CHANGELOG.md what moved, and record them anew:

    python tests/test_golden_numbers.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import polyref
from polyref.augment import augment

RECORDED = Path(__file__).with_name("golden_numbers.json")
MINIMAL = Path(__file__).parent / "eval" / "minimal"

REFERENCES = [
    "The mayor opened the new bridge on Tuesday, three years after the flood.",
    "Prices rose by 3.7 percent in May and by 1,200 euros a year.",
    "She has never been to Shijiazhuang, but her brother has.",
    "Who would have thought that it could rain for eleven days?",
]
SYSTEMS = {
    "A": [
        "On Tuesday the mayor opened the new bridge, three years after the flooding.",
        "Prices went up 3.7 percent in May and 1,200 euros per year.",
        "She was never in Shijiazhuang, but her brother was.",
        "Who could have imagined eleven days of rain?",
    ],
    "B": [
        "The mayor is opening new bridge Tuesday after three years of flood.",
        "In May the price rises 3.7 per cent, 1200 euro yearly.",
        "They.",
        "Who would think that it can rain eleven days long?",
    ],
}
NGRAM = ["bleu", "chrf", "chrf++", "ter"]
COMBINED = [
    f"{name}(combine={how})"
    for name in NGRAM
    for how in ("mean", "expected", "blend")
    if (name, how) != ("ter", "expected")
]
NETWORKS = ["prism", "bertscore", "esim"]


def computed() -> dict[str, dict[str, Any]]:
    """The numbers by kind: ``exact`` ones, and those of ``networks``, whose last digits differ between processors."""
    lists = {name: polyref.load_paraphraser(name) for name in ("shipped", "lexical")}
    exact: dict[str, Any] = {
        name: [list(one(text, k=3).paraphrases) for text in REFERENCES] for name, one in lists.items()
    }
    references = augment(REFERENCES, "lexical", k=3)
    for row in polyref.score(SYSTEMS, references, [*NGRAM, *COMBINED], ks=[0, 1, 2]).rows:
        exact[f"{row['metric']}, {row['system']}, k={row['k']}"] = row["score"]
    networks = {}
    for row in polyref.score(SYSTEMS, references, NETWORKS, ks=[0, 2]).rows:
        networks[f"{row['metric']}, {row['system']}, k={row['k']}"] = row["score"]
    asked = {"ref": "refA", "gold": "mqm", "metrics": ["bleu", "chrf"], "resamples": 50}
    for row in polyref.evaluate(MINIMAL, "de-en", **asked, references=MINIMAL / "paraphrases/de-en.refA.jsonl").rows:
        key = ", ".join(str(row[name]) for name in ("metric", "statistic", "k"))
        exact[f"evaluate: {key}"] = row["value"]
    return {"exact": exact, "networks": networks}


@pytest.mark.slow
def test_numbers_move_with_the_version_alone() -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    assert recorded["version"] == polyref.__version__, "record the numbers of this version: see the top of this file"
    found = computed()
    for kind, tolerance in (("exact", 1e-12), ("networks", 1e-4)):
        assert recorded[kind].keys() == found[kind].keys()
        for name, value in recorded[kind].items():
            now = found[kind][name]
            same = (
                now == value if not isinstance(value, float) else now == pytest.approx(value, rel=tolerance, abs=1e-9)
            )
            assert same, f"{name} was {value}, is {now}: raise the version, or mend the change"


if __name__ == "__main__":
    RECORDED.write_text(
        json.dumps({"version": polyref.__version__, **computed()}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )

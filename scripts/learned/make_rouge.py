"""ROUGE by rouge-score of the texts in tests/data/learned; usage: make_rouge.py FOLDER."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rouge_score import rouge_scorer

TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]


def main(folder: Path) -> None:
    files = [folder / "inputs.jsonl", folder / "inputs_rouge.jsonl"]
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    scorers = {
        name: rouge_scorer.RougeScorer(TYPES, use_stemmer=name == "stem", split_summaries=False)
        for name in ("plain", "stem")
    }
    fields = ["precision", "recall", "fmeasure"]
    about = {"package": "rouge-score", "version": version("rouge-score"), "types": TYPES, "fields": fields}
    lines: list[dict[str, Any]] = [{**about, "split_summaries": False}]
    for row in rows:
        found: list[dict[str, Any]] = []
        for place, reference in enumerate(row["refs"]):
            scores = {name: one.score(reference, row["hyp"]) for name, one in scorers.items()}
            found.append({"id": row["id"], "ref": place, **scores})
        scores = {name: one.score_multi(row["refs"], row["hyp"]) for name, one in scorers.items()}
        found.append({"id": row["id"], "ref": "multi", **scores})
        lines += found
    (folder / "rouge.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

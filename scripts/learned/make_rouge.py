"""ROUGE by rouge-score of the texts in a folder, such as tests/data/learned.

scripts/learned/make_rouge.py FOLDER    # makes the environment, and runs itself in it
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]


def write(folder: Path) -> None:
    """The scores, in the environment."""
    from rouge_score import rouge_scorer

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--environment", type=Path, help="where rouge-score is, or is installed (default: FOLDER.venv)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    folder = args.folder.resolve()
    if args.inside:
        write(folder)
        return
    environment = (args.environment or folder.with_suffix(".venv")).resolve()
    if not environment.is_dir():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "rouge-score==0.1.2"], check=True)
    subprocess.run([environment / "bin" / "python", Path(__file__).resolve(), *sys.argv[1:], "--inside"], check=True)


if __name__ == "__main__":
    main()

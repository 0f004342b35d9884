"""Draw the loss curves of training runs: ``python scripts/plot_training.py NAME=RUN/log.jsonl ... -o curves.svg``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

MARKERS = "osD^v"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=LOG", help="log.jsonl of a run of train_paraphraser.py")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    # Equal input gives equal bytes.
    matplotlib.rcParams["svg.hashsalt"] = "polyref"
    plt.style.use("tableau-colorblind10")
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for number, run in enumerate(options.runs):
        name, _, path = run.partition("=")
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
        tokens = [row["tokens"] / 1e6 for row in rows]
        colour, marker = f"C{number}", MARKERS[number % len(MARKERS)]
        axes.plot(
            tokens, [row["valid"] for row in rows], color=colour, marker=marker, ms=4, label=f"{name}, validation"
        )
        axes.plot(tokens, [row["train"] for row in rows], color=colour, ls="--", lw=1, label=f"{name}, training")
    axes.set_xlabel("target tokens seen (millions)")
    axes.set_ylabel("nats a token")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(options.out, metadata={"Date": None} if options.out.suffix == ".svg" else None, dpi=150)


if __name__ == "__main__":
    main()

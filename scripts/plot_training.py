"""Draw the loss curves of training runs: ``python scripts/plot_training.py NAME=RUN/log.jsonl ... -o curves.svg``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

MARKERS = "osD^v"
#: Told apart by colour-blind readers too (Okabe & Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="NAME=LOG", help="log.jsonl of a run of train_paraphraser.py")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--chain", action="store_true", help="each run went on from the one before: add up its tokens")
    options = parser.parse_args()
    # Equal input gives equal bytes.
    matplotlib.rcParams["svg.hashsalt"] = "polyref"
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    names: list[Line2D] = []
    before = 0.0
    for number, run in enumerate(options.runs):
        name, _, path = run.partition("=")
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
        tokens = [before + row["tokens"] / 1e6 for row in rows]
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "ms": 4}
        names += axes.plot(tokens, [row["valid"] for row in rows], **look, label=name)
        axes.plot(tokens, [row["train"] for row in rows], **look, mfc="none", ls="--", lw=1)
        if options.chain:
            before = tokens[-1]
    kinds = [
        Line2D([], [], color="0.3", label="validation"),
        Line2D([], [], color="0.3", ls="--", lw=1, label="training"),
    ]
    axes.set_xlabel("target tokens seen (millions)")
    axes.set_ylabel("nats a token")
    axes.grid(alpha=0.3)
    axes.set_xlim(left=0)
    figure.legend(handles=[*names, *kinds], fontsize="small", loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(options.out, metadata={"Date": None} if options.out.suffix == ".svg" else None, dpi=150)


if __name__ == "__main__":
    main()

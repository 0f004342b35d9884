"""Draw README's picture from a table: ``python scripts/docs/picture.py``.

Agreement of BLEU and chrF++ with people against the number of added references, and where placebos of these references
would bring it, from docs/benchmarks/tasks.csv.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

DOCS = Path(__file__).parents[2] / "docs"
RUN = "wmt22-zh"
LEVELS = {
    ("sys", "pearson"): "Systems:\nPearson's r",
    ("seg", "kendall-without-ties"): "Outputs of a segment:\nKendall's tau",
}
#: Told apart by colour-blind readers too (Okabe & Ito 2008).
METRICS = {"bleu": ("BLEU", "#0072B2", "o"), "chrf++": ("chrF++", "#D55E00", "s")}
#: Inches: letters of ten points can still be read where a telephone shows this in its width.
SIZE = (5.4, 3.6)


def main() -> None:
    with (DOCS / "benchmarks" / "tasks.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["run"] == RUN and row["references"] == "llm"]
    # Equal input gives equal bytes.
    matplotlib.rcParams |= {"svg.hashsalt": "polyref", "svg.fonttype": "none", "font.family": "sans-serif"}
    figure, panels = plt.subplots(1, 2, figsize=SIZE, layout="constrained")
    for panel, ((level, statistic), title) in zip(panels, LEVELS.items(), strict=True):
        for metric, (label, colour, marker) in METRICS.items():
            of = (row for row in rows if (row["level"], row["statistic"]) == (level, statistic))
            found = sorted((row for row in of if row["metric"] == metric), key=lambda row: int(row["k"]))
            ks = [int(row["k"]) for row in found]
            values = [float(row["value"]) for row in found]
            # The gain beyond the placebo is the difference of the two.
            placebo = [float(row["value"]) - float(row["beyond"] or 0) for row in found]
            panel.plot(ks, values, color=colour, marker=marker, ms=5, lw=2)
            panel.plot(ks, placebo, color=colour, ls=":", lw=2)
            panel.annotate(label, (ks[-1], values[-1]), (0, 6), textcoords="offset points", color=colour, ha="right")
        panel.set_title(title, size="medium", loc="left")
        panel.set_xlabel("added references")
        panel.locator_params("y", nbins=5)
        panel.margins(y=0.12)
        panel.set_xticks(range(0, 11, 5))
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    kinds = [Line2D([], [], color="#444444", lw=2, ls=style) for style in ("-", ":")]
    figure.legend(kinds, ["paraphrases by an LLM", "placebo"], loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(DOCS / "images" / "readme.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

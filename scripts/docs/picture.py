"""Draw README's picture from a table: ``python scripts/docs/picture.py``.

Agreement of BLEU and chrF++ with people against the number of added references, and where placebos of these references
would bring it, from docs/benchmarks/tasks.csv.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[2] / "docs"
RUN = "wmt22-zh"
LEVELS = {
    ("sys", "pearson"): "Systems: Pearson's r",
    ("seg", "kendall-without-ties"): "Outputs of a segment: Kendall's tau",
}
#: Told apart by colour-blind readers too (Okabe & Ito 2008).
METRICS = {"bleu": ("BLEU", "#0072B2", "o"), "chrf++": ("chrF++", "#D55E00", "s")}


def main() -> None:
    with (DOCS / "benchmarks" / "tasks.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["run"] == RUN and row["references"] == "llm"]
    # Equal input gives equal bytes.
    matplotlib.rcParams |= {"svg.hashsalt": "polyref", "svg.fonttype": "none", "font.family": "sans-serif"}
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for panel, ((level, statistic), title) in zip(panels, LEVELS.items(), strict=True):
        for metric, (label, colour, marker) in METRICS.items():
            of = (row for row in rows if (row["level"], row["statistic"]) == (level, statistic))
            found = sorted((row for row in of if row["metric"] == metric), key=lambda row: int(row["k"]))
            ks = [int(row["k"]) for row in found]
            values = [float(row["value"]) for row in found]
            # The gain beyond the placebo is the difference of the two.
            placebo = [float(row["value"]) - float(row["beyond"] or 0) for row in found]
            panel.plot(ks, values, color=colour, marker=marker, ms=4, label=f"{label}, paraphrases by an LLM")
            panel.plot(ks, placebo, color=colour, ls=":", lw=1.5, label=f"{label}, placebo")
        panel.set(title=title, xlabel="added references", xticks=range(0, 11, 2))
        panel.title.set_size("medium")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(fontsize="small", frameon=False)
    figure.savefig(DOCS / "images" / "readme.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

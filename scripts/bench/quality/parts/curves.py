"""Plots of curves, one panel a metric, as SVG."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

Points = Sequence[tuple[float, float, float, float]]


def panels(
    curves: Mapping[str, Mapping[str, Points]],
    path: Path,
    x: str,
    y: str,
    *,
    logarithmic: bool = False,
    joined: bool = True,
) -> None:
    """Title of a panel -> name of a curve -> (x, y, low, high)."""
    try:
        import matplotlib
    except ImportError:
        sys.exit("the plot needs matplotlib: pip install matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "polyref"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(curves), figsize=(4.2 * len(curves), 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (title, lines) in zip(axes[0], curves.items(), strict=True):
        for number, (name, points) in enumerate(lines.items()):
            if not points:
                continue
            xs, ys, lows, highs = zip(*points, strict=True)
            colour, style = f"C{number // 2 % 10}" if joined else f"C{number}", "-" if number % 2 == 0 else "--"
            if joined:
                axis.plot(xs, ys, style, marker=".", color=colour, label=name)
                if number % 2 == 0 and not logarithmic:
                    axis.fill_between(xs, lows, highs, color=colour, alpha=0.1)
            else:
                axis.errorbar(
                    xs,
                    ys,
                    [[max(0.0, a - b) for a, b in zip(ys, lows)], [max(0.0, b - a) for a, b in zip(ys, highs)]],
                    fmt="o",
                    markersize=3,
                    linewidth=0.8,
                    color=colour,
                    label=name,
                )
        if not joined or not logarithmic:
            axis.axhline(0.0, color="black", linewidth=0.6)
        if logarithmic:
            axis.set_xscale("log")
            ticks = sorted({point[0] for points in lines.values() for point in points})
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=6)
    figure.supxlabel(x, fontsize=8)
    figure.supylabel(y, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)

"""The report's plots, as pieces of SVG to put into the page.

Every panel is a drawing of its own, of a size that can be read on a telephone. Colours are placeholders that become
variables of the page's style sheet, so that light, dark and print have their own; series differ by marker and line as
well. Equal input gives equal bytes.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from polyref.eval.columns import Line
from polyref.eval.report.derived import Report, Scatter, curve_statistics
from polyref.eval.statistics.named import gold_name, level_name, statistic_name
from polyref.values import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Placeholder in the drawing -> style of the page, with what it is where there is no page.
_INK, _MUTED, _LINE = "#010101", "#020202", "#030303"
_SERIES = tuple(f"#0{i}0a0b" for i in range(1, 9))
#: Okabe and Ito's colours, told apart by people with any colour vision; the page has lighter ones for dark.
_LIGHT: Final = ("#0072b2", "#d55e00", "#008563", "#aa4499", "#a66f00", "#2f8fc4", "#5b5b5b", "#7a4b2a")
_VARIABLES: Final = {
    _INK: "var(--ink,#1a1a1a)",
    _MUTED: "var(--muted,#595959)",
    _LINE: "var(--line,#d0d0d0)",
    **{colour: f"var(--c{i},{light})" for i, (colour, light) in enumerate(zip(_SERIES, _LIGHT, strict=True), 1)},
}
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLES: Final = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 2, 2)))
_WIDTH: Final = 4.4  # inches; 1 inch is 72 units of the drawing
_NAME_SIZE: Final = 7.0


@dataclass(frozen=True)
class Curve:
    """One metric's values against k, with their intervals where there are any, and those of placebos where they ran."""

    label: str
    ks: Sequence[int]
    values: Sequence[float]
    intervals: Sequence[tuple[float, float] | None]
    placebo: Sequence[float | None]


@dataclass(frozen=True)
class Plot:
    """A drawing, its title, a caption that says how to read it, and what it shows, for those who cannot see it."""

    svg: str
    title: str
    caption: str
    description: str

    @property
    def described(self) -> Markup:
        """The drawing as an element of the page that is read aloud as its title and description."""
        label = Markup('<svg role="img" aria-label="{}"').format(visible(f"{self.title}. {self.description}"))
        return Markup(self.svg.replace("<svg", label, 1))


def curve_plot(name: str, title: str, axis: str, bands: str, curves: Sequence[Curve]) -> Plot:
    """Correlation against the number of added references, a line a metric; ``bands`` says what their bands are."""
    from matplotlib.ticker import MaxNLocator

    with _panel(2.9) as (figure, axes):
        for number, curve in enumerate(curves):
            style = {**_style(number), "markersize": 4.5, "linewidth": 1.6, "label": curve.label}
            if len(curve.ks) > 25:
                del style["marker"], style["markersize"]
            axes.plot(curve.ks, curve.values, **style)
            band = [(k, *pair) for k, pair in zip(curve.ks, curve.intervals, strict=True) if pair is not None]
            if len(band) > 1:
                k, low, high = zip(*band, strict=True)
                axes.fill_between(k, low, high, color=style["color"], alpha=0.14, linewidth=0)
            fake = [(k, value) for k, value in zip(curve.ks, curve.placebo, strict=True) if value is not None]
            if fake:
                axes.plot(*zip(*fake, strict=True), color=style["color"], linestyle=":", linewidth=1.2)
        _finish(figure, axes, "added references (k)", axis, len(curves))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        told = [f"{c.label}: {c.values[0]:.3f} at k={c.ks[0]}, {c.values[-1]:.3f} at k={c.ks[-1]}" for c in curves]
        dotted = "Dotted: the placebo." if any(one is not None for c in curves for one in c.placebo) else ""
        caption = " ".join(filter(None, ["Agreement against the number of added references.", bands, dotted]))
        return Plot(_svg(figure, name), title, caption, f"{axis} against k. {'; '.join(told)}.")


def gain_plot(name: str, title: str, intervals: str, lines: Sequence[Line], place: Callable[[Line], str]) -> Plot:
    """Gains and what the placebo gains, a row a place; ``intervals`` says what the lines through them are."""
    from matplotlib.ticker import MaxNLocator

    same_k = len({line.row.k for line in lines}) == 1

    def label(line: Line) -> str:
        return line.metric if same_k or line.row.k is None else f"{line.metric}, k = {line.row.k}"

    places, labels = list(dict.fromkeys(map(place, lines))), list(dict.fromkeys(map(label, lines)))
    height = max(0.16 * len(labels), 0.2 + 0.2 * max(one.count("\n") for one in places))
    with _panel(0.7 + len(places) * height) as (figure, axes):
        axes.axvline(0, color=_MUTED, linewidth=1)
        for number, one in enumerate(labels):
            style = {**_style(number), "linestyle": "none", "markersize": 5}
            shift = 0.6 * ((number + 0.5) / len(labels) - 0.5)
            mine = [(places.index(place(line)) + shift, line) for line in lines if label(line) == one]
            axes.plot([line.row.gain or 0.0 for _, line in mine], [y for y, _ in mine], label=one, **style)
            for y, line in mine:
                if line.fake is not None and line.fake.gain is not None:
                    axes.plot(line.fake.gain, y, markerfacecolor="none", **style)
                if line.row.gain_ci is not None:
                    axes.hlines(y, *line.row.gain_ci, color=style["color"], linewidth=1.4)
        axes.set_yticks(range(len(places)), places)
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))  # labels of small gains are long
        _finish(figure, axes, "gain in agreement with people", None, len(labels))
        hollow = "Hollow: what a placebo gains." if any(line.fake for line in lines) else ""
        told = "; ".join(f"{place(line)}, {label(line)}: {line.row.gain:+.3f}" for line in lines).replace("\n", ", ")
        title += f", k = {lines[0].row.k}" if same_k and lines[0].row.k is not None else ""
        return Plot(_svg(figure, name), title, f"{intervals} {hollow}".strip(), f"{told}.")


def scatter_plot(name: str, title: str, scatter: Scatter, human: str, metric: str) -> Plot:
    """Systems by human score and metric score, for the smallest and the largest k; outliers carry a ring.

    Every point tells its system when it is pointed at; those of the largest k have names beside them if there is room.
    """
    with _panel(3.3) as (figure, axes):
        for number, (k, scores) in enumerate(scatter.scores.items()):
            what = f"{'' if k is None else f'k = {k}: '}r = {scatter.pearson[k]:.3f}"
            style = {**_style(number), "linestyle": "none", "markersize": 5.5, "label": what, "gid": f"points{number}"}
            hollow = number == 0 and len(scatter.scores) > 1
            axes.plot(scatter.human, scores, markerfacecolor="none" if hollow else style["color"], **style)
        systems = list(zip(scatter.systems, scatter.human, list(scatter.scores.values())[-1], strict=True))
        if far := [point for name, *point in systems if name in scatter.outliers]:
            ring: Any = {"linestyle": "none", "marker": "o", "markersize": 12, "markerfacecolor": "none"}
            axes.plot(*zip(*far, strict=True), color=_INK, label="outlier for people", **ring)
        _finish(figure, axes, f"human score ({human})", metric, 3)
        _name_points(figure, axes, scatter)
        svg = _svg(figure, name)
        for number, (k, scores) in enumerate(scatter.scores.items()):
            what = metric if k is None else f"{metric} with k = {k}"
            every = zip(scatter.systems, scatter.human, scores, strict=True)
            told = [
                f"{one}: {what} {score:.3f}, human {people:.3f}"
                for one, people, score in every
                if not math.isnan(score)
            ]
            svg = _with_titles(svg, f"{name}-points{number}", told)
        outliers = f"{len(scatter.systems)} systems; outliers: {', '.join(scatter.outliers) or 'none'}."
        caption = "A mark a system: point at one to read its name. r: Pearson's, with the human scores."
        return Plot(svg, title, caption, outliers)


def _name_points(figure: Figure, axes: Axes, scatter: Scatter) -> None:
    """Names beside the points of the largest k where they lie on no other name or point; outliers always have one."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # lays it out: before, places are not known
    room = axes.get_window_extent()
    last = list(scatter.scores.values())[-1]
    boxes = []
    for scores in scatter.scores.values():
        places = axes.transData.transform([*zip(scatter.human, scores, strict=True)])
        for system, (x, y) in zip(scatter.systems, places, strict=True):
            size = 7 if system in scatter.outliers else 4  # outliers have a ring
            boxes += [Bbox.from_bounds(x - size, y - size, 2 * size, 2 * size)] if math.isfinite(y) else []
    order = [i for i, score in enumerate(last) if math.isfinite(score)]
    for i in sorted(order, key=lambda i: (scatter.systems[i] not in scatter.outliers, -scatter.human[i])):
        name, point = scatter.systems[i], (scatter.human[i], last[i])
        at, up = axes.transData.transform(point)
        width, height = 0.62 * _NAME_SIZE * len(name), 1.2 * _NAME_SIZE
        best, fewest = (1, 0), math.inf  # (right, above) of the point
        for right, above in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            box = Bbox.from_bounds(at + 9 * right + width * (right - 1) / 2, up + 9 * above - height / 2, width, height)
            inside = box.x0 > room.x0 and box.x1 < room.x1 + 8 and box.y0 > room.y0 and box.y1 < room.y1
            overlaps = box.count_overlaps(boxes)
            if inside and overlaps < fewest:
                best, fewest, chosen = (right, above), overlaps, box
        if fewest == 0:
            boxes.append(chosen)
        elif name not in scatter.outliers:
            continue
        style: Any = {"ha": ("right", "center", "left")[best[0] + 1], "va": "center", "fontsize": _NAME_SIZE}
        offset = (9 * best[0], 9 * best[1])
        axes.annotate(name, point, offset, textcoords="offset points", color=_INK, in_layout=False, **style)


def _with_titles(svg: str, group: str, titles: Sequence[str]) -> str:
    """The drawing with a title, which browsers show, on every mark of a group."""
    before, found, after = svg.partition(f'id="{group}"')
    left = iter(titles)
    after = re.sub(
        r"(<use [^>]*?)/>",
        lambda mark: f"{mark[1]}><title>{escape(visible(next(left)))}</title></use>",
        after,
        count=len(titles),
    )
    return before + found + after


def _style(number: int) -> dict[str, Any]:
    place = number % len(_SERIES)
    return {"color": _SERIES[place], "marker": _MARKERS[place], "linestyle": _STYLES[place]}


@contextmanager
def _panel(height: float) -> Iterator[tuple[Figure, Axes]]:
    import matplotlib
    from matplotlib import rc_params_from_file
    from matplotlib.figure import Figure

    settings: Any = {
        **matplotlib.rcParamsDefault,  # whatever the user's own settings are
        **rc_params_from_file(Path(__file__).parent / "templates" / "plots.mplstyle", use_default_template=False),
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), _INK),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), _MUTED),
        "grid.color": _LINE,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # A system's name may hold characters that the measuring font lacks; the reader's fonts draw them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(_WIDTH, height), dpi=72, layout="constrained")
        yield figure, figure.add_subplot()


def _finish(figure: Figure, axes: Axes, x: str, y: str | None, entries: int) -> None:
    axes.grid(True, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(x)
    axes.set_ylabel(y or "")
    if entries:
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels), default=0) < 26 else 1
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + 0.2 * -(-len(labels) // columns))
        figure.legend(handles, labels, loc="outside lower left", ncols=columns, handlelength=2.6)


def _svg(figure: Figure, name: str) -> str:
    """The drawing alone: no prologue, no size but its proportions, and ids that no other drawing of the page has."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = visible(stream.getvalue())
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{name}-", text)
    text = text.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans'")
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    return "\n".join(line.rstrip() for line in text.splitlines())


#: Metrics that get a plot of their own for each set; the others are in the tables.
MOST_PANELS: Final = 4


def _intervals(report: Report, what: str) -> str:
    often = f"over {report.redrawn}, {report.bootstrap.resamples} resamples"
    return f"{what}: {report.confidence} bootstrap intervals {often}." if report.bootstrap.resamples else ""


def curve_panels(report: Report) -> list[Plot]:
    """Agreement against k: one panel for every evaluation and statistic, a line a metric with several k."""
    drawn = []
    for place, one in enumerate(report.evaluations):
        fakes = {id(real): fake.value for real, fake, _ in one.compared_with_placebo()}
        for level, statistic in curve_statistics(one):
            curves = []
            for series in one.series:
                rows = [r for r in one.rows if (r.metric, r.level, r.statistic) == (series.metric, level, statistic)]
                points = [(row.k, row.value, row.ci, fakes.get(id(row))) for row in rows if row.k is not None]
                if len(points) > 1:
                    curves.append(Curve(report.metrics[series.metric], *zip(*points, strict=True)))
            if curves:
                gold = one.gold.system_name if level == "sys" else one.gold.name
                what = f"{statistic_name(statistic)}, {level_name(statistic, level)}"
                title = f"{what if report.alone else f'{one.name}, {what}'} ({gold_name(gold or one.gold.name)})"
                name = f"curve{place}-{level}-{statistic}"
                bands = _intervals(report, "Bands")
                drawn.append(curve_plot(name, title, statistic_name(statistic), bands, curves))
    return drawn


def headline_panel(report: Report) -> Plot | None:
    """Gains of the largest k: of one evaluation, a row a statistic; of several, a row each, in the first statistic."""
    if not report.alone:
        return next(iter(gain_panels(report)), None)
    order = list(dict.fromkeys(line.statistic for line in report.lines))
    lines = sorted(report.judged, key=lambda line: order.index(line.statistic))

    def place(line: Line) -> str:
        return "\n".join(reversed(line.statistic.rsplit(", ", 1)))

    title = "Gains in agreement with people"
    return gain_plot("gains-of-all", title, _intervals(report, "Lines"), lines, place) if lines else None


def gain_panels(report: Report) -> list[Plot]:
    """Gains of the largest k: one panel for every statistic, a row an evaluation."""
    lines = sorted(report.judged, key=lambda line: report.evaluations.index(line.evaluation))
    groups = {name: [line for line in lines if line.statistic == name] for name in (one.statistic for one in lines)}
    intervals = _intervals(report, "Lines")
    return [
        gain_plot(f"gain-{place}", f"Gain in {name}", intervals, mine, lambda line: line.evaluation.name)
        for place, (name, mine) in enumerate(groups.items())
    ]


def system_panels(report: Report) -> list[Plot]:
    """Systems by human and metric score: one panel for every evaluation and metric."""
    return [
        scatter_plot(
            f"systems{place}-{index}",
            f"{one.name}: {report.metrics[scatter.metric]} and people",
            scatter,
            gold_name(one.gold.system_name or one.gold.name),
            report.metrics[scatter.metric],
        )
        for place, (one, found) in enumerate(report.scatters)
        for index, scatter in enumerate(found[:MOST_PANELS])
    ]

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
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from polyref.eval.columns import Line
from polyref.eval.report.derived import Report, Scatter, curve_statistics
from polyref.eval.statistics.named import gold_name, level_name, statistic_name
from polyref.tables import visible

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
class GainPoint:
    """One gain: the row and the series of the drawing that it is in, and what the placebo gains."""

    place: str
    label: str
    gain: float
    interval: tuple[float, float] | None
    placebo: float | None = None


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


def gain_plot(name: str, title: str, lines: str, points: Sequence[GainPoint]) -> Plot:
    """Gains with their intervals, a row a place; ``lines`` says what the intervals are."""
    from matplotlib.ticker import MaxNLocator

    places = list(dict.fromkeys(point.place for point in points))
    labels = list(dict.fromkeys(point.label for point in points))
    height = max(0.16 * len(labels), 0.2 + 0.2 * max(place.count("\n") for place in places))
    with _panel(0.7 + len(places) * height) as (figure, axes):
        axes.axvline(0, color=_MUTED, linewidth=1)
        for number, label in enumerate(labels):
            mine = [point for point in points if point.label == label]
            style = {**_style(number), "linestyle": "none", "markersize": 5, "label": label}
            shift = 0.6 * ((number + 0.5) / len(labels) - 0.5)
            at = [places.index(point.place) + shift for point in mine]
            axes.plot([point.gain for point in mine], at, **style)
            fakes = [(point.placebo, y) for y, point in zip(at, mine, strict=True) if point.placebo is not None]
            if fakes:
                axes.plot(*zip(*fakes, strict=True), **{**style, "label": None, "markerfacecolor": "none"})
            spans = [(y, *point.interval) for y, point in zip(at, mine, strict=True) if point.interval]
            if spans:
                y, low, high = zip(*spans, strict=True)
                axes.hlines(y, low, high, color=style["color"], linewidth=1.4)
        axes.set_yticks(range(len(places)), places)
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))  # labels of small gains are long
        _finish(figure, axes, "gain in agreement with people", None, len(labels))
        hollow = "Hollow: what a placebo gains." if any(point.placebo is not None for point in points) else ""
        told = "; ".join(f"{p.place}, {p.label}: {p.gain:+.3f}" for p in points).replace("\n", ", ")
        return Plot(_svg(figure, name), title, " ".join(filter(None, [lines, hollow])), f"{told}.")


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
    from matplotlib.figure import Figure

    settings: Any = {
        **matplotlib.rcParamsDefault,  # whatever the user's own settings are
        "backend": "agg",
        "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
        "svg.hashsalt": "polyref",
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "text.parse_math": False,
        "text.color": _INK,
        "axes.edgecolor": _MUTED,
        "axes.labelcolor": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": _MUTED,
        "ytick.color": _MUTED,
        "xtick.labelcolor": _INK,
        "ytick.labelcolor": _INK,
        "grid.color": _LINE,
        "legend.frameon": False,
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
    if y:
        axes.set_ylabel(y)
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
    points = _points(report, lines, lambda line: "\n".join(reversed(line.statistic.rsplit(", ", 1))))
    title = f"Gains in agreement with people{_same_k(report)}"
    return gain_plot("gains-of-all", title, _intervals(report, "Lines"), points) if points else None


def gain_panels(report: Report) -> list[Plot]:
    """Gains of the largest k: one panel for every statistic, a row an evaluation."""
    drawn = []
    for statistic in dict.fromkeys(line.statistic for line in report.judged):
        lines = [line for line in report.judged if line.statistic == statistic]
        order = [one.name for one in report.evaluations]
        points = _points(report, lines, lambda line: line.evaluation.name)
        points.sort(key=lambda point: order.index(point.place))
        row = lines[0].row
        if (row.level, row.statistic) == ("sys", "pearson"):
            labels = {point.label for point in points}
            for mean in report.averages:
                if mean["gain"] is not None and _label(report, mean["metric"], mean["k"]) in labels:
                    where = " ".join(filter(None, ["average", mean["generator"]]))
                    points.append(GainPoint(where, _label(report, mean["metric"], mean["k"]), mean["gain"], None))
        name = f"gain-{row.level}-{row.statistic}"
        title = f"Gain in {statistic}{_same_k(report)}"
        drawn.append(gain_plot(name, title, _intervals(report, "Lines"), points))
    return drawn


def _points(report: Report, lines: Sequence[Line], place: Callable[[Line], str]) -> list[GainPoint]:
    return [
        GainPoint(
            place(line),
            _label(report, line.row.metric, line.row.k),
            line.row.gain,
            line.row.gain_ci,
            line.fake.gain if line.fake else None,
        )
        for line in lines
        if line.row.gain is not None
    ]


def _same_k(report: Report) -> str:
    ks = {line.row.k for line in report.judged}
    return f", k = {max(k or 0 for k in ks)}" if len(ks) == 1 and None not in ks else ""


def _label(report: Report, metric: str, k: int | None) -> str:
    return report.metrics[metric] if k is None or _same_k(report) else f"{report.metrics[metric]}, k = {k}"


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

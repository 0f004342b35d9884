from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from markupsafe import escape

from polyref.cli.main import cli
from polyref.errors import DataError
from polyref.eval.report.write import FILES, check_report, csv_text, latex_number, write_directory
from polyref.tables import escape_latex

MINIMAL = Path(__file__).resolve().parent / "minimal"
HOSTILE = "<script>alert(1)</script> & 'quotes' \"double\""
#: A system whose name means something to HTML, LaTeX and the shell.
SYSTEM = "Ga<b>&mma_2$"


def _evaluate(folder: Path, *arguments: str, to: str = "report") -> Path:
    base = ["-l", "de-en", "--ref", "refA", "--refs", str(folder / "paraphrases/de-en.refA.jsonl"), "-n", "50"]
    out = folder / to
    run = CliRunner().invoke(
        cli, ["evaluate", str(folder), *base, *arguments, "-o", str(out), "--json"], catch_exceptions=False
    )
    assert run.exit_code == 0, run.output
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small set, with texts and a name that would break a page that does not escape."""
    root = Path(shutil.copytree(MINIMAL, tmp_path_factory.mktemp("report") / "minimal"))
    for path in [*(root / "human-scores").iterdir(), *(root / "darr").iterdir()]:
        path.write_text(path.read_text().replace("Gamma-2", SYSTEM))
    output = root / "system-outputs/de-en/Gamma-2.txt"
    output.write_text(output.read_text().replace("Dog asleep.", HOSTILE))
    output.rename(output.with_name(f"{SYSTEM}.txt"))
    for name in ("references/de-en.refA.txt", "paraphrases/de-en.refA.jsonl"):
        text = (root / name).read_text().replace("The dog is asleep.", "The dog <i>is</i> asleep.")
        (root / name).write_text(text.replace("The dog sleeps.", "The dog &amp; sleeps."))
    return root


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    return _evaluate(folder, "--gold", "mqm", "-m", "bleu", "chrf", "-k", "0", "1", "2", "--correction", "holm")


class _Page(HTMLParser):
    """Balanced elements, ids, and what a page would load."""

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"src", "href", "xlink:href", "action"}:
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


@pytest.fixture(scope="module")
def page(report: Path) -> str:
    return (report / "index.html").read_text("utf-8")


def test_evaluating_loads_nothing_of_a_report() -> None:
    program = "import sys, polyref.eval.api; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not [name for name in loaded if name.startswith(("matplotlib", "jinja2", "polyref.eval.report"))]


@pytest.mark.slow
def test_all_files_are_there(report: Path) -> None:
    assert sorted(path.name for path in report.iterdir()) == sorted(FILES)


def test_the_page_is_well_formed_and_loads_nothing(page: str) -> None:
    parser = _Page()
    parser.feed(page)
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    assert all(link.startswith("#") or link == "data:," for link in parser.links)
    # Every reference within the page has its goal.
    assert {link[1:] for link in parser.links if link.startswith("#")} <= set(parser.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(parser.ids)
    assert "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "https://" not in page
    assert "default-src 'none'" in page
    for anchor in ("gains", "curves", "references", "systems", "decisions", "examples", "settings"):
        assert anchor in parser.ids
    # The gains at the head, three curves, two scatters: each with its caption.
    assert [parser.tags.count(tag) for tag in ("figure", "svg", "figcaption")] == [6, 6, 6]


def test_the_page_begins_with_its_conclusion_then_one_plot_then_the_table(page: str) -> None:
    head, first = page.split('<section id="gains">')
    told = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", head))
    assert list(told) == [
        "Kendall&#39;s τ (without ties), within segments",
        "Accuracy with calibrated ties, within segments",
        "Pearson&#39;s r, systems",
    ]
    assert "With 2 added references, agreement with people " in head.split("<figure>")[0]
    assert head.count("<figure>") == 1 and "<nav" not in head
    (table,) = re.findall("<tbody>(.*?)</tbody>", first.split("<details>")[0], re.DOTALL)
    rows = [dict(re.findall(r'<td data-title="([^"]+)"[^>]*>([^<]*)</td>', row)) for row in table.split("</tr>")[:-1]]
    assert list(rows[0]) == [
        "statistic", "metric", "k", "without", "with", "gain", "interval of gain", "verdict"
    ]  # fmt: skip
    # Sorted: the largest gain of each statistic first.
    for statistic in {row["statistic"] for row in rows}:
        gains = [float(row["gain"].replace("−", "-")) for row in rows if row["statistic"] == statistic]
        assert len(gains) == 2 and gains == sorted(gains, reverse=True)
    for row in rows:
        assert float(row["with"]) - float(row["without"]) == pytest.approx(
            float(row["gain"].replace("−", "-")), abs=0.0011
        )


def test_text_is_shown_as_it_is(page: str, report: Path) -> None:
    assert "<script>alert" not in page
    assert str(escape(HOSTILE)) in page
    assert str(escape(SYSTEM)) in page and SYSTEM not in page
    assert "The dog &amp;amp; sleeps." in page
    assert "The dog &lt;i&gt;is&lt;/i&gt; asleep." in page
    assert SYSTEM in (report / "systems.csv").read_text("utf-8")


def test_colours_follow_the_page(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    for drawing in drawings:
        assert not re.search(r"#0\d0a0b|#010101|#020202|#030303", drawing)
        # All colours can be changed by the style sheet.
        assert set(re.findall(r"(?:fill|stroke): (?!none|var)[^;\"]+", drawing)) == set()
        assert "<text" in drawing
    style = page[page.index("<style>") : page.index("</style>")]
    used = set(re.findall(r"var\(--(\w+)", page))
    for part in re.split("@media", style):
        if "prefers-color-scheme: dark" in part or part.startswith("<style>") or part.startswith(" print"):
            assert used <= set(re.findall(r"--(\w+):", part)) | {"shade"}


def test_tables_beside_the_page(report: Path) -> None:
    with (report / "rows.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 5 * 2 * 3
    data = json.loads((report / "report.json").read_text("utf-8"))
    assert data["polyref_report"] == 1
    assert len(data["rows"]) == len(rows)
    for one, other in zip(rows, data["rows"], strict=True):
        assert float(one["value"]) == other["value"]
        assert set(one) == set(other)
    assert data["settings"]["metrics"] == ["bleu", "chrf"]
    assert {"seed", "resamples", "confidence", "version of numpy", "version of matplotlib"} <= set(data["settings"])
    (evaluation,) = data["evaluations"]
    assert evaluation["signature"].startswith("set:minimal|pair:de-en|gold:mqm")
    assert {(row["metric"], row["k"]) for row in data["systems"]} == {
        ("bleu", 0),
        ("bleu", 2),
        ("chrf", 0),
        ("chrf", 2),
    }
    for name in ("systems", "pairs"):
        with (report / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
            assert len(list(csv.DictReader(stream))) == len(data[name]) > 0


def test_verdicts_are_what_p_values_say(report: Path) -> None:
    rows = json.loads((report / "report.json").read_text("utf-8"))["rows"]
    for row in rows:
        p = row["p"]
        pooled = (row["level"], row["statistic"]) == ("seg", "kendall-tau-b")
        if not row["k"] or row["statistic"] == "tie-rate" or pooled:
            assert row["verdict"] == ""
        elif row["gain"] and row["control"] == "real":
            told = "unclear" if p is None else "gains" if p < 0.025 else "worse" if p > 0.975 else "unclear"
            assert row["verdict"] == told
    assert {row["verdict"] for row in rows} > {""}
    page = (report / "index.html").read_text("utf-8")
    gained = any((row["verdict"], row["k"], row["control"]) == ("gains", 2, "real") for row in rows)
    assert "The control was not run" in page and ("No placebo was run" in page) == gained


def test_latex(report: Path) -> None:
    text = (report / "gains.tex").read_text("utf-8")
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{llrlrrr}" and lines[-1] == r"\end{tabular}"
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 1 + 8
    assert all(line.count(" & ") == 6 for line in body)
    assert escape_latex(r"a_b 5% {x} \ ~^ #$&") == (
        r"a\_b 5\% \{x\} \textbackslash{} \textasciitilde{}\textasciicircum{} \#\$\&"
    )
    assert escape_latex('<b> | "x" -- ---') == (
        r"\textless{}b\textgreater{} \textbar{} \symbol{34}x\symbol{34} -{}- -{}-{}-"
    )
    assert escape_latex("a\nb\x1bc – Kendall's τ") == r"a b c \textendash{} Kendall's $\tau$"
    assert "BLEU" in text and r"Kendall's $\tau$-b" in text and "kendall" not in text
    # The p-values of the bootstrap are not corrected, the others are.
    assert all(line.split(" & ")[6] == r"-- \\" for line in body[1:])
    assert (latex_number(-0.5), latex_number(0.25, "+"), latex_number(math.nan)) == ("$-$0.500", "$+$0.250", "--")


@pytest.mark.slow
def test_latex_without_correction_has_the_p_values_of_segments(folder: Path) -> None:
    out = _evaluate(folder, "--gold", "mqm", "-m", "bleu", "-k", "0", "2", to="uncorrected")
    rows = json.loads((out / "report.json").read_text("utf-8"))["rows"]
    (p,) = [row["p_bootstrap"] for row in rows if row["statistic"] == "kendall-tau-b" and row["k"] == 2]
    lines = (out / "gains.tex").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if r"Kendall's $\tau$-b" in line]
    assert line.split(" & ")[6] == rf"{p:.3f} \\"


def test_no_cell_is_a_formula() -> None:
    names = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "plain", "a=b", ""]
    text = csv_text([{"system": name, "score": -1.5, "count": -2, "none": None} for name in names])
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["system"] for row in rows] == [f"'{name}" for name in [*names[:5], "\n=1"]] + names[6:]
    # Numbers stay numbers.
    assert {(row["score"], row["count"], row["none"]) for row in rows} == {("-1.5", "-2", "")}


@pytest.mark.slow
def test_names_with_control_characters(tmp_path: Path) -> None:
    root = Path(shutil.copytree(MINIMAL, tmp_path / "minimal"))
    name = "=Ga\x1b[31mmma"
    for path in [*(root / "human-scores").iterdir(), *(root / "darr").iterdir()]:
        path.write_text(path.read_text().replace("Gamma-2", name))
    (root / "system-outputs/de-en/Gamma-2.txt").rename(root / f"system-outputs/de-en/{name}.txt")
    out = _evaluate(root, "--gold", "mqm", "-m", "bleu", "-k", "0", "2")
    page = (out / "index.html").read_text("utf-8")
    assert "\x1b" not in page and r"=Ga\x1b[31mmma" in page
    assert f"'{name}" in (out / "systems.csv").read_text("utf-8")
    systems = json.loads((out / "report.json").read_text("utf-8"))["systems"]
    assert name in {row["system"] for row in systems}


def test_examples_show_both_directions(folder: Path, report: Path) -> None:
    from polyref.eval.data.evaluation_set import EvalSet
    from polyref.eval.statistics.correlation import kendall_tau_b

    page = (report / "index.html").read_text("utf-8")
    found = re.findall(r"Segment (\d): agreement ([+−][\d.]+) with k = 0, ([+−][\d.]+) with k = 2", page)
    assert found
    changes = [float(b.replace("−", "-")) - float(a.replace("−", "-")) for _, a, b in found]
    assert all(change != 0 for change in changes)
    rises = [change for change in changes if change > 0]
    assert rises == sorted(rises, reverse=True)
    assert changes[: len(rises)] == rises
    # The order of one segment, counted here once more.
    from polyref.eval.data.reference_sets import reference_set
    from polyref.eval.series import ComputedSeries
    from polyref.metrics.registry import get_metric

    evalset = EvalSet(folder, "de-en")
    gold = evalset.gold("mqm")
    names = list(gold.segment)
    references = reference_set(evalset, ["refA"], folder / "paraphrases/de-en.refA.jsonl")
    outputs = dict(zip(names, evalset.outputs(names), strict=True))
    series = ComputedSeries(get_metric("bleu"), outputs, references, [0, 2])
    number, before, _ = found[0]
    column = int(number) - 1
    scores = series.segment(names, 0)
    assert scores is not None
    human = [gold.segment[name][column] for name in names]
    judged = [i for i, value in enumerate(human) if not math.isnan(value)]
    pairs = [(i, j) for i in judged for j in judged if human[i] > human[j]]
    right = sum(scores[i, column] > scores[j, column] for i, j in pairs)
    wrong = sum(scores[i, column] < scores[j, column] for i, j in pairs)
    assert float(before.replace("−", "-")) == pytest.approx((right - wrong) / len(pairs), abs=0.005)
    assert not math.isnan(kendall_tau_b([1, 2], [1, 2]))


@pytest.mark.slow
def test_same_input_same_bytes(folder: Path, report: Path) -> None:
    again = folder / "again"
    arguments = ["--gold", "mqm", "-m", "bleu", "chrf", "-k", "0", "1", "2", "--correction", "holm", "-n", "50"]
    base = ["-l", "de-en", "--ref", "refA", "--refs", str(folder / "paraphrases/de-en.refA.jsonl")]
    command = [sys.executable, "-m", "polyref", "evaluate", str(folder), *base, *arguments, "-o", str(again)]
    subprocess.run(command, check=True, capture_output=True)
    for name in FILES:
        assert (again / name).read_bytes() == (report / name).read_bytes(), name


@pytest.mark.slow
def test_rankings_and_no_added_references(folder: Path) -> None:
    out = _evaluate(folder, "--gold", "darr", "-m", "bleu", "-k", "0", "2", to="rankings")
    page = (out / "index.html").read_text("utf-8")
    assert "Kendall&#39;s τ (without ties)" in page
    assert "wins minus losses" in page
    # Tests between systems need scores of segments.
    assert "Needs judgements and metric scores of segments" in page
    stored = ["-l", "de-en", "--gold", "wmt-z", "-m", "Adequacy-2", "--ref", "refB", "-o", str(out)]
    run = CliRunner().invoke(cli, ["evaluate", str(folder), *stored])
    # The set has another system now, which the score file does not know.
    assert isinstance(run.exception, DataError)
    assert "no score of the judged system" in str(run.exception)
    assert (out / "index.html").read_text("utf-8") == page


def test_score_files_alone(tmp_path: Path) -> None:
    out = tmp_path / "report"
    arguments = ["-l", "de-en", "--gold", "wmt-z", "-m", "Adequacy-2", "--ref", "refB", "-o", str(out)]
    run = CliRunner().invoke(cli, ["evaluate", str(MINIMAL), *arguments], catch_exceptions=False)
    assert run.exit_code == 0
    page = (out / "index.html").read_text("utf-8")
    for said in ("No metric here has more than one number of references", "No gain has a test"):
        assert said in page
    assert page.count("<figure>") == 1


def test_only_a_report_is_replaced(report: Path, tmp_path: Path) -> None:
    check_report(report)
    check_report(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_report(tmp_path / "empty")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for place, message in ((mine, "is no report of polyref.*notes.txt"), (mine / "notes.txt", "is no directory"),
                           (tmp_path / "no" / "where", "no directory")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            check_report(place)
    (mine / "notes.txt").rename(mine / "index.html")
    with pytest.raises(DataError, match="is no report"):
        check_report(mine)
    copy = Path(shutil.copytree(report, tmp_path / "copy"))
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="is no report of polyref"):
        write_directory(copy, {"index.html": ""})
    assert (copy / "notes.txt").read_text() == "mine"


def test_a_failed_write_leaves_nothing(report: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(report, tmp_path / "copy"))
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(UnicodeEncodeError):
        write_directory(copy, {"index.html": "new", "rows.csv": "\ud800"})
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    (copy / "sizes.csv").touch()  # as in reports of 0.1.0
    write_directory(copy, dict.fromkeys(FILES, "new"))
    assert (copy / "index.html").read_text() == "new"
    assert sorted(path.name for path in copy.iterdir()) == sorted(FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.slow
def test_without_matplotlib_the_page_has_no_plots(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from polyref.cli.main import main\n"
        f"main(['evaluate', {str(folder)!r}, '-l', 'de-en', '--ref', 'refA', '--gold', 'mqm', '-n', '50', "
        f"'--refs', {str(folder / 'paraphrases/de-en.refA.jsonl')!r}, '-o', {str(tmp_path / 'report')!r}])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "report/index.html").read_text("utf-8")
    assert page.count("pip install matplotlib") == 1
    assert "note: the report has no plots: they need matplotlib (pip install matplotlib)" in run.stderr
    parser = _Page()
    parser.feed(page)
    assert parser.open == [] and not {"svg", "figure"} & set(parser.tags)
    assert {link[1:] for link in parser.links if link.startswith("#")} <= set(parser.ids)
    # What is plots alone is left out; every table is there.
    assert "<nav" in page
    assert {"gains", "references", "systems", "decisions", "examples", "settings"} <= set(parser.ids)
    assert not {"curves", "pairs"} & set(parser.ids)
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == sorted(FILES)
    assert "version of matplotlib" not in (tmp_path / "report/report.json").read_text("utf-8")


def test_the_page_has_plots_where_they_can_be_drawn(page: str) -> None:
    assert "matplotlib)" not in page and "pip install" not in page


def _section(page: str, anchor: str) -> str:
    return page.split(f'<section id="{anchor}">')[1].split("</section>")[0]


def test_points_carry_the_names_of_their_systems(page: str) -> None:
    first = re.findall(r"<svg.*?</svg>", _section(page, "systems"), re.DOTALL)[0]
    told = re.findall(r"<title>(.*?)</title>", first)
    # Every system, with the smallest and with the largest k.
    assert len(told) == 6
    for system, k in ((name, k) for k in (0, 2) for name in ("Alpha", "Beta.1", str(escape(SYSTEM)))):
        assert any(title.startswith(f"{system}: BLEU with k = {k} ") for title in told)
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", first)
    assert {"Alpha", "Beta.1"} <= set(labels)


def test_names_of_many_systems_do_not_lie_on_each_other() -> None:
    from polyref.eval.report.derived import Scatter
    from polyref.eval.report.plots import scatter_plot

    systems = [f"system-{i:02}" for i in range(40)]
    human = [i / 40 for i in range(40)]
    human[3] = -2.0
    scores: dict[int | None, list[float]] = {0: [h * 20 for h in human], 5: [h * 20 + 3 for h in human]}
    scatter = Scatter("bleu", systems, human, scores, {0: 1.0, 5: 1.0}, ["system-03"])
    svg = scatter_plot("many", "many", scatter, "human", "BLEU").svg
    assert len(re.findall("<title>", svg)) == 80
    texts = re.findall(r'<text[^>]*text-anchor: (\w+)[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(system-\d\d)</text>', svg)
    texts += [
        ("start", *found)
        for found in re.findall(r'<text(?![^>]*anchor)[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(system-\d\d)</text>', svg)
    ]
    assert "system-03" in {name for *_, name in texts}  # the outlier
    assert 3 < len(texts) < 40
    boxes = []
    for anchor, x, y, name in texts:
        width = 0.55 * 7 * len(name)
        left = float(x) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        boxes.append((left, float(y) - 5, left + width, float(y)))
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]


def test_references_are_summed_up_with_samples(page: str) -> None:
    part = _section(page, "references")
    cells = dict(re.findall(r'<td data-title="([^"]+)"[^>]*>([^<]*)</td>', part))
    assert cells["segments"] == "5" and cells["human references"] == "1" and cells["added references"] == "1–2"
    assert cells["repeated, %"] == "0.0"
    texts = [json.loads(line) for line in (MINIMAL / "paraphrases/de-en.refA.jsonl").read_text().splitlines()]
    added = [text for one in texts for text in one["paraphrases"]]
    # Two of the texts are longer in this copy of the set.
    extra = (
        len("The dog <i>is</i> asleep.") - len("The dog is asleep."),
        len("The dog &amp; sleeps.") - len("The dog sleeps."),
    )
    human = sum(len(one["reference"]) for one in texts) + extra[0]
    assert float(cells["characters, human"]) == pytest.approx(human / 5, abs=0.05)
    assert float(cells["characters, added"]) == pytest.approx((sum(map(len, added)) + extra[1]) / len(added), abs=0.05)
    assert re.findall(r"<h3>(Segment \d)</h3>", part) == ["Segment 1", "Segment 3", "Segment 5"]
    assert "We have bought three apples." in part


def test_repeated_references_are_counted() -> None:
    from polyref.eval.report.derived import _summary
    from polyref.references import ReferenceSet

    references = ReferenceSet.from_texts([["a", "b"], ["c"]], paraphrases=[["b", "d", "d", "e"], ["f"]])
    summary = _summary("set", references.segments, 3)
    assert (summary.human, summary.added) == ((1, 2), (1, 3))
    assert summary.repeated == 2 / 4
    assert [sample.number for sample in summary.samples] == [1, 2]
    assert math.isnan(_summary("set", references.segments, 0).repeated)


@pytest.mark.slow
def test_one_evaluation_says_nothing_twice(page: str, folder: Path) -> None:
    titles = set(re.findall(r'data-title="([^"]+)"', page))
    assert not {"set", "gold"} & titles
    assert "held against MQM" in page and 'id="pairs"' not in page and "All 30 rows" in page
    assert "<b>Gains in agreement with people, k = 2.</b>" in page
    out = _evaluate(folder, "--gold", "wmt-z", "-m", "bleu", "-k", "2", to="one-k")
    # All rows are those of the headline.
    assert "<details><summary>All" not in (out / "index.html").read_text("utf-8")
    out = _evaluate(folder, "--gold", "mqm", "-m", "bleu", "-k", "0", "2", "--originals", "kept", "replaced", to="two")
    several = (out / "index.html").read_text("utf-8")
    assert 'id="pairs"' in several and 'data-title="set"' in several
    # The first statistic is at the head of the page, the others are below.
    assert "<b>Gain in Kendall&#39;s τ (without ties), within segments, k = 2.</b>" in several.split("<section")[0]
    assert len(re.findall("<figcaption><b>Gain in", several)) == 3
    assert "<dd>BLEU: 2 " in several
    assert several.count('<div class="samples">') == 1  # both have the same references


def test_gains_of_segments_have_p_values(folder: Path, report: Path) -> None:
    from polyref.eval.data.evaluation_set import EvalSet
    from polyref.eval.data.reference_sets import reference_set
    from polyref.eval.series import ComputedSeries
    from polyref.eval.statistics.base import segment_draws
    from polyref.eval.statistics.correlation import kendall_tau_b
    from polyref.metrics.registry import get_metric

    rows = json.loads((report / "report.json").read_text("utf-8"))["rows"]
    assert all(row["p_bootstrap"] is None for row in rows if row["level"] == "sys")
    (row,) = [row for row in rows if (row["statistic"], row["metric"], row["k"]) == ("kendall-tau-b", "bleu", 2)]
    # The same test with loops.
    evalset = EvalSet(folder, "de-en")
    gold = evalset.gold("mqm").without([])
    names = [name for name in gold.segment if name != "refB"]
    references = reference_set(evalset, ["refA"], folder / "paraphrases/de-en.refA.jsonl")
    outputs = dict(zip(names, evalset.outputs(names), strict=True))
    series = ComputedSeries(get_metric("bleu"), outputs, references, [0, 2])
    before, after = series.segment(names, 0), series.segment(names, 2)
    assert before is not None and after is not None
    judged = [(i, j) for i, name in enumerate(names) for j in range(5) if not math.isnan(gold.segment[name][j])]
    universe = np.array([any(j == segment for _, j in judged) for segment in range(5)])
    not_above = defined = 0
    for counts in segment_draws(universe, 50, 1):
        cells = [(i, j) for i, j in judged for _ in range(int(counts[j]))]
        human = [gold.segment[names[i]][j] for i, j in cells]
        one, other = (kendall_tau_b([scores[i, j] for i, j in cells], human) for scores in (after, before))
        if not math.isnan(one - other):
            defined += 1
            not_above += one - other <= 1e-12
    assert row["p_bootstrap"] == pytest.approx((1 + not_above) / (1 + defined))
    part = _section((report / "index.html").read_text("utf-8"), "gains")
    # Pooled statistics have p-values in files alone; those within segments stand on the page.
    assert f">{row['p_bootstrap']:.4f}</td>" not in part
    (within,) = [
        row for row in rows if (row["statistic"], row["metric"], row["k"]) == ("kendall-without-ties", "bleu", 2)
    ]
    assert within["p"] is None or f">{within['p']:.4f}</td>" in part


def test_names_as_people_write_them() -> None:
    from polyref.eval.statistics.named import STATISTICS, gold_name, metric_names, statistic_name
    from polyref.metrics.registry import METRICS, metric_label

    assert metric_names(["bleu", "chrf++", "mine"]) == {"bleu": "BLEU", "chrf++": "chrF++", "mine": "mine"}
    # A score file of that name: both keep theirs.
    assert metric_names(["bleu", "BLEU"]) == {"bleu": "bleu", "BLEU": "BLEU"}
    assert all(name != written for name, written in metric_names(METRICS).items())
    # Labels are the metrics' own, with the options that were written.
    assert metric_names(["ter(no_punct=true)", "laser-lm"]) == {
        "ter(no_punct=true)": "TER(no_punct=true)",
        "laser-lm": metric_label("laser-lm"),
    }
    assert [metric_label(name) for name in ("chrf", "chrf++", "bartscore")] == ["chrF", "chrF++", "BARTScore"]
    assert all(statistic_name(name) != name for name in STATISTICS.names() if name != "acc23")
    assert statistic_name("pairs-correct") == "correct pairs of systems"
    assert (gold_name("mqm"), gold_name("mine")) == ("MQM", "mine")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("+0.000", "0.000"),
        ("−0.001", "−0.001"),
        ("[+0.000, +0.000]", "within ±0.001"),
        ("[+0.000, +0.001]", "[+0.000, +0.001]"),
        ("0", "0"),
        ("–", "–"),
    ],
)
def test_what_rounds_to_zero_has_no_sign(text: str, seen: str) -> None:
    from polyref.eval.report.page import _unsigned

    assert _unsigned(text) == seen


@pytest.mark.slow
def test_placebo(folder: Path, report: Path) -> None:
    out = _evaluate(folder, "--gold", "mqm", "-m", "bleu", "-k", "0", "1", "2", "--placebo", "2", to="placebo")
    data = json.loads((out / "report.json").read_text("utf-8"))
    kinds = {kind: [row for row in data["rows"] if row["control"] == kind] for kind in ("real", "placebo")}
    differences = [row for row in data["rows"] if row["control"] == "real - placebo"]
    assert (len(kinds["real"]), len(kinds["placebo"]), len(differences)) == (15, 10, 10)
    page = (out / "index.html").read_text("utf-8")
    part = _section(page, "placebo")
    largest, every = (
        [dict(re.findall(r'<td data-title="([^"]+)"[^>]*>([^<]*)</td>', row)) for row in table.split("</tr>")[:-1]]
        for table in re.findall("<tbody>(.*?)</tbody>", part, re.DOTALL)
    )
    # Rates of ties gain nothing; the others stand on the page, those of the largest k first.
    assert len(every) == 16 and largest == [told for told in every if told["k"] == "2"]
    blind, every = every[8:], every[:8]
    assert {told["metric"] for told in blind} == {"(length alone)"} and {told["placebo"] for told in blind} == {"–"}
    assert "Placebos are as long as the references they stand for" in page
    assert sum(row["control"] == "length" for row in data["rows"]) == 10
    differences = [row for row in differences if row["statistic"] != "tie-rate"]
    fakes = [row for row in kinds["placebo"] if row["statistic"] != "tie-rate"]
    added = [row for row in kinds["real"] if row["k"] and row["statistic"] != "tie-rate"]
    order = ["kendall-without-ties", "acc23", "pearson", "kendall-tau-b"]
    by_statistic = sorted(
        zip(added, fakes, differences, strict=True), key=lambda rows: order.index(rows[0]["statistic"])
    )
    for told, (real, fake, difference) in zip(every, by_statistic, strict=True):
        assert (told["metric"], told["k"]) == ("BLEU", str(real["k"]))
        values = (real["gain"], fake["gain"], difference["value"])
        assert [told[name] for name in ("real", "placebo", "real − placebo")] == [
            f"{value:+.3f}".replace("-", "−").replace("+0.000", "0.000") for value in values
        ]
        assert difference["value"] == pytest.approx(real["value"] - fake["value"])
    better = sum(row["verdict"] == "better" and row["k"] == 2 for row in differences)
    head = page.split("<section")[0]
    assert (f"{better} significant gain" in head) == (better > 0)
    assert ("beyond those of a placebo" in head) == (better > 0)
    assert 'class="lead">With 2 added references, agreement with people ' in head
    assert head.count("Hollow: what a placebo gains.") == 1 and "Dotted: the placebo." in page
    assert "The control was not run" not in page
    # Runs without a placebo have nothing to say of one.
    alone = (report / "index.html").read_text("utf-8")
    assert "Against the placebo" not in alone and "(length alone)" not in alone
    assert "Hollow" not in alone and "Dotted" not in alone


# In a browser.

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Runs in the page around the report's: loads it at a width, sorts its first table, and writes down what it saw.
PROBE = """<!doctype html><meta charset="utf-8">
<body style="margin:0"><iframe id="frame" style="border:0;height:900px"></iframe>
<script>
const pages = %s, widths = [1280, 400], seen = [];
const frame = document.getElementById("frame");
function look(width, w) {
  const d = w.document, table = d.querySelector("#gains table.sortable");
  const column = (name) => [...table.tHead.rows[0].cells].findIndex((c) => c.textContent.trim() === name);
  const values = (i) => [...table.tBodies[0].rows].map((r) => r.cells[i].dataset.value ?? r.cells[i].textContent);
  const sorted = [];
  for (const name of ["with", "with", "metric"]) {
    table.tHead.rows[0].cells[column(name)].querySelector("button").click();
    sorted.push([name, table.tHead.rows[0].cells[column(name)].getAttribute("aria-sort"), values(column(name))]);
  }
  const drawings = [...d.querySelectorAll("figure svg")].map((s) => {
    const box = s.getBoundingClientRect();
    return [box.width, box.height, s.querySelectorAll("path, use").length, s.getAttribute("aria-label") || ""];
  });
  const root = d.documentElement;
  for (const details of d.querySelectorAll("details")) details.open = true;
  const hidden = [...d.querySelectorAll("td")].filter((cell) => {
    const box = cell.getBoundingClientRect();
    return cell.textContent && (!box.width || box.left < 0 || box.right > width + 0.5);
  }).map((cell) => cell.textContent);
  seen.push({width, hidden, inner: w.innerWidth, scroll: root.scrollWidth, sorted, drawings,
    ink: w.getComputedStyle(d.body).color, paper: w.getComputedStyle(d.body).backgroundColor});
}
let at = 0;
frame.onload = () => {
  if (at) look(widths[at - 1], frame.contentWindow);
  if (at === widths.length) {
    const result = document.createElement("pre");
    result.id = "result";
    result.textContent = JSON.stringify(seen);
    frame.remove();
    document.body.append(result);
    return;
  }
  frame.style.width = widths[at++] + "px";
  frame.srcdoc = pages;
};
frame.srcdoc = "<p>start</p>";
</script></body>"""


@pytest.fixture(scope="module", params=["light", "dark"])
def browsed(request: pytest.FixtureRequest, report: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    folder = tmp_path_factory.mktemp("browser")
    quoted = json.dumps((report / "index.html").read_text("utf-8")).replace("</", "<\\/")
    (folder / "probe.html").write_text(PROBE % quoted, "utf-8")
    scheme = 0 if request.param == "dark" else 1
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--window-size=1400,1000",
               f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=20000", "--dump-dom",
               (folder / "probe.html").as_uri()]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="result">(.*?)</pre>', run.stdout, re.DOTALL)
    assert match, run.stderr[-2000:]
    seen = json.loads(html.unescape(match[1]))
    # What the pages wrote to the console: errors, and what their policy refused.
    yield request.param, seen, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.slow
def test_in_a_browser(browsed: tuple[str, list[dict[str, Any]], list[str]]) -> None:
    scheme, (wide, narrow), console = browsed
    assert console == []
    for seen, width in ((wide, 1280), (narrow, 400)):
        assert seen["inner"] == width
        assert seen["scroll"] <= width, "the page scrolls sideways"
        assert seen["hidden"] == []
        assert len(seen["drawings"]) == 6
        for drawn, high, shapes, label in seen["drawings"]:
            assert 250 <= drawn <= width and high > 50 and shapes > 5 and len(label) > 20
        (_, up, ascending), (_, down, descending), (_, by_name, names) = seen["sorted"]
        assert (up, down, by_name) == ("ascending", "descending", "ascending")
        numbers = [float(value) for value in ascending]
        assert numbers == sorted(numbers) and len(numbers) == 8
        assert [float(value) for value in descending] == numbers[::-1]
        assert names == ["BLEU"] * 4 + ["chrF"] * 4
        brightness = [sum(map(int, re.findall(r"\d+", seen[part])[:3])) for part in ("ink", "paper")]
        assert (brightness[0] > brightness[1]) == (scheme == "dark")


@pytest.mark.slow
def test_printed_on_few_pages(report: Path, tmp_path: Path) -> None:
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={tmp_path / 'profile'}", "--no-pdf-header-footer",
               f"--print-to-pdf={tmp_path / 'page.pdf'}", (report / "index.html").as_uri()]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert len(re.findall(rb"/Type /Page\b", (tmp_path / "page.pdf").read_bytes())) <= 4

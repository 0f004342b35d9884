"""Metrics of other packages: the tutorial as it stands, built, installed and used; and packages with faults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import polyref

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-a-metric.md"
EXAMPLES = Path(polyref.__file__).parent / "examples"
INPUTS = [str(EXAMPLES / "refs.en"), "-i", str(EXAMPLES / "sysA.en"), str(EXAMPLES / "sysB.en")]


def run(site: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in which what is in ``site`` is installed."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment)


def fake(site: Path, name: str, points: str, code: str = "") -> None:
    """Install a package as a wheel would: its module, and a dist-info folder."""
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[polyref.metrics]\n{points}\n")
    (site / f"{name}.py").write_text(code)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the tutorial, built from what the page says."""
    page = PAGE.read_text("utf-8")
    (code, *_), (project,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml"))
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "polyref_overlap.py").write_text(code)
    (source / "pyproject.toml").write_text(project)
    command = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--wheel", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (source / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


@pytest.mark.slow
def test_help_shows_it(site: Path) -> None:
    nothing_named = run(site, "-m", "polyref", "score", "--help").stdout
    assert "src, overlap." in " ".join(nothing_named.split()) and "--overlap-beta" not in nothing_named
    done = run(site, "-m", "polyref", "score", "-m", "overlap", "--help")
    assert done.returncode == 0, done.stderr
    help_text = " ".join(done.stdout.split())
    assert "src, overlap." in help_text
    own = help_text[help_text.index("Options of overlap:") :]
    assert "--overlap-beta X Weight of recall against precision. [default: 1] [x>0]" in own
    assert "--overlap-lowercase Ignore case." in own


def overlap(reference: str, output: str, beta: float) -> float:
    """The same F score, from lists of words."""
    left = reference.split()
    shared = sum(left.pop(left.index(word)) is not None for word in output.split() if word in left)
    if not shared:
        return 0.0
    precision, recall = shared / len(output.split()), shared / len(reference.split())
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


@pytest.mark.slow
def test_it_scores_like_any_other(site: Path) -> None:
    uses = ["overlap", "overlap( lowercase=true,beta=2 )", "bleu"]
    done = run(site, "-m", "polyref", "score", *INPUTS, "-m", *uses, "--json", "--sentence")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["metric"] for row in rows} == {"overlap", "overlap(beta=2, lowercase=true)", "bleu"}
    references, outputs = ((EXAMPLES / name).read_text("utf-8").splitlines() for name in ("refs.en", "sysA.en"))
    found = {row["metric"]: [] for row in rows}
    for row in rows:
        if row["system"] == "sysA.en":
            found[row["metric"]].append(row["score"])
    pairs = list(zip(references, outputs, strict=True))
    assert found["overlap"] == pytest.approx([overlap(r, o, 1) for r, o in pairs])
    lower = [overlap(r.lower(), o.lower(), 2) for r, o in pairs]
    assert found["overlap(beta=2, lowercase=true)"] == pytest.approx(lower)
    assert any("Overlap|beta:2|case:lc|combine:max|" in row["signature"] for row in rows)


@pytest.mark.slow
def test_people_see_its_digits_and_flags_reach_it(site: Path) -> None:
    done = run(site, "-m", "polyref", "score", *INPUTS, "-m", "overlap", "--overlap-beta", "2", "-b")
    first, second = done.stdout.split()
    assert re.fullmatch(r"\d+\.\d", first) and re.fullmatch(r"\d+\.\d", second)
    refused = run(site, "-m", "polyref", "score", *INPUTS, "-m", "overlap(beta=0)")
    assert refused.returncode == 2
    assert refused.stderr == "polyref: error: overlap: --overlap-beta is 0.0, expected more than 0\n"


@pytest.mark.slow
def test_in_python(site: Path) -> None:
    program = (
        "import sys\nfrom polyref.metrics import get_metric, metric_names\n"
        "assert metric_names()[-1] == 'overlap' and 'polyref_overlap' not in sys.modules\n"
        "metric = get_metric('overlap(beta=2, combine=mean)')\n"
        "assert metric == get_metric('overlap', beta=2.0, combine='mean') and metric.digits == 1\n"
        "from polyref.eval.statistics.named import metric_names\n"
        "assert metric_names(['overlap']) == {'overlap': 'Overlap'}\n"
    )
    done = run(site, "-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("X = 3", "is 3, expected a child of polyref.metrics.Metric"),
    ],
)
def test_a_broken_package_breaks_its_own_metric_alone(code: str, reason: str, tmp_path: Path) -> None:
    fake(tmp_path, "broken", "mine = broken:X", code)
    fine = run(tmp_path, "-m", "polyref", "score", *INPUTS, "-m", "bleu", "-b")
    assert fine.returncode == 0 and len(fine.stdout.split()) == 2 and not fine.stderr
    said = f"the metric 'mine' of broken 1 (broken:X) {reason}"
    done = run(tmp_path, "-m", "polyref", "score", *INPUTS, "-m", "mine")
    assert done.returncode == 2
    assert f"polyref: error: {said}" in done.stderr

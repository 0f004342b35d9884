"""The published results of the WMT20 metrics task, from the archive's own scores and judgements."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from polyref.eval.data.archive import MetricsTaskArchive
from polyref.eval.data.task_files import read_rows, write_rows
from polyref.eval.judged import outliers
from polyref.eval.statistics.correlation import darr_counts, kendall_tau_b, pearson
from polyref.eval.statistics.significance import williams_test

pytestmark = pytest.mark.data

PAIRS = ["de-en", "en-zh", "iu-en", "ja-en"]
REFERENCES = {"": "newstest2020", "_B": "newstestB2020", "_M": "newstestM2020"}
#: The tables leave out these systems. The rule finds those of de-en and en-zh from the judgements. In iu-en no system
#: reaches 2.5 (the largest are 2.289, 2.272 and 2.266), in ja-en zlabs-nlp.66 has 2.448: the published lists are not
#: the rule applied to the published judgements.
LEFT_OUT = {
    "de-en": {"yolo.1052", "zlabs-nlp.1153", "WMTBiomedBaseline.387"},
    "en-zh": set(),
    "iu-en": {"Facebook_AI.729", "NiuTrans.1206"},
    "ja-en": {"zlabs-nlp.66", "Online-G.1564", "Online-Z.1640"},
}
#: What the tables write for every p-value of 0.05 or more.
NOT_SIGNIFICANT = 0.12


@pytest.fixture(scope="module")
def archive(data_dir: Path) -> Path:
    return data_dir / "wmt20-metrics"


@cache
def _references(archive: Path, metric: str) -> set[tuple[str, str]]:
    rows = read_rows(archive / "scores" / f"{metric}.sys.score.gz", 2020, "sys")
    return {(row.fields["pair"], row.fields["reference"]) for row in rows}


@cache
def _stored(archive: Path, pair: str, metric: str, reference: str) -> dict[str, float]:
    # Without the segments' files, which are long and not needed for systems.
    rows = read_rows(archive / "scores" / f"{metric}.sys.score.gz", 2020, "sys")
    wanted = (pair, reference)
    return {r.fields["system"]: r.score for r in rows if (r.fields["pair"], r.fields["reference"]) == wanted}


class Systems:
    """System-level scores of one pair and reference set."""

    def __init__(self, archive: Path, pair: str, reference: str, left_out: set[str]) -> None:
        self.set = MetricsTaskArchive(archive, pair)
        self.reference = reference
        gold = self.set.gold("wmt-z").without(sorted(left_out))
        self.names = list(gold.system)
        self.human = np.array(list(gold.system.values()))
        self.scores = cache(self._scores)

    def _scores(self, metric: str) -> np.ndarray:
        archive, pair = self.set.directory, self.set.pair
        if metric == "HUMAN_RAW":
            values = self.set.gold("wmt-raw").system
        else:
            # A metric without scores for the other references (most read the source alone) has those of the first.
            references = _references(archive, metric)
            reference = self.reference if (pair, self.reference) in references else "newstest2020"
            values = _stored(archive, pair, metric, reference)
        return np.array([values[name] for name in self.names])


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    header, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return header[1:], rows


def _tables(archive: Path, pair: str, kind: str) -> list[tuple[Path, str, bool]]:
    found = []
    for path in sorted((archive / "expected/system-level").glob(f"DA-{pair.replace('-', '')}*-{kind}*.csv")):
        suffix = path.name.split("-")[1][4:]
        found.append((path, REFERENCES[suffix], "excloutl" in path.name))
    assert found
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_system_level_correlations(archive: Path, pair: str) -> None:
    compared = 0
    for path, reference, without_outliers in _tables(archive, pair, "cor"):
        systems = Systems(archive, pair, reference, LEFT_OUT[pair] if without_outliers else set())
        (statistic, *_), rows = _table(path)
        function = {"Pearson": pearson, "Kendall": kendall_tau_b}[statistic]
        for metric, value, number, *_ in rows:
            assert int(number) == len(systems.names)
            assert function(systems.scores(metric), systems.human) == pytest.approx(float(value), abs=1e-6), (
                path,
                metric,
            )
            compared += 1
    assert compared >= 60


@pytest.mark.parametrize("pair", PAIRS)
def test_williams_p_values(archive: Path, pair: str) -> None:
    significant = 0
    for path, reference, without_outliers in _tables(archive, pair, "sig"):
        systems = Systems(archive, pair, reference, LEFT_OUT[pair] if without_outliers else set())
        columns, rows = _table(path)
        for first, *values in rows:
            for second, value in zip(columns, values, strict=True):
                p = williams_test(systems.scores(first), systems.scores(second), systems.human)
                if p >= 0.0501 or np.isnan(p):
                    assert float(value) == NOT_SIGNIFICANT, (path, first, second)
                elif p < 0.0499:
                    assert p == pytest.approx(float(value), abs=1e-4), (path, first, second)
                    significant += 1
    assert significant > 50


@pytest.mark.parametrize("pair", ["de-en", "en-zh"])
def test_outliers(archive: Path, pair: str) -> None:
    assert set(outliers(MetricsTaskArchive(archive, pair).gold("wmt-z").system)) == LEFT_OUT[pair]


@pytest.mark.parametrize("pair", PAIRS)
def test_segment_level_rankings(archive: Path, pair: str) -> None:
    path = archive / f"expected/segment-level/RR-newstest2020-{pair.replace('-', '')}-seg-nohy-cor.csv"
    expected = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, value, number = line.split()
        expected[name.replace("_DASH_", "-").replace("_PLUS_", "+")] = (value, int(number))
    archived = MetricsTaskArchive(archive, pair)
    pairs = archived.gold("darr").pairs
    assert pairs is not None
    compared = 0
    for metric in ("parbleu", "parchrf++", "chrF", "TER"):
        value, number = expected[metric]
        assert len(pairs) == number
        segment = archived.stored(metric).segment
        scores = np.stack([segment[name] for name in pairs.systems])
        # Four significant digits.
        digits = len(value.lstrip("-").removeprefix("0.").lstrip("0"))
        assert float(f"{darr_counts(scores, pairs).tau()[0]:.{max(digits, 4)}g}") == pytest.approx(
            float(value), abs=1e-9
        )
        compared += 1
    assert compared == 4


@pytest.mark.parametrize(("name", "level", "digits"), [("parbleu", "sys", None), ("parbleu", "seg", None),
                                                       ("paresim-1", "sys", None), ("parchrf++", "sys", 4),
                                                       ("parchrf++", "seg", 4), ("chrF", "seg", None)])  # fmt: skip
def test_official_files_round_trip(archive: Path, tmp_path: Path, name: str, level: str, digits: int | None) -> None:
    official = archive / "scores" / f"{name}.{level}.score.gz"
    copy = tmp_path / official.name
    write_rows(copy, 2020, level, read_rows(official, 2020, level), digits=digits)
    assert gzip.decompress(copy.read_bytes()) == gzip.decompress(official.read_bytes())

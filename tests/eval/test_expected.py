"""The published and recomputed numbers of the WMT evaluation data: every row of its expected.tsv."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sacrebleu

from polyref.eval.agreement import Row, agreement
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.series import ComputedSeries, Series, StoredSeries
from polyref.eval.statistics.base import Bootstrap
from polyref.metrics.registry import get_metric
from polyref.references import ReferenceSet

pytestmark = pytest.mark.data

CONFIGURATIONS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("BLEU", "13a, exp smoothing, effective order"): ("bleu", {}),
    ("BLEU", "13a, exp smoothing, no effective order"): ("bleu", {"effective_order": False}),
    ("chrF", "char 6, word 0, beta 2"): ("chrf", {}),
    ("chrF++", "char 6, word 1, beta 3, effective order (sacrebleu default)"): ("chrf++", {"word_order": 1, "beta": 3}),
    ("chrF++", "char 6, word 1, beta 3, eps_smoothing"): (
        "chrf++",
        {"word_order": 1, "beta": 3, "eps_smoothing": True},
    ),
    ("BLEU", "BLEU: corpus exp / sentence exp + effective order; chrF2"): ("bleu", {}),
    ("chrF", "BLEU: corpus exp / sentence exp + effective order; chrF2"): ("chrf", {}),
}
#: Texts that were tokenised by Moses' rules before polyref saw them: polyref has no such tokeniser.
MOSES = "Moses-tokenised (sacremoses en, escaping on), then 13a, exp, no effective order"
CONFIGURATIONS["BLEU", MOSES] = ("bleu", {"effective_order": False})
SETS = ["wmt19", "wmt19.syslevel", "wmt21.news", "wmt21.tedtalks", "wmt22", "wmt23"]


class Expected(NamedTuple):
    """A row of expected.tsv."""

    folder: str
    pair: str
    refs: str
    metric: str
    configuration: str
    statistic: str
    value: str


class Measured:
    """Scores and judgements, read once for all rows."""

    def __init__(self, data_dir: Path) -> None:
        self.data = data_dir
        self.rows = list(self._read())
        self.evalset = cache(lambda folder, pair: EvalSet(self.data / folder, pair))
        self.gold = cache(lambda folder, pair, name: self.evalset(folder, pair).gold(name))
        self.series: Callable[..., ComputedSeries] = cache(self._series)
        self.agreement: Callable[..., list[Row]] = cache(self._agreement)

    def _read(self) -> Iterator[Expected]:
        for line in (self.data / "expected.tsv").read_text(encoding="utf-8").splitlines():
            fields = line.split("\t")
            if fields[0] in SETS:
                yield Expected(*fields[:7])

    def _series(self, folder: str, pair: str, refs: str, metric: str, configuration: str) -> ComputedSeries:
        evalset = self.evalset(folder, pair)
        systems = [name for name in evalset.output_files if not evalset.is_human(name)]
        extra = None
        ks: tuple[int, ...] = (0,)
        if refs.endswith("*"):
            refs = refs[:-1]
            extra = self.data / folder / "paraphrases" / f"{pair}.{refs}.jsonl"
            ks = (0, 1, 2, 5, 10)
        references = reference_set(evalset, refs.split("+"), extra)
        name, options = CONFIGURATIONS[metric, configuration]
        outputs = dict(zip(systems, evalset.outputs(systems), strict=True))
        if configuration == MOSES:
            references, outputs = _moses(references, outputs)
        return ComputedSeries(get_metric(name, **options), outputs, references, ks)

    def value(self, row: Expected) -> float:
        """The statistic of a row, as `polyref evaluate` computes it."""
        k: int | None = 0
        refs = row.refs
        if row.configuration.startswith("stored scores"):
            k = None
        elif added := re.fullmatch(r"(\w+)\+(\d+) paraphrases?", refs):
            refs, k = f"{added[1]}*", int(added[2])
        elif any(r.refs.startswith(f"{refs}+") and "paraphrase" in r.refs for r in self.rows if r[:2] == row[:2]):
            refs = f"{refs}*"  # the same statistics serve every k
        gold, level, statistic = self._wanted(row.statistic)
        rows = self.agreement(row.folder, row.pair, refs, row.metric, row.configuration, gold)
        (found,) = [r for r in rows if r.level == level and r.k == k and r.statistic == statistic]
        return found.value

    def _agreement(self, folder: str, pair: str, refs: str, metric: str, configuration: str, gold: str) -> list[Row]:
        """Every statistic, for every k."""
        evalset = self.evalset(folder, pair)
        series: Series
        if configuration.startswith("stored scores"):
            scores = "metric-scores-first500" if "first 500" in configuration else "metric-scores"
            series = StoredSeries(metric, evalset.stored(metric, folder=scores), evalset.directory)
        else:
            series = self.series(folder, pair, refs, metric, configuration)
        judged = self.gold(folder, pair, gold)
        known, systems = None, [name for name in evalset.output_files if not evalset.is_human(name)]
        if evalset.has_texts:
            known = evalset.known(evalset.outputs(systems))
        return agreement([series], judged, known=known, systems=systems, bootstrap=Bootstrap(0))

    @staticmethod
    def _wanted(statistic: str) -> tuple[str, str, str]:
        if statistic == "DARR tau, ties discordant: (c-d-t)/(c+d+t)":
            return "darr", "seg", "kendall-darr"
        if statistic == "Pearson with wmt-z, MT systems only":
            return "wmt-z", "sys", "pearson"
        if match := re.fullmatch(r"sys Pearson with (\S+)", statistic):
            return match[1], "sys", "pearson"
        match = re.fullmatch(r"seg pooled Kendall tau-b with (\S+)", statistic)
        assert match is not None, f"expected.tsv has a statistic this test does not know: {statistic}"
        return match[1], "seg", "kendall-tau-b"


def _moses(references: ReferenceSet, outputs: dict[str, list[str]]) -> tuple[ReferenceSet, dict[str, list[str]]]:
    from sacremoses import MosesTokenizer

    tokenize = cache(lambda text: MosesTokenizer("en").tokenize(text, return_str=True, escape=True))
    texts = [[tokenize(text) for text in segment] for segment in references.texts()]
    return (
        ReferenceSet.from_texts(texts, meta=references.meta),
        {name: [tokenize(text) for text in own] for name, own in outputs.items()},
    )


@pytest.fixture(scope="module")
def measured(data_dir: Path) -> Measured:
    return Measured(data_dir)


@pytest.mark.parametrize("folder", SETS)
def test_correlations(measured: Measured, folder: str) -> None:
    rows = [r for r in measured.rows if r.folder == folder and not r.statistic.startswith("max ")]
    assert rows
    checked = 0
    for row in rows:
        # The file gives three or four digits.
        digits = len(row.value.partition(".")[2])
        assert measured.value(row) == pytest.approx(float(row.value), abs=0.5001 * 10**-digits), row
        checked += 1
    assert checked == len(rows) > 0


def test_no_row_is_forgotten(measured: Measured, data_dir: Path) -> None:
    lines = (data_dir / "expected.tsv").read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.split("\t")[0] not in SETS]
    assert len(header) <= 1, header
    assert len(measured.rows) == len(lines) - len(header)


@pytest.mark.parametrize(("folder", "pair"), [("wmt22", "zh-en"), ("wmt22", "de-en"), ("wmt22", "en-de"),
                                              ("wmt21.news", "zh-en"), ("wmt23", "en-de")])  # fmt: skip
def test_corpus_scores_equal_those_of_the_organisers(measured: Measured, folder: str, pair: str) -> None:
    (row,) = [r for r in measured.rows if r[:2] == (folder, pair) and r.statistic.startswith("max ")]
    assert row.value == "<= 5e-7 (chrF zh-en refA.refB: <= 0.009)"
    evalset = measured.evalset(folder, pair)
    stored = evalset.stored_names()
    for name in ("BLEU", "chrF"):
        for refs in stored[name]:
            theirs = evalset.stored(name, refs.split(".")).system
            configuration = "BLEU: corpus exp / sentence exp + effective order; chrF2"
            starred = f"{refs.replace('.', '+')}" + ("*" if (folder, pair, refs) == ("wmt22", "zh-en", "refA") else "")
            series = measured.series(folder, pair, starred, name, configuration)
            systems = list(theirs)
            ours = series.system(systems, 0, None)
            assert ours is not None
            loose = (name, pair, refs) == ("chrF", "zh-en", "refA.refB")
            difference = np.abs(ours - list(theirs.values()))
            if (folder, name) == ("wmt23", "chrF"):
                # AIRC's file begins with a byte order mark, which the organisers scored as a character of its text.
                at = systems.index("AIRC")
                marked = ["\ufeff" + text if n == 0 else text for n, text in enumerate(evalset.outputs(["AIRC"])[0])]
                score = sacrebleu.CHRF().corpus_score(marked, [list(evalset.reference("refA"))]).score
                assert score == pytest.approx(theirs["AIRC"], abs=5.1e-7)
                assert 1e-5 < difference[at] < 1e-4
                difference[at] = 0
            # The files hold six decimals.
            assert difference.max() <= (0.009 if loose else 5.1e-7), (name, refs)

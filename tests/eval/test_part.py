"""What is judged is scored, and a random part of it where that is asked for."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyref
from polyref.errors import UsageError
from polyref.eval.evaluation_table import EvaluationTable
from polyref.metrics.pairs import PairMetric
from polyref.metrics.statistics import Floats

SEGMENTS, SYSTEMS = 30, ("Ash", "Birch", "Cedar", "Dogwood", "Elm")
#: Every other segment of the first twenty, and the last one.
JUDGED = [*range(0, 20, 2), 29]
WORDS = [
    "the",
    "a",
    "river",
    "mill",
    "old",
    "wall",
    "stone",
    "bridge",
    "behind",
    "town",
    "near",
    "bread",
    "corn",
    "flour",
]


@dataclass(frozen=True, kw_only=True)
class Overlap(PairMetric):
    """Shared words: a metric of pairs of texts that notes what it was asked to score."""

    asked: list[tuple[str, str]] = field(default_factory=list, compare=False, init=False)
    name = label = "overlap"
    measures = ("f",)

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        self.asked.extend(pairs)
        shared = [len({*a.split()} & {*b.split()}) / len({*a.split()} | {*b.split()}) for a, b in pairs]
        return np.array(shared)[:, None]

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return ["words:all"]


def _write(folder: Path, segments: Sequence[int], *, shift: float = 0.0) -> Path:
    """A set of which people judged some segments; with the same texts and judgements whatever part is written.

    Args:
        folder: Where.
        segments: Which segments are in it.
        shift: What the file of scores of systems says beyond the means of those of the judged segments.
    """
    rng = random.Random(7)
    target = [" ".join(rng.choices(WORDS, k=rng.randint(6, 14))) for _ in range(SEGMENTS)]
    human: dict[str, list[float | None]] = {}
    texts = {"references/de-en.ref.txt": target, "sources/de-en.txt": [f"Satz {n}" for n in range(SEGMENTS)]}
    for rank, name in enumerate(SYSTEMS):
        outputs = []
        for text in target:
            words = [rng.choice(WORDS) if rng.random() < 0.12 * (rank + 1) else word for word in text.split()]
            outputs.append(" ".join(words))
        texts[f"system-outputs/de-en/{name}.txt"] = outputs
        human[name] = [-rng.randint(0, rank + 3) if n in JUDGED else None for n in range(SEGMENTS)]
    written = {name: [own[n] for n in segments] for name, own in texts.items()}
    cells = [f"{name}\t{'None' if own[n] is None else own[n]}" for name, own in human.items() for n in segments]
    known = {name: [value for value in own if value is not None] for name, own in human.items()}
    systems = [f"{name}\t{sum(own) / len(own) + shift * rank}" for rank, (name, own) in enumerate(known.items())]
    written |= {"human-scores/de-en.mqm.seg.score": cells, "human-scores/de-en.mqm.sys.score": systems}
    pairs = [f"{n + 1}\tAsh\tElm" for n in JUDGED if n in segments] + [f"{JUDGED[2] + 1}\tBirch\tCedar"]
    numbered = {n + 1: place for place, n in enumerate(segments, 1)}
    ranked = [line.split("\t", 1) for line in pairs if int(line.split("\t")[0]) in numbered]
    written["darr/de-en.tsv"] = ["seg_id\tbetter\tworse", *(f"{numbered[int(n)]}\t{rest}" for n, rest in ranked)]
    for name, lines in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    return _write(tmp_path / "forest", range(SEGMENTS))


@pytest.fixture
def added() -> list[list[str]]:
    """Two added references a segment."""
    rng = random.Random(11)
    return [[" ".join(rng.choices(WORDS, k=rng.randint(6, 14))) for _ in range(2)] for _ in range(SEGMENTS)]


def _evaluated(folder: Path, metrics: Any, **given: Any) -> EvaluationTable:
    return polyref.evaluate(folder, "de-en", **{"gold": "mqm", "metrics": metrics, "resamples": 40, **given})


def _told(table: EvaluationTable) -> list[str]:
    return [note for note in table.notes if note.startswith("scored are")]


def _numbers(table: EvaluationTable, level: str | None = None, *without: str) -> list[dict[str, Any]]:
    """The rows without what names their set: sums over more segments round otherwise in the last digits."""
    rows = [row for row in table.rows if level in (None, row["level"])]
    return [{key: _rounded(row[key]) for key in row if key not in ("set", "signature", *without)} for row in rows]


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_rounded, value)]
    return round(value, 9) if isinstance(value, float) else value


def test_a_network_scores_what_is_judged(everything: Path, added: list[list[str]]) -> None:
    metric, every = Overlap(), Overlap()
    table = _evaluated(everything, metric, references=added)
    whole = _evaluated(everything, every, references=added, all_segments=True)
    assert _told(table) == [
        "scored are the 11 of 30 segments that are judged, and scores of systems are over these (`all_segments` scores "
        "the rest too)"
    ]
    assert "|scored:judged*11|" in str(table.signature)
    assert not _told(whole)
    assert "scored:" not in str(whole.signature)
    # Texts are different, and every one is scored once.
    assert len(metric.asked) < len(every.asked) * 0.4
    lines = (everything / "references/de-en.ref.txt").read_text().splitlines()
    assert {reference for reference, _ in metric.asked} == {text for n in JUDGED for text in (lines[n], *added[n])}
    # What is within segments is the same, whatever else was scored.
    assert _numbers(table, "seg") == _numbers(whole, "seg")
    for found, segments in ((table, 11), (whole, 30)):
        systems = [row for row in found.rows if row["level"] == "sys"]
        assert systems
        assert {row["segments"] for row in systems} == {segments}


def test_all_metrics_of_a_run_are_over_the_same_segments(everything: Path) -> None:
    alone, beside = _evaluated(everything, "chrf"), _evaluated(everything, ["chrf", Overlap()])
    cut = _evaluated(_write(everything.parent / "cut", JUDGED), ["chrf", Overlap()])
    of_systems = {
        name: [row for row in table.rows if row["level"] == "sys" and row["metric"] == "chrf"]
        for name, table in (("alone", alone), ("beside", beside), ("cut", cut))
    }
    assert [row["segments"] for row in of_systems["alone"]] == [30]
    assert of_systems["alone"][0]["value"] != of_systems["beside"][0]["value"]
    assert _numbers(beside) == _numbers(cut)
    assert not _told(alone)


def test_scores_of_systems_that_are_of_other_segments_too_leave_nothing_out(tmp_path: Path) -> None:
    table = _evaluated(_write(tmp_path / "forest", range(SEGMENTS), shift=0.2), Overlap())
    assert not _told(table)
    assert {row["segments"] for row in table.rows if row["level"] == "sys"} == {30}
    # As a judgement of systems alone does, and relative rankings beside scores of systems.
    assert not _told(_evaluated(tmp_path / "forest", Overlap(), gold="darr"))


@pytest.mark.parametrize("gold", ["mqm", "darr"])
@pytest.mark.parametrize("over", ["segments", "both"])
def test_a_random_part_is_as_a_set_of_these_segments(
    everything: Path, added: list[list[str]], gold: str, over: str
) -> None:
    given: dict[str, Any] = {
        "gold": gold,
        "over": over,
        "ks": [0, 2],
        "statistics": ["pearson-items"] * (gold == "mqm"),
    }
    table = _evaluated(everything, ["bleu", Overlap()], references=added, segments=6, seed=3, **given)
    (one,) = table.evaluations
    chosen = np.flatnonzero(one.scored).tolist()
    assert len(chosen) == 6
    assert {*chosen} < {*JUDGED}
    assert _told(table) == [
        "scored are 6 of the 11 judged segments (of 30), drawn by `seed` 3: scores of systems and intervals are of "
        "this part"
    ]
    assert "|scored:random*6|" in str(table.signature)
    # Scores of systems stay those that people gave them: they are in the file.
    cut = _write(everything.parent / "cut", chosen)
    texts = [added[n] for n in chosen]
    assert _numbers(table) == _numbers(_evaluated(cut, ["bleu", Overlap()], references=texts, seed=3, **given))


def _part(folder: Path, n: int, **given: Any) -> list[int]:
    (one,) = _evaluated(folder, "chrf", segments=n, resamples=0, **given).evaluations
    return np.flatnonzero(one.scored).tolist()  # type: ignore[no-any-return]


def test_parts_of_one_seed_lie_in_each_other(everything: Path) -> None:
    few, more = _part(everything, 3), _part(everything, 7)
    assert {*few} < {*more} < {*JUDGED}
    assert few == _part(everything, 3)
    assert len({tuple(_part(everything, 3, seed=seed)) for seed in range(8)}) > 4
    # Each is as likely as the others.
    often = np.bincount([n for seed in range(110) for n in _part(everything, 2, seed=seed)], minlength=SEGMENTS)
    assert (often[JUDGED] > 5).all()
    # Of more than there are, all are taken.
    assert _part(everything, 100) == JUDGED


def test_placebos_and_reports_are_of_the_part(everything: Path, added: list[list[str]], tmp_path: Path) -> None:
    table = _evaluated(everything, Overlap(), references=added, segments=6, placebo=2, perm_both=20, pairwise=True)
    controls = {row["control"] for row in table.rows if row["segments"] == 6}
    assert controls == {"real", "placebo", "real - placebo", "length"}
    assert {row["segments"] for row in table.rows} == {6, None}  # None: pairs of systems
    assert any(row["p_perm_both"] is not None for row in table.rows)
    # Placebos are drawn from all segments.
    metric = Overlap()
    _evaluated(everything, metric, references=added, segments=6, placebo=2)
    assert len({reference for reference, _ in metric.asked}) <= 6 * (1 + 2 + 2 * 2)
    (one,) = table.evaluations
    assert one.scored is not None
    inside = {text for n in np.flatnonzero(one.scored) for text in added[n]}
    assert any(reference not in inside for texts in added for reference in texts if reference in dict(metric.asked))
    page = table.report(tmp_path / "report")
    assert "scored:random*6" in page.read_text()


@pytest.mark.parametrize("given", [{}, {"segments": 6}])
def test_what_is_left_without_copies_is_scored_where_it_is_judged(
    everything: Path, added: list[list[str]], given: dict[str, int]
) -> None:
    lines = (everything / "system-outputs/de-en/Elm.txt").read_text().splitlines()
    copies = [[line, more[0]] for line, more in zip(lines, added, strict=True)]
    first, rest = _evaluated(everything, Overlap(), references=copies, **given).evaluations
    assert rest.generator == "without copies" and "Elm" not in rest.gold.systems
    assert first.scored is not None and rest.scored is not None
    # Copies are counted in all segments.
    assert next(one for one in first.copies if one.system == "Elm").segments > 20
    assert first.scored.tolist() == rest.scored.tolist()
    assert first.scored.sum() == given.get("segments", 11)


def test_peers_are_scored_where_they_are_judged(everything: Path) -> None:
    metrics = [Overlap(combination=polyref.metrics.combination.MEAN) for _ in range(2)]
    of_judged, of_all = (
        _evaluated(everything, metric, peers="leave-one-out", all_segments=rest)
        for metric, rest in zip(metrics, (False, True), strict=True)
    )
    assert len(metrics[0].asked) < 0.5 * len(metrics[1].asked)
    assert _numbers(of_judged, "seg", "references") == _numbers(of_all, "seg", "references")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"segments": 5, "all_segments": True}, "`segments` and `all_segments` contradict each other"),
        ({"segments": 0}, "`segments` is 0, expected 1 or more"),
        ({"segments": 5, "metrics": "blue"}, "no stored scores of 'blue'"),
        ({"segments": 5, "metrics": "length"}, "`segments` has no use: every metric here is a score file"),
        ({"all_segments": True}, "`all_segments` has no use: all 5 are scored without it"),
        ({"all_segments": True, "metrics": "length"}, "`all_segments` has no use: every metric here is a score file"),
    ],
)
def test_bad_usage(minimal: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _evaluated(minimal, **{"metrics": "chrf", "ref": "refA", **given})


def test_at_the_command_line(polyref: Callable[..., Any], everything: Path) -> None:
    base = ("evaluate", everything, "-l", "de-en", "--gold", "mqm", "-m", "chrf", "-n", "0", "--json")
    drawn = polyref(*base, "--segments", "4", "--seed", "2")
    assert drawn.code == 0
    assert {"scored:random*4", "seed:2"} < {*drawn.json()["signature"].split("|")}
    assert "polyref: note: scored are 4 of the 11 judged segments (of 30), drawn by --seed 2: " in drawn.err
    both = polyref(*base, "--segments", "4", "--all-segments")
    message = "polyref: error: --segments and --all-segments contradict each other (leave one of them out)\n"
    assert (both.code, both.err) == (2, message)


@pytest.mark.slow
def test_a_network_at_the_command_line(polyref: Callable[..., Any], everything: Path) -> None:
    base = ("evaluate", everything, "-l", "de-en", "--gold", "mqm", "-m", "esim", "chrf", "-n", "0", "--json")
    of_judged, of_all = polyref(*base), polyref(*base, "--all-segments")
    assert "(--all-segments scores the rest too)" in of_judged.err
    assert "scored are" not in of_all.err
    for run, segments in ((of_judged, 11), (of_all, 30)):
        rows = [row for row in run.json()["rows"] if row["level"] == "sys"]
        assert [(row["metric"], row["segments"]) for row in rows] == [("esim", segments), ("chrf", segments)]

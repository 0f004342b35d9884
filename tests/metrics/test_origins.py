"""Which reference the score of a segment came from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyref as package
from polyref.errors import UsageError
from polyref.metrics.registry import get_metric
from polyref.references import Reference, ReferenceSet, Segment

#: Two human references and up to three added ones; the second segment has an added one between them.
SETS = ReferenceSet(
    (
        Segment("a", (
            Reference("The old mill stands by the river."),
            Reference("By the river there is an old mill."),
            Reference("An old mill can be found near the river.", "paraphrase", generator="first"),
            Reference("The mill by the river is old.", "paraphrase"),
            Reference("Next to the river you see the old mill.", "pseudo", generator="second"),
        )),
        Segment("b", (
            Reference("Nobody came to the meeting."),
            Reference("No one attended the meeting.", "paraphrase"),
            Reference("There was nobody at the meeting.", "postedit"),
        )),
        Segment("c", (Reference("Rain is expected on Sunday."),)),
    ),
    {"generator": "shipped|beam:5"},
)  # fmt: skip
OUTPUTS = {
    "A": ["Near the river an old mill can be found.", "No one attended that meeting.", "Rain is due on Sunday."],
    "B": ["The mill by the river is very old.", "There was nobody at that meeting.", "It will rain on Sunday."],
    "C": ["The old mill stands by a river.", "Nobody came to a meeting.", "Rain is expected Sunday."],
}
#: In the order of metrics: people first.
ORDERED = [[0, 1, 2, 3, 4], [0, 2, 1], [0]]
CHOOSE = ["chrf", "chrf++", "ter"]
NETWORKS = ["prism(combine=max)", "bertscore", "bertscore(idf=all)", "esim(combine=max)"]
BY_ALL = ["bleu", "chrf(combine=mean)", "chrf(combine=expected)", "ter(combine=blend)"]


def _alone(name: str, places: list[int]) -> dict[str, list[float]]:
    """Scores with one reference of each segment, larger for better ones; by edits for TER."""
    one = ReferenceSet(
        tuple(Segment(seg.id, (Reference(seg.refs[place].text),)) for seg, place in zip(SETS, places, strict=True))
    )
    metric = get_metric(name)
    stats = metric.statistics(OUTPUTS, one)
    values = -stats.values[0, :, :, 0] if name == "ter" else metric.aggregate(stats, k=0).segment
    return dict(zip(OUTPUTS, values.tolist(), strict=True))


def _check(name: str) -> None:
    table = package.score(OUTPUTS, SETS, name, ks=[0, 1, 3])
    singles = [_alone(name, [order[min(rank, len(order) - 1)] for order in ORDERED]) for rank in range(5)]
    rows = list(table.origins())
    assert [{key: row[key] for key in row if key not in ("index", "origin")} for row in rows] == table.segment.rows
    different = set()
    for row in rows:
        n = "abc".index(row["segment"])
        shown = min(len(ORDERED[n]), (2, 2, 1)[n] + row["k"])
        scores = [singles[rank][row["system"]][n] for rank in range(shown)]
        assert row["index"] == ORDERED[n][int(np.argmax(scores))], (row, scores)
        different.add((n, row["index"]))
    assert len(different) >= 6


@pytest.mark.parametrize("name", CHOOSE)
def test_the_best_reference_is_named(name: str) -> None:
    _check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NETWORKS if "idf" not in name])
def test_the_best_reference_of_networks_is_named(name: str) -> None:
    _check(name)


@pytest.mark.slow
def test_words_that_weigh_otherwise_for_every_k() -> None:
    rows = list(package.score(OUTPUTS, SETS, "bertscore(idf=all)", ks=[0, 1, 3]).origins())
    for k in (0, 1, 3):
        (alone,) = [[row["index"] for row in package.score(OUTPUTS, SETS, "bertscore(idf=all)", ks=k).origins()]]
        assert [row["index"] for row in rows if row["k"] == k] == alone
    assert len({(row["segment"], row["index"]) for row in rows}) >= 5


@pytest.mark.parametrize("name", BY_ALL)
def test_what_several_make_has_none(name: str) -> None:
    for row in package.score(OUTPUTS, SETS, name, ks=[0, 3]).origins():
        # What a single reference makes is of that one, however several combine.
        assert (row["index"], row["origin"]) == (
            (0, {"kind": "human", "generator": None}) if row["segment"] == "c" else (None, None)
        )


@pytest.mark.slow
def test_every_measure_by_itself_has_none() -> None:
    rows = package.score(OUTPUTS, SETS, "bertscore(combine=max-each)", ks=3).origins()
    assert {row["index"] for row in rows if row["segment"] != "c"} == {None}


def test_origins_say_kind_and_generator() -> None:
    rows = list(package.score(OUTPUTS, SETS, "chrf", ks=3).origins())
    found = {(row["segment"], row["index"]): row["origin"] for row in rows}
    assert found["a", 2] == {"kind": "paraphrase", "generator": "first"}
    # Where a reference does not say it, the set does.
    assert found["a", 3] == {"kind": "paraphrase", "generator": "shipped/beam:5"}
    assert found["a", 0] == {"kind": "human", "generator": None}
    assert found["b", 2] == {"kind": "postedit", "generator": None}


def test_a_segment_without_reference_has_none() -> None:
    some = ReferenceSet((*SETS.segments[:2], Segment("c", (Reference("Rain is due.", "paraphrase"),))))
    rows = package.score(OUTPUTS, some, "chrf", ks=[0, 1], allow_missing=True).origins()
    assert {(row["k"], row["index"], row["score"] is None) for row in rows if row["segment"] == "c"} == {
        (0, None, True), (1, 0, False),
    }  # fmt: skip


def test_part_of_the_segments() -> None:
    metric = get_metric("chrf")
    stats = metric.statistics(OUTPUTS, SETS, ks=[0, 3])
    whole, part = metric.aggregate(stats, k=3), metric.aggregate(stats, k=3, over=[2, 0])
    assert whole.chosen is not None and part.chosen is not None
    assert part.chosen.tolist() == whole.chosen[:, [2, 0]].tolist()


def test_scores_against_peers_have_none() -> None:
    references = [[ref.text for ref in segment.originals] for segment in SETS]
    table = package.score(OUTPUTS, references, "chrf(combine=mean)", peers="leave-one-out")
    with pytest.raises(UsageError, match="scores with `peers` are of several references each"):
        list(table.origins())


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    SETS.save(tmp_path / "set.jsonl")
    for name, texts in OUTPUTS.items():
        (tmp_path / f"{name}.en").write_text("".join(f"{text}\n" for text in texts))
    return [str(tmp_path / "set.jsonl"), "-i", *(str(tmp_path / f"{name}.en") for name in OUTPUTS)]


def test_at_the_command_line(polyref: Callable[..., Any], files: list[str], tmp_path: Path) -> None:
    base = ("score", *files, "-m", "chrf", "bleu", "-k", "0", "3")
    plain, run = polyref(*base), polyref(*base, "--segments-out", tmp_path / "segments.json")
    assert (run.code, run.out, run.err) == (0, plain.out, plain.err)
    written = json.loads((tmp_path / "segments.json").read_text())
    expected = list(package.score({f"{name}.en": own for name, own in OUTPUTS.items()}, SETS, ["chrf", "bleu"],
                                  ks=[0, 3]).origins())  # fmt: skip
    assert written["rows"] == expected
    assert list(written["rows"][0])[-3:] == ["score", "index", "origin"]
    # The table on standard output may be replaced by it.
    other = polyref(*base, "-o", tmp_path / "table", "--segments-out", "-")
    assert json.loads(other.out) == written


def test_bad_usage(polyref: Callable[..., Any], files: list[str], tmp_path: Path) -> None:
    for given, code, message in [
        (
            ["--segments-out", "-"],
            2,
            "-o and --segments-out both write to standard output (name a file for one of them)",
        ),
        (["-o", tmp_path / "x", "--segments-out", tmp_path / "x"], 2, "is named for two outputs"),
        (["--segments-out", files[0]], 2, "is also an input"),
        (["--segments-out", tmp_path], 1, "is a directory, expected an output file name"),
        (["--segments-out", tmp_path / "x", "--peers", "leave-one-out", "-sl"], 2, "--segments-out"),
    ]:
        run = polyref("score", *files, "-m", "chrf", *given)
        assert run.code == code
        assert message in run.err, run.err
    assert not (tmp_path / "x").exists()

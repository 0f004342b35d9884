"""Logs of Pearmut as judgements. The logs are made here, in the form of the tool's own and of WMT26's scripts."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pearmut_logs import Screen, as_lines, mark, pearmut_log, screen
from wmt_json import general_task

from polyref import evaluate
from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.score_files import Gold
from polyref.eval.judged import gold_from_file
from polyref.eval.judgements.base import Place
from polyref.eval.judgements.pearmut import read_pearmut, unreliable

SOURCES = ("Der Hund schläft.", "Sie öffnet das Fenster.", "Wir haben 3 Äpfel gekauft.")


def _read(folder: Path, text: str, pair: str = "de-en", name: str = "log.jsonl", **options: Any) -> Gold:
    path = folder / name
    path.write_text(text, "utf-8")
    return gold_from_file(EvalSet(folder, pair), "pearmut", path, include_human=True, **options)


def _equal(one: Gold, other: Gold) -> None:
    assert one.segment.keys() == other.segment.keys()
    for name, values in one.segment.items():
        np.testing.assert_allclose(values, other.segment[name], rtol=0, atol=1e-9)


def test_a_log_gives_what_the_folder_has(minimal: Path, polyref: Callable[..., Any]) -> None:
    evalset = EvalSet(minimal, "de-en")
    log = pearmut_log(evalset, "mqm")
    found = _read(minimal, as_lines(log))
    _equal(found, evalset.gold("mqm", include_human=True))
    assert found.name == "esa"
    assert found.notes == (
        "log.jsonl: screens of welcome, goodbye and random checks passed over: 2",
        "log.jsonl: screens without annotation passed over: 2",
        "log.jsonl: screens before a reset passed over: 2",
        "log.jsonl: items that check attention passed over: 1",
        "log.jsonl: items of tutorials passed over: 1",
        "log.jsonl: items without annotation passed over: 2",
        "log.jsonl: scores of systems that the item does not show passed over: 4",
        "log.jsonl: scores that are no number passed over: 4",
        "Pearmut: 38 judgements by 3 annotators; 38 error spans, not scored",
    )
    # The same file packed, by direction on one line and on many, and in two parts.
    path = minimal / "log.jsonl.gz"
    path.write_bytes(gzip.compress((minimal / "log.jsonl").read_bytes()))
    _equal(gold_from_file(evalset, "pearmut", path, include_human=True), found)
    for indent in (None, 2):
        text = json.dumps({"eng_Latn---deu_Latn": [{"x": 1}], "deu_Latn---eng_Latn v3": log}, indent=indent)
        _equal(_read(minimal, text, name="annotations.json"), found)
    parts = [minimal / "one.jsonl", minimal / "two.jsonl"]
    parts[0].write_text(as_lines(log[:9]), "utf-8")
    parts[1].write_text(as_lines(log[9:]), "utf-8")
    _equal(gold_from_file(evalset, "pearmut", parts, include_human=True), found)
    # As a user asks for it.
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "bleu", "chrf", "--seed", "3", "--json")
    run = polyref(*base, "--judgements", f"pearmut={minimal / 'log.jsonl'}")
    assert "note: log.jsonl: screens before a reset passed over: 2" in run.err
    rows, expected = run.json()["rows"], polyref(*base, "--gold", "mqm").json()["rows"]
    assert len(rows) == len(expected) > 4
    for row, other in zip(rows, expected, strict=True):
        assert row["gold"] in {"esa", "da"} and row["statistic"] == other["statistic"]
        assert row["value"] == pytest.approx(other["value"], abs=1e-9)
    again = polyref(*base, "--judgements", *(f"pearmut={one}" for one in parts)).json()["rows"]
    assert [row["value"] for row in again] == [row["value"] for row in rows]


def test_a_test_set_of_the_general_task_with_a_log(minimal: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    file = general_task(tmp_path / "general")
    log = pearmut_log(EvalSet(minimal, "de-en"), "mqm")
    path = tmp_path / "annotations.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"deu_Latn---eng_Latn": log, "eng_Latn---zho_Hans": []}).encode()))
    added = ("--refs", minimal / "paraphrases/de-en.refA.jsonl", "--pairwise", "-n", "20", "--include-human", "--json")
    asked = ("-l", "de-en", "--ref", "refA", "-m", "bleu", "chrf++", *added)
    rows = polyref("evaluate", file, *asked, "--judgements", f"pearmut={path}").json()["rows"]
    expected = polyref("evaluate", minimal, *asked, "--gold", "mqm").json()["rows"]
    assert len(rows) == len(expected) > 20
    for row, other in zip(rows, expected, strict=True):
        for key in other.keys() - {"pair", "set", "gold"}:
            approx = pytest.approx(other[key], abs=1e-9) if isinstance(other[key], (float, list)) else other[key]
            assert row[key] == approx, (key, other)


@pytest.mark.parametrize(
    ("name", "pair"), [("wmt22.mqm", "zh-en"), ("wmt22.mqm", "en-de"), ("wmt23.mqm", "he-en"), ("wmt21.news", "zh-en")]
)
def test_logs_of_released_sets(data_dir: Path, tmp_path: Path, name: str, pair: str) -> None:
    evalset = EvalSet(data_dir / name, pair)
    path = tmp_path / "log.jsonl"
    path.write_text(as_lines(pearmut_log(evalset, "mqm")), "utf-8")
    found = gold_from_file(evalset, "pearmut", path, include_human=True)
    _equal(found, evalset.gold("mqm", include_human=True))
    assert not any("whose source" in note for note in found.notes)


def test_every_statistic_is_that_of_the_folder(data_dir: Path, tmp_path: Path) -> None:
    folder, whole, most = tmp_path / "set", data_dir / "wmt23.mqm", 400
    files = [
        *(whole / f"{kind}/he-en{end}" for kind, end in (("sources", ".txt"), ("documents", ".docs"))),
        *(whole / f"references/he-en.ref{name}.txt" for name in "AB"),
        *(whole / "system-outputs/he-en").iterdir(),
    ]
    for file in files:
        own = folder / file.relative_to(whole)
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:most]), "utf-8")
    blocks: dict[str, list[str]] = {}
    for line in (whole / "human-scores/he-en.mqm.seg.score").read_text().split("\n")[:-1]:
        blocks.setdefault(line.split("\t")[0], []).append(line.split("\t")[1])
    # Means of scores that are parts of 1024 are exact: no two judgements become equal, and none that are do differ.
    rows = [(name, score if score == "None" else repr(round(float(score) * 1024) / 1024))
            for name, own in blocks.items() for score in own[:most]]  # fmt: skip
    (folder / "human-scores").mkdir()
    (folder / "human-scores/he-en.mqm.seg.score").write_text("".join(f"{n}\t{s}\n" for n, s in rows))
    given = {name: [float(s) for n, s in rows if n == name and s != "None"] for name in blocks}
    means = "".join(f"{name}\t{statistics.fmean(own)!r}\n" for name, own in given.items() if own)
    (folder / "human-scores/he-en.mqm.sys.score").write_text(means)
    path = tmp_path / "log.jsonl"
    path.write_text(as_lines(pearmut_log(EvalSet(folder, "he-en"), "mqm")), "utf-8")
    chosen: dict[str, Any] = {"ref": "refA", "references": "ref:refB", "metrics": "bleu", "ks": (0, 1), "resamples": 50}
    one = evaluate(folder, "he-en", judgements={"pearmut": path}, **chosen).rows
    other = evaluate(folder, "he-en", gold="mqm", **chosen).rows
    assert len(one) == len(other) > 6
    for row, expected in zip(one, other, strict=True):
        assert row["verdict"] == expected["verdict"] and row["n"] == expected["n"]
        for key in ("value", "gain", "p"):
            assert row[key] == (None if expected[key] is None else pytest.approx(expected[key], abs=1e-9))


def _place(source: tuple[str, ...] | None, documents: tuple[str, ...] | None = None) -> Place:
    return Place("de-en", ("A", "B"), 4, documents, source)


def _shown(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"item_id": name, "src": text, "tgt": {"A": "a", "B": "b"}, **more}


def _segments(tmp_path: Path, place: Place, *items: dict[str, Any]) -> list[float]:
    path = tmp_path / "log"
    path.write_text(as_lines([screen("u", 0, items, [{"A": mark(n)} for n in range(len(items))])]))
    return read_pearmut(path, place).segment["A"].tolist()


def test_items_are_found_by_id_then_by_source(tmp_path: Path) -> None:
    nan = pytest.approx(np.nan, nan_ok=True)
    ids = ("WMT26_###_news_###_deu_Latn_###_eng_Latn_###_x", "y")
    place = _place(("s", "s", "t", "s"), (ids[0], ids[0], ids[1], ids[1]))
    # By document and number where the source is the same, whatever stands before the document.
    assert _segments(tmp_path, place, _shown("news_###_x_###_1", "s"), _shown("n_#_y_#_1", "s")) == [nan, 0, nan, 1]
    # A number that has another source says nothing; white space and marks of paragraphs make no other source.
    assert _segments(tmp_path, place, _shown("news_###_x_###_0", "<p>t</p> "), _shown("q", "q")) == [nan, nan, 0, nan]
    # A picture or film has its text beside it.
    assert _segments(tmp_path, place, _shown("q", "<img src='a'/>", src_text="t")) == [nan, nan, 0, nan]
    # Of several segments with one source, that next to the neighbours on the screen.
    assert _segments(tmp_path, place, _shown("q-1", "s"), _shown("q-2", "t"), _shown("q-3", "s")) == [nan, 0, 1, 2]
    # Those next to a neighbour come first, and no two are one; here a segment between them was not shown.
    gap = _place(("s", "s", "u", "t"))
    assert _segments(tmp_path, gap, _shown("q-1", "s"), _shown("q-2", "s"), _shown("q-3", "t")) == [0, 1, nan, 2]
    # As near on one side as on the other is nowhere.
    sides = _place(("s", "t", "s", "u"))
    assert _segments(tmp_path, sides, _shown("q-1", "t"), _shown("q-2", "x"), _shown("q-3", "s")) == [nan, 0, 2, nan]
    # Without sources only ids tell.
    assert _segments(tmp_path, _place(None, ("x", "x", "y", "y")), _shown("x_#_1", "?")) == [nan, 0, nan, nan]
    path = tmp_path / "log"
    path.write_text(as_lines([screen("u", 0, [_shown("q", "s")], [{"A": mark(1), "B": mark(2)}]),
                              screen("u", 1, [_shown("r", "t")], [{"A": mark(1)}])]))  # fmt: skip
    assert read_pearmut(path, place).notes[0] == (
        "log: scores of items whose source is that of no segment, or of several passed over: 2"
    )


def test_items_without_names(minimal: Path) -> None:
    def log(*names: str | None) -> str:
        items = [_shown(str(name), text) for name, text in zip(names, SOURCES, strict=False)]
        for item, name in zip(items, names, strict=True):
            item["tgt"] = {"Alpha": "x"}
            if name is None:
                del item["item_id"]
        return as_lines([screen("u", 0, items, [{"Alpha": mark(n)} for n in range(len(items))])])

    # Where no item has a name, the source stands for it; where others have, it is a check of attention.
    assert _read(minimal, log(None, None, None)).segment["Alpha"][:3].tolist() == [0, 1, 2]
    found = _read(minimal, log("a", None, "c"))
    assert np.array_equal(found.segment["Alpha"][:3], [0, np.nan, 2], equal_nan=True)
    assert found.notes[0] == "log.jsonl: items without item_id passed over: 1"


def test_items_that_are_parts_of_a_segment(tmp_path: Path) -> None:
    place = _place(("<p>a b</p>\n<p>c d</p>", "s", '{"k": "x",\n "l": "y"}', "c"), ("v", "v", "w", "w"))
    items = (
        _shown("v_#_0", "<p>a b</p>"), _shown("v_#_1", "<p>c d</p>"), _shown("v_#_2", "s"),
        _shown("w_#_0", '{"k": "x",'), _shown("w_#_1", '"l": "y"}'), _shown("w_#_2", "c"), _shown("w_#_3", "z"),
    )  # fmt: skip
    assert _segments(tmp_path, place, *items) == [0.5, 2, 3.5, 5]
    notes = read_pearmut(tmp_path / "log", place).notes
    assert "log: items that are parts of a segment, whose score is their mean: 4" in notes
    assert notes[0].endswith("of no segment, or of several passed over: 1")


def _campaign() -> list[Screen]:
    """Twelve screens of everybody; one annotator calls the best system the worst."""
    rows = []
    for number in range(12):
        for user, scores in (("good", (90, 50)), ("other", (88, 47)), ("upside", (10, 95))):
            if user == "upside" and number > 2:
                continue
            scores = (scores[0] + number % 3, scores[1] - number % 2)
            item = {"item_id": f"q{number}", "src": SOURCES[number % 3], "tgt": {"Alpha": "x", "Beta.1": "y"}}
            rows.append(screen(user, number, [item], [{"Alpha": mark(scores[0]), "Beta.1": mark(scores[1])}]))
    return rows


def test_unreliable_annotators(minimal: Path, polyref: Callable[..., Any]) -> None:
    rows = _campaign()
    # The rule, written down as WMT26 did.
    given: dict[str, list[float]] = {"Alpha": [], "Beta.1": []}
    for row in rows:
        for name, one in row["annotation"][0].items():
            given[name].append(one["score"])
    mean = {pair: statistics.mean(given[pair[0]]) - statistics.mean(given[pair[1]]) for pair in [("Alpha", "Beta.1")]}
    variance = sum(map(statistics.variance, given.values()))
    fits: dict[str, list[float]] = {}
    for row in rows:
        for (one, first), (other, second) in combinations(row["annotation"][0].items(), 2):
            apart = first["score"] - second["score"] - mean[one, other]
            fits.setdefault(row["user_id"], []).append(2 ** -(apart**2 / (2 * variance + 1e-6)))
    expected = {user: statistics.mean(values) for user, values in fits.items() if statistics.mean(values) < 0.75}
    screens = [(row["user_id"], [(row["item"][0]["item_id"], {k: v["score"] for k, v in row["annotation"][0].items()})])
               for row in rows]  # fmt: skip
    assert unreliable(screens) == pytest.approx(expected) and set(expected) == {"upside"}
    # Two screens are too few to say, and ten scores of a system as well.
    assert unreliable([one for one in screens if one[1][0][0] != "q2"]) == {}
    ten = [*screens[:9], ("other", [("q", {"Alpha": 90.0, "Beta.1": 50.0})])]
    assert unreliable(ten) == {} and set(unreliable([*ten, ten[-1]])) == {"upside"}
    others = _read(minimal, as_lines([row for row in rows if row["user_id"] != "upside"]), name="others")
    found, kept = _read(minimal, as_lines(rows)), _read(minimal, as_lines(rows), reliable=True)
    assert found.segment["Alpha"][0] < 85 < kept.segment["Alpha"][0]
    _equal(kept, others)
    low = f"{expected['upside']:.2f}"
    assert kept.notes[0] == f"annotators whose compatibility is below 0.75, left out: 1 of 3: 'upside' ({low})"
    assert kept.notes[1] == "Pearmut: 48 judgements by 2 annotators; 48 error spans, not scored"
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "-m", "chrf", "-n", "0")
    run = polyref(*base, "--judgements", f"pearmut={minimal / 'log.jsonl'}", "--reliable", "--json")
    assert "left out: 1 of 3: 'upside'" in run.err and "|annotators:reliable|" in run.json()["signature"]
    run = polyref(*base, "--gold", "mqm", "--reliable")
    assert run.code == 2 and "--reliable has no use without --judgements of the kind pearmut" in run.err
    with pytest.raises(UsageError, match="`reliable` has no use without `judgements` of the kind pearmut"):
        evaluate(minimal, "de-en", gold="mqm", reliable=True)


def _with(**changes: Any) -> str:
    row = screen("u", 0, [_shown("q", SOURCES[0])], [{"A": mark(1)}]) | changes
    return as_lines([screen("u", 1, [_shown("r", SOURCES[1])], [{"A": mark(1)}]), row])


def _without(key: str) -> str:
    row = screen("u", 0, [_shown("q", SOURCES[0])], [{"A": mark(1)}])
    del row[key]
    return as_lines([screen("u", 1, [], []), row])


ITEM = _shown("q", SOURCES[0])
SPOILT = {
    "no user": (_without("user_id"), ':2: no "user_id"'),
    "no item": (_without("item"), ':2: no "item"'),
    "no annotation": (_without("annotation"), ':2: no "annotation"'),
    "user of another type": (_with(user_id=[1]), ':2: "user_id" is a list, expected a string'),
    "item of another type": (_with(item={}), ':2: "item" is an object, expected a list'),
    "annotation of another type": (_with(annotation={"A": 1}), ':2: "annotation" is an object, expected a list'),
    "other numbers": (_with(annotation=[]), ':2: "annotation" has 0 parts, expected one for each of 1 items'),
    "part of another type": (_with(annotation=[[1]]), ':2: item 1: "annotation" is a list, expected an object'),
    "text for an item": (_with(item=["x"]), ':2: item 1: "item" is "x", expected an object'),
    "no source": (_with(item=[{"item_id": "q", "tgt": {}}]), ':2: item 1: item: no "src"'),
    "id of another type": (_with(item=[ITEM | {"item_id": 3}]), ':2: item 1: item: "item_id" is 3, expected a string'),
    "no outputs": (_with(item=[{"item_id": "q", "src": SOURCES[0]}]), ':2: item 1: item: no "tgt"'),
    "outputs of another type": (_with(item=[ITEM | {"tgt": "x"}]), ':2: item 1: item: "tgt" is "x", expected an ob'),
    "output of another type": (_with(item=[ITEM | {"tgt": {"A": 1}}]), ':2: item 1: item: tgt: "A" is 1, expected a'),
    "name with a tab": (_with(item=[ITEM | {"tgt": {"A\tB": "x"}}]), r":2: item 1: item: tgt: the name 'A\tB', exp"),
    "NaN": (_with(annotation=[{"A": mark(float("nan"))}]), ':2: item 1: annotation: A: "score" is NaN, expected a fi'),
    "large": (_with(annotation=[{"A": mark(10**400)}]), ':2: item 1: annotation: A: "score" is a number of 401 digi'),
    "larger than any scale": (
        _with(annotation=[{"A": mark(1e300)}]),
        ':2: item 1: annotation: A: "score" is 1e+300, expected a finite number of at most 1e+06',
    ),
    "mark of another type": (_with(annotation=[{"A": 5}]), ':2: item 1: annotation: "A" is 5, expected an object'),
    "spans of another type": (
        _with(annotation=[{"A": {"score": 1, "error_spans": 3}}]),
        ':2: item 1: annotation: A: "error_spans" is 3, expected a list',
    ),
    "an item twice": (_with(item=[ITEM, ITEM], annotation=[{}, {}]), ":2: item 2: item: a second item 'q' on one scre"),
    "an item of two segments": (
        _with(item=[ITEM | {"item_id": "r"}]),
        ":2: item 1: item: the item 'r' has the source of segment 1, and before that of segment 2",
    ),
    "broken": (_with()[:-20], ":2: not valid JSON: "),
    "broken first line": ('{"annotation": [\n' + _with(), ":3: not valid JSON: "),
    "deep": ('{"annotation": ' + "[" * 5000 + "]" * 5000 + "}\n", ":1: not valid JSON: nested more than"),
    "blank line": (_with().replace("\n", "\n\n", 1), ":2: not valid JSON: "),
    "a list": ("[]\n", ":1: is no log of Pearmut: the first line is '[]' (expected a log of Pearmut: a JSON object a"),
    "empty": ("", ":1: is no log of Pearmut: the first line is ''"),
    "XML": ("<?xml version='1.0'?>\n", ":1: is no log of Pearmut: the first line is \"<?xml version='1.0'?>\" (expect"),
    "another form": (
        '{"doc_id": "a", "src_text": "b", "tgt_text": {}, "scores": {}}\n',
        ":1: is no log of Pearmut: the first line has the keys doc_id, src_text, tgt_text, scores (expected a log",
    ),
    "no scores": (_with(item=[], annotation=[]).replace('"score": 1', '"score": null'), ": has no score of an output"),
    "other sources": (
        as_lines([screen("u", 1, [_shown("r", "Etwas anderes.")], [{"A": mark(1)}])]),
        ": judges no segment of the set: none of 1 items has the source of one (the source of the first is 'Etwas and",
    ),
    "no system of the set": (_with(), ": judges no output of the set, only A (2)"),
    "other directions": ('{"eng_Latn---deu_Latn": []}', ": judges nothing of de-en, only eng_Latn---deu_Latn"),
    "several directions": (
        '{"deu_Latn---eng_Latn": [], "deu_Latn---eng_Latn v3": []}',
        ": has de-en more than once: deu_Latn---eng_Latn, deu_Latn---eng_Latn v3 (keep one",
    ),
    "no direction": ('{"x": []}', ": 'x' is a list, expected SOURCE---TARGET and a list"),
    "no object": ('{"deu_Latn---eng_Latn": [1]}', ': "deu_Latn---eng_Latn"[0] is 1, expected an object'),
    "key of a direction": ('{"deu_Latn---eng_Latn": [{}]}', ': "deu_Latn---eng_Latn"[0]: no "user_id"'),
    "more": ('{"deu_Latn---eng_Latn": []}\n{}\n', ":2: more after the one JSON object"),
    "broken value": ('{\n"deu_Latn---eng_Latn": [\n}\n', ":3: not valid JSON: "),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_spoilt_logs(minimal: Path, fault: str) -> None:
    text, message = SPOILT[fault]
    with pytest.raises(DataError) as caught:
        _read(minimal, text)
    assert f"log.jsonl{message}" in str(caught.value)


def test_directions_that_a_pair_leaves_open(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    place = Place("de-sr", evalset.output_files, 5, None, evalset.source)
    log = pearmut_log(evalset, "mqm")
    path = minimal / "annotations.json"
    path.write_text(json.dumps({"deu_Latn---srp_Latn": log[:6], "deu_Latn---srp_Cyrl": log}))
    with pytest.raises(
        UsageError, match=r"de-sr may be any of deu_Latn-srp_Latn, deu_Latn-srp_Cyrl \(name one of them"
    ):
        read_pearmut(path, place)
    assert "Pearmut: 38 judgements" in read_pearmut(path, replace(place, pair="de-sr_Cyrl")).notes[-1]


def test_a_line_that_is_too_long(minimal: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREF_MAX_LINE", "1000000")
    (minimal / "log").write_text('{"annotation": "' + "x" * 2_000_000 + '"}\n')
    run = polyref("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--judgements", f"pearmut={minimal / 'log'}")
    assert run.code == 1 and "log:1: longer than 1000000 bytes" in run.err


def test_a_log_that_is_given_as_another_kind(minimal: Path) -> None:
    (minimal / "log.jsonl").write_text(_with())
    with pytest.raises(DataError, match=r"log.jsonl:1: is a log of Pearmut \(give it as one: `judgements` pearmut="):
        gold_from_file(EvalSet(minimal, "de-en"), "da", minimal / "log.jsonl")

"""Evaluation sets in WMT's JSON: the small set written in each form must give what its folder gives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wmt_json

from polyref import evaluate
from polyref.eval.data.releases import open_release
from polyref.eval.data.task_files import read_rows
from polyref.references import ReferenceSet

MINIMAL = wmt_json.MINIMAL
ASKED = ("-l", "de-en", "--ref", "refA", "-n", "20", "-m", "bleu", "chrf++", "--pairwise", "--json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small set without relative rankings."""
    made = Path(shutil.copytree(MINIMAL, tmp_path / "folder"))
    shutil.rmtree(made / "darr")
    return made


def _rows(run: Any) -> list[dict[str, Any]]:
    assert run.code == 0, run.err
    return [{k: v for k, v in row.items() if k not in ("pair", "set", "gold")} for row in run.json()["rows"]]


def _same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    for one, other in zip(found, expected, strict=True):
        for key, value in one.items():
            assert value == (pytest.approx(other[key], abs=1e-9) if isinstance(value, (float, list)) else other[key]), (
                key
            )


@pytest.mark.parametrize("human", [(), ("--include-human",)])
def test_every_form_gives_what_the_folder_gives(
    polyref: Callable[..., Any], folder: Path, tmp_path: Path, human: tuple[str, ...]
) -> None:
    added = ("--refs", f"{MINIMAL}/paraphrases/de-en.refA.jsonl", *human)
    expected = _rows(polyref("evaluate", folder, *ASKED, "--gold", "mqm", *added))
    assert len(expected) > 20
    assert bool(human) == (expected != _rows(polyref("evaluate", folder, *ASKED, "--gold", "mqm", *added[:2])))
    forms = {
        "wmt25-genmt-humeval.jsonl": wmt_json.human_evaluation(),
        "first.jsonl": wmt_json.human_evaluation(rounds=True),
        "packed/h.jsonl.gz": [*wmt_json.human_evaluation("cs-uk_UA"), *wmt_json.human_evaluation()],
    }
    for name, rows in forms.items():
        _same(_rows(polyref("evaluate", wmt_json.write(tmp_path / name, rows), *ASKED, *added)), expected)
    _same(_rows(polyref("evaluate", tmp_path / "packed", *ASKED, *added)), expected)
    file = wmt_json.general_task(tmp_path / "general")
    shutil.copytree(tmp_path / "general/systems", tmp_path / "GPT 5")
    for where in ((file,), (file.parent,), (file, "--systems", tmp_path / "GPT 5")):
        _same(_rows(polyref("evaluate", *where, *ASKED, "--gold", "mqm", *added)), expected)


def test_the_set_is_called_as_its_file_and_its_pair_as_in_it(polyref: Callable[..., Any], tmp_path: Path) -> None:
    file = wmt_json.write(tmp_path / "humeval.jsonl.gz", wmt_json.human_evaluation())
    for n, text in enumerate(wmt_json.TEXTS["refA"], 1):
        with (tmp_path / "humeval.de-en_GB.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"id": n, "reference": text, "paraphrases": [f"Well, {text}"]}) + "\n")
    run = polyref("evaluate", file, *ASKED, "--refs", f"{tmp_path}/{{set}}.{{pair}}.jsonl")
    assert {(row["set"], row["pair"], row["gold"]) for row in run.json()["rows"]} == {("humeval", "de-en_GB", "esa")}
    assert {row["k"] for row in run.json()["rows"]} == {0, 1}
    table = evaluate(file, "deu_Latn-eng_Latn", ref="refA", metrics="bleu", resamples=0)
    assert {row["pair"] for row in table.rows} == {"de-en_GB"}


def test_judgements_of_2024_name_what_they_judge(polyref: Callable[..., Any], tmp_path: Path) -> None:
    rows = wmt_json.judgements()
    file = wmt_json.write(tmp_path / "wmt24_esa.jsonl", [*rows, rows[0]])
    found = open_release(file, "de-en")
    assert found.source == tuple(wmt_json.SOURCE)
    assert [document for _, document in found.documents or ()] == ["home", "home", "market", "weather", "weather"]
    assert found.reference("refA") == tuple(wmt_json.TEXTS["refA"])
    names = list(found.output_files)
    known = dict(zip(names, found.known(found.outputs(names)).tolist(), strict=True))
    assert known.pop("Gamma-2") == [True, False, True, True, True]
    assert all(map(all, known.values()))
    gold = found.gold("esa", include_human=True)
    assert gold.system == pytest.approx({"Alpha": 49.6, "Beta.1": 49.2, "Gamma-2": 46, "refA": 99.5, "refB": 50})
    assert np.isnan(gold.segment["Gamma-2"]).tolist() == [False, True, False, False, False]
    run = polyref("evaluate", file, *ASKED)
    assert run.code == 0, run.err
    assert {row["segments"] for row in run.json()["rows"] if row["level"] == "sys"} - {None} == {4}
    assert polyref("score", file, "-l", "de-en", "-i", MINIMAL / "system-outputs/de-en/Alpha.txt").code == 0


def test_other_commands_read_the_same_file(polyref: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    rows = [*wmt_json.human_evaluation("cs-de_DE"), *wmt_json.human_evaluation()]
    file = wmt_json.write(tmp_path / "humeval.jsonl", rows)
    reference, alpha = folder / "references/de-en.refA.txt", folder / "system-outputs/de-en/Alpha.txt"
    take = ("-l", "de-en", "--fields", "refA=reference")
    scored = polyref("score", file, *take, "-i", alpha)
    assert scored.code == 0 and scored.out == polyref("score", reference, "-i", alpha).out
    with_outputs = polyref("score", reference, "-i", file, "-l", "de-en", "--json")
    assert with_outputs.code == 0, with_outputs.err
    assert {"Alpha", "Beta.1", "Gamma-2"} <= {name.rpartition(":")[2] for name in str(with_outputs.out).split('"')}
    assert polyref("inspect", file, *take).code == 0
    assert polyref("convert", "refs", file, tmp_path / "refs.jsonl", *take).code == 0
    converted = ReferenceSet.load(tmp_path / "refs.jsonl")
    assert [segment.source for segment in converted] == wmt_json.SOURCE
    assert [segment.refs[0].text for segment in converted] == wmt_json.TEXTS["refA"]
    assert [segment.doc for segment in converted] == ["home", "home", "market", "weather", "weather"]
    assert [segment.lang for segment in converted] == ["en_GB"] * 5
    for made, inputs in (("one", (file, *take)), ("two", (reference,))):
        run = polyref(
            "augment", *inputs, "-k", "1", "--model", "lexical", "--lang", "en", "-o", tmp_path / f"{made}.jsonl"
        )
        assert run.code == 0, run.err
    texts = [
        [[ref.text for ref in s.refs] for s in ReferenceSet.load(tmp_path / f"{made}.jsonl")] for made in ("one", "two")
    ]
    assert texts[0] == texts[1]
    for where, name in ((file, "file"), (folder, "folder")):
        run = polyref("submit", where, "-l", "de-en", "--year", "2024", "--ref", "refA", "-m", "chrf", "--name", "x",
                      "--testset", "t", "-o", tmp_path / name)  # fmt: skip
        assert run.code == 0, run.err
    for level in ("sys", "seg"):
        both = [list(read_rows(tmp_path / name / f"x.{level}.score", 2024, level)) for name in ("file", "folder")]
        scores = [
            sorted((r.fields["system"], r.fields.get("segment", ""), r.fields["domain"], r.score) for r in rows)
            for rows in both
        ]
        assert scores[0] == scores[1]


def _spoilt(rows: list[dict[str, Any]], line: int, change: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    change(rows[line - 1])
    return rows


HUMAN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no id": (lambda row: row.pop("doc_id"), ':2: no "doc_id"'),
    "a short id": (lambda row: row.update(doc_id="de-en"), ':2: "doc_id" is "de-en", expected PAIR_#_DOMAIN'),
    "an id of another type": (lambda row: row.update(doc_id=3), ':2: "doc_id" is 3, expected a string'),
    "a second line of an item": (lambda row: row.update(doc_id="de-en_GB_#_news_#_home_#_0"),
                                 ":2: \"doc_id\" 'de-en_GB_#_news_#_home_#_0' was already on line 1"),
    "no source": (lambda row: row.pop("src_text"), ':2: no "src_text"'),
    "no texts": (lambda row: row.pop("tgt_text"), ':2: no "tgt_text"'),
    "texts of another type": (lambda row: row.update(tgt_text=["a"]), ':2: "tgt_text" is a list, expected an object'),
    "a text of another type": (lambda row: row["tgt_text"].update(Alpha=["a"]),
                               ':2: tgt_text: "Alpha" is a list, expected a string'),
    "no text": (lambda row: row["tgt_text"].update(Alpha=None), ':2: tgt_text: "Alpha" is null'),
    "a system that is missing": (lambda row: row["tgt_text"].pop("Alpha") and row["scores"].pop("Alpha"),
                                 ":2: \"tgt_text\" has no output of 'Alpha', which line 1 has"),
    "a system more": (lambda row: row["tgt_text"].update(X="a"),
                      ":2: \"tgt_text\" has an output of 'X', which line 1 lacks"),
    "a tab in a name": (lambda row: row["tgt_text"].update({"a\tb": "x"}),
                        r":2: tgt_text: the name 'a\tb', expected one without tabs"),
    "no scores": (lambda row: row.pop("scores"), ':2: no "scores"'),
    "scores of another type": (lambda row: row.update(scores=[1]), ':2: "scores" is a list, expected an object'),
    "scores that are a number": (lambda row: row["scores"].update(Alpha=9), ':2: scores: "Alpha" is 9, expected'),
    "a judgement of another type": (lambda row: row["scores"].update(Alpha=[9]),
                                    ':2: scores: "Alpha[0]" is 9, expected an object'),
    "a judgement without a score": (lambda row: row["scores"].update(Alpha=[{"x": 9}]),
                                    ':2: scores: Alpha[0]: no "score"'),
    "a round without a score": (lambda row: row["scores"].update(Alpha={"x": 9}), ':2: scores: Alpha: no "human1"'),
    "a score of another type": (lambda row: row["scores"].update(Alpha=[{"score": "9"}]),
                                ':2: scores: Alpha[0]: "score" is "9", expected a finite number'),
    "NaN": (lambda row: row["scores"].update(Alpha=[{"score": float("nan")}]),
            ':2: scores: Alpha[0]: "score" is NaN, expected a finite number'),
    "who is judged without a text": (lambda row: row["scores"].update(X=[{"score": 9}]),
                                     ':2: scores: "X" is judged, but "tgt_text" has no such text'),
}  # fmt: skip


@pytest.mark.parametrize("kind", HUMAN)
def test_a_spoilt_human_evaluation_ends_in_one_error(polyref: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    change, expected = HUMAN[kind]
    file = wmt_json.write(tmp_path / "h.jsonl", _spoilt(wmt_json.human_evaluation(), 2, change))
    run = polyref("evaluate", file, *ASKED)
    assert run.code == 1
    assert expected in run.err
    assert run.err.count("\n") == 1 and run.out == ""


ESA: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no pair": (lambda row: row.pop("langs"), ':2: no "langs"'),
    "no line": (lambda row: row.pop("line_id"), ':2: no "line_id"'),
    "a line of another type": (lambda row: row.update(line_id="x"), ':2: "line_id" is "x", expected a whole number'),
    "another source": (lambda row: row.update(src="x"),
                       ":2: \"src\" of 'Alpha' differs from an earlier line of \"line_id\" 3"),
    "no text": (lambda row: row.update(tgt=None), ':2: no "tgt"'),
    "no score": (lambda row: row.pop("esa_score"), ':2: no "esa_score"'),
    "NaN": (lambda row: row.update(esa_score=float("nan")), ':2: "esa_score" is NaN, expected a finite number'),
    "a tab in a name": (lambda row: row.update(system="a\tb"), r":2: the name 'a\tb', expected one without tabs"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ESA)
def test_spoilt_judgements_of_2024_end_in_one_error(polyref: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    change, expected = ESA[kind]
    rows = wmt_json.judgements()
    if kind == "another source":
        rows.insert(0, dict(rows[1], system="Omega"))
        rows[1], rows[2] = rows[2], rows[1]
    file = wmt_json.write(tmp_path / "h.jsonl", _spoilt(rows, 2, change))
    run = polyref("evaluate", file, *ASKED)
    assert run.code == 1
    assert expected in run.err
    assert run.err.count("\n") == 1 and run.out == ""


def test_outputs_on_a_test_set_that_do_not_fit(polyref: Callable[..., Any], tmp_path: Path) -> None:
    file = wmt_json.general_task(tmp_path / "a")
    asked = (*ASKED, "--gold", "mqm")
    alpha = tmp_path / "a/systems/Alpha.jsonl"
    rows = wmt_json.outputs("Alpha")
    home = next(row for row in rows if row["doc_id"].endswith("home"))
    wmt_json.write(alpha, [row if row is not home else {**home, "hypothesis": "All in one."} for row in rows])
    run = polyref("evaluate", file, *asked)
    assert run.code == 0, run.err
    assert "Alpha: documents with another number of paragraphs than the source, unknown: 1" in run.err
    over = [
        row["segments"] for row in run.json()["rows"] if row["statistic"] == "system-pearson" or row.get("segments")
    ]
    assert 3 in over
    wmt_json.write(alpha, [row for row in rows if row is not home])
    run = polyref("evaluate", file, *asked)
    assert run.code == 1
    assert (
        "Alpha.jsonl: no \"hypothesis\" for the document 'WMT26_###_news_###_deu_Latn_###_eng_Latn_###_home'" in run.err
    )
    alpha.write_text("The dog.\n", "utf-8")
    run = polyref("evaluate", file, *asked)
    assert run.code == 1
    assert "Alpha.jsonl:1: is no output of a system: the first line is 'The dog.' (expected JSON lines with" in run.err
    shutil.rmtree(tmp_path / "a/systems")
    run = polyref("evaluate", file, *asked)
    assert run.code == 1
    assert "no outputs NAME.jsonl for the test set wmt26-genmt.jsonl (name the folder of outputs: --systems)" in run.err
    human = wmt_json.write(tmp_path / "h.jsonl", wmt_json.human_evaluation())
    for where, expected in (
        (human, "holds outputs, but --systems is given too"),
        (MINIMAL, "--systems is for test sets"),
    ):
        run = polyref("evaluate", where, *ASKED, "--systems", tmp_path)
        assert run.code == 2
        assert expected in run.err


def test_pairs_of_a_file_and_sets_of_a_folder(polyref: Callable[..., Any], tmp_path: Path) -> None:
    rows = [*wmt_json.human_evaluation("de-en_GB"), *wmt_json.human_evaluation("de-en_US")]
    file = wmt_json.write(tmp_path / "a/h.jsonl", rows)
    run = polyref("evaluate", file, *ASKED)
    assert run.code == 2
    assert "h.jsonl: de-en may be any of de-en_GB, de-en_US (name one of them)" in run.err
    run = polyref("evaluate", file, "-l", "cs-uk", *ASKED[2:])
    assert run.code == 1
    assert "h.jsonl: no document of cs-uk, there are: de-en_GB, de-en_US" in run.err
    run = polyref("score", file, "-i", MINIMAL / "system-outputs/de-en/Alpha.txt")
    assert run.code == 2
    assert "several language pairs: de-en_GB, de-en_US ... (choose one: " in run.err
    wmt_json.write(tmp_path / "a/i.jsonl", wmt_json.human_evaluation())
    run = polyref("evaluate", tmp_path / "a", *ASKED)
    assert run.code == 1
    assert "a: holds several evaluation sets: h.jsonl, i.jsonl (name one of them)" in run.err


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ('{"annotation": [], "item": []}', "a JSON object with the keys 'annotation', 'item'"),
        ('{"item_id": "x", "src": "a", "hyps": {}}', "a JSON object with the keys 'item_id', 'src', 'hyps'"),
        ("A sentence.", "'A sentence.'"),
        ("[1, 2]", "'[1, 2]'"),
        ('{"doc_id": "x", ', '\'{"doc_id": "x", \''),
    ],
)
def test_a_wrong_form_is_named(polyref: Callable[..., Any], tmp_path: Path, text: str, looks: str) -> None:
    for name in ("x.jsonl", "x.xml", "x.de-en.xml"):
        (tmp_path / name).write_text(f"{text}\n", "utf-8")
        run = polyref("evaluate", tmp_path / name, *ASKED)
        assert run.code == 1
        assert (
            f"{name}:1: is no evaluation set: the first line is {looks} (expected JSON lines of the general" in run.err
        )
        assert "broken XML" not in run.err


def test_equal_judgements_are_tied_however_many_annotators_gave_them(tmp_path: Path) -> None:
    rows = wmt_json.human_evaluation()
    scores = {"Alpha": [{"score": -1.1}], "Beta.1": [{"score": -1.1 + 3}, {"score": -1.1 - 3}], "Gamma-2": []}
    assert (scores["Beta.1"][0]["score"] + scores["Beta.1"][1]["score"]) / 2 != -1.1
    rows[0]["scores"] = {**scores, "refB": None}
    rows[1]["scores"] = {}
    gold = open_release(wmt_json.write(tmp_path / "h.jsonl", rows), "de-en").gold("esa", include_human=True)
    assert {name: column[0] for name, column in gold.segment.items() if not np.isnan(column[0])} == {
        "Alpha": -1.1, "Beta.1": -1.1}  # fmt: skip
    assert all(np.isnan(column[1]) for column in gold.segment.values())


def test_a_line_without_end_is_one_error(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYREF_MAX_LINE", "2000")
    rows = wmt_json.human_evaluation()
    rows[1]["src_text"] = "x" * 3000
    run = polyref("evaluate", wmt_json.write(tmp_path / "h.jsonl", rows), *ASKED)
    assert run.code == 1
    assert "h.jsonl:2: " in run.err and "2000" in run.err
    assert run.err.count("\n") == 1


def test_translations_of_a_set_without_references(polyref: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    asked = ("-l", "de-en", "-n", "20", "-m", "chrf", "--json")
    translated = wmt_json.translations(tmp_path / "t.jsonl", [text[::-1] for text in wmt_json.SOURCE])
    shutil.rmtree(folder / "references")
    expected = _rows(polyref("evaluate", folder, *asked, "--gold", "mqm", "--refs", translated))
    rows = wmt_json.human_evaluation()
    for row in rows:
        row["tgt_text"] = {name: text for name, text in row["tgt_text"].items() if not name.startswith("ref")}
        row["scores"] = {name: marks for name, marks in row["scores"].items() if not name.startswith("ref")}
    file = wmt_json.write(tmp_path / "h.jsonl", rows)
    run = polyref("evaluate", file, *asked, "--refs", translated)
    _same(_rows(run), expected)
    assert {row["k"] for row in expected} == {1} and "no human reference" in run.json()["notes"][0]

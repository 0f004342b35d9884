"""Commands with references and outputs in other forms than polyref's own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.references import Reference, ReferenceSet, Segment

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
REFERENCES = ["The cat sat on the mat today.", "Ann has paid the whole bill."]
OUTPUTS = {"good": ["The cat sat on the mat today.", "Ann paid the whole bill."], "poor": ["Cat on mat.", "Paid."]}
XML = """<?xml version="1.0"?>
<dataset id="t"><doc id="d" origlang="de"><src lang="de"><p><seg id="1">a</seg><seg id="2">b</seg></p></src>
<ref lang="en" translator="A"><p><seg id="1">{refs[0]}</seg><seg id="2">{refs[1]}</seg></p></ref>
<hyp lang="en" system="good"><p><seg id="1">{good[0]}</seg><seg id="2">{good[1]}</seg></p></hyp>
<hyp lang="en" system="poor"><p><seg id="1">{poor[0]}</seg><seg id="2">{poor[1]}</seg></p></hyp>
</doc></dataset>
""".format(refs=REFERENCES, **OUTPUTS)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"refs": REFERENCES, **OUTPUTS}
    for name, lines in texts.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    Path("all.xml").write_text(XML)
    rows = zip(REFERENCES, *OUTPUTS.values(), strict=True)
    Path("all.tsv").write_text("ref\tgood\tpoor\n" + "".join("\t".join(row) + "\n" for row in rows))
    rows = zip(REFERENCES, OUTPUTS["good"], strict=True)
    Path("comet.json").write_text(json.dumps([{"src": "x", "mt": good, "ref": ref} for ref, good in rows]))


def scores(run: Any) -> dict[str, float]:
    assert run.code == 0, run.err
    return {row["system"]: row["score"] for row in run.json()["rows"] if row["k"] == 0}


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_score_reads_the_same_texts_from_every_form(polyref: Callable[..., Any]) -> None:
    expected = scores(polyref("score", "refs", "-i", "good", "poor", "-m", "chrf", "--json"))
    assert expected["good"] > expected["poor"]
    assert scores(polyref("score", "all.xml", "-i", "all.xml", "-m", "chrf", "--json")) == expected
    fields = ("--fields", "ref=reference", "good=output", "poor=output")
    assert scores(polyref("score", "all.tsv", "-i", "all.tsv", *fields, "-m", "chrf", "--json")) == expected
    numbered = ("--fields", "1=reference", "3=output", "2=output")
    assert scores(polyref("score", "all.tsv", "-i", "all.tsv", *numbered, "-m", "chrf", "--json")) == expected
    found = scores(polyref("score", "comet.json", "-i", "comet.json", "-m", "chrf", "--json"))
    assert found == {"comet.json": expected["good"]}


@pytest.mark.usefixtures("files")
def test_score_says_what_it_cannot_read(polyref: Callable[..., Any]) -> None:
    for arguments, message in [
        (("all.tsv", "-i", "good"), "none of ref, good, poor"),
        (("refs", "-i", "all.tsv"), "all.tsv:1: none of ref, good, poor is known to be an output (say which one is: "
                                    "--fields poor=output)"),
        (("refs", "-i", "all.xml", "good"), "two systems are called 'good', the second in good"),
        (("refs", "-i", "good", "--refs-format", "yaml"), "--refs-format is 'yaml', expected one of plain"),
        (("refs", "-i", "good", "--fields", "x"), "--fields 'x', expected KEY=ROLE"),
        (("refs", "-t", "wmt20", "-i", "good"), "-t wmt20 and refs both name references"),
        (("-i", "good"), "Missing argument 'REFS...' (the files of references; or name a test set: -t)"),
    ]:  # fmt: skip
        run = polyref("score", *arguments)
        if message.startswith("none of"):
            assert run.code == 0
        else:
            assert run.code in {1, 2} and message in run.err and run.err.count("\n") == 1, run.err
    Path("other.xml").write_text(XML.replace('id="d"', 'id="e"'))
    run = polyref("score", "all.xml", "-i", "other.xml")
    assert run.code == 1 and "other.xml: holds document 'e' where all.xml has 'd' (the same documents" in run.err
    as_text = polyref("score", "refs", "-i", "all.tsv", "--input-format", "plain")
    assert as_text.code == 1 and "all.tsv: has 3 segments, but refs has 2" in as_text.err


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_paraphrase_keeps_ids_and_takes_the_first_reference(polyref: Callable[..., Any]) -> None:
    first = "Prices rose by 3 percent last year."
    segments = [Segment("a", (Reference(first), Reference("There sat a cat."))), Segment("b", ())]
    ReferenceSet(tuple(segments)).export("ids.jsonl", "json")
    run = polyref("paraphrase", "ids.jsonl", "-k", "1", "--quiet")
    assert run.code == 0, run.err
    rows = [json.loads(line) for line in run.out.splitlines()]
    assert [(row["id"], row["text"]) for row in rows] == [("a", first), ("b", "")]
    assert "ids.jsonl: 1 of 2 segments have several references: the first was taken" in run.err
    # What this command wrote is read by the next.
    Path("nbest.jsonl").write_text(run.out)
    run = polyref("score", "nbest.jsonl", "-i", "good", "-k", "0", "1", "--json")
    assert run.code == 0, run.err
    assert [row["k"] for row in run.json()["rows"]] == [0, 1]


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(MINIMAL, tmp_path / "minimal"))
    (folder / "darr/de-en.tsv").unlink()
    return folder


@pytest.mark.slow
def test_evaluate_and_submit_read_added_references_from_every_form(
    polyref: Callable[..., Any], minimal: Path, tmp_path: Path
) -> None:
    own = minimal / "paraphrases/de-en.refA.jsonl"
    added = ReferenceSet.load(own)
    added.export(tmp_path / "refs.xml", "xml")
    added.export(tmp_path / "set", "mt-metrics-eval", pair="de-en")
    table = tmp_path / "refs.tsv"
    added.export(table)
    table.write_text(table.read_text().replace("reference\t", "gold\t", 1).replace("paraphrase", "made", 2))
    header = table.read_text().splitlines()[0].split("\t")
    names = [f"{name}=paraphrase" for name in header if name.startswith("made")]
    said: list[tuple[Any, ...]] = [
        (own,), (tmp_path / "refs.xml",), (tmp_path / "set",), (table, "--fields", "gold=reference", *names)
    ]  # fmt: skip
    base = ("-l", "de-en", "--ref", "refA", "-m", "bleu", "-k", "1")
    found, files = [], []
    for place, (path, *fields) in enumerate(said):
        options = [item for field in fields[1:] for item in ("--fields", field)]
        run = polyref("evaluate", minimal, *base, "--gold", "mqm", "-n", "0", "--json", "--refs", path, *options)
        assert run.code == 0, run.err
        found.append(run.json()["rows"])
        out = tmp_path / f"out{place}"
        naming = ("--name", "parBLEU", "--testset", "t", "--year", "2023", "-o", out)
        run = polyref("submit", minimal, *base, *naming, "--refs", path, *options)
        assert run.code == 0, run.err
        files.append([(out / f"parBLEU.{level}.score").read_text() for level in ("sys", "seg")])
    assert len(found[0]) > 1
    assert found == [found[0]] * len(said)
    assert files == [files[0]] * len(said)

"""Round trips of whole released sets: human and added references of WMT22, and the layout that they are released in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polyref.references import ReferenceSet

SUFFIXES = {"lists": ".txt", "simple": ".jsonl", "nbest": ".jsonl", "json": ".jsonl", "tsv": ".tsv", "csv": ".csv",
            "xml": ".xml.gz", "sgml": ".sgm", "normal": ".jsonl.xz"}  # fmt: skip


@pytest.fixture(scope="module")
def paraphrases(data_dir: Path) -> ReferenceSet:
    found = ReferenceSet.load(data_dir / "wmt22" / "paraphrases" / "zh-en.refA.jsonl")
    assert len(found) == 1875 and found.counts() == (11, 11)
    # Ragged, as a filter leaves it.
    return ReferenceSet(tuple(replace(one, refs=one.refs[: 1 + place % 11]) for place, one in enumerate(found)))


@pytest.mark.parametrize("form", list(SUFFIXES))
def test_added_references(paraphrases: ReferenceSet, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"refs{SUFFIXES[form]}"
    lost = paraphrases.export(path, form)
    found = ReferenceSet.load(path)
    if form == "lists":
        assert lost == [f"kind ({sum(len(one.extras) for one in paraphrases)} references)"]
        assert found.texts() == paraphrases.texts()
    else:
        assert lost == []
        assert found.segments == paraphrases.segments


def test_plain_files_and_tables_for_sacrebleu(paraphrases: ReferenceSet, tmp_path: Path) -> None:
    fewer, added = sum(len(one.refs) < 11 for one in paraphrases), sum(len(one.extras) for one in paraphrases)
    assert fewer > 1500 and added > 9000
    repeated = f"different numbers of references: the first is repeated ({fewer} segments)"
    expected = [repeated, f"kind ({added} references)"]
    assert paraphrases.export(tmp_path / "refs.{}.en") == expected
    files = [tmp_path / "refs.reference.en", *(tmp_path / f"refs.paraphrase{rank}.en" for rank in range(1, 11))]
    table = tmp_path / "refs.tsv"
    assert paraphrases.export(table, "sacrebleu-tsv") == expected
    padded = [[ref.text for ref in (*one.refs, *[one.refs[0]] * (11 - len(one.refs)))] for one in paraphrases]
    assert ReferenceSet.load(*files).texts() == padded
    assert ReferenceSet.load(table, form="sacrebleu-tsv").texts() == padded


@pytest.mark.parametrize(("name", "pair"), [("wmt22", "zh-en"), ("wmt21.news", "zh-en"), ("ort20.encs", "en-cs")])
def test_released_folders(data_dir: Path, tmp_path: Path, name: str, pair: str) -> None:
    found = ReferenceSet.load(data_dir / name, pair=pair)
    assert found.export(tmp_path / "set", "mt-metrics-eval", pair=pair) == []
    assert ReferenceSet.load(tmp_path / "set").segments == found.segments
    for path in (data_dir / name / "references").glob(f"{pair}.*"):
        again = (tmp_path / "set" / "references" / path.name).read_text("utf-8").split("\n")
        assert again == [line.rstrip() for line in path.read_text("utf-8").split("\n")]
    # What is said of a document is said once, and without documents all segments are in one.
    by_document = ReferenceSet(tuple(replace(one, doc=None, extra={}) for one in found.segments))
    assert by_document.export(tmp_path / "a.xml") == []
    assert ReferenceSet.load(tmp_path / "a.xml").texts() == found.texts()


def test_documents_of_a_released_set(data_dir: Path, tmp_path: Path) -> None:
    found = ReferenceSet.load(data_dir / "wmt22", pair="zh-en")
    for form, name in {"general": "a.jsonl", "xml": "a.xml", "sgml": "a.sgm"}.items():
        lost = found.export(tmp_path / name, form)
        assert lost == ([] if form != "sgml" else [f"sources ({len(found)} segments)"])
        again = ReferenceSet.load(tmp_path / name)
        assert again.texts() == found.texts()
        assert [one.doc for one in again] == [one.doc for one in found]
        if form != "sgml":
            assert [one.source for one in again] == [one.source for one in found]

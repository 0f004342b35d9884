"""Sets written in every form and read back: the same where the form can hold them, and said where it cannot."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyref.errors import DataError, UsageError
from polyref.formats import read_outputs
from polyref.formats.writing import WRITTEN, form_of
from polyref.references import Reference, ReferenceSet, Segment

#: Form -> suffix of its file, of forms that hold a set in one file.
FILES = {
    "normal": ".jsonl", "simple": ".jsonl", "nbest": ".jsonl", "json": ".jsonl", "lists": ".txt", "tsv": ".tsv",
    "csv": ".csv", "xml": ".xml", "sgml": ".sgm", "general": ".jsonl",
}  # fmt: skip


def human(text: str, **extra: str) -> Reference:
    return Reference(text, extra=extra)


def made(text: str, rank: int, **more: Any) -> Reference:
    return Reference(text, "paraphrase", of=0, rank=rank, **more)


#: One human reference a segment and its paraphrases, ragged; what every form can hold that has kinds.
RAGGED = (
    Segment("1", (human("It is <late> & cold."), made("It's late.", 0), made('"Late", 5 > 4.', 1))),
    Segment("2", (human("Ann paid."),)),
    Segment("3", (human("He left, she stayed."), made("He went.", 0))),
)
#: With documents and sources.
DOCUMENTS = tuple(
    replace(one, source=f"source {place}", doc="d1" if place < 2 else "d2", lang="en", extra=extra)
    for place, (one, extra) in enumerate(zip(RAGGED, [{"domain": "news"}, {"domain": "news"}, {}], strict=True))
)
#: Two human references with names, of which one segment lacks one.
NAMED = (
    Segment("1", (human("One.", name="refA"), human("Uno.", name="refB"))),
    Segment("2", (human("Two.", name="refA"),)),
)


def again(segments: tuple[Segment, ...], path: Path, form: str, **more: Any) -> tuple[ReferenceSet, list[str]]:
    lost = ReferenceSet(segments).export(path, form, **more)
    return ReferenceSet.load(path, **more), lost


@pytest.mark.slow
@pytest.mark.parametrize("form", ["normal", "simple", "nbest", "json", "tsv", "csv", "xml", "sgml"])
def test_ragged_sets_come_back_whole(tmp_path: Path, form: str) -> None:
    found, lost = again(RAGGED, tmp_path / f"a{FILES[form]}", form)
    assert found.segments == RAGGED
    assert lost == []


@pytest.mark.parametrize("packing", [".gz", ".xz"])
@pytest.mark.parametrize("form", ["normal", "json", "tsv", "csv", "xml"])
def test_documents_and_sources_come_back(tmp_path: Path, form: str, packing: str) -> None:
    segments = DOCUMENTS if form in {"normal", "json", "xml"} else tuple(replace(one, extra={}) for one in DOCUMENTS)
    found, lost = again(segments, tmp_path / f"a{FILES[form]}{packing}", form)
    assert found.segments == segments
    assert lost == []


def test_documents_of_the_general_task_come_back(tmp_path: Path) -> None:
    texts = [("First.\nOf two lines.", "Eins."), ("Second.", "Zwei."), ("Third.", "Drei.")]
    extra = [{"src_lang": "cs", "domain": "news"}, {}, {"src_lang": "cs", "domain": "talk", "video": None}]
    segments = tuple(
        Segment(str(n), (human(a, name="refA"), human(b, name="B")), f"s{n}", "d1" if n < 3 else "d2", "en", more)
        for n, ((a, b), more) in enumerate(zip(texts, extra, strict=True), 1)
    )
    segments = (*segments[:2], replace(segments[2], extra={"src_lang": "cs", "domain": "talk"}))
    found, lost = again(segments, tmp_path / "a.jsonl", "general")
    assert found.segments == segments
    assert lost == []
    found, lost = again(
        (replace(segments[0], refs=segments[0].refs[:1]), *segments[1:]), tmp_path / "b.jsonl", "general"
    )
    assert [len(one.refs) for one in found] == [1, 1, 2]
    assert lost == ["references that not every paragraph of a document has (1 reference)"]


@pytest.mark.parametrize("form", ["tsv", "csv", "xml", "sgml", "normal"])
def test_names_of_references_come_back(tmp_path: Path, form: str) -> None:
    found, lost = again(NAMED, tmp_path / f"a{FILES[form]}", form)
    assert found.segments == NAMED
    assert lost == []


#: Names that a form may take for something else: its own default, no column's name, a kind, a role, one name twice.
ODD_NAMES = ("reference", "ref", "A", "ref2", "paraphrase1", "postedit1", "target", "Jane Doe", "Jane Doe", "refA")


@pytest.mark.parametrize("form", ["tsv", "csv", "xml", "sgml", "general"])
def test_references_stay_whatever_their_names(tmp_path: Path, form: str) -> None:
    refs = (human("Nobody."), *(human(f"{n}: {name}.", name=name) for n, name in enumerate(ODD_NAMES)))
    segments = (Segment("1", (*refs, Reference("Made.", "paraphrase", rank=0)), source="s", doc="d"),)
    found, lost = again(segments, tmp_path / f"a{FILES[form]}", form)
    assert [(ref.text, ref.kind, ref.of) for ref in found[0].refs] == [
        (ref.text, ref.kind, ref.of) for ref in segments[0].refs
    ]
    kept = sum("name" in ref.extra for ref in found[0].refs)
    assert all(new.extra in ({}, old.extra) for old, new in zip(segments[0].refs, found[0].refs, strict=True))
    assert lost[-1:] == [f"name ({len(ODD_NAMES) - kept} references)"]
    assert kept == (1 if form in {"tsv", "csv"} else 5)


def test_columns_without_a_known_name_are_one_persons(tmp_path: Path) -> None:
    segments = (
        Segment("1", (human("a1", name="A"), human("b1", name="B"))),
        Segment("2", (human("b2", name="B"),)),
    )
    assert ReferenceSet(segments).export(tmp_path / "a.tsv") == ["name (3 references)"]
    assert (tmp_path / "a.tsv").read_text() == "id\treference\treference2\n1\ta1\tb1\n2\t\tb2\n"


@pytest.mark.parametrize("form", ["xml", "general", "json", "tsv"])
def test_paraphrases_point_at_the_one_original(tmp_path: Path, form: str) -> None:
    for kind in ("human", "postedit"):
        first = replace(RAGGED[0], refs=(Reference("Text.", kind), *RAGGED[0].refs[1:]), source="s", doc="d")
        found, _ = again((first,), tmp_path / f"{kind}{FILES[form]}", form)
        assert [ref.of for ref in found[0].refs] == [None, 0, 0]


def test_keys_of_segments_do_not_become_references(tmp_path: Path) -> None:
    odd = {"target": "no reference", "reference": "none", "seg_id": "x", "tgt_lang": "xx", "note": "n"}
    segments = (Segment("1", (Reference("Made.", "paraphrase", rank=0),), source="s", doc="d", lang="en", extra=odd),)
    for form in ("json", "simple", "general"):
        found, lost = again(segments, tmp_path / f"{form}.jsonl", form)
        assert found.texts() == [["Made."]] and found[0].lang == "en" and found[0].extra["note"] == "n"
        assert "other keys (1 segment)" in lost


def test_several_references_without_names(tmp_path: Path) -> None:
    segments = (Segment("1", (human("One."), human("Uno."))), Segment("2", (human("Two."), human("Due."))))
    for form in ("json", "lists", "tsv", "csv", "xml", "sgml"):
        found, lost = again(segments, tmp_path / f"{form}{FILES[form]}", form)
        assert (found.segments, lost) == (segments, []), form


def test_the_layout_of_mt_metrics_eval(tmp_path: Path) -> None:
    segments = tuple(replace(one, lang=None) for one in DOCUMENTS)
    found, lost = again(segments, tmp_path / "set", "mt-metrics-eval", pair="zh-en")
    assert found.segments == segments
    assert lost == []
    files = sorted(str(path.relative_to(tmp_path / "set")) for path in (tmp_path / "set").rglob("*") if path.is_file())
    assert files == ["documents/zh-en.docs", "references/zh-en.paraphrase1.txt", "references/zh-en.paraphrase2.txt",
                     "references/zh-en.ref.txt", "sources/zh-en.txt"]  # fmt: skip
    rank = (tmp_path / "set/references/zh-en.paraphrase2.txt").read_text("utf-8")
    assert rank == '"Late", 5 > 4.\nNO TRANSLATION AVAILABLE\nNO TRANSLATION AVAILABLE\n'
    with pytest.raises(UsageError, match="is there and not empty"):
        ReferenceSet(segments).export(tmp_path / "set", "mt-metrics-eval", pair="zh-en")
    with pytest.raises(UsageError, match="`pair` is None, expected SRC-TGT"):
        ReferenceSet(segments).export(tmp_path / "other", "mt-metrics-eval")
    odd = ReferenceSet((Segment("1", (human("x", name="a.b"),)),))
    with pytest.raises(DataError, match=r"other: the reference name 'a\.b' is not allowed"):
        odd.export(tmp_path / "other", "mt-metrics-eval", pair="zh-en")
    assert not (tmp_path / "other").exists()


def test_plain_files_for_sacrebleu(tmp_path: Path) -> None:
    lost = ReferenceSet(RAGGED).export(tmp_path / "refs.{}.en")
    first, *others = (tmp_path / f"refs.{name}.en" for name in ("reference", "paraphrase1", "paraphrase2"))
    assert first.read_text() == "It is <late> & cold.\nAnn paid.\nHe left, she stayed.\n"
    assert [path.read_text().split("\n")[1] for path in others] == ["Ann paid."] * 2
    assert lost == [
        "different numbers of references: the first is repeated (2 segments)",
        "kind (3 references)",
    ]
    found = ReferenceSet.load(first, *others)
    assert found.texts()[2] == ["He left, she stayed.", "He went.", "He left, she stayed."]
    # A smaller set would be mixed with the files of this one.
    with pytest.raises(UsageError, match=r"refs\.paraphrase1\.en is there already, and no reference of this set"):
        ReferenceSet(RAGGED[1:2]).export(tmp_path / "refs.{}.en")
    assert ReferenceSet(RAGGED).export(f"{tmp_path}/folder/") == lost
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [
        "paraphrase1.txt", "paraphrase2.txt", "reference.txt"]  # fmt: skip
    with pytest.raises(UsageError, match=r"one\.txt is one file, but there are 3 references: reference, paraphrase1"):
        ReferenceSet(RAGGED).export(tmp_path / "one.txt")
    assert ReferenceSet(RAGGED[1:2]).export(tmp_path / "one.txt") == ["ids (1 segment)"]
    assert (tmp_path / "one.txt").read_text() == "Ann paid.\n"


def test_repeated_references_change_no_score_of_sacrebleu(tmp_path: Path) -> None:
    import sacrebleu

    ReferenceSet(RAGGED).export(tmp_path / "refs.{}.en")
    padded = [path.read_text().splitlines() for path in sorted(tmp_path.glob("refs.*.en"))]
    outputs = ["It is late.", "Ann has paid.", "He went and she stayed."]
    ragged = [[one.refs[place].text if place < len(one.refs) else None for one in RAGGED] for place in range(3)]
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        assert metric.corpus_score(outputs, padded).score == metric.corpus_score(outputs, ragged).score


def test_sacrebleus_table(tmp_path: Path) -> None:
    lost = ReferenceSet(RAGGED).export(tmp_path / "refs.tsv", "sacrebleu-tsv")
    rows = [line.split("\t") for line in (tmp_path / "refs.tsv").read_text().splitlines()]
    assert rows[1] == ["Ann paid."] * 3
    assert len(lost) == 2
    found = ReferenceSet.load(tmp_path / "refs.tsv", form="sacrebleu-tsv")
    assert found.texts() == rows


def test_comets_list(tmp_path: Path) -> None:
    lost = ReferenceSet(DOCUMENTS).export(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found[1] == {"src": "source 1", "ref": "Ann paid."}
    assert lost[:2] == ["documents (3 segments)", "languages (3 segments)"]
    assert lost[2:] == ["other keys (2 segments)", "added references, which are left out (3 references)"]
    assert ReferenceSet.load(tmp_path / "a.json").texts() == [[one.refs[0].text] for one in RAGGED]
    ReferenceSet((Segment("1", (made("Made.", 0), human("Written."))),)).export(tmp_path / "b.json")
    assert ReferenceSet.load(tmp_path / "b.json").texts() == [["Written."]]


#: Whatever a set holds.
EVERYTHING = ReferenceSet(
    (
        Segment(
            "a7",
            (
                human("One\nline,\ttab. ", name="refA"),
                Reference("Edited.", "postedit", weight=0.5),
                made("One.", 4, logprob=-0.5, generator="g"),
                Reference("", "pseudo", extra={"x": 1}),
            ),
            source="Eins.",
            doc="d",
            lang="en",
            extra={"note": "n"},
        ),
        Segment("b", (human("Two."),), source="Zwei.", doc="d"),
    ),
    {"k": 1},
)
HEADER = "what the header says (1 key)"
PARTS = ["sources (2 segments)", "documents (2 segments)", "languages (1 segment)", "other keys (1 segment)"]
FURTHER = "further human references, which are left out (1 reference)"
MOST = "generator, logprob, of, other keys, rank, weight (3 references)"
LINES = "line ends, which become spaces (1 text)"
#: Form -> what it cannot hold of everything.
LOST = {
    "normal": [],
    "simple": [FURTHER, HEADER, "generator, kind, logprob, name, of, other keys, rank, weight (4 references)"],
    "nbest": [*PARTS, FURTHER, HEADER, "generator, kind, name, of, other keys, rank, weight (4 references)"],
    "json": [HEADER, "generator, kind, logprob, name, of, other keys, rank, weight (4 references)"],
    "lists": ["ids (2 segments)", *PARTS, HEADER,
              "generator, kind, logprob, name, other keys, weight (4 references)"],
    "tsv": ["other keys (1 segment)", "whether a reference is empty or absent (1 reference)", LINES,
            "tabs, which become spaces (1 text)", HEADER, MOST],
    "csv": ["other keys (1 segment)", "whether a reference is empty or absent (1 reference)", HEADER, MOST],
    "xml": ["ids (2 segments)", "languages (1 segment)", "other keys (1 segment)", LINES, HEADER, MOST],
    "sgml": ["ids (2 segments)", "sources (2 segments)", "languages (1 segment)", "other keys (1 segment)", LINES,
             "spaces at the ends (1 text)", HEADER, MOST],
}  # fmt: skip


@pytest.mark.parametrize("form", list(LOST))
def test_what_a_form_cannot_hold_is_said(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a{FILES[form]}"
    assert EVERYTHING.export(path, form) == LOST[form]
    found = ReferenceSet.load(path)
    assert len(found) == 2
    assert found[1].refs[0].text == "Two."


def one(*refs: Reference, **about: Any) -> Segment:
    return Segment("1", refs, **about)


#: What random sets found in no report: form, segments, what is said now.
UNSAID: list[tuple[str, tuple[Segment, ...], str]] = [
    ("normal", (one(human("a"), extra={"id": "x"}),), "other keys (1 segment)"),
    ("tsv", (one(made("", 0)), Segment("2", (human("b"),))), "whether a reference is empty or absent (1 reference)"),
    ("csv", (one(human("a"), Reference("b", "pseudo"), made("c", 0)),), "the order of references (1 segment)"),
    ("tsv", (one(human("a"), doc="b\tc"),),
     "ids, documents or languages that are empty or hold other signs than this form has (1 segment)"),
    ("json", (one(Reference("a", of=0, rank=1)),), "of, rank (1 reference)"),
    ("csv", (one(human("a"), made("b", 0, extra={"name": "paraphrase1"})),), "name (1 reference)"),
    ("xml", (one(human("a"), human("NO TRANSLATION AVAILABLE")),), "references that say there is none (1 reference)"),
    ("xml", (one(human("a"), source="s"), Segment("2", (human("b"),))),
     "no source: an empty one is written (1 segment)"),
    ("xml", (one(human("a"), extra={"domain": "x"}), Segment("2", (human("b"),))),
     "keys that differ within documents (1 segment)"),
    ("sgml", (one(human("a"), doc="-"),),
     "ids, documents or languages that are empty or hold other signs than this form has (1 segment)"),
    ("general", (one(human("a\n\nb"), source="s"),), "blank lines, which become spaces (1 text)"),
    ("mt-metrics-eval", (one(human("a"), doc="d", extra={"domain": "x y"}),),
     "what domains and documents are called (1 segment)"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "segments", "said"), UNSAID)
def test_losses_that_nobody_said(tmp_path: Path, form: str, segments: tuple[Segment, ...], said: str) -> None:
    assert said in ReferenceSet(segments).export(tmp_path / "a", form, pair="de-en")


def test_documents_of_one_name_in_two_collections(tmp_path: Path) -> None:
    segments = tuple(replace(one(human("a")), id=str(n), source="s", extra={"collection": n}) for n in (1, 2, 3))
    for form in ("sgml", "general"):
        found, _ = again(segments, tmp_path / f"{form}{FILES[form]}", form)
        assert len(found) == 3
    split = tuple(replace(each, doc="aba"[n]) for n, each in enumerate(segments))
    with pytest.raises(DataError, match="document 'a' is not in one piece"):
        ReferenceSet(split).export(tmp_path / "a", "sgml")


def test_names_of_documents_are_read_as_they_are(tmp_path: Path) -> None:
    for form in ("xml", "sgml"):
        segments = (one(human("a"), doc='b\tc\r\nd "e" & f'),)
        found, lost = again(segments, tmp_path / f"a{FILES[form]}", form)
        assert (found.segments, lost) == (segments, [])


@pytest.mark.parametrize(
    ("segments", "form", "message"),
    [
        ((Segment("1", (human("x\x01"),)),), "xml", r"a: segment 1 holds U\+0001, which XML has no way to write"),
        ((Segment("1", (human("x"),)), Segment("2", ())), "xml", "segment 2 has neither source nor reference"),
        ((Segment("1", (human("x"),)), Segment("2", ())), "sgml", "segment 2 has no reference"),
        ((Segment("1", (human("x"),)),), "general", "segment 1 has no source"),
        ((Segment("1", ()),), "comet", "segment 1 has no reference"),
        *(((Segment("1", ()),), form, "no segment has a reference") for form in ("plain", "tsv", "xml", "general")),
        ((one(human("x")), Segment("2", (human(" "),))), "sacrebleu-tsv",
         "the last segment has empty texts alone"),
        ((replace(one(human("")), id=" "),), "tsv", "the last segment has empty texts alone"),
        ((one(human("\ufeffx")),), "plain", r"the first segment begins with U\+FEFF"),
        (tuple(Segment(str(n), (human("x"),), doc="aba"[n]) for n in range(3)), "xml",
         "document 'a' is not in one piece: it goes on at segment 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(
    tmp_path: Path, segments: tuple[Segment, ...], form: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        ReferenceSet(segments).export(tmp_path / "a", form)
    assert list(tmp_path.iterdir()) == []


#: Every form, with the segments that it needs.
FORMS = [form for form in WRITTEN if form != "mt-metrics-eval"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("refs", "message"),
    [
        ([["a\0b"], ["c"]], r"segment '1': refs\[0\] holds a NUL character, which is no text"),
        ([["a"], ["c", "\ud800"]], r"segment '2': refs\[1\] holds half of a surrogate pair, which is no text"),
        ([], "the set has no segments"),
    ],
    ids=["nul", "surrogate", "empty"],
)
def test_what_no_reader_takes_is_not_written(tmp_path: Path, form: str, refs: list[list[str]], message: str) -> None:
    segments = tuple(replace(one, source="s", doc="d") for one in ReferenceSet.from_texts(refs))
    with pytest.raises(DataError, match=f"x.out: {message}"):
        ReferenceSet(segments).export(tmp_path / "x.out", form)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((Segment("1", (human("a"),)), Segment("1", (human("b"),))), "two segments have the id '1' "),
        ((Segment("1", (human("a"),), source="\0"),), "segment '1': source holds a NUL character"),
        ((Segment("\0", (human("a"),)),), "id holds a NUL character"),
        ((Segment("1", (Reference("a", of=1),)),), r"""segment '1': refs\[0\]: "of" is 1, but the segment has 1 ref"""),
        ((Segment("1", (Reference("a", rank=-1),)),), r"""segment '1': refs\[0\]: "rank" is -1, expected"""),
        ((Segment("1", (human("a"),), extra={"x": float("nan")}),), "segment '1' cannot be written: Out of range"),
        ((Segment("1", (human("a"),), extra={"x": json.loads("[" * 101 + "]" * 101)}),), "nested more than 100 deep"),
    ],
    ids=["id-twice", "source", "id", "of", "rank", "nan", "deep"],
)
def test_a_set_that_could_not_be_loaded_is_not_saved(
    tmp_path: Path, segments: tuple[Segment, ...], message: str
) -> None:
    with pytest.raises(DataError, match=f"set.jsonl: .*{message}"):
        ReferenceSet(segments).save(tmp_path / "set.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", [form for form in FORMS if form not in {"general", "sacrebleu-tsv", "comet", "plain"}])
def test_returns_and_odd_characters_come_back(tmp_path: Path, form: str) -> None:
    """The same, or the loss is said."""
    texts = ["a\rb", "c\r", "\rd", "e\r\nf", "\r", "g\n\rh", "i\x85j", "k\u2028l", "m\x0bn", "\ufeffo"]
    for text in texts:
        name = f"{form}{texts.index(text)}{FILES[form]}"
        try:
            found, lost = again((Segment("1", (human(text),)), Segment("2", (human("x"),))), tmp_path / name, form)
        except DataError as error:
            assert "which XML has no way to write" in error.message
            continue
        assert (found.texts() == [[text], ["x"]]) is not any("line ends" in one for one in lost), repr(text)


@pytest.mark.parametrize("target", ["no/such/", "no/such.{}.txt", "no/such.tsv"])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, target: str) -> None:
    with pytest.raises(DataError, match=r"cannot be written: no directory .*no \(create it first\)"):
        ReferenceSet(RAGGED).export(f"{tmp_path}/{target}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["plain", "mt-metrics-eval"])
def test_the_folder_that_one_is_in(tmp_path: Path, polyref: Callable[..., Any], monkeypatch: Any, to: str) -> None:
    ReferenceSet(DOCUMENTS).save(tmp_path / "x.jsonl")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    there = Path.cwd().stat().st_ino
    how = ["--to", to, *([] if to == "plain" else ["-l", "zh-en"])]
    result = polyref("convert", "refs", "../x.jsonl", ".", *how)
    assert result.code == 0, result.err
    polyref("convert", "refs", "../x.jsonl", "../other/", *how)
    made, other = (sorted(path.relative_to(folder) for path in folder.rglob("*"))
                   for folder in (Path.cwd(), tmp_path / "other"))  # fmt: skip
    assert made == other and len(made) == (3 if to == "plain" else 8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "other", "x.jsonl"]
    assert (tmp_path / "here").stat().st_ino == there
    assert (
        "is there and not empty"
        in polyref("convert", "refs", "../x.jsonl", ".", "--to", to, *([] if to == "plain" else ["-l", "zh-en"])).err
    )


def test_forms_by_suffix() -> None:
    assert [form_of(name).name for name in ("-", "a.jsonl.gz", "a.tsv.xz", "a.sgm", "a.en", "a")] == [
        "normal", "normal", "tsv", "sgml", "plain", "plain"]  # fmt: skip
    with pytest.raises(UsageError, match="`to` is 'toml', expected one of normal, plain"):
        ReferenceSet(RAGGED).export("x", "toml")


@pytest.mark.parametrize("form", ["simple", "nbest", "json", "lists", "tsv", "csv", "xml"])
def test_odd_spaces_and_quotes(tmp_path: Path, form: str) -> None:
    odd = [" a ", "a  b", "\u2028a\u0085", "\u00a0", "&amp; &#38; <seg id='1'>", '"', "',\\", "None", "[1]", "{}"]
    segments = tuple(Segment(str(n), (human(text),)) for n, text in enumerate(odd, 1))
    found, lost = again(segments, tmp_path / f"a{FILES[form]}", form)
    assert found.segments == segments
    assert lost == []


def test_no_cell_of_csv_is_a_formula(tmp_path: Path) -> None:
    formulas = ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\tx", "'=1", "''@a", "- Yes.", '=HYPERLINK("a")']
    plain = ["'", "'a'", "a=1", "'' -", "1-1"]
    segments = tuple(
        Segment(text, (human(text), made(text, 0)), text, doc=text) for text in (*formulas, *plain) if text != "\tx"
    )
    found, lost = again(segments, tmp_path / "a.csv", "csv")
    assert (found.segments, lost) == (segments, [])
    with (tmp_path / "a.csv").open(newline="") as file:
        cells = {cell for row in csv.reader(file) for cell in row}
    assert {f"'{text}" for text in formulas if text != "\tx"} < cells and set(plain) < cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    (tmp_path / "out.csv").write_text("id,output\n1,'=A1\n2,'quoted'\n")
    assert read_outputs(tmp_path / "out.csv").systems == {"": ["=A1", "'quoted'"]}


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2J", "\u202egnp", "a\0b"])
@pytest.mark.parametrize("form", ["xml", "sgml"])
def test_a_name_that_is_no_line_is_said_to_be_lost(tmp_path: Path, form: str, name: str) -> None:
    segments = (Segment("1", (human("One.", name=name), human("Uno.", name="refB"))),)
    found, lost = again(segments, tmp_path / f"a{FILES[form]}", form)
    assert [ref.extra for ref in found.segments[0].refs] == [{}, {"name": "refB"}]
    assert lost == ["name (1 reference)"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("a\nb", "cannot be part"), ("\u202egnp", "cannot be part"), ("a\0b", "cannot be part"), ("a/b", "cannot be part"),
     ("x" * 300, "cannot be part"), ("é" * 101, "cannot be part")],
)  # fmt: skip
@pytest.mark.parametrize("target", ["a.{}.txt", "folder/"])
def test_names_that_files_cannot_have(tmp_path: Path, target: str, name: str, message: str) -> None:
    segments = (Segment("1", (human("One.", name=name), human("Uno.", name="refB"))),)
    with pytest.raises(DataError, match=message):
        ReferenceSet(segments).export(f"{tmp_path}/{target}")
    if "/" in name or len(name) > 99:
        with pytest.raises(DataError, match=r"not allowed|cannot be part"):
            ReferenceSet(segments).export(tmp_path / "set", "mt-metrics-eval", pair="de-en")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.tsv", "a.xml", "a.csv", "a.jsonl"])
def test_the_command(tmp_path: Path, polyref: Callable[..., Any], name: str) -> None:
    first = tmp_path / "refs.jsonl"
    ReferenceSet(RAGGED, {"k": 2}).save(first)
    there = polyref("convert", "refs", first, tmp_path / f"to-{name}")
    assert there.code == 0
    if name == "a.jsonl":
        assert there.err == ""
    else:
        assert there.err == f"polyref: note: {tmp_path}/to-{name} cannot hold what the header says (1 key)\n"
        assert "note: <stdout> cannot hold" in polyref("convert", "refs", first, "-", "--to", "tsv").err
    back = polyref("convert", "refs", tmp_path / f"to-{name}", "-")
    assert back.out.splitlines()[1:] == first.read_text().splitlines()[1:]
    refused = polyref("convert", "refs", first, first)
    assert refused.code == 2 and "is also an input" in refused.err
    if name == "a.csv":
        with (tmp_path / "to-a.csv").open() as stream:
            assert next(csv.reader(stream)) == ["id", "reference", "paraphrase1", "paraphrase2"]


def test_the_command_says_what_it_writes(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    (tmp_path / "a").write_text("x\n")
    refused = polyref("convert", "refs", tmp_path / "a", tmp_path / "b", "--to", "toml")
    assert refused.code == 2
    assert refused.err == f"polyref: error: --to is 'toml', expected one of {', '.join(WRITTEN)}\n"

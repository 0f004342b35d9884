"""References and outputs as others write them: what each form gives, how it is told, and what is refused."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.formats import Reading, read_outputs
from polyref.references import Reference, ReferenceSet, Segment

XML = """<?xml version="1.0" encoding="UTF-8"?>
<dataset id="news">
 <collection id="general">
  <doc origlang="zh" id="d1" domain="news">
   <src lang="zh"><p><seg id="1">一</seg><seg id="2">二</seg></p></src>
   <ref lang="en" translator="A"><p><seg id="1">One &amp; only.</seg><seg id="2">Two.</seg></p></ref>
   <ref lang="en" translator="B"><p><seg id="1">The one.</seg></p></ref>
   <hyp lang="en" system="s1"><p><seg id="1">1</seg><seg id="2">2</seg></p></hyp>
   <hyp lang="en" system="s2"><p><seg id="1">I</seg><seg id="2">II</seg></p></hyp>
  </doc>
  <doc origlang="zh" id="d2" testsuite="t"><src lang="zh"><p><seg id="1">x</seg></p></src></doc>
 </collection>
</dataset>
"""
SGML = """<refset setid="t" srclang="any" trglang="en">
<doc sysid="ref" docid="d1" genre="news" origlang="zh">
<p>
<seg id="1">One & only, AT&amp;T.</seg>
<seg id="2"> Two. </seg>
</p>
</doc>
</refset>
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def texts(path: Path | str, **more: Any) -> list[list[str]]:
    return ReferenceSet.load(path, **more).texts()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "reference\nOne.\nTwo.\n"),
        ("a.tsv", "id\treference\tnote\r\n1\tOne.\tx\r\n2\tTwo.\ty\r\n\r\n"),
        ("a", "ref\tmt\nOne.\tI.\nTwo.\tII.\n"),
        ("a.csv", 'src,mt,ref\nx,y,One.\nx,"y, z",Two.\n'),
        ("a.json", '[{"src": "x", "mt": "y", "ref": "One."},\n {"src": "x", "mt": "y", "ref": "Two."}]\n'),
        ("a.json", '[\n  {\n    "src": "[",\n    "ref": "One."\n  },\n  {\n    "ref": "Two."\n  }\n]\n'),
        ("a.txt", '[{"src": "x", "ref": "One."}, {"src": "x", "ref": "Two."}]'),
        ("a.jsonl", '{"text": "One."}\n{"text": "Two."}\n\n'),
        ("a", '{"src": "x", "target": "One."}\n{"src": "x", "target": "Two."}\n'),
        ("a.jsonl", '{"cand": "x", "refs": ["One."]}\n{"cand": "x", "refs": ["Two."]}\n'),
        ("a.txt", '["One."]\n["Two."]\n'),
        ("a.txt", "['One.']\n['Two.']\n"),
        ("a.json", '[["One."], ["Two."]]'),
        ("a.json", '["One.", "Two."]'),
        ("a.jsonl", '{"id": 1, "text": "One.", "paraphrases": []}\n{"id": 2, "text": "Two.", "paraphrases": []}\n'),
        ("a.json", '{"signature": "x", "rows": [{"id": 1, "text": "One.", "paraphrases": []}, {"text": "Two."}]}'),
        ("a.jsonl", '{"doc_id": "d", "src_text": "x\\n\\ny", "refs": {"A": {"ref": "One.\\n\\nTwo."}}}\n'),
        ("a.xml", XML.replace("One &amp; only.", "One.").replace('translator="B"', 'translator="A"').replace(
            '<ref lang="en" translator="A"><p><seg id="1">The one.</seg></p></ref>', "")),
        ("a.sgm", SGML.replace("One & only, AT&amp;T.", "One.")),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*blank line:polyref.errors.PolyrefWarning")
def test_every_form_gives_the_references_of_plain_text(tmp_path: Path, name: str, text: str) -> None:
    """Without what is no reference, the set is the same, ids too."""
    from contextlib import ExitStack

    from polyref.formats import open_references

    plain = ReferenceSet.load(write(tmp_path / "plain", "One.\nTwo.\n"))
    for packing in ("", ".gz", ".xz"):
        path = tmp_path / f"{name}{packing}"
        path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packing](text.encode()))
        with ExitStack() as stack:
            assert tuple(open_references([path], stack, Reading(whole=False)).segments) == plain.segments


def test_columns_named_and_numbered(tmp_path: Path) -> None:
    named = write(tmp_path / "a.tsv", "seg_id\tsrc\trefA\trefB\tparaphrase1\tparaphrase2\tnote\n"
                                      "x\ts\tone\tuno\tein\teins\tn\ny\ts\t\t\tzwei\t\tm\n")  # fmt: skip
    one, two = ReferenceSet.load(named)
    assert one == Segment("x", (
        Reference("one", extra={"name": "refA"}),
        Reference("uno", extra={"name": "refB"}),
        Reference("ein", "paraphrase", rank=0),
        Reference("eins", "paraphrase", rank=1),
    ), source="s", extra={"note": "n"})  # fmt: skip
    # Where there is a text, an empty cell is an absent reference.
    assert [(ref.text, ref.kind, ref.of) for ref in two.refs] == [("zwei", "paraphrase", None)]
    bare = write(tmp_path / "b.tsv", "x\tone\tuno\ny\ttwo\tdue\n")
    with pytest.raises(
        DataError, match=r"b\.tsv:1: a table of 3 columns that are not named .*`fields` 3=reference; `form`"
    ):
        ReferenceSet.load(bare)
    assert texts(bare, fields={"2": "reference"}) == [["one"], ["two"]]
    both = ReferenceSet.load(bare, fields={"2": "reference", "3": "reference", "1": "id"})
    assert both.texts() == [["one", "uno"], ["two", "due"]]
    assert [segment.id for segment in both] == ["x", "y"]
    with pytest.raises(DataError, match=r"b\.tsv:1: no 'won' as `fields` says, there are: x, one, uno"):
        ReferenceSet.load(bare, fields={"won": "reference"})
    assert texts(bare, form="sacrebleu-tsv") == [["x", "one", "uno"], ["y", "two", "due"]]
    assert texts(bare, form="plain") == [["x\tone\tuno"], ["y\ttwo\tdue"]]
    assert texts(named, fields={"4": "reference"}) == [["uno"], [""]]
    assert texts(named, fields={"refB": "reference"}) == [["uno"], [""]]


def test_keys_that_the_user_says(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", '{"key": 7, "zh": "s", "en": "one", "more": ["uno", "ein"]}\n{"key": "b", "en": "two"}\n'
    )
    with pytest.raises(
        DataError, match=r"a\.jsonl:1: none of key, zh, en, more is known to be a reference .*more=reference"
    ):
        ReferenceSet.load(path)
    found = ReferenceSet.load(path, fields={"en": "reference", "key": "id", "zh": "source", "more": "paraphrase"})
    assert found[0] == Segment("7", (
        Reference("one", extra={"name": "en"}),
        Reference("uno", "paraphrase", of=0, rank=0),
        Reference("ein", "paraphrase", of=0, rank=1),
    ), source="s")  # fmt: skip
    assert found[1].id == "b"
    with pytest.raises(DataError, match=r"a\.jsonl:2: no object has 'notes', as `fields` says"):
        ReferenceSet.load(path, fields={"en": "reference", "notes": "doc"})
    with pytest.raises(UsageError, match=r"`fields` reference=en: 'en' is no role, .* \(is it en=reference\?\)"):
        ReferenceSet.load(path, fields={"reference": "en"})
    with pytest.raises(DataError, match="no 'fr' as `fields` says, there are: key, zh, en, more"):
        ReferenceSet.load(path, fields={"fr": "reference"})
    with pytest.raises(UsageError, match=r"a\.txt: is plain text, but `fields` is given"):
        ReferenceSet.load(write(tmp_path / "a.txt", "x\n"), fields={"fr": "reference"})
    with pytest.raises(UsageError, match="`form` is 'toml', expected one of plain, normal, simple, nbest, json"):
        ReferenceSet.load(path, form="toml")


def test_nbest_lists_are_references_with_paraphrases(tmp_path: Path) -> None:
    line = '{"id": 1, "text": "It is late.", "paraphrases": [{"text": "It\'s late.", "score": -0.5, "tokens": [1]}]}\n'
    (found,) = ReferenceSet.load(write(tmp_path / "n.jsonl", line))
    assert found.refs == (Reference("It is late."), Reference("It's late.", "paraphrase", of=0, rank=0, logprob=-0.5))
    assert texts(write(tmp_path / "n", line)) == [["It is late.", "It's late."]]


def test_xml_with_several_references_and_systems(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", XML)
    one, two = ReferenceSet.load(path)
    assert one == Segment(
        "1",
        (Reference("One & only.", extra={"name": "A"}), Reference("The one.", extra={"name": "B"})),
        source="一",
        doc="d1",
        lang="en",
        extra={"domain": "news", "origlang": "zh", "collection": "general", "src_lang": "zh"},
    )
    assert [ref.text for ref in two.refs] == ["Two."]
    assert texts(path, fields={"B": "reference"}) == [["The one."], []]
    assert read_outputs(path).systems == {"s1": ["1", "2"], "s2": ["I", "II"]}
    with pytest.raises(DataError, match="no reference 'C' as `fields` says, there are: A, B"):
        ReferenceSet.load(path, fields={"C": "reference"})
    bomb = XML.replace("<dataset", '<!DOCTYPE x [<!ENTITY a "aaaa">]>\n<dataset')
    with pytest.raises(DataError, match=r"a\.xml:2: a document type declaration"):
        ReferenceSet.load(write(path, bomb))


def test_sgml(tmp_path: Path) -> None:
    path = write(tmp_path / "ref.sgm", SGML)
    (one, two), second = ReferenceSet.load(path), write(tmp_path / "ref2.sgm", SGML.replace("Two.", "Pair."))
    assert (one.refs[0].text, two.refs[0].text, one.doc, one.lang) == ("One & only, AT&T.", "Two.", "d1", "en")
    source = write(tmp_path / "src.sgm", SGML.replace("refset", "srcset").replace("Two.", "二"))
    assert [segment.source for segment in ReferenceSet.load(source, path)] == ["One & only, AT&T.", "二"]
    assert ReferenceSet.load(path, second).texts()[1] == ["Two.", "Pair."]
    outputs = write(tmp_path / "out.sgm", SGML.replace("refset", "tstset").replace('"ref"', '"sysA"'))
    assert read_outputs(outputs).systems == {"sysA": ["One & only, AT&T.", "Two."]}
    with pytest.raises(DataError, match=r"out\.sgm: holds no reference"):
        ReferenceSet.load(outputs)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</seg>\n</p>", "\n</p>", r"a\.sgm:7: </doc> within a segment"),
        ("</doc>\n", "", r"a document that does not end"),
        ('id="2"', 'id="1"', r"a\.sgm:5: segment 1 occurs twice"),
        ('id="2"', 'id="x"', r"a\.sgm:5: the segment id is 'x', expected a number from 1"),
        (' docid="d1"', "", r"a\.sgm:2: a document without docid"),
    ],
)
def test_broken_sgml(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ReferenceSet.load(write(tmp_path / "a.sgm", SGML.replace(old, new)))


def test_general_task_documents_are_cut_into_paragraphs(tmp_path: Path) -> None:
    line = '{"doc_id": "d", "src_lang": "en", "tgt_lang": "%s", "domain": "news", "src_text": "a\\n\\nb", "refs": %s}\n'
    path = write(tmp_path / "a.jsonl", line % ("cs", '{"refA": {"ref": "A\\n\\nB"}, "refB": {"ref": "C\\n\\nD"}}'))
    one, two = ReferenceSet.load(path)
    assert (one.source, one.doc, one.lang, one.extra) == ("a", "d", "cs", {"src_lang": "en", "domain": "news"})
    assert [ref.text for ref in two.refs] == ["B", "D"]
    both = write(tmp_path / "b.jsonl", line % ("cs", "{}") + line % ("uk", '{"refA": {"ref": "A\\n\\nB"}}'))
    with pytest.raises(UsageError, match="several language pairs: en-cs, en-uk"):
        ReferenceSet.load(both)
    assert texts(both, pair="en-uk") == [["A"], ["B"]]
    assert texts(both, pair="en-cs") == [[], []]
    with pytest.raises(DataError, match="no document of en-de, there are: en-cs, en-uk"):
        ReferenceSet.load(both, pair="en-de")
    odd = write(tmp_path / "c.jsonl", line % ("cs", '{"refA": {"ref": "A"}}'))
    with pytest.raises(DataError, match=r"c\.jsonl:1: reference 'refA' has 1 paragraphs, the source 2"):
        ReferenceSet.load(odd)
    lines = (f'{{"doc_id": "en-{lang}_#_news_#_x", "hypothesis": "{lang}"}}\n' for lang in ("cs", "uk_UA"))
    several = write(tmp_path / "several.jsonl", "".join(lines))
    assert read_outputs(several, Reading(pair="en-uk_UA")).systems == {"": ["uk_UA"]}
    with pytest.raises(UsageError, match="several language pairs: en-cs, en-uk_UA"):
        read_outputs(several)
    output = write(tmp_path / "o.jsonl", '{"doc_id": "d", "hypothesis": "x\\n\\ny", "paragraphs_match": true}\n')
    assert read_outputs(output).systems == {"": ["x", "y"]}


def test_folders(tmp_path: Path) -> None:
    for name, text in {
        "references/zh-en.paraphrase10.txt": "tenth\nNO TRANSLATION AVAILABLE\n",
        "references/zh-en.paraphrase2.txt": "second\nalso\n",
        "references/zh-en.refA.txt": "one\ntwo\n",
        "references/zh-en.refB.jsonl": '{"target": "uno"}\n{"target": "[No translation supplied]"}\n',
        "sources/zh-en.txt": "一\n二\n",
        "documents/zh-en.docs": "news d1\nall d2\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, text)
    one, two = ReferenceSet.load(tmp_path)
    assert [ref.text for ref in one.refs] == ["one", "uno", "second", "tenth"]
    assert [(ref.text, ref.kind) for ref in two.refs] == [("two", "human"), ("also", "paraphrase")]
    assert (one.source, one.doc, two.doc, one.extra) == ("一", "d1", "d2", {"domain": "news"})
    assert texts(tmp_path, fields={"refB": "reference"}) == [["uno"], []]
    write(tmp_path / "references/de-en.refA.txt", "x\n")
    with pytest.raises(UsageError, match="several language pairs: de-en, zh-en"):
        ReferenceSet.load(tmp_path)
    assert texts(tmp_path, pair="de-en") == [["x"]]
    with pytest.raises(DataError, match="no references for en-fr, there are: de-en, zh-en"):
        ReferenceSet.load(tmp_path, pair="en-fr")
    with pytest.raises(DataError, match="is a directory without references/"):
        ReferenceSet.load(tmp_path / "sources")


def test_text_releases(tmp_path: Path) -> None:
    for name, text in {
        "references/newstest2021.zh-en.ref.A.en": "one\ntwo\n\n",
        "references/newstest2021.zh-en.ref.B.en": "uno\ndue\n",
        "sources/newstest2021.zh-en.src.zh": "一\n二\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, text)
    found = ReferenceSet.load(tmp_path)
    assert found.texts() == [["one", "uno"], ["two", "due"]]
    assert found[1].source == "二"
    assert found[0].refs[1].extra == {"name": "B"}


def test_sets_of_sacrebleu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.dataset import DATASETS

    for name in ("wmt20", "wmt22"):
        monkeypatch.setattr(DATASETS[name], "_outdir", str(tmp_path / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(tmp_path / name / "raw"))
    monkeypatch.delenv("POLYREF_DOWNLOAD", raising=False)
    with pytest.raises(DataError, match=r"wmt20 zh-en is not on this machine, .*POLYREF_DOWNLOAD=1"):
        ReferenceSet.load("sacrebleu:wmt20", pair="zh-en")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "wmt20").mkdir()
    write(tmp_path / "wmt20" / "wmt20.zh-en.ref", "one\ntwo\n")
    assert texts("sacrebleu:wmt20", pair="zh-en") == [["one"], ["two"]]
    # sacreBLEU's references of a pair are not all that the set has.
    (tmp_path / "wmt22").mkdir()
    for name in ("A", "B"):
        write(tmp_path / "wmt22" / f"wmt22.cs-en.ref-{name}", f"{name}\n")
    assert texts("sacrebleu:wmt22", pair="cs-en") == [["B"]]
    # What sacreBLEU has downloaded, but not yet made into texts, it unpacks without the network.
    raw = tmp_path / "wmt22" / "raw"
    (raw / "wmt22-news-systems-1.1" / "xml").mkdir(parents=True)
    write(raw / "wmt22-news-systems-1.1" / "xml" / "wmttest2022.de-en.all.xml", XML)
    known: Any = DATASETS["wmt22"]
    for url in known.data:
        write(raw / known._get_tarball_filename(url), "x")
    assert texts("sacrebleu:wmt22", pair="de-en") == [["One & only."], ["Two."]]
    with pytest.raises(UsageError, match=r"sacreBLEU has no test set 'wmt99', it has: .*wmt22"):
        ReferenceSet.load("sacrebleu:wmt99", pair="zh-en")
    with pytest.raises(UsageError, match="wmt20 has no pair 'de-xx', it has: cs-en"):
        ReferenceSet.load("sacrebleu:wmt20", pair="de-xx")
    with pytest.raises(UsageError, match="needs a language pair"):
        ReferenceSet.load("sacrebleu:wmt20")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "<html>\n<p>x</p>\n", r"a\.txt:1: is markup \(<html>\), and neither WMT's .*`form` plain"),
        ("a.txt", '<?xml version="1.0"?>\n<tei>\n', r"is markup \(<tei>\)"),
        ("a.txt", "x\ty\nz\tw\n", "a table of 2 columns that are not named"),
        ("a.txt", '{"x": 1}\n{"x": 2}\n', "none of x is known to be a reference"),
        ("a.tsv", "id\treference\n1\n", r"a\.tsv:2: 1 columns, expected 2"),
        ("a.tsv", "id\treference\n1\tx\n1\ty\n", r"a\.tsv:3: the id '1' was already used on line 2"),
        ("a.csv", 'id,reference\n1,"x\n', "broken CSV"),
        ("a.json", '[{"ref": "x"}', "the list does not end"),
        ("a.json", '[{"ref": "x"}] y', "text after the end of the list"),
        ("a.json", '[{"ref": "x"},\n{"ref": 3}]', r"a\.json:2: 'ref' holds int, expected a text or a list of texts"),
        ("a.json", '[{"ref": "x"},\n\n{"ref" "y"}]', r"a\.json:3: not valid JSON"),
        ("a.json", '[{"ref": "x"},]', "the line is empty"),
        ("a.txt", '["x"]\n["y", 3]\n', None),
        ("a.jsonl", '["x"]\n["y", 3]\n', r"a\.jsonl:2: expected a list with the references"),
        ("a.jsonl", '{"refs": ["x"], "id": 1}\n' + '{"refs": ' + "[" * 200 + "]" * 200 + "}", "more than 100 deep"),
    ],
)  # fmt: skip
def test_no_silent_nonsense(tmp_path: Path, name: str, text: str, message: str | None) -> None:
    path = write(tmp_path / name, text)
    if message is None:
        assert len(ReferenceSet.load(path)) == 2
    else:
        with pytest.raises(DataError, match=message):
            ReferenceSet.load(path)
    assert ReferenceSet.load(path, form="plain").texts() == [[line] for line in text.removesuffix("\n").split("\n")]


@pytest.mark.parametrize("line", ["<b>Bold</b> words", "[laughs] Yes.", "a\tb", '"x"', "{curly}", "[1]"])
def test_text_that_looks_a_little_like_something_else_is_text(tmp_path: Path, line: str) -> None:
    assert texts(write(tmp_path / "a.txt", f"{line}\nplain words\n")) == [[line], ["plain words"]]


def test_blank_last_lines_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "reference\nx\n\n \n")
    with pytest.warns(PolyrefWarning, match=r"a\.tsv: 2 blank lines at the end of the file, left out"):
        assert texts(path) == [["x"]]


def test_outputs(tmp_path: Path) -> None:
    comet = write(
        tmp_path / "a.json", '[{"src": "x", "mt": "I.", "ref": "One."}, {"src": "x", "mt": "II.", "ref": "Two."}]'
    )
    assert read_outputs(comet).systems == {"": ["I.", "II."]}
    table = write(tmp_path / "a.tsv", "src\toutput\nx\tI.\ny\t\n")
    assert read_outputs(table).systems == {"": ["I.", ""]}
    two = write(tmp_path / "b.tsv", "sysA\tsysB\nI.\tone\n")
    both = Reading(fields={"sysA": "output", "sysB": "output"})
    assert read_outputs(two, both).systems == {"sysA": ["I."], "sysB": ["one"]}
    assert read_outputs(write(tmp_path / "a.txt", "I.\nII.\n")).systems == {"": ["I.", "II."]}
    with pytest.raises(UsageError, match=r"s\.jsonl: is in the normal form, which holds references, not the outputs"):
        read_outputs(write(tmp_path / "s.jsonl", '{"polyref": 1}\n{"refs": []}\n'))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '{"scores": {}, "doc_id": "x"}',
            "is no XML: the first line is a JSON object with the keys 'scores', 'doc_id'",
        ),
        ("A sentence.", "is no XML: the first line is 'A sentence.'"),
        ("<html><body>x<br></body></html>", "is markup (<html>)"),
    ],
)
def test_what_is_not_wmts_xml_is_said_to_be_something_else(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "x").write_text(f"{text}\n", "utf-8")
    with pytest.raises(DataError) as error:
        ReferenceSet.load(tmp_path / "x", form="xml")
    assert str(error.value) == f"{tmp_path / 'x'}:1: {fault} (expected WMT's XML, which begins with <dataset>)"


def test_a_header_that_is_not_known_names_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "german\tenglish\nEins.\tOne.\n")
    with pytest.raises(DataError, match=r"not named as known: 'german', 'english' .*`fields` english=reference, or"):
        ReferenceSet.load(path)
    assert texts(path, fields={"english": "reference"}) == [["One."]]
    write(path, "german\tenglish\nEins und zwei.\tOne and two.\n")
    with pytest.warns(PolyrefWarning, match=r"a\.tsv:1: the first row is taken as text: .*`fields` english=\.\.\."):
        assert texts(path, fields={"2": "reference"}) == [["english"], ["One and two."]]


def test_a_table_that_begins_with_an_empty_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("\nid,reference\n1,A cat.\n")
    with pytest.raises(DataError, match=r"table\.csv:1: the row is empty, expected names of columns \(take it out\)"):
        ReferenceSet.load(tmp_path / "table.csv")


def test_references_given_as_outputs_are_told_where_they_go(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"id": 1, "refs": [{"text": "One."}]}\n')
    with pytest.raises(UsageError, match=r"\(name a file of outputs; references come first: polyref score .* -i SYS"):
        read_outputs(path)

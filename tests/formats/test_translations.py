"""XLIFF and TMX: the texts of one language, whatever lies around and within them, and faults that name their line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyref.errors import DataError, PolyrefError, PolyrefWarning, UsageError
from polyref.formats import Reading, read_outputs
from polyref.references import Reference, ReferenceSet, Segment

V1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:x">
<file original="shop.html" source-language="de" target-language="en-US" datatype="html">
<header><note>no <g>text</g></note></header>
<body><group id="g">
{units}
</group></body></file></xliff>
"""
V2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="de" trgLang="en-US"
 xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">
<file id="shop.html"><notes><note>none</note></notes><skeleton>x</skeleton>
{units}
</file></xliff>
"""
TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de" segtype="sentence"><note>none</note></header><body>
{units}
</body></tmx>
"""


def unit(kind: str, key: str, source: str | None, target: str | None) -> str:
    """A unit of one of the three, its texts as they stand in the file."""
    name = quoteattr(key)
    own, theirs = ("" if text is None else text for text in (source, target))
    if kind == "tmx":
        first = f'<tuv xml:lang="de"><seg>{own}</seg></tuv>' if source is not None else ""
        return f'<tu tuid={name}>{first}<tuv xml:lang="en-US"><seg>{theirs}</seg></tuv></tu>'
    texts = f"<source>{own}</source>" + (f"<target>{theirs}</target>" if target is not None else "")
    return (
        f"<trans-unit id={name}>{texts}</trans-unit>"
        if kind == "v1"
        else f"<unit id={name}><segment>{texts}</segment></unit>"
    )


def write(path: Path, kind: str, units: str) -> Path:
    path.write_text({"v1": V1, "v2": V2, "tmx": TMX}[kind].replace("{units}", units), "utf-8")
    return path


def load(path: Path, **more: Any) -> list[tuple[str, list[str]]]:
    return [(segment.id, [ref.text for ref in segment.refs]) for segment in ReferenceSet.load(path, **more)]


IDS = ["7", "b", "c d"]
TEXTS = ["One & only <tag>.", "Two “words”.", "3 > 2"]


def everywhere(folder: Path) -> dict[str, Path]:
    """The same references in a table, JSON, XML, XLIFF and TMX."""
    rows = list(zip(IDS, TEXTS, strict=True))
    found = {}
    for kind in ("v1", "v2", "tmx"):
        lines = "\n".join(unit(kind, key, "Ja.", escape(text)) for key, text in rows)
        found[kind] = write(folder / f"refs.{kind}", kind, lines)
    found["table"] = folder / "refs.tsv"
    found["table"].write_text("id\tref\n" + "".join(f"{key}\t{text}\n" for key, text in rows), "utf-8")
    found["json"] = folder / "refs.jsonl"
    found["json"].write_text("".join(json.dumps({"id": key, "ref": text}) + "\n" for key, text in rows), "utf-8")
    return found


def test_every_form_gives_the_same_ids_texts_and_bytes(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    files = everywhere(tmp_path)
    for path in files.values():
        assert load(path) == [(key, [text]) for key, text in zip(IDS, TEXTS, strict=True)]
    # WMT's XML has no ids but places.
    files["xml"] = tmp_path / "refs.xml"
    ReferenceSet.load(files["table"]).export(files["xml"])
    assert [texts for _, texts in load(files["xml"])] == [[text] for text in TEXTS]
    for path in files.values():
        out = path.with_suffix(".txt")
        assert polyref("convert", "refs", path, out).code == 0
        assert out.read_text("utf-8") == "".join(f"{text}\n" for text in TEXTS)
        out.unlink()


def test_commands_read_them_wherever_they_read_texts(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    files = everywhere(tmp_path)
    outputs = write(tmp_path / "sys.xlf", "v1", "\n".join(unit("v1", key, "Ja.", "One word.") for key in IDS))
    scores = [polyref("score", files[kind], "-i", outputs, "-m", "chrf", "-b") for kind in ("table", "v1", "v2", "tmx")]
    assert {run.code for run in scores} == {0} and len({run.out for run in scores}) == 1, scores[1].err
    run = polyref("score", files["tmx"], "-i", outputs, "-m", "chrf", "--lang", "de")
    assert run.code == 0, run.err  # both in German
    run = polyref("inspect", files["tmx"], "--lang", "de", "--json")
    assert run.code == 0 and "Ja." in run.out
    run = polyref("score", files["table"], "-i", files["table"], "--lang", "de")
    assert run.code == 2 and "--lang has no use without --model or --candidates, but with XLIFF and TMX" in run.err
    run = polyref("convert", "refs", files["json"], tmp_path / "o", "--lang", "de")
    assert run.code == 2 and f"--lang has no use with {files['json']}, but with XLIFF and TMX" in run.err
    assert not (tmp_path / "o").exists()
    run = polyref("convert", "refs", files["v2"], tmp_path / "o.jsonl", "-l", "en-de")
    assert run.code == 0, run.err
    assert ReferenceSet.load(tmp_path / "o.jsonl")[0] == Segment(
        "7", (Reference("Ja."),), TEXTS[0], "shop.html", "de", {"src_lang": "en-US"}
    )
    run = polyref("score", files["tmx"], "-i", files["tmx"], "--lang", "fr")
    assert run.code == 1
    assert "refs.tmx: no text in fr, there are: de, en-US (name one: --lang de)" in run.err


@pytest.mark.parametrize(
    ("kind", "written", "text"),
    [
        ("v1", 'One <g id="1">two</g> <mrk mtype="x-term">three</mrk>.', "One two three."),
        ("v1", 'On<x id="1"/>e <bx id="2"/>two<ex id="2"/>.', "One two."),
        ("v1", '<bpt id="1">&lt;b></bpt>One<ept id="1">&lt;/b></ept> <ph id="2">%s<sub>alt</sub></ph>two.', "One two."),
        ("v1", '<it id="1" pos="open">&lt;i></it>One<x id="2" ctype="lb"/>two.', "One two."),
        ("v1", "One<x:own>no <g>text</g></x:own> two.", "One two."),
        ("v1", "\n   One\n   two.\n  ", "One two."),
        ("v1", " One \ttwo. ", " One \ttwo. "),
        ("v1", "One <!-- no text --><![CDATA[<two> & ]]>&#x33;.", "One <two> & 3."),
        ("v2", 'One <pc id="1">two</pc> <mrk id="m" type="term">three</mrk><ph id="2"/>.', "One two three."),
        ("v2", 'One<sc id="1"/> two<ec startRef="1"/><sm id="2"/><em startRef="2"/><cp hex="0001"/>.', "One two."),
        ("v2", 'One<ph id="1" type="fmt" subType="xlf:lb"/>two.', "One two."),
        ("tmx", 'One <hi>two</hi><bpt i="1">{\\b </bpt> three<ept i="1">}</ept><ut>x</ut>.', "One two three."),
        ("tmx", '<ph>&lt;img alt="<sub>no</sub>"></ph>One<ph type="lb"/>two.', "One two."),
    ],
)
def test_inline_markup(tmp_path: Path, kind: str, written: str, text: str) -> None:
    path = write(tmp_path / "a", kind, unit(kind, "1", written, written))
    assert load(path) == [("1", [text])]
    assert ReferenceSet.load(path)[0].source == text


def test_segments_of_units(tmp_path: Path) -> None:
    marked = """<trans-unit id="u"><source>Eins. Zwei.</source>
    <seg-source><mrk mtype="seg" mid="0">Eins.</mrk> <g id="1"><mrk mtype="seg" mid="1">Zwei.</mrk></g></seg-source>
    <target><mrk mtype="seg" mid="0">One.</mrk> <g id="1"><mrk mtype="seg" mid="1">T<g id="2">w</g>o.</mrk></g></target>
    </trans-unit><trans-unit id="v"><source>Drei.</source>
    <seg-source><mrk mtype="seg" mid="0">Drei.</mrk></seg-source><target><mrk mtype="seg" mid="0">Three.</mrk></target>
    </trans-unit>"""
    path = write(tmp_path / "a.sdlxliff", "v1", marked)
    assert load(path) == [("u/0", ["One."]), ("u/1", ["Two."]), ("v", ["Three."])]
    assert [one.source for one in ReferenceSet.load(path)] == ["Eins.", "Zwei.", "Drei."]
    several = """<unit id="u"><segment id="s1"><source>Eins.</source><target>One.</target></segment>
    <ignorable><source> </source></ignorable><segment><source>Zwei.</source><target>Two.</target></segment></unit>"""
    assert load(write(tmp_path / "b.xlf", "v2", several)) == [("u/s1", ["One."]), ("u/2", ["Two."])]


def test_what_is_not_translated_keeps_its_place_in_xliff(tmp_path: Path) -> None:
    for kind in ("v1", "v2"):
        units = unit(kind, "1", "Eins.", None) + unit(kind, "2", "Zwei.", "") + unit(kind, "3", "Drei.", "Three.")
        path = write(tmp_path / "a", kind, units + unit(kind, "4", "", ""))
        assert load(path) == [("1", []), ("2", []), ("3", ["Three."]), ("4", [""])]
        with pytest.raises(DataError, match="unit '1' has no translation, expected the output of the system"):
            read_outputs(path)
        with pytest.raises(DataError, match=r"a: no text beside the sources, there are: de, en-US \(name one:"):
            load(write(tmp_path / "a", kind, unit(kind, "1", "Eins.", None)))
        assert load(tmp_path / "a", lang="de") == [("1", ["Eins."])]


def test_proposals_are_no_references_unless_the_user_says_so(tmp_path: Path) -> None:
    v1 = unit("v1", "1", "Eins.", "One.").replace("</trans", "<alt-trans><target>An one.</target></alt-trans></trans")
    match = '<mtc:matches><mtc:match ref="#1"><source>E</source><target>An one.</target></mtc:match></mtc:matches>'
    v2 = unit("v2", "1", "Eins.", "One.").replace("<segment>", f"{match}<segment>")
    for kind, units in (("v1", v1), ("v2", v2)):
        path = write(tmp_path / "a", kind, units)
        with pytest.warns(PolyrefWarning, match=r"1 proposed translation is left out: `fields` alt-trans=reference"):
            assert load(path) == [("1", ["One."])]
        assert load(path, fields={"alt-trans": "reference"}) == [("1", ["One.", "An one."])]
        (segment,) = ReferenceSet.load(path, fields={"alt-trans": "paraphrase"})
        assert segment.refs[1] == Reference("An one.", "paraphrase", of=0, rank=0)
        with pytest.raises(UsageError, match=r"no target=reference in translators' files .*`lang` says which"):
            load(path, fields={"target": "reference"})


def test_languages_of_a_memory(tmp_path: Path) -> None:
    def tu(**texts: str) -> str:
        rows = (f'<tuv xml:lang="{lang.replace("_", "-")}"><seg>{text}</seg></tuv>' for lang, text in texts.items())
        return f"<tu>{''.join(rows)}</tu>"

    three = write(tmp_path / "three", "tmx", tu(de="Eins.", en="One.", fr="Un.") + tu(de="Zwei.", fr="Deux."))
    with pytest.raises(UsageError, match=r"which language are the references\? There are de, en, fr \(name one"):
        load(three)
    assert load(three, lang="fr") == [("1", ["Un."]), ("2", ["Deux."])]
    with pytest.warns(PolyrefWarning, match="1 unit without a text in en, left out"):
        assert load(three, lang="en") == [("1", ["One."])]
    assert [one.source for one in ReferenceSet.load(three, pair="fr-de")] == ["Un.", "Deux."]
    with pytest.raises(DataError, match="no text in es, there are: de, en, fr"):
        load(three, lang="es")
    # A language without its country is any of them, if the file has but one.
    both = write(tmp_path / "both", "tmx", tu(de="Eins.", pt_BR="Um.") + tu(de="Zwei.", pt_PT="Dois."))
    with pytest.raises(UsageError, match="`lang` pt may be any of pt-BR, pt-PT"):
        load(both, lang="pt")
    with pytest.warns(PolyrefWarning, match="left out"):
        assert load(both, lang="pt-PT") == [("1", ["Dois."])]
    exact = write(tmp_path / "exact", "tmx", tu(de="Eins.", en_US="One!", en="One.") + tu(de="Zwei.", en_US="Two."))
    assert load(exact, lang="en") == [("1", ["One."]), ("2", ["Two."])]
    # Several texts in one language are several references; ids that come again are told apart.
    tuvs = (f'<tuv lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in (("de", "E"), ("en", "1"), ("en", "I")))
    twice = f'<tu tuid="a">{"".join(tuvs)}</tu>'
    assert load(write(tmp_path / "twice", "tmx", twice * 2)) == [("a", ["1", "I"]), ("a:2", ["1", "I"])]


def test_files_of_several_languages(tmp_path: Path) -> None:
    one = V1.replace("{units}", unit("v1", "1", "Eins.", "One."))
    start, file, end = one.partition("<file")[0], one[one.index("<file") : one.index("</xliff>")], "</xliff>"
    path = tmp_path / "a.xlf"
    path.write_text(start + file + file.replace("en-US", "fr").replace("One.", "Un.") + end)
    with pytest.raises(UsageError, match="There are de, en-US, fr"):
        load(path)
    with pytest.warns(PolyrefWarning, match="1 unit without a text in fr, left out"):
        assert load(path, lang="fr") == [("1", ["Un."])]
    path.write_text(start + file + file.replace("shop", "cart") + end)
    assert load(path) == [("1", ["One."]), ("1:2", ["One."])]
    assert [one.doc for one in ReferenceSet.load(path)] == ["shop.html", "cart.html"]


BOMB = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("kind", "old", "new", "fault"),
    [
        ("tmx", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">', BOMB, ":2: a document type declaration, which is not read"),
        ("tmx", "Ja", "&b;", ":4: the entity &b;, which XML itself does not have"),
        ("v1", "Ja", "&b;", ":6: broken XML: undefined entity"),
        ("v1", "</xliff>", "", ":8: broken XML: no element found"),
        ("v1", "</trans-unit>", "", ":7: broken XML: mismatched tag"),
        ("v1", "One.", "<b>One.</b>", ":6: <b> within a text, where XLIFF has no such element"),
        ("v1", "One.", "<group>One.</group>", ":6: <group> within a text, which does not end"),
        ("v1", "</target>", "</target><target>Two.</target>", ":6: a second <target> of a unit"),
        ("v1", ' id="7"', "", ":6: <trans-unit> without an id"),
        ("v1", ' source-language="de"', "", ":3: a file that does not say the language of its sources"),
        ("v1", 'version="1.2"', 'version="3.0"', ":2: the version of XLIFF is '3.0', expected 1.x or 2.x"),
        ("v1", "<body>", "<body><source>x</source>", ":5: <source> outside of a unit"),
        ("v1", "<body>", "<body><g>x</g>", ":5: <g> outside of a text"),
        ("v2", ' id="7"', "", ":4: <unit> without an id"),
        ("v2", "</unit>", '<segment id="1"><source/></segment></unit>', ":4: the segment '1' of a unit occurs twice"),
        ("tmx", ' xml:lang="de"', "", ":4: <tuv> without xml:lang"),
        ("tmx", "<tuv", "<seg>x</seg><tuv", ":4: <seg> outside of a unit"),
        ("tmx", "<tu ", "<prop ", ":4: broken XML: mismatched tag"),
    ],
)
def test_faults_name_their_line(tmp_path: Path, kind: str, old: str, new: str, fault: str) -> None:
    path = write(tmp_path / "a", kind, unit(kind, "7", "Ja.", "One."))
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(DataError) as raised:
        ReferenceSet.load(path)
    assert str(raised.value).startswith(f"{path}{fault}")
    assert str(raised.value).count("\n") == 0


def test_files_that_are_neither(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "tmx", "")
    with pytest.raises(DataError, match="a: no segments"):
        ReferenceSet.load(path)
    with pytest.raises(DataError, match=r"a:3: is markup \(<tmx>\) \(expected XLIFF, which begins with <xliff>\)"):
        ReferenceSet.load(path, form="xliff")
    with pytest.raises(DataError, match=r"is no XML: the first line is 'plain' \(expected TMX, which begins"):
        (tmp_path / "b").write_text("plain\n")
        ReferenceSet.load(tmp_path / "b", form="tmx")


_LETTERS = st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"], include_characters="\t")
_WORDS = st.text(_LETTERS, min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_WORDS, _WORDS), min_size=1, max_size=4), st.sampled_from(["v1", "v2", "tmx"]))
def test_any_text_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], kind: str
) -> None:
    units = "\n".join(unit(kind, str(n), escape(one), escape(two)) for n, (one, two) in enumerate(rows, 1))
    path = write(tmp_path_factory.mktemp("t") / "a", kind, units)
    assert [(one.source, one.refs[0].text) for one in ReferenceSet.load(path)] == rows
    assert [text for (text,) in ReferenceSet.load(path, lang="de").texts()] == [one for one, _ in rows]


_NAMES = ["g", "mrk", "target", "source", "tu", "segment", "seg", "x", "alt-trans"]
_PIECES = [*(f"<{name}>" for name in _NAMES), *(f"</{name}>" for name in _NAMES), "text", "&amp;", "&a;", "<!-- -->"]
_PIECES += ["<x id='2'/>", "<mrk mtype='seg' mid='1'>", "\n"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=8), st.sampled_from(["v1", "v2", "tmx"]))
@pytest.mark.filterwarnings("ignore::polyref.errors.PolyrefWarning")
def test_whatever_stands_there_gives_texts_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], kind: str
) -> None:
    path = write(tmp_path_factory.mktemp("t") / "a", kind, unit(kind, "7", "Ja.", "".join(pieces)))
    try:
        found = ReferenceSet.load(path)
    except PolyrefError as error:
        assert str(path) in str(error)
    else:
        assert all("<" not in text and "&a;" not in text for texts in found.texts() for text in texts)


def test_a_long_memory_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    from contextlib import ExitStack
    from itertools import islice

    from polyref.formats import open_references

    path = write(tmp_path / "a.tmx", "tmx", "\n".join(unit("tmx", str(n), "Ja.", "Yes. " * 40) for n in range(30_000)))
    with path.open("a") as stream:
        stream.write("broken at its end")
    with ExitStack() as stack:
        found = open_references([path], stack, Reading()).segments
        assert len(list(islice(found, 1000))) == 1000

"""WMT's releases: the small evaluation set written as XML and as text files must be the same set."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.data.releases import TextRelease, XmlRelease, open_release, open_sets
from polyref.eval.submit import Submission, submit
from polyref.references import ReferenceSet

SYSTEMS = ("Alpha", "Beta.1", "Gamma-2", "refB")


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _xml(minimal: Path, *, before: str = "", after: str = "") -> str:
    """The set as one file: three documents of two, one and two segments; reference B lacks the second document."""
    source = _lines(minimal / "sources/de-en.txt")
    texts = {("ref", name): _lines(minimal / f"references/de-en.ref{name}.txt") for name in "AB"}
    texts |= {("hyp", name): _lines(minimal / f"system-outputs/de-en/{name}.txt") for name in SYSTEMS}
    documents = []
    for name, domain, first, last in (("home", "news", 0, 2), ("market", "news", 2, 3), ("weather", "talk", 3, 5)):
        # Ids need not be in order in the file: paragraphs are.
        numbers = list(range(last - first, 0, -1))

        def block(
            tag: str, attributes: str, column: list[str], numbers: list[int] = numbers, first: int = first
        ) -> str:
            segments = "".join(f'<p>\n<seg id="{n}">{escape(column[first + n - 1])}</seg>\n</p>\n' for n in numbers)
            return f"<{tag} {attributes}>\n{segments}</{tag}>\n"

        parts = [block("src", 'lang="de"', source)]
        for (kind, label), column in texts.items():
            attribute = f'translator="ref{label}"' if kind == "ref" else f'system="{label}"'
            if column[first] != "NO TRANSLATION AVAILABLE":
                parts.append(block(kind, f'lang="en" {attribute}', column))
        documents.append(f'<doc id="{name}" domain="{domain}" origlang="de">\n{"".join(parts)}</doc>\n')
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{before}<dataset id="set"><collection id="general">\n'
        f"{''.join(documents)}</collection>\n{after}</dataset>\n"
    )


_SUITE_OUTPUTS = "".join(
    f'<hyp lang="en" system="{name}"><p><seg id="1">One.</seg></p></hyp>\n' for name in SYSTEMS
)  # fmt: skip
SUITE = f"""<doc id="suite" testsuite="x" origlang="de"><src lang="de"><p><seg id="1">Eins.</seg></p></src>
<ref lang="en" translator="refA"><p><seg id="1">One.</seg></p></ref>
{_SUITE_OUTPUTS}</doc>"""
OTHER = f'<collection id="other">{SUITE.replace(chr(32) + "testsuite=" + chr(34) + "x" + chr(34), "")}</collection>'


def _same(release: EvalSet, minimal: Path) -> None:
    plain = EvalSet(minimal, "de-en")
    assert release.source == plain.source
    assert list(release.output_files) == list(plain.output_files)
    assert release.outputs(SYSTEMS) == plain.outputs(SYSTEMS)
    assert release.segments == 5
    assert set(release.reference_files) == {"refA", "refB"}
    for name in ("refA", "refB"):
        assert release.reference(name) == plain.reference(name)
    assert release.reference("refB")[2] is None
    assert [len(segment.refs) for segment in reference_set(release, ["refA", "refB"])] == [2, 2, 1, 2, 2]
    gold = release.gold("mqm")
    assert gold.system == plain.gold("mqm").system
    assert release.is_human("refB") and not release.is_human("Alpha")


@pytest.fixture
def xml(minimal: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "xml"
    folder.mkdir()
    shutil.copytree(minimal / "human-scores", folder / "human-scores")
    (folder / "newstest.de-en.all.xml").write_text(_xml(minimal), "utf-8")
    return folder


def test_xml_is_the_same_set(xml: Path, minimal: Path) -> None:
    release = open_release(xml, "de-en")
    assert isinstance(release, XmlRelease)
    _same(release, minimal)
    assert release.documents == EvalSet(minimal, "de-en").documents
    _same(open_release(xml / "newstest.de-en.all.xml", "de-en"), minimal)
    packed = xml / "packed"
    packed.mkdir()
    shutil.copytree(xml / "human-scores", packed / "human-scores")
    (packed / "set.de-en.xml.gz").write_bytes(gzip.compress((xml / "newstest.de-en.all.xml").read_bytes()))
    _same(open_release(packed, "de-en"), minimal)


def test_collections_and_test_suites(xml: Path, minimal: Path) -> None:
    file = xml / "newstest.de-en.all.xml"
    file.write_text(_xml(minimal, after=SUITE), "utf-8")
    assert open_release(file, "de-en").segments == 5
    assert open_release(file, "de-en", test_suites=True).segments == 6
    file.write_text(_xml(minimal, after=OTHER), "utf-8")
    assert open_release(file, "de-en").segments == 6
    assert open_release(file, "de-en", collection="general").segments == 5
    assert open_release(file, "de-en", collection="other").documents == (("all", "suite"),)
    with pytest.raises(DataError, match="no collection 'third', there are: general, other"):
        open_release(file, "de-en", collection="third")
    with pytest.raises(UsageError, match="are for XML releases"):
        open_release(minimal, "de-en", test_suites=True)


def test_originals_that_were_translated_back(xml: Path, minimal: Path) -> None:
    """`translator` on the source: its one unnamed reference takes the name."""
    file = xml / "newstest.de-en.all.xml"
    named = SUITE.replace('<src lang="de">', '<src lang="de" translator="refA">').replace(' testsuite="x"', "")
    file.write_text(_xml(minimal, after=named.replace('<ref lang="en" translator="refA">', '<ref lang="en">')), "utf-8")
    assert open_release(file, "de-en").reference("refA")[5] == "One."
    file.write_text(_xml(minimal, after=named), "utf-8")
    with pytest.raises(DataError, match="source and reference both name a translator"):
        open_release(file, "de-en")


def test_without_translator(xml: Path, minimal: Path) -> None:
    file = xml / "newstest.de-en.all.xml"
    text = _xml(minimal).replace(' translator="refA"', "")
    file.write_text(text, "utf-8")
    assert set(open_release(file, "de-en").reference_files) == {"ref", "refB"}


FAULTS = {
    "not well formed": ("</dataset>", "", "broken XML: no element found"),
    "system lacks a segment": (
        '<seg id="1">We have bought three apples.</seg>',
        "",
        "system 'Beta.1' has no output of segment 1 of document 'market'",
    ),
    "segment twice": ('<seg id="2">Sie', '<seg id="1">Sie', "segment 1 occurs twice"),
    "segment without number": ('<seg id="2">Sie', '<seg id="x">Sie', "the segment id is 'x'"),
    "more segments than the source": (
        '<seg id="1">We have bought three apples.</seg>',
        '<seg id="1">We have bought three apples.</seg><seg id="7">More.</seg>',
        "system 'Beta.1' has segment 7 of document 'market', the source does not",
    ),
    "document twice": ('<doc id="market"', '<doc id="home"', "the document 'home' occurs twice"),
    "system twice": ('system="Alpha"', 'system="Beta.1"', "has 'Beta.1' twice"),
    "name of a reference": ('translator="refA"', 'translator="ref.A"', "the reference name 'ref.A' is not allowed"),
    "other language": ('<src lang="de">', '<src lang="fr">', "the source is in 'fr', expected 'de'"),
    "nameless system": (' system="Alpha"', "", "an output without the name of its system"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(xml: Path, minimal: Path, fault: str) -> None:
    old, new, message = FAULTS[fault]
    text = _xml(minimal)
    assert old in text
    (xml / "newstest.de-en.all.xml").write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(DataError) as caught:
        open_release(xml, "de-en")
    assert message in str(caught.value)
    assert "newstest.de-en.all.xml:" in str(caught.value)


def test_entities_and_document_types_are_refused(xml: Path, minimal: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for declared in (
        '<!DOCTYPE dataset [<!ENTITY x "y">]>\n',
        f'<!DOCTYPE dataset [<!ENTITY x SYSTEM "{tmp_path}/secret">]>\n',
        '<!DOCTYPE dataset SYSTEM "http://localhost/x.dtd">\n',
    ):
        (xml / "newstest.de-en.all.xml").write_text(_xml(minimal, before=declared), "utf-8")
        with pytest.raises(DataError, match=r"all\.xml:2: a document type declaration"):
            open_release(xml, "de-en")


def test_two_files_of_one_pair(xml: Path) -> None:
    shutil.copy(xml / "newstest.de-en.all.xml", xml / "newstest.de-en.xml")
    with pytest.raises(DataError, match="which one is meant"):
        open_release(xml, "de-en")


def _text_release(minimal: Path, folder: Path, year: str, label: str) -> Path:
    for name in ("sources", "references", "system-outputs"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(minimal / "human-scores", folder / "human-scores")
    shutil.copy(minimal / "sources/de-en.txt", folder / f"sources/{year}.de-en.src.de")
    shutil.copy(minimal / "sources/de-en.txt", folder / f"sources/{year}.de-fr.src.de")
    for name in "AB":
        shutil.copy(
            minimal / f"references/de-en.ref{name}.txt", folder / f"references/{year}.de-en.ref.{label}{name}.en"
        )
    for name in SYSTEMS:
        shutil.copy(minimal / f"system-outputs/de-en/{name}.txt", folder / f"system-outputs/{year}.de-en.hyp.{name}.en")
    return folder


@pytest.mark.parametrize(("year", "label"), [("newstest2021", ""), ("generaltest2023", "ref")])
def test_text_release_is_the_same_set(minimal: Path, tmp_path: Path, year: str, label: str) -> None:
    folder = _text_release(minimal, tmp_path / "txt", year, label)
    release = open_release(folder, "de-en")
    assert isinstance(release, TextRelease)
    if label:
        _same(release, minimal)
    else:
        # The names of 2021 and 2022 are letters.
        assert set(release.reference_files) == {"A", "B"}
        assert release.outputs(SYSTEMS) == EvalSet(minimal, "de-en").outputs(SYSTEMS)
    assert release.documents is None
    with pytest.raises(DataError, match="nothing for the pair 'fi-en'"):
        open_release(folder, "fi-en")


def _submitted(data: Path, out: Path, *, ref: str = "refA", year: int = 2021, **more: Any) -> list[bytes]:
    """The lines of both files of a submission made from ``data``."""
    found = submit(data, "de-en", out, Submission(year, "x", "set", "chrf", (ref,)), **more)
    return [gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in found]


def test_every_form_of_a_set_can_be_submitted(minimal: Path, xml: Path, tmp_path: Path) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    plain = _submitted(minimal, tmp_path / "plain")
    assert b"\tref-A\tAlpha\t" in plain[0]
    assert _submitted(xml, tmp_path / "xml") == plain
    assert _submitted(xml / "newstest.de-en.all.xml", tmp_path / "file") == plain
    # The names of references in the text releases of 2021 and 2022 are letters; the task's are not.
    for label, ref in (("", "A"), ("ref", "refA")):
        text = _text_release(minimal, tmp_path / f"text{label}", "newstest2021", label)
        assert _submitted(text, tmp_path / f"out{label}", ref=ref) == plain
    # Documents and domains come from the release.
    assert _submitted(xml, tmp_path / "xml23", year=2023) == _submitted(minimal, tmp_path / "plain23", year=2023)


def test_submissions_of_collections_and_test_suites(minimal: Path, xml: Path, tmp_path: Path) -> None:
    file = xml / "newstest.de-en.all.xml"
    file.write_text(_xml(minimal, after=OTHER), "utf-8")
    whole = _submitted(xml, tmp_path / "whole")
    one = _submitted(xml, tmp_path / "one", collection="general")
    assert [len(lines.splitlines()) for lines in (whole[1], one[1])] == [4 * 6, 4 * 5]
    file.write_text(_xml(minimal, after=SUITE), "utf-8")
    suites = _submitted(xml, tmp_path / "suites", test_suites=True)
    assert [len(_submitted(xml, tmp_path / "none")[1].splitlines()), len(suites[1].splitlines())] == [20, 24]
    with pytest.raises(DataError, match="no collection 'third'"):
        _submitted(xml, tmp_path / "third", collection="third")


def test_added_references_of_a_submission(minimal: Path, tmp_path: Path) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    file = minimal / "paraphrases/de-en.refA.jsonl"
    texts = [json.loads(line)["paraphrases"] for line in file.read_text("utf-8").splitlines()]
    forms = (str(file), file, str(minimal / "paraphrases/{pair}.refA.jsonl"), ReferenceSet.load(file), texts)
    made = []
    for number, given in enumerate(forms):
        found = submit(
            minimal, ["de-en"], tmp_path / str(number), Submission(2024, "x", "set", "bleu", ("refA",), given)
        )
        made.append([path.read_bytes() for path in found])
    assert all(one == made[0] for one in made)
    none = submit(minimal, ["de-en"], tmp_path / "none", Submission(2024, "x", "set", "bleu", ("refA",)))
    assert [path.read_bytes() for path in none] != made[0]


def test_an_archive_of_scores_cannot_be_submitted(tmp_path: Path) -> None:
    for name in ("scores", "da"):
        (tmp_path / "archive" / name).mkdir(parents=True)
    for name in ("ad-sys-scores", "metrics-ad-seg-scores"):
        (tmp_path / "archive/da" / f"{name}-de-en.csv").write_text("")
    with pytest.raises(DataError, match="holds scores without texts"):
        _submitted(tmp_path / "archive", tmp_path / "out")


def test_what_a_submission_says_of_its_files(minimal: Path, tmp_path: Path) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    output = minimal / "system-outputs/de-en/Alpha.txt"
    output.write_bytes(b"\xef\xbb\xbf" + output.read_bytes())
    said: list[tuple[str, str]] = []
    _submitted(minimal, tmp_path / "out", say=lambda kind, message: said.append((kind, message)))
    assert [(kind, "byte order mark" in message) for kind, message in said] == [("note", True)]


@pytest.mark.slow
def test_documents_are_read_in_time_proportional_to_their_number(tmp_path: Path) -> None:
    text = "<{0}><p><seg id='1'>a</seg></p></{0}>"
    one = text.format("src") + text.format("ref") + text.format("hyp").replace("<hyp>", "<hyp system='s'>")
    path = tmp_path / "set.de-en.xml"
    path.write_text("<dataset>" + "".join(f"<doc id='{n}'>{one}</doc>" for n in range(16_000)) + "</dataset>")
    start = time.process_time()
    assert len(open_release(path, "de-en").outputs(["s"])[0]) == 16_000
    assert time.process_time() - start < 3  # the square of their number took 7 seconds


def test_a_folder_and_a_file_at_once(minimal: Path, xml: Path) -> None:
    file = xml / "newstest.de-en.all.xml"
    for path in list(minimal.rglob("*de-en*")):
        copy = path.with_name(path.name.replace("de-en", "fr-en"))
        shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
    found = open_sets([minimal, file], ["de-en", "fr-en"])
    assert [(type(one).__name__, one.pair) for one in found] == [
        ("EvalSet", "de-en"), ("EvalSet", "fr-en"), ("XmlRelease", "de-en"),
    ]  # fmt: skip
    # What is of XML alone is of the file.
    file.write_text(_xml(minimal, after=OTHER), "utf-8")
    assert [one.segments for one in open_sets([minimal, file], ["de-en"], collection="other")] == [5, 1]
    with pytest.raises(UsageError, match="are for XML releases"):
        open_sets([minimal], ["de-en"], collection="other")
    with pytest.raises(DataError, match="nothing for the pair 'cs-en'"):
        open_sets([minimal, file], ["de-en", "cs-en"])
    for none, said in (([], ["de-en"]), "data"), (([minimal], []), "pairs"):
        with pytest.raises(UsageError, match=f"`{said}` is empty"):
            open_sets(*none)


def test_a_file_of_another_target_language(xml: Path, minimal: Path) -> None:
    file = xml / "newstest.de-en.all.xml"
    with pytest.raises(DataError, match=r"newstest\.de-en\.all\.xml:\d+: the texts are in 'en', expected 'cs'"):
        open_release(file, "de-cs")
    file.write_text(_xml(minimal).replace('lang="en"', 'lang="en-GB"'), "utf-8")
    assert open_release(file, "de-en_US").segments == 5

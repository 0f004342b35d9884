"""Sets with all fields, written in every form and read again: the same, but for what is said to be lost."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from random_settings import SETTINGS, tried

from polyref.errors import DataError
from polyref.formats.columns import NO_REFERENCE
from polyref.formats.writing import WRITTEN
from polyref.references import KINDS, Reference, ReferenceSet, Segment

#: Forms whose files do not say what they are, beside plain text; the others are told by content and suffix.
NAMED: Final = {"sacrebleu-tsv"}
TEXTS: Final = (
    *("", " ", "a", "b c", " d ", "e\tf", "g\nh", "i\r\nj", "k\rl", "\n\nm", "n\n\n\no", "p\u2028q\x85r", "\ufeffs"),
    *(
        '"',
        '"t,"',
        "'",
        "\\n",
        "&amp; <seg id='1'>",
        "<doc",
        "{}",
        '{"id": 1}',
        "[]",
        '["u"]',
        "None",
        "null",
        "-",
        "#",
    ),
    *("NO TRANSLATION AVAILABLE", "[No translation supplied]", "日本", "👍🏽", "v\x1fw", "\u00a0", "reference", "id"),
)
texts = st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
NAMES: Final = ("refA", "refB", "A", "ref", "ref2", "reference", "paraphrase1", "target", "Jane Doe", "a.b", "x/y", "")
#: Fields of a segment, and of a reference, with what may stand in them.
OF_SEGMENTS: Final = {
    "source": st.none() | texts,
    "lang": st.sampled_from([None, "en", "de", "en-US", "", "x\ty"]),
    "extra": st.dictionaries(
        st.sampled_from(["domain", "origlang", "collection", "seg", "src_lang", "note", "target", "id", "refs"]),
        st.sampled_from(["x", "all", "y z", "", 1, 3, None, ["x"], {"text": "x"}]),
        max_size=2,
    ),
}  # fmt: skip
OF_REFERENCES: Final = {
    "kind": st.sampled_from(KINDS),
    "of": st.sampled_from([None, 0, 1]),
    "rank": st.sampled_from([None, 0, 1, 5]),
    "weight": st.sampled_from([None, 0.0, 0.5]),
    "logprob": st.sampled_from([None, -0.25, 0.1]),
    "generator": st.sampled_from([None, "g", ""]),
    "extra": st.fixed_dictionaries({}, optional={"name": st.sampled_from(NAMES), "note": st.just(1)}),
}
#: What :meth:`Lost.segment` gives.
PARTS: Final = ("id", "source", "doc", "lang", "extra")
OF_SETS: Final = ("texts", "ids", "docs", "numbers", "order", "meta")


@st.composite
def sets(draw: st.DrawFn, *, sources: bool = False) -> ReferenceSet:
    """Sets that differ in a few fields from plain ones: what is lost in one hides nothing in others."""
    varied = draw(
        st.sets(st.sampled_from([*OF_SETS, *OF_SEGMENTS, *(f"ref {one}" for one in OF_REFERENCES)]), max_size=4)
    )
    segments = []
    doc = 0
    ids = (
        draw(st.lists(texts.filter(bool), min_size=3, max_size=3, unique=True)) if "ids" in varied else ["1", "2", "3"]
    )
    for place in range(draw(st.integers(1, 3))):
        humans, added = (draw(st.integers(0, 2)), draw(st.integers(0, 3))) if "numbers" in varied else (1, 1)
        kinds = ["human"] * humans + ["paraphrase"] * added
        kinds = draw(st.permutations(kinds)) if "order" in varied else kinds
        refs = []
        for number, kind in enumerate(kinds):
            text = draw(texts) if "texts" in varied else f"text {place}.{number}"
            more = {one: draw(values) for one, values in OF_REFERENCES.items() if f"ref {one}" in varied}
            of = more.get("of")
            refs.append(Reference(text, **{"kind": kind, **more, "of": of if of is None or of < len(kinds) else None}))
        about = {"source": "source"} if sources else {}
        about |= {one: draw(values) for one, values in OF_SEGMENTS.items() if one in varied}
        if "docs" in varied:
            doc += draw(st.integers(0, 1))
            about["doc"] = draw(st.sampled_from([f"d{doc}"] * 3 + [None, "-", "", "e f", "g\nh"]))
        segments.append(Segment(ids[place], tuple(refs), **about))
    return ReferenceSet(tuple(segments), {"generator": "g"} if "meta" in varied else {})


class Lost:
    """What is said to be lost, taken out of a set."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self.phrases = phrases
        found = [re.fullmatch(r"([\w ,]+) \(\d+ references?\)", one) for one in phrases]
        self.fields = {name for one in found if one and "left out" not in one[1] for name in one[1].split(", ")}

    def says(self, start: str) -> bool:
        """Whether a phrase begins so."""
        return any(one.startswith(start) for one in self.phrases)

    def text(self, text: str) -> str:
        """Without what the text loses."""
        for start, pattern, instead in (
            ("line ends, which become spaces", "[\r\n]", " "),
            ("line ends of Windows", "\r\n", "\n"),
            ("tabs", "[\t]", " "),
            ("blank lines", r"^\n+|\n+$|\n(?=\n)", " "),
        ):
            text = re.sub(pattern, instead, text) if self.says(start) else text
        text = text.strip("\n ") if self.says("blank lines") else text
        return text.strip() if self.says("spaces at the ends") else text

    def refs(self, refs: Sequence[Reference]) -> list[dict[str, Any]]:
        """Without references, and fields of references, that are lost."""
        if "place before an original" in self.fields:
            order = sorted(range(len(refs)), key=lambda place: not refs[place].original)
            places = [None if ref.of is None else order.index(ref.of) for ref in refs]
            refs = [replace(refs[place], of=places[place]) for place in order]
        if self.says("references that say there is none"):
            refs = [ref for ref in refs if ref.text.strip() not in NO_REFERENCE]
        originals = [ref for ref in refs if ref.original]
        if self.says("further human references"):
            refs = [ref for ref in refs if not ref.original or ref is originals[0]]
        if self.says("added references"):
            refs = [ref for ref in refs if ref.original] or refs[:1]
        rows = [{"text": self.text(ref.text), **{one: self.field(ref, one) for one in OF_REFERENCES}} for ref in refs]
        if self.says("different numbers of references"):
            rows = list({row["text"]: row for row in rows}.values())
        if self.says("whether a reference is empty") or self.says("no reference at all") or self.says("no human ref"):
            rows = [row for row in rows if row["text"]]
        return sorted(rows, key=repr) if self.says("the order of references") else rows

    def field(self, ref: Reference, name: str) -> Any:
        """A field of a reference; None where it is lost."""
        if name in self.fields or (name in {"of", "rank"} and "kind" in self.fields):
            return None
        if name == "extra":
            keys = {"name"} & self.fields | ({*ref.extra} - {"name"} if "other keys" in self.fields else set())
            return {key: value for key, value in ref.extra.items() if key not in keys}
        return getattr(ref, name)

    def segment(self, one: Segment) -> tuple[Any, ...]:
        """Without what is lost of a segment."""
        source = None if self.says("sources (") else one.source
        if self.says("no source") or self.says("whether a source is empty"):
            source = source or ""
        inexact = self.says("ids, documents or languages")
        called = inexact or self.says("what domains and documents are called")
        keys = self.says("other keys") or self.says("keys that differ") or self.says("what domains and")
        return (
            None if self.says("ids (") or inexact else one.id,
            None if source is None else self.text(source),
            None if self.says("documents (") or called else one.doc,
            None if self.says("languages (") or inexact else one.lang,
            {} if keys else {key: value for key, value in one.extra.items() if value is not None},
        )


def once(references: ReferenceSet) -> ReferenceSet:
    """Without keys that the first segment of a document has as well: general-task documents say them once."""
    segments, first = [], Segment("", ())
    for one in references:
        if one.doc != first.doc or not segments:
            segments, first = [*segments, one], one
        else:
            left = {key: value for key, value in one.extra.items() if first.extra.get(key) != value}
            segments.append(replace(one, extra=left))
    return ReferenceSet(tuple(segments), references.meta)


def differing(found: ReferenceSet, written: ReferenceSet, lost: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """What differs although nobody said so: the part, as it was read and as it was written."""
    without = Lost(lost)
    meta = {} if without.says("what the header says") else dict(written.meta)
    pairs = [("number", len(found), len(written)), ("meta", dict(found.meta), meta)]
    for new, old in zip(found, written):
        pairs += [(name, a, b) for name, a, b in zip(PARTS, without.segment(new), without.segment(old), strict=True)]
        rows = without.refs(new.refs), without.refs(old.refs)
        if without.says("references that not every paragraph"):
            there = {(row["text"], row["kind"]): row for row in rows[1]}
            rows = rows[0], [there[row["text"], row["kind"]] for row in rows[0]]
        pairs.append(("references", *(len(one) for one in rows)))
        for read, wrote in zip(*rows):
            # What a set does not say may be what places say.
            pairs += [
                (one, read[one], wrote[one]) for one in wrote if one not in {"of", "rank"} or wrote[one] is not None
            ]
    return [one for one in pairs if one[1] != one[2]]


def there_and_back(written: ReferenceSet, form: str, folder: Path) -> tuple[ReferenceSet, list[str]]:
    """The set that is read again, and what was said to be lost."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    several = form in {"plain", "mt-metrics-eval"}
    suffix = next(iter(WRITTEN[form].suffixes), ".jsonl" if WRITTEN[form].json else ".txt")
    path = f"{folder}/set{'/' if several else suffix}"
    pair = "de-en" if form == "mt-metrics-eval" else None
    try:
        lost = written.export(path, form, pair=pair)
    except DataError:
        assert not list(folder.iterdir())
        raise
    if form == "plain":  # whoever names the files chooses the order
        return ReferenceSet.load(*sorted(Path(path).iterdir()), form=form), [*lost, "the order of references"]
    return ReferenceSet.load(path, form=form if form in NAMED else None, pair=pair), lost


@pytest.mark.slow
@pytest.mark.parametrize("form", WRITTEN)
def test_what_is_read_is_what_was_written(tmp_path: Path, form: str) -> None:
    @tried(SETTINGS // 2)
    @given(sets(sources=form == "general"))
    def check(written: ReferenceSet) -> None:
        try:
            found, lost = there_and_back(written, form, tmp_path / "out")
        except DataError as error:
            event(f"refused: {error.message[:50]}")
            assume(False)
        once_each = map(once, (found, written)) if form == "general" else (found, written)
        assert differing(*once_each, lost) == [], lost

    check()

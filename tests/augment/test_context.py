"""References in their context: sources and neighbours reach the generator, and nothing else changes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment import augment
from polyref.augment.inputs import Inputs, in_context
from polyref.errors import DataError
from polyref.paraphrase.rewriting import TextInContext
from polyref.references import Reference, ReferenceSet, Segment


def _segments(*rows: tuple[str, str | None, str]) -> Iterator[Segment]:
    """Document, source, text."""
    for number, (doc, source, text) in enumerate(rows):
        yield Segment(str(number), (Reference(text), Reference("extra", kind="paraphrase", of=0)), source, doc)


def _texts(segments: Iterable[Segment]) -> list[TextInContext]:
    found = [segment.refs[0].text for segment in segments]
    assert all(isinstance(text, TextInContext) for text in found)
    return [text for text in found if isinstance(text, TextInContext)]


def test_neighbours_stay_in_their_document() -> None:
    rows = [
        ("a", None, "a1"),
        ("a", "s", "a2"),
        ("a", None, ""),
        ("a", None, "a4"),
        ("b", None, "b1"),
        ("b", None, "b2"),
    ]
    texts = _texts(in_context(_segments(*rows), 2))
    assert [(*text.before, "|", *text.after) for text in texts] == [
        ("|", "a2"),
        ("a1", "|", "a4"),
        ("a1", "a2", "|", "a4"),
        ("a2", "|"),
        ("|", "b2"),
        ("b1", "|"),
    ]
    assert [text.source for text in texts] == [None, "s", None, None, None, None]
    assert [(text.before, text.after) for text in _texts(in_context(_segments(*rows)))] == [((), ())] * 6


def test_segments_stay_what_they_are() -> None:
    before = list(_segments(("a", "s", "one"), ("a", "t", "two")))
    after = list(in_context(before, 1))
    assert after == before
    assert not isinstance(after[0].refs[1].text, TextInContext)
    paraphraser = RuleParaphraser()
    plain, told = (augment(ReferenceSet(tuple(segments)), paraphraser, 2) for segments in (before, after))
    assert told.segments == plain.segments and told.meta == plain.meta
    assert paraphraser.calls[0] == paraphraser.calls[1]
    assert isinstance(paraphraser.calls[1][0], TextInContext)


def test_sources_come_from_a_file_or_with_the_references(tmp_path: Path) -> None:
    (tmp_path / "refs").write_text("one\ntwo\nthree\n")
    (tmp_path / "src").write_text("eins\n\ndrei\n")
    with Inputs([tmp_path / "refs"], source=tmp_path / "src", context=1) as inputs, Inputs([tmp_path / "refs"]) as bare:
        for _ in range(2):
            texts = _texts(inputs.segments())
            assert [text.source for text in texts] == ["eins", None, "drei"]
            assert [text.before for text in texts] == [(), ("one",), ("two",)]
        assert [file["name"] for file in inputs.files] == ["refs", "src"]
        assert [one.refs for one in inputs.segments()] == [one.refs for one in bare.segments()]
    ReferenceSet(tuple(_segments(("a", "mine", "one")))).save(tmp_path / "set.jsonl")
    with Inputs([tmp_path / "set.jsonl"], context=0) as inputs:
        assert [text.source for text in _texts(inputs.segments())] == ["mine"]
        assert len(inputs.files) == 1


def test_a_file_of_sources_of_another_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "refs").write_text("one\ntwo\n")
    (tmp_path / "src").write_text("eins\n")
    with pytest.raises(DataError, match=r"src: has 1 lines, expected one for each of 2 segments"):
        Inputs([tmp_path / "refs"], source=tmp_path / "src", context=0)


def test_a_file_of_sources_that_changes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import polyref.augment.inputs as module

    refs, src = tmp_path / "refs", tmp_path / "src"
    refs.write_text("one\ntwo\n")
    src.write_text("eins\nzwei\n")
    read = module.read_lines

    def edited(path: Path) -> list[str]:
        found = read(path)
        src.write_text("eins\ndrei\n")
        return found

    monkeypatch.setattr(module, "read_lines", edited)
    with pytest.raises(DataError, match="src: changed while it was read"):
        Inputs([refs], source=src, context=0)
    monkeypatch.undo()
    # What was read stays as it was.
    with Inputs([refs], source=src, context=0) as inputs:
        refs.write_text("one\nthree\n")
        assert [one.refs[0].text for one in inputs.segments()] == ["one", "two"]


def test_a_pipe_of_sources_is_hashed_as_it_was_read(tmp_path: Path) -> None:
    refs, pipe = tmp_path / "refs", tmp_path / "src"
    refs.write_text("one\ntwo\n")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("eins\nzwei\n",))
    writer.start()
    with Inputs([refs], source=pipe, context=0) as inputs:
        writer.join()
        assert [text.source for text in _texts(inputs.segments())] == ["eins", "zwei"]
        assert inputs.files[1] == {"name": "src", "sha256": hashlib.sha256(b"eins\nzwei\n").hexdigest()}

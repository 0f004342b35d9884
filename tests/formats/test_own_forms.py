from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import DataError, UsageError
from polyref.references import KINDS, Reference, ReferenceSet, Segment


def _write(path: Path, *lines: Any) -> Path:
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)) + "\n" for x in lines))
    return path


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
extras = st.dictionaries(st.sampled_from(["licence", "note", "x"]), st.none() | st.integers() | texts, max_size=2)
references = st.builds(
    Reference,
    texts,
    kind=st.sampled_from(KINDS),
    of=st.none() | st.just(0),
    rank=st.none() | st.integers(0, 99),
    weight=st.none() | st.floats(0, 10),
    logprob=st.none() | st.floats(-99, 0),
    generator=st.none() | texts,
    extra=extras,
)
bare_segments = st.builds(
    Segment,
    id=texts,
    refs=st.lists(references, max_size=4).map(tuple),
    source=st.none() | texts,
    doc=st.none() | texts,
    lang=st.none() | st.just("en"),
    extra=extras,
)
sets = st.builds(
    ReferenceSet,
    st.lists(bare_segments, min_size=1, max_size=4, unique_by=lambda segment: segment.id).map(tuple),
    st.dictionaries(texts.filter(lambda key: key != "polyref"), st.none() | st.integers() | texts, max_size=3),
)


@pytest.mark.slow
@given(sets)
def test_the_normal_form_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, refset: Any) -> None:
    folder = tmp_path_factory.mktemp("round")
    refset.save(folder / "a.jsonl")
    again = ReferenceSet.load(folder / "a.jsonl")
    assert again == refset
    again.save(folder / "b.jsonl")
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()


def test_the_normal_form_on_disk(tmp_path: Path) -> None:
    human = Reference("Ann said “no”.")
    made = Reference("“No”, said Ann.", "paraphrase", of=0, rank=2, logprob=-0.5, generator="g", extra={"x": [1]})
    segment = Segment("s1", (human, made), doc="d", extra={"genre": "news"})
    ReferenceSet((segment,), {"k": 1}).save(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_text().split("\n") == [
        '{"polyref": 1, "meta": {"k": 1}}',
        '{"id": "s1", "doc": "d", "refs": [{"text": "Ann said “no”.", "kind": "human"}, '
        '{"text": "“No”, said Ann.", "kind": "paraphrase", "of": 0, "rank": 2, "logprob": -0.5, "generator": "g", '
        '"x": [1]}], "genre": "news"}',
        "",
    ]


def test_header_and_optional_keys_may_be_absent(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", {"id": 7, "refs": [{"text": "one", "weight": None}]}, {"refs": []})
    assert ReferenceSet.load(path) == ReferenceSet((Segment("7", (Reference("one"),)), Segment("2", ())))


def test_unknown_header_keys_are_kept_in_meta(tmp_path: Path) -> None:
    path = _write(tmp_path / "a", {"polyref": 1, "licence": "CC0", "meta": {"k": 3}}, {"id": "1", "refs": []})
    assert ReferenceSet.load(path).meta == {"licence": "CC0", "k": 3}


def test_simple_form(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "a.jsonl",
        {"id": 1, "reference": "Hello.", "paraphrases": ["Hi.", "Hey."], "genre": "talk"},
        {"id": 2, "reference": "Bye."},
        {"id": 3, "paraphrases": ["See you."]},
    )
    hello = (
        Reference("Hello."),
        Reference("Hi.", "paraphrase", of=0, rank=0),
        Reference("Hey.", "paraphrase", of=0, rank=1),
    )
    assert ReferenceSet.load(path) == ReferenceSet(
        (
            Segment("1", hello, extra={"genre": "talk"}),
            Segment("2", (Reference("Bye."),)),
            Segment("3", (Reference("See you.", "paraphrase", rank=0),)),
        )
    )


def test_plain_text_keeps_empty_lines_and_odd_separators(tmp_path: Path) -> None:
    path = tmp_path / "refs.en"
    path.write_bytes("\ufeffa\u2028b\r\n\n  c \n".encode())
    assert ReferenceSet.load(path).texts() == [["a\u2028b"], [""], ["  c "]]


def test_several_plain_files_are_several_references(tmp_path: Path) -> None:
    one, two = _write(tmp_path / "one.en", "a", "b"), tmp_path / "two.en.gz"
    with gzip.open(two, "wt") as stream:
        stream.write("A\nB\n")
    assert ReferenceSet.load(one, two) == ReferenceSet.from_texts([["a", "A"], ["b", "B"]])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert ReferenceSet.load("-").texts() == [["a"], ["b"]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1, "refs": [{"text": 3}]}\n')))
    with pytest.raises(DataError, match=r'<stdin>:1: refs\[0\]: "text" is 3, expected a string'):
        ReferenceSet.load("-")


def test_text_that_looks_a_little_like_json_is_text(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.txt", "{}", '{"a": 1}', "[1]", '"x"')
    assert ReferenceSet.load(path).texts() == [["{}"], ['{"a": 1}'], ["[1]"], ['"x"']]


def test_lengths_that_differ_name_both_files_and_counts(tmp_path: Path) -> None:
    one, two, three = (_write(tmp_path / name, *"abcde"[:n]) for name, n in [("1", 3), ("2", 3), ("3", 5)])
    with pytest.raises(DataError, match=rf"{three}: has 5 segments, but {one} has 3"):
        ReferenceSet.load(one, two, three)
    with pytest.raises(DataError, match=rf"{one}: has 3 segments, but {three} has 5"):
        ReferenceSet.load(three, one)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": 2, "refs": [', "not valid JSON: Expecting value at column 20"),
        ("", "the line is empty"),
        ("[1]", "found a list, expected one JSON object a line"),
        ('{"id": 2}', 'no key "refs"'),
        ('{"id": 2, "refs": "x"}', '"refs" is "x", expected a list'),
        ('{"id": 2, "refs": ["x"]}', r"refs\[0\] is not an object"),
        ('{"id": 2, "refs": [{"kind": "human"}]}', r'refs\[0\]: no key "text"'),
        ('{"id": 2, "refs": [{"text": "x", "kind": "robot"}]}', 'kind" is "robot", expected one of human'),
        ('{"id": 2, "refs": [{"text": "x", "of": 1}]}', '"of" is 1, but the segment has 1 references'),
        ('{"id": 2, "refs": [{"text": "x", "rank": -1}]}', '"rank" is -1, expected a whole number from 0'),
        ('{"id": 2, "refs": [{"text": "x", "rank": true}]}', '"rank" is true'),
        ('{"id": 2, "refs": [{"text": "x", "weight": -0.5}]}', '"weight" is -0.5, expected 0 or more'),
        ('{"id": 2, "refs": [{"text": "x", "logprob": NaN}]}', "NaN is not a JSON number"),
        ('{"id": 2, "refs": [{"text": "x", "logprob": 1e999}]}', "expected a finite number"),
        ('{"id": 2, "refs": [{"text": "a\\u0000"}]}', 'NUL character in "text"'),
        ('{"id": 2, "refs": [{"text": "a\\ud800"}]}', "half a surrogate pair"),
        ('{"id": "1", "refs": []}', "the id '1' was already used on line 2"),
        ('{"id": [], "refs": []}', '"id" is a list, expected a string or an integer'),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_a_broken_line_names_file_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    path = _write(tmp_path / "a.jsonl", {"polyref": 1}, {"id": "1", "refs": [{"text": "fine"}]}, line)
    with pytest.raises(DataError, match=f"a.jsonl:3: .*{reason}"):
        ReferenceSet.load(path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"id": 2}, 'neither "reference" nor "paraphrases"'),
        ({"reference": 3}, '"reference" is 3, expected a string'),
        ({"reference": "x", "paraphrases": "y"}, '"paraphrases" is "y", expected a list'),
        ({"reference": "x", "paraphrases": ["y", None]}, r"paraphrases\[1\] is null"),
    ],
)
def test_a_broken_line_of_the_simple_form(tmp_path: Path, line: Any, reason: str) -> None:
    path = _write(tmp_path / "a.jsonl", {"reference": "fine"}, line)
    with pytest.raises(DataError, match=f"a.jsonl:2: .*{reason}"):
        ReferenceSet.load(path)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ({"polyref": 2}, "format version 2, expected 1"),
        ({"polyref": "1"}, '"polyref" is "1", expected the format version, 1'),
        ({"polyref": 1, "meta": 3}, '"meta" is not an object'),
        ('{"id": 1, "refs": [', "not valid JSON"),
        ("plain words", "not valid JSON"),
    ],
)
def test_a_broken_first_line(tmp_path: Path, first: Any, reason: str) -> None:
    path = _write(tmp_path / "a.jsonl", first, {"id": "1", "refs": []})
    with pytest.raises(DataError, match=f"a.jsonl:1: .*{reason}"):
        ReferenceSet.load(path)


def test_broken_json_without_a_suffix_is_not_taken_for_text(tmp_path: Path) -> None:
    path = _write(tmp_path / "a", '{"id": 1, "reference": "x')
    with pytest.raises(DataError, match="a:1: not valid JSON"):
        ReferenceSet.load(path)


def test_empty_files(tmp_path: Path) -> None:
    for name in ("a.txt", "a.jsonl"):
        with pytest.raises(DataError, match=f"{name}: the file is empty"):
            ReferenceSet.load(_write(tmp_path / name))
    with pytest.raises(DataError, match="has a header, but no segments"):
        ReferenceSet.load(_write(tmp_path / "b.jsonl", {"polyref": 1}))


def test_paths_that_do_not_fit_together(tmp_path: Path) -> None:
    plain, normal = _write(tmp_path / "a.en", "a"), _write(tmp_path / "a.jsonl", {"id": "1", "refs": []})
    with pytest.raises(UsageError, match=r"a\.jsonl is in the normal form: several reference files must all be plain"):
        ReferenceSet.load(plain, normal)
    with pytest.raises(UsageError, match="no reference file"):
        ReferenceSet.load()
    with pytest.raises(UsageError, match="named twice"):
        ReferenceSet.load("-", "-")
    with pytest.raises(TypeError, match="expected a string or a Path"):
        ReferenceSet.load([plain])  # type: ignore[arg-type]


def test_a_set_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    broken = ReferenceSet((Segment("1", (Reference("x", extra={"more": float("nan")}),)),))
    with pytest.raises(DataError, match=r"a\.jsonl: segment '1' cannot be written"):
        broken.save(tmp_path / "a.jsonl")
    assert list(tmp_path.iterdir()) == []

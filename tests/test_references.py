from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import UsageError
from polyref.references import KINDS, ORIGINAL_KINDS, Reference, ReferenceSet, Segment, as_reference_set
from polyref.values import as_texts

references = st.builds(Reference, st.text(max_size=5), kind=st.sampled_from(KINDS))
segments = st.builds(
    Segment, st.text(max_size=3), st.lists(references, max_size=6).map(tuple), doc=st.none() | st.just("d")
)
sets = st.builds(ReferenceSet, st.lists(segments, max_size=5).map(tuple), st.just({"licence": "CC0"}))
ks = st.integers(0, 8)


@pytest.mark.slow
@given(sets, ks)
def test_a_view_has_the_originals_and_the_first_k_extras(refset: ReferenceSet, k: int) -> None:
    view = refset.take(k)
    assert len(view) == len(refset)
    assert view.meta is refset.meta
    for before, after in zip(refset, view, strict=True):
        assert after.originals == before.originals
        assert after.extras == before.extras[:k]
        # Originals first, so that a larger k only appends.
        assert after.refs == (*after.originals, *after.extras)
        assert (after.id, after.doc) == (before.id, before.doc)


@pytest.mark.slow
@given(sets, ks, ks)
def test_larger_views_extend_smaller_ones(refset: ReferenceSet, a: int, b: int) -> None:
    low, high = sorted((a, b))
    for small, large in zip(refset.take(low), refset.take(high), strict=True):
        assert large.refs[: len(small.refs)] == small.refs
    assert refset.take(high).take(low) == refset.take(low)


@pytest.mark.slow
@given(sets, ks)
def test_views_share_references(refset: ReferenceSet, k: int) -> None:
    owned = {id(ref) for segment in refset for ref in segment.refs}
    assert all(id(ref) in owned for segment in refset.take(k) for ref in segment.refs)


@pytest.mark.slow
@given(sets)
def test_none_takes_all_and_the_two_halves_make_the_whole(refset: ReferenceSet) -> None:
    for before, whole, humans, extras in zip(
        refset, refset.take(None), refset.take(0), refset.take(None, originals=False), strict=True
    ):
        assert sorted(map(id, whole.refs)) == sorted(map(id, before.refs))
        assert whole.refs == humans.refs + extras.refs
        assert all(ref.kind in ORIGINAL_KINDS for ref in humans.refs)
        assert all(ref.kind not in ORIGINAL_KINDS for ref in extras.refs)


@pytest.mark.slow
@given(sets, ks, st.sets(st.sampled_from(KINDS)))
def test_kinds_are_counted_apart(refset: ReferenceSet, k: int, kinds: set[str]) -> None:
    for before, after in zip(refset, refset.take(k, kinds=sorted(kinds), originals=False), strict=True):
        assert list(after.refs) == [ref for ref in before.extras if ref.kind in kinds][:k]


@pytest.mark.slow
@given(sets)
def test_texts_and_counts(refset: ReferenceSet) -> None:
    texts = refset.texts()
    assert [len(row) for row in texts] == [len(segment.refs) for segment in refset]
    sizes = [len(row) for row in texts]
    assert refset.counts() == ((min(sizes), max(sizes)) if sizes else (0, 0))
    assert refset.counts()[0] <= refset.counts()[1]


@given(st.lists(st.lists(st.none() | st.text(max_size=4), max_size=3), max_size=4))
def test_absent_references_are_left_out_and_empty_ones_kept(rows: list[list[str | None]]) -> None:
    refset = ReferenceSet.from_texts(rows)
    assert refset.texts() == [[text for text in row if text is not None] for row in rows]
    assert [segment.id for segment in refset] == [str(n + 1) for n in range(len(rows))]


def test_from_texts_with_paraphrases() -> None:
    refset = ReferenceSet.from_texts([["a", None], []], paraphrases=[["b", "c"], ["d"]], meta={"k": 2})
    assert refset[0].refs == (
        Reference("a"),
        Reference("b", "paraphrase", of=0, rank=0),
        Reference("c", "paraphrase", of=0, rank=1),
    )
    assert refset[1].refs == (Reference("d", "paraphrase", of=None, rank=0),)
    assert refset.meta == {"k": 2}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReferenceSet.from_texts(["a", "b"]), r"references\[0\] is a string, expected the list"),
        (lambda: ReferenceSet.from_texts([["a"]], paraphrases=[]), "1 segments of references, but 0 of paraphrases"),
        (lambda: Reference("a", kind="robot"), "kind is 'robot', expected one of human, postedit, paraphrase"),
        (lambda: ReferenceSet(()).take(-1), "k is -1, expected 0 or more"),
        (lambda: ReferenceSet(()).take(1, kinds=["robot"]), "unknown kind 'robot'"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_references_point_at_what_they_were_made_from_in_a_view(tmp_path: Path) -> None:
    refs = (
        Reference("paraphrase of c", "paraphrase", of=2),
        Reference("paraphrase of a paraphrase", "paraphrase", of=0),
        Reference("c"),
        Reference("paraphrase of nothing", "paraphrase"),
    )
    whole = ReferenceSet((Segment("1", refs),))
    for view, expected in (
        (whole.take(None), [None, 0, 1, None]),
        (whole.take(1), [None, 0]),
        (whole.take(2, originals=False), [None, 0]),
        (whole.take(None, kinds=["pseudo"]), [None]),
    ):
        assert [ref.of for ref in view[0].refs] == expected
        view.save(tmp_path / "view.jsonl")
        assert ReferenceSet.load(tmp_path / "view.jsonl") == view


def test_segments_are_values() -> None:
    one = Segment("1", (Reference("a"),))
    assert one == Segment("1", (Reference("a"),))
    with pytest.raises(AttributeError):
        one.id = "2"  # type: ignore[misc]


def test_absent_paraphrases_are_left_out() -> None:
    built = ReferenceSet.from_texts([["a"]], paraphrases=[[None, "b"]])
    assert [(ref.text, ref.rank) for ref in built[0].extras] == [("b", 1)]
    with pytest.raises(ValueError, match="is None, expected the list"):
        ReferenceSet.from_texts([None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="expected a string"):
        Reference(None)  # type: ignore[arg-type]


def test_a_set_says_what_it_holds() -> None:
    refset = ReferenceSet.from_texts(
        [["<b>one</b>"], ["two"]], paraphrases=[["1", "I"], ["2"]], meta={"generator": ["first", "second"]}
    )
    assert repr(refset) == (
        "ReferenceSet(2 segments, 1 human each, 1 to 2 paraphrase each, made by first, made by second)"
    )
    assert repr(ReferenceSet(())) == "ReferenceSet(0 segments)"
    shown = refset._repr_html_()
    assert "&lt;b&gt;one&lt;/b&gt;" in shown and "<b>" not in shown
    assert "made by second" in shown


def test_a_saved_set_is_the_same(tmp_path: Path) -> None:
    refset = ReferenceSet.from_texts([["one"], ["two"]], paraphrases=[["1"], []], meta={"k": 1})
    refset.save(tmp_path / "refs.jsonl.gz")
    assert ReferenceSet.load(tmp_path / "refs.jsonl.gz") == refset


def test_plain_lists_are_sets() -> None:
    refset = ReferenceSet.from_texts([["a"], ["b"]])
    assert as_reference_set(refset) is refset
    assert as_reference_set(["a", "b"]) == refset
    assert as_reference_set([["a"], ["b"]]) == refset
    assert as_reference_set([("a", "A"), []]).texts() == [["a", "A"], []]
    assert as_reference_set([]).texts() == []
    assert as_texts(("a", "b"), "`texts`") == ["a", "b"]


def test_arrays_are_lists_and_none_is_an_absent_text() -> None:
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.array(["a", None, "A"], dtype=object), ["b"]]
    assert as_reference_set(ragged).texts() == [["a", "A"], ["b"]]  # type: ignore[arg-type]
    assert as_reference_set([["a", None], [None]]).texts() == [["a"], []]  # type: ignore[list-item]
    assert as_reference_set(np.array(["a", "b"])).texts() == [["a"], ["b"]]  # type: ignore[arg-type]
    assert as_texts(np.array(["a", "b"]), "`texts`") == ["a", "b"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_reference_set("one text"), "`references` is one string, expected a ReferenceSet, or a list"),
        (lambda: as_reference_set(3), "`references` is of type int"),  # type: ignore[arg-type]
        (lambda: as_reference_set([["a"], "b"]), "`references`[1] is 'b', expected a list of texts"),
        (lambda: as_reference_set([["a"], ["b", 3]]), "`references`[1][1] is 3, expected a string"),  # type: ignore
        (lambda: as_texts("one text", "`texts`"), "`texts` is one string, expected a list of strings"),
        (lambda: as_texts(["a", None], "`texts`"), "`texts`[1] is None, expected a string"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_list_of_texts_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert message in str(caught.value)

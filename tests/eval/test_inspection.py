"""What ``polyref.inspect`` says of a set, on texts that are counted by hand."""

from __future__ import annotations

import json
import math
import re
from contextlib import ExitStack
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyref
from polyref.augment.candidates import Dropped
from polyref.errors import DataError, UsageError
from polyref.eval.inspection.counts import histogram
from polyref.eval.inspection.inspection import Inspection
from polyref.eval.inspection.measures import differences
from polyref.formats.own import Spool
from polyref.metrics.ngram.diversity import bleu_to_references, self_bleu
from polyref.references import Reference, ReferenceSet, Segment

HOSTILE = "<script>alert(1)</script> & \"two\" 'one' \x1b[31mred\u202e"


def added(text: str, of: int = 0, **values: Any) -> Reference:
    return Reference(text, kind="paraphrase", of=of, generator="maker", **values)


@pytest.fixture
def references() -> ReferenceSet:
    segments = [
        Segment(
            "a",
            (
                Reference("The cat sat on the mat."),
                added("The cat sat on a mat.", logprob=-0.5, weight=0.9),
                added("the cat sat on the mat", logprob=-0.25, weight=0.8),
                added("The cat sat on a mat!", logprob=-1.0),
            ),
            source="Die Katze",
            lang="en",
        ),
        Segment("b", (Reference("It rained."), Reference("Rain fell.", kind="postedit"))),
        Segment("<c>", (Reference(HOSTILE), added("A dog barks."), added("", of=0))),
    ]
    return ReferenceSet(tuple(segments), {"generator": ["maker", "other"], "k": [3, None], "lang": ["en", "en"]})


@pytest.fixture
def found(references: ReferenceSet) -> Inspection:
    dropped = [Dropped("a", 0, 3, "The dog sat on the mat.", "names"), Dropped("a", 0, 4, "The cat", "length")]
    dropped.append(Dropped("gone", 7, 0, HOSTILE, "names"))
    return polyref.inspect(references, name="my set", dropped=dropped)


def test_counts(found: Inspection) -> None:
    human, edited, made = found.counts.spreads
    assert (human.kind, human.total, human.mean, human.none, human.segments) == ("human", 3, 1.0, 0, (0, 3))
    assert (edited.kind, edited.none) == ("postedit", 2)
    assert (made.kind, made.total, made.none, made.quartiles) == ("paraphrase", 5, 1, (0, 1, 2, 2.5, 3))
    repeats = found.counts.repeats
    assert (repeats.added, repeats.copies, repeats.repeats, repeats.empty) == (5, 1, 1, 1)
    assert found.counts.without_added == 1 and found.counts.sources == 1
    assert found.counts.generators == {"maker": 5}
    assert found.counts.languages == ("en",)
    assert list(found.runs) == [{"generator": "maker", "k": 3, "lang": "en"}, {"generator": "other", "lang": "en"}]
    assert found.counts.logprob is not None and found.counts.logprob.mean == pytest.approx(-1.75 / 3)
    assert found.counts.weight is not None and found.counts.weight.mean == pytest.approx(0.85)
    assert sum(found.counts.weight.counts) == 2


def test_diversity_is_that_of_the_metrics(found: Inspection, references: ReferenceSet) -> None:
    texts = [[ref.text for ref in segment.extras] for segment in references]
    human = [[ref.text for ref in segment.originals] for segment in references]
    mine, theirs = found.diversity[1], found.diversity[0]
    assert mine.self_bleu == pytest.approx(self_bleu(texts).mean())
    assert mine.bleu_to_human == pytest.approx(bleu_to_references(texts, human).mean())
    assert theirs.self_bleu == pytest.approx(self_bleu([human[1]]).mean())
    assert math.isnan(theirs.bleu_to_human)


def test_a_large_set_is_sampled_and_says_so() -> None:
    texts = [[f"text number {i}", f"number {i} of the texts"] for i in range(50)]
    some, same, other = (polyref.inspect(texts, sample=10, seed=seed) for seed in (1, 1, 2))
    assert some.sampled == 10 and some.diversity[0].references == 20
    assert "diversity are of 10 random segments" in some.text() and "sample:10" in some.signature
    assert some.html() == same.html()
    assert [one.segment.id for one in some.examples] != [one.segment.id for one in other.examples]
    assert "random segments" not in polyref.inspect(texts).text()


def test_refusals(found: Inspection) -> None:
    assert found.refusals is not None
    assert [(one.reason, one.count) for one in found.refusals] == [("names", 2), ("length", 1)]
    (example,) = [one.example for one in found.refusals if one.reason == "length"]
    assert example is not None and [(piece.change, piece.text) for piece in example] == [
        ("same", "The cat"),
        ("gone", "sat on the mat."),
    ]


def test_the_file_of_refused_candidates(references: ReferenceSet, tmp_path: Path) -> None:
    path = tmp_path / "dropped.jsonl"
    rows = [{"id": "a", "of": 0, "rank": 2, "text": "The cat", "reason": "length"}, {"id": "a", "text": "x"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:1]))
    refused = polyref.inspect(references, dropped=path).refusals
    assert refused is not None and [(one.reason, one.count) for one in refused] == [("length", 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"dropped\.jsonl:2: .*polyref augment"):
        polyref.inspect(references, dropped=path)


def test_views(found: Inspection) -> None:
    text = found.text()
    assert text.startswith("my set: 3 segments: 3 human, 1 postedit, 5 paraphrase references\n")
    assert "The cat sat on [-the-] {+a+} mat." in text
    assert "\x1b" not in text and "\\x1b[31mred" in text
    assert "refused   3 candidates: names 2, length 1" in text
    assert found.text(lambda change, words: f"<{change} {words}>").count("<gone the>") == 2
    order = ("segment a", "references a segment", "refused ", "BLEU to human", "self-BLEU")
    places = [text.index(part) for part in order]
    assert places == sorted(places) and text.splitlines()[-1].startswith("added ")
    assert repr(found) == "Inspection(my set: 3 segments: 3 human, 1 postedit, 5 paraphrase references)"
    cell = found._repr_html_()
    assert cell.count("<table>") == 2 and "<del>the</del> <ins>a</ins>" in cell and "<script" not in cell
    assert "\u202e" not in cell
    (row,) = found.rows
    assert json.loads(json.dumps(row, allow_nan=False)) == json.loads(json.dumps(row))
    assert row["diversity"][0]["bleu_to_human"] is None and row["refusals"][0] == {"reason": "names", "count": 2}


class _Elements(HTMLParser):
    """The elements of a page that are open at its end, and every attribute that names something elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href") and value and value != "data:,"]
        if tag not in ("meta", "link", "line", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect"):
            assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(found: Inspection, tmp_path: Path) -> None:
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    elements = _Elements()
    elements.feed(page)
    assert elements.open == [] and elements.outside == []
    assert {"del", "ins", "svg", "dl"} <= elements.names and "script" not in elements.names
    assert "&lt;script&gt;" in page and "\x1b" not in page and "\u202e" not in page and r"red\u202e" in page
    assert "<del>the</del> <ins>a</ins>" in page
    headings = ["References to read", "References of a segment", "Who made them", "Scores and lengths", "Diversity"]
    assert [one for one in re.findall("<h2>(.*?)</h2>", page) if one in headings] == headings
    assert page.rindex("self-BLEU") > page.index("<h2>Diversity")
    assert page.count("<figure>") == page.count("<figcaption>Across: ") == page.count("highest bar") == 5


def test_what_is_wrong_is_marked_and_comes_first(found: Inspection) -> None:
    # Of a writer without scores, as "A dog barks." is, other markup is refused; what has scores needs the other filter.
    assert found.faults == {"copy": 1, "duplicate": 1, "empty": 1, "placeholders": 1}
    first, second = found.examples
    assert (first.segment.id, second.segment.id) == ("<c>", "a")  # copies come after what is wrong
    assert [one.fault for one in first.added] == ["placeholders", "empty"]
    assert [one.fault for one in second.added] == ["copy", "duplicate", ""]
    assert "4 references have a fault (" in found.text() and "\n  ! copy: " in found.text()
    assert '<strong class="fault">placeholders</strong>' in found.html()
    assert "<strong>! copy:</strong>" in found._repr_html_()
    (row,) = found.rows
    assert row["faults"] == found.faults and row["examples"][1]["faults"] == ["copy", "duplicate", None]


def test_one_wrong_number_is_found_among_many() -> None:
    def costs(name: str, before: int, after: int) -> Segment:
        made = added(f"In the end, it cost {after} euros.", logprob=-1)
        return Segment(name, (Reference(f"It cost {before} euros in the end."), made))

    segments = [costs(str(n), n, n) for n in range(20, 70)]
    found = polyref.inspect(ReferenceSet((*segments, costs("x", 11, 17)), {"lang": "en"}), examples=1)
    assert found.faults == {"numbers": 1} and [one.segment.id for one in found.examples] == ["x"]
    assert "1 reference has a fault (numbers 1)" in found.text() and "\n  ! numbers: " in found.text()
    right = polyref.inspect(ReferenceSet(tuple(segments), {"lang": "en"}))
    assert right.faults == {} and "No reference with a fault was found; random ones:" in right.text()


def test_what_a_set_does_not_say_is_named(found: Inspection) -> None:
    alone = Segment("1", (Reference("A."), Reference("B.", "paraphrase")))
    text, bare = found.text(), polyref.inspect(ReferenceSet((alone,)))
    assert "unknown   whether outputs of systems are among them (polyref inspect -i SYS)" in text
    for what in ("who made the references", "scores of their generator", "weights", "refused candidates"):
        assert what in " ".join(bare.text().split()) and what in bare.html() and what not in text
    assert "unknown   added references (polyref augment makes some)" in polyref.inspect(["A."]).text()


def test_a_set_in_a_file_is_told_as_one_in_memory(references: ReferenceSet) -> None:
    with ExitStack() as stack:
        held = ReferenceSet(Spool(stack, references), references.meta)
        systems = {"s": ["The cat sat on a mat.", "It rained.", "A dog barks."]}
        assert polyref.inspect(held, systems=systems).rows == polyref.inspect(references, systems=systems).rows


@pytest.mark.parametrize(
    "texts", [[""], ["One."], [["One.", "Two."], []], [[]], [["今天下雨。", "今天下雪。"], ["你好。"]]], ids=str
)
def test_sets_with_little_in_them(texts: Any) -> None:
    found = polyref.inspect(texts)
    assert f"{len(texts)} segment" in found.text()
    assert found.html().endswith("</html>\n") or found.html().endswith("</html>")
    assert ("single characters" in found.html()) == ("今" in str(texts))


@pytest.mark.parametrize(
    ("wrong", "message"), [({"sample": 0}, "`sample` is 0"), ({"examples": -1}, "`examples` is -1")], ids=str
)
def test_what_is_out_of_range_is_named(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        polyref.inspect(["A text."], **wrong)
    with pytest.raises(UsageError, match="no segment"):
        polyref.inspect([])


@given(st.lists(st.sampled_from(["a", "b", "c", "Don't", "1.5", ",", "。", "天", "é"]), max_size=12), st.data())
def test_differences_hold_both_texts(words: list[str], data: st.DataObject) -> None:
    before = " ".join(words)
    after = " ".join(data.draw(st.permutations(words)))
    pieces = differences(before, after)
    for text, left_out in ((before, "new"), (after, "gone")):
        joined = "".join(piece.text + piece.space for piece in pieces if piece.change != left_out)
        assert "".join(joined.split()) == "".join(text.split())
    assert all(one.change != other.change for one, other in pairwise(pieces))


def test_a_mark_between_two_changes_is_part_of_them() -> None:
    assert [(p.change, p.text) for p in differences("He came, late.", "She went, early.")] == [
        ("gone", "He came, late"),
        ("new", "She went, early"),
        ("same", "."),
    ]


def test_histograms_hold_every_value() -> None:
    for values in ([0.5], [-3.0, -3.0], [-1.2, -0.3, -0.31], [1e6, 2e6]):
        bars = histogram(values)
        assert bars is not None and sum(bars.counts) == len(values) and len(bars.counts) == 20
        assert bars.low <= min(values) and max(values) <= bars.high + 1e-9
    outside = histogram([-5, 0.5, 9], 0, 1)
    assert outside is not None and (outside.counts[0], outside.counts[10], outside.counts[19]) == (1, 1, 1)
    assert histogram([]) is None
    edge = histogram([-1.88, -0.01])
    assert edge is not None and f"{edge.high:g}" == "0"  # neither -0 nor -2e-16

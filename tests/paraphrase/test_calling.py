"""Calling a paraphraser: one text or several, what is refused, and what is shown of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rule_paraphraser import RULES, RuleParaphraser

from polyref.errors import UsageError
from polyref.paraphrase import DiverseBeam, Hypothesis, NBest, SearchOptions


def test_one_text_gives_one_list_and_several_give_several() -> None:
    paraphraser = RuleParaphraser()
    one = paraphraser("Ann paid.", k=3)
    assert isinstance(one, NBest)
    assert one.paraphrases == ["Ann paid.", "ANN PAID. !", "Plainly: Ann paid."]
    assert paraphraser(["Ann paid.", "Bob left."], k=3) == list(paraphraser.paraphrase(["Ann paid.", "Bob left."], 3))
    assert paraphraser(("Ann paid.",), k=3) == [one]
    assert paraphraser([]) == []
    assert len(paraphraser("Ann paid.").hypotheses) == 10


def test_one_string_where_several_are_expected_is_refused() -> None:
    paraphraser = RuleParaphraser()
    with pytest.raises(UsageError, match=r"`texts` is one string, expected a list of them .*call the paraphraser"):
        paraphraser.paraphrase("Ann paid.", 3)
    with pytest.raises(UsageError, match=r"`texts`\[1\] is None, expected a string"):
        paraphraser(["Ann paid.", None])  # type: ignore[list-item]
    assert paraphraser.calls == []


def test_texts_are_taken_as_they_are_needed() -> None:
    taken = []

    def texts() -> Iterator[str]:
        for number in range(1000):
            taken.append(number)
            yield f"Text {number}."

    found = RuleParaphraser().paraphrase(texts(), 1)
    assert next(found).text == "Text 0." and len(taken) == 1


def test_a_generator_without_a_search_describes_itself_and_takes_no_search() -> None:
    paraphraser = RuleParaphraser()
    assert paraphraser.describe(None, 5) == paraphraser.describe(DiverseBeam(), 5) == f"rules|sha:0|rules({len(RULES)})"
    for decoding in (DiverseBeam(beam=4), DiverseBeam(strength=0.5), SearchOptions()):
        with pytest.raises(UsageError, match=r"` is an option of a search, but rules does not search: it has rules"):
            paraphraser("Ann paid.", decoding=decoding)
    with pytest.raises(UsageError, match="`k` is 0, expected 1 or more"):
        paraphraser("Ann paid.", k=0)
    with pytest.raises(UsageError, match="language 'de' is unknown to the model"):
        paraphraser("Ann paid.", lang="de")


def test_what_is_shown() -> None:
    paraphraser = RuleParaphraser()
    assert repr(paraphraser) == "RuleParaphraser('rules|sha:0')"
    nbest = NBest("a < b", (Hypothesis("b > a", -0.125), Hypothesis("less")), truncated=True)
    assert repr(nbest) == "NBest('a < b': ['b > a', 'less'], truncated)"
    assert nbest._repr_html_() == (
        "<table><thead><tr><th>score</th><th>a &lt; b</th></tr></thead>"
        "<tbody><tr><td>-0.12</td><td>b &gt; a</td></tr><tr><td></td><td>less</td></tr></tbody></table>"
    )
    shown = paraphraser._repr_html_()
    assert "<td>rules|sha:0</td>" in shown and f"<td>rules({len(RULES)})</td>" in shown

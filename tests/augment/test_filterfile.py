from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment import Dropped, FilterChain, augment, filter_chain
from polyref.augment.candidates import Candidate
from polyref.augment.checks import Check
from polyref.augment.filters import CHECKS, FILTERS, Measure, read_filter
from polyref.augment.measures import Equivalence
from polyref.errors import DataError, ModelError, UsageError
from polyref.references import ReferenceSet

LENGTHS = {"low": 0.5, "high": 2}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text, "utf-8")
        return path

    return written


def test_every_check_by_itself(write: Callable[[str], Path]) -> None:
    for name in CHECKS:
        assert len(read_filter(write(f"{name} = true")).checks) == 1
        assert read_filter(write(f"[{name}]")).checks[0].name == read_filter(write(f"{name} = true")).checks[0].name


def test_a_preset_with_changes(write: Callable[[str], Path]) -> None:
    chain = read_filter(write('base = "default"\necho = false\n[length]\nlow = 0.5\nhigh = 2\n'))
    expected = filter_chain("default").name.partition(":")[2].replace("+echo", "").replace("0.6-1.6", "0.5-2")
    assert chain.name.partition(":")[2] == expected
    assert read_filter(write('base = "default"')).reasons == filter_chain("default").reasons
    assert read_filter(write("")).reasons == ("empty", "copy", "duplicate")


def test_the_name_holds_a_hash_of_what_the_file_says(write: Callable[[str], Path]) -> None:
    def name(text: str, lang: str = "en") -> str:
        return read_filter(write(text), lang).name

    assert name("numbers = true # a remark\nlinks = true") == name("links=true\n\nnumbers=true")
    assert name("[length]\nslack = 3") != name("[length]\nslack = 4")
    assert name("numbers = true") != name("numbers = true", "de")
    assert name("numbers = true").startswith("mine#")


KNOWN = ", ".join(("base", *FILTERS.names()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense = true", f"mine.toml: unknown key 'nonsense', expected some of {KNOWN}"),
        ("[length]\nlower = 1", "mine.toml: [length]: unknown key 'lower', expected some of low, high, slack"),
        ("[numbers]\nx = 1", "mine.toml: [numbers]: unknown key 'x', but numbers takes none"),
        ("[length]\nlow = 'x'", "mine.toml: [length]: 'low' is 'x', expected a number from 0"),
        ("[length]\nslack = 1.5", "mine.toml: [length]: 'slack' is 1.5, expected a whole number from 0"),
        ("[omission]\nallowed = 2", "mine.toml: [omission]: 'allowed' is 2, expected a number from 0 to 1"),
        ("[negation]\nexact = 1", "mine.toml: [negation]: 'exact' is 1, expected true or false"),
        ("length = 3", "mine.toml: 'length' is 3, expected true, false or a table [length]"),
        (
            "base = 'loose'",
            "mine.toml: \"base\" is 'loose', expected one of default, good-writer, small-model, strict, none",
        ),
        ("numbers = true\nlinks = \n", "mine.toml:2: not valid TOML: Invalid value"),
        ("[backward]", "mine.toml: [backward] drops nothing and weighs nothing (give it min, quantile or power)"),
        ("[embedding]\nmin = 2", "mine.toml: [embedding]: 'min' is 2, expected a number from -1 to 1"),
        ("[backward]\nmin = 2", "mine.toml: [backward]: 'min' is 2, expected a number of at most 0"),
        ("[embedding]\nquantile = true", "mine.toml: [embedding]: 'quantile' is True, expected a number from 0 to 1"),
    ],
)
def test_errors_name_file_key_and_what_is_known(write: Callable[[str], Path], text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_filter(write(text))
    assert message in str(error.value)


def test_values_that_do_not_fit_together(write: Callable[[str], Path]) -> None:
    with pytest.raises(UsageError, match=r"mine.toml: \[length\]: low is 2 and high 0.5, expected low to be no more"):
        read_filter(write("[length]\nlow = 2.0\nhigh = 0.5"))
    with pytest.raises(UsageError, match=r"mine.toml: \[length\]: low is 2 and high 1.6"):
        read_filter(write("[length]\nlow = 2"))


def test_a_model_that_is_not_there(write: Callable[[str], Path], tmp_path: Path) -> None:
    for key in ("embedding", "backward"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(ModelError, match=rf"mine.toml: \[{key}\]: .*empty"):
            read_filter(write(f'[{key}]\nmodel = "{tmp_path}/empty"\nmin = -1'))


def test_english_checks_are_for_english(write: Callable[[str], Path]) -> None:
    assert len(read_filter(write('base = "default"\nechoes = false'.replace("echoes", "echo")), "de").checks) == 7
    with pytest.raises(DataError, match="'names' knows English alone, but the references are 'de'"):
        read_filter(write("names = true"), "de")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match="there is no filter 'lose', expected one of default, good-writer, small-model, strict, none, or a TOML",
    ):
        filter_chain("lose")
    with pytest.raises(DataError, match=r"none\.toml"):
        filter_chain(str(tmp_path / "none.toml"))


class Lengths:
    """A scorer for tests: minus the difference in characters."""

    signature = "lengths"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.calls.append(len(pairs))
        return [-float(abs(len(a) - len(b))) for a, b in pairs]

    def weight(self, value: float) -> float:
        return 1 / (1 - value)


def test_thresholds_quantiles_and_weights() -> None:
    segment = ReferenceSet.from_texts([["abcd"]])[0]
    found = [[Candidate(text, 0, rank) for rank, text in enumerate(["abcd!", "ab", "abcdefgh", "a", "abcdef"])]]

    def left(**options: float) -> tuple[list[str], list[float | None], int]:
        dropped: Counter[str] = Counter()
        (kept,) = Measure("m", Lengths(), **options).apply([segment], found, dropped)
        return [one.text for one in kept], [one.weight for one in kept], dropped["m"]

    assert left(minimum=-2) == (["abcd!", "ab", "abcdef"], [None] * 3, 2)
    # Two fifths, rounded down: the two with the lowest values.
    assert left(quantile=0.59)[0] == ["abcd!", "ab", "abcdef"]
    # Of equal ones the worse rank goes.
    assert left(quantile=0.6)[0] == ["abcd!", "ab"]
    assert left(quantile=1)[0] == [] and left(quantile=0)[2] == 0
    assert left(power=2)[1] == [0.25, 0.1111, 0.04, 0.0625, 0.1111]


def test_of_equal_candidates_the_one_of_a_later_reference_goes() -> None:
    segment = ReferenceSet.from_texts([["abcd", "efgh"]])[0]
    found = [Candidate("abcde", 0, 0), Candidate("efghi", 1, 0)]
    for given in (found, found[::-1]):
        assert Measure("m", Lengths(), quantile=0.5).apply([segment], [given], Counter()) == [[found[0]]]


def test_what_a_measure_refuses_is_told_and_counted_by_its_name() -> None:
    segments = ReferenceSet.from_texts([["abcd"], ["ef"]]).segments
    chain = FilterChain("m", (Check("c", str.__eq__),), tuple(Measure(f"m{n}", Lengths(), minimum=-n) for n in (3, 1)))
    assert chain.reasons == ("empty", "copy", "duplicate", "c", "m3", "m1")
    found = [[Candidate(text, 0, rank) for rank, text in enumerate(("abcdefgh", "abc", "ab"))], [Candidate("efg")]]
    dropped: Counter[str] = Counter()
    refused: list[list[Dropped]] = [[], []]
    assert chain.measure(segments, found, dropped, refused) == [found[0][1:2], found[1]]
    assert dropped == {"m3": 1, "m1": 1}
    assert refused == [[Dropped("1", 0, 0, "abcdefgh", "m3"), Dropped("1", 0, 2, "ab", "m1")], []]


def test_a_measure_gives_one_value_a_candidate() -> None:
    class More(Lengths):
        def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
            return [0.0] * (len(pairs) + 1)

    with pytest.raises(ValueError, match="longer"):
        Measure("m", More()).apply(ReferenceSet.from_texts([["abcd"]]).segments, [[Candidate("ab")]], Counter())


@pytest.mark.parametrize("value", [float("nan"), float("-inf")], ids=["NaN", "infinity"])
def test_a_measure_is_a_finite_number(value: float) -> None:
    class Odd(Lengths):
        def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
            return [value for _ in pairs]

    segment = ReferenceSet.from_texts([["abcd"]])[0]
    with pytest.raises(ModelError, match=f"m measures {value} for 'ab', expected a finite number"):
        Measure("m", Odd()).apply([segment], [[Candidate("ab", 0, 0)]], Counter())


def test_measures_in_the_pipeline() -> None:
    scorer = Lengths()
    chain = FilterChain("m", (), (Measure("far", scorer, minimum=-10, power=1.0),))
    references = ReferenceSet.from_texts([["Ann paid."], ["Bob left."], [""]])
    result = augment(references, RuleParaphraser(), 2, filters=chain)
    # All candidates of all segments are measured in one go, then the best k of those that are left are taken.
    assert scorer.calls == [2 * 2]
    assert [[ref.text for ref in segment.extras] for segment in result] == [
        ["Plainly: Ann paid.", "Clearly: Ann paid."],
        ["Plainly: Bob left.", "Clearly: Bob left."],
        [],
    ]
    assert {ref.weight for segment in result for ref in segment.extras} == {0.1}
    # In the order of segments and ranks, whichever part of the chain refused them.
    no_colon = Check("no-colon", lambda reference, candidate: ":" not in candidate)
    chain = FilterChain("m", (no_colon,), (Measure("far", scorer, quantile=1),))
    dropped: list[Dropped] = []
    augment(references, RuleParaphraser(), 3, filters=chain, dropped=dropped)
    reasons = ["copy", "copy", "no-colon", "no-colon", "far", "no-colon"]
    assert [(one.id, one.rank, one.reason) for one in dropped] == [
        (id, rank, reason) for id in ("1", "2") for rank, reason in enumerate(reasons)
    ]


@pytest.mark.slow
def test_models(write: Callable[[str], Path], polyref: Callable[..., Any], tmp_path: Path) -> None:
    """Adequacy by the shipped model: embeddings and forced scores, both ways, as the command line uses them."""
    text = "[embedding]\npower = 1.0\n[forward]\nmin = -9\n[backward]\nquantile = 0.5\npower = 0.5\n"
    chain = read_filter(write(text))
    assert chain.reasons[3:] == ("embedding", "forward>=-9", "backward@0.5")
    cosine, forward, backward = (measure.scorer for measure in chain.measures)
    reference = "The committee will publish its final report on 14 March."
    pairs = [
        (reference, reference),
        (reference, "The committee publishes its final report on March 14."),
        (reference, "The committee will publish it."),
        (reference, "Our order arrived four days late."),
        (reference, ""),
    ]
    same, near, _, other, nothing = cosine.score(pairs)
    assert same == pytest.approx(1) and same > near > other and nothing == 0
    values = forward.score(pairs[:4])
    assert all(value < 0 for value in values) and values[3] == min(values)
    # What was left out shows backward: the reference cannot be told from what remains.
    scores = backward.score(pairs[:4])
    assert scores[1] > scores[2] > scores[3]
    # Both directions, less what each text is worth given itself: 0 for a copy, and the order of rightness.
    both = Equivalence(lang="en").score(pairs[:4])
    itself = [forward.score([(text, text)])[0] for _, text in pairs[:4]]
    assert both[0] == pytest.approx(0, abs=1e-5) and both == sorted(both, reverse=True)
    assert both == pytest.approx([a - b + c - itself[0] for a, b, c in zip(values, itself, scores)], abs=1e-4)
    # Neighbours do not matter.
    assert cosine.score(pairs[1:2]) == pytest.approx([near], abs=1e-5)
    assert backward.score(pairs[2:3]) == pytest.approx([scores[2]], abs=1e-5)
    assert not backward._scorer.known  # or it would grow with the references

    (tmp_path / "refs.en").write_text("In 2018, about 1,500 people worked in the two factories.\n")
    out = tmp_path / "out.jsonl"
    command = ("augment", tmp_path / "refs.en", "--model", "shipped", "-k", "2", "-o", out)
    result = polyref(*command, "--filter", tmp_path / "mine.toml")
    assert result.code == 0 and "dropped: backward@0.5" in result.err
    header, line = out.read_text().splitlines()
    assert json.loads(header)["meta"]["filters"] == chain.name
    weights = [ref["weight"] for ref in json.loads(line)["refs"][1:]]
    assert weights and all(0 < weight <= 1 for weight in weights)

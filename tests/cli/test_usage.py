"""How the command line is called: mistakes are answered in one line that says what may have been meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.cli.commands import GONE
from polyref.cli.options import spread

MISTAKES = [
    (["scor"], "no command 'scor': did you mean 'score'? (polyref --help)"),
    (["frobnicate"], "no command 'frobnicate': expected one of paraphrase, augment, score"),
    (["convert", "ref"], "id you mean 'refs'? (polyref convert --help)"),
    (["score", "r", "-i", "s", "--combin", "max"], "no such option '--combin': did you mean --combine?"),
    (["score", "--refs", "r", "-i", "s"], "`--refs` is no option: references come first, as in `polyref score REFS -i"),
    (["score", "r", "-i", "s", "--xyzzy"], "no such option '--xyzzy' (polyref score --help)"),
    (["score", "r", "-i", "s", "--combine", "mx"], "'mx' is not one of 'max'"),
    (["score", "r", "-i", "s", "-k", "x"], "invalid value for '-k': 'x' is not a whole number"),
    (["augment"], "Missing argument 'REFS...' (the files of references"),
    (["augment", "r", "s", "r"], "r is named twice (name each file of references once)"),
    (["score", "r", "r", "-i", "s"], "r is named twice (name each file of references once)"),
    (["convert", "refs", "r"], "Missing argument 'IN... OUT' (the files of references"),
    (["evaluate", "x"], "missing option '-l'"),
]


@pytest.mark.parametrize(("args", "said"), MISTAKES, ids=[" ".join(args) for args, _ in MISTAKES])
def test_a_mistake_is_one_line(polyref: Callable[..., Any], args: list[str], said: str) -> None:
    outcome = polyref(*args)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("polyref: error: ") and outcome.err.count("\n") == 1
    assert said in outcome.err


@pytest.mark.parametrize(("command", "option"), GONE, ids=lambda words: words or "-")
def test_what_has_gone_says_what_to_do(polyref: Callable[..., Any], command: str, option: str) -> None:
    outcome = polyref(*command.split(), *option.split())
    assert (outcome.code, outcome.out) == (2, "")
    said = GONE[command, option]
    assert outcome.err.startswith(f"polyref: error: {said[:1].lower()}{said[1:]} (polyref ")
    assert outcome.err.count("\n") == 1 and "has gone" in said


def test_an_option_a_value_and_a_command_that_have_gone(
    polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GONE, ("score", "--combine mx"), "`--combine mx` has gone: use max")
    monkeypatch.setitem(GONE, ("score", "--xyzzy"), "`--xyzzy` has gone: leave it out")
    monkeypatch.setitem(GONE, ("convert modl", ""), "`polyref convert modl` has gone: do without")
    assert "error: `--combine mx` has gone: use max (" in polyref("score", "r", "-i", "s", "--combine", "mx").err
    assert "error: `--xyzzy` has gone: leave it out (" in polyref("score", "r", "-i", "s", "--xyzzy", "2").err
    assert "error: `polyref convert modl` has gone: do without (" in polyref("convert", "modl", "a").err
    assert "'my' is not one of 'max'" in polyref("score", "r", "-i", "s", "--combine", "my").err


def test_no_command_shows_the_help(polyref: Callable[..., Any]) -> None:
    outcome = polyref()
    assert outcome.code == 2
    assert "Usage: polyref" in outcome.err and "augment" in outcome.err


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["-k", "0,1,5"], ["-k", "0", "-k", "1", "-k", "5"]),
        (["-k", "0,1", "5"], ["-k", "0", "-k", "1", "-k", "5"]),
        (["-k", "0", "1,5,"], ["-k", "0", "-k", "1", "-k", "5"]),
        (["-k", ","], ["-k", ","]),
        (["-i", "a,b.en", "c.en"], ["-i", "a,b.en", "-i", "c.en"]),
        (["-k", "0", "--", "1,2"], ["-k", "0", "--", "1,2"]),
    ],
)
def test_commas_part_values_of_lists(args: list[str], expected: list[str]) -> None:
    assert list(spread(args, {"-k", "-i"}, {"-k"})) == expected


MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"


def test_lists_with_commas(polyref: Callable[..., Any], tmp_path: Path) -> None:
    added = MINIMAL / "paraphrases" / "de-en.refA.jsonl"
    systems = sorted((MINIMAL / "system-outputs" / "de-en").glob("*.txt"))[:1]
    spaces = polyref("score", added, "-i", *systems, "-k", "0", "1", "-m", "bleu", "chrf", "--json")
    commas = polyref("score", added, "-i", *systems, "-k", "0,1", "-m", "bleu,chrf", "--json")
    assert spaces.code == 0, spaces.err
    assert commas.json() == spaces.json()
    given = [MINIMAL, "--ref", "refA", "--gold", "mqm", "--refs", added, "-n", "0", "--json"]
    spaces = polyref("evaluate", *given, "-l", "de-en", "-k", "0", "1", "-m", "bleu", "chrf", "--statistic", "pearson",
                     "kendall-tau-b")  # fmt: skip
    commas = polyref("evaluate", *given, "-l", "de-en,", "-k", "0,1", "-m", "bleu,chrf", "--statistic",
                     "pearson,kendall-tau-b")  # fmt: skip
    assert spaces.code == 0, spaces.err
    assert commas.json() == spaces.json()


def completions(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is told for a line whose last word is to be completed."""
    from polyref.cli.main import cli

    monkeypatch.setenv("_POLYREF_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        cli.main(prog_name="polyref", args=[])
    return capsys.readouterr().out.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("polyref sc", ["plain,score"]),
        ("polyref score ", ["file,"]),
        ("polyref score refs.en -i sy", ["file,sy"]),
        ("polyref score refs.en -i sysA.en sy", ["file,sy"]),
        ("polyref score refs.en -m chr", ["plain,chrf", "plain,chrf++"]),
        ("polyref score refs.en -i s -m bleu chr", ["plain,chrf", "plain,chrf++"]),
        ("polyref score refs.en --combine exp", ["plain,expected"]),
        ("polyref score refs.en --combi", ["plain,--combine"]),
        ("polyref evaluate set -m bleu pri", ["plain,prism", "plain,prism-src"]),
        ("polyref augment re", ["file,re"]),
        ("polyref paraphrase re", ["file,re"]),
        ("polyref augment refs.en -o re", ["file,re"]),
        ("polyref augment refs.en --candidates nb", ["file,nb"]),
        ("polyref score refs.en -i s --source s", ["file,s"]),
        ("polyref evaluate set --refs re", ["file,re"]),
        ("polyref evaluate set --statistic tie", ["plain,tie-rate"]),
        ("polyref inspect re", ["file,re"]),
        ("polyref convert refs re", ["file,re"]),
        ("polyref convert refs refs.jsonl re", ["file,re"]),
    ],
)
def test_the_shell_completes(
    words: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completions(words, monkeypatch, capsys) == expected


@pytest.mark.parametrize(
    "words",
    ["paraphrase", "augment", "score", "evaluate", "inspect", "submit", "demo"],
)  # fmt: skip
def test_every_command_that_computes_takes_a_number_of_threads(words: str, polyref: Callable[..., Any]) -> None:
    assert "--threads" in polyref(*words.split(), "--help").out

"""Options are written once: what a declaration says holds in Python and at the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import click
import pytest
from click.testing import CliRunner
from typing_extensions import Unpack

import polyref
from polyref.cli.main import COMMANDS
from polyref.cli.options import HeadedCommand, options_of
from polyref.errors import UsageError
from polyref.eval.options import EvaluateOptions, Measured
from polyref.options import Option, declared, option, with_options


class Drawing(TypedDict, total=False):
    draws: Annotated[int, Option(100, "How often.", least=1)]
    parts: Annotated[Sequence[str], Option((), "Which.", choices=("a", "b"))]


@with_options(Drawing)
def draw(name: str, **more: Unpack[Drawing]) -> dict[str, Any]:
    return {"name": name, **more}


def test_keywords_are_filled_in_and_checked() -> None:
    assert draw("x") == {"name": "x", "draws": 100, "parts": ()}
    assert draw("x", draws=3, parts="a") == {"name": "x", "draws": 3, "parts": ("a",)}
    assert str(inspect.signature(draw)) == (
        "(name: 'str', *, draws: int = 100, parts: collections.abc.Sequence[str] = ()) -> 'dict[str, Any]'"
    )
    for given, message in (
        ({"draws": 0}, "`draws` is 0, expected 1 or more"),
        ({"draws": "x"}, "`draws` is 'x', expected a whole number from 1"),
        ({"parts": ["a", "c"]}, "`parts` is 'c', expected one of a, b"),
    ):
        with pytest.raises(UsageError) as refused:
            draw("x", **given)  # type: ignore[arg-type]
        assert refused.value.message == message
    with pytest.raises(TypeError, match="unexpected keyword argument 'drawn'; did you mean 'draws'"):
        draw("x", drawn=1)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Beam:
    width: int | None = option(None, help="How many.", least=1, otherwise="as many as asked for")
    early: bool = option(True, help="Stop early.", heading="Search")


def test_a_command_has_the_options_that_are_declared() -> None:
    @click.command(cls=HeadedCommand)
    @options_of(Drawing)
    @options_of(Beam, gathered="beam")
    def command(draws: int, parts: tuple[str, ...], beam: Beam) -> None:
        click.echo(f"{draws} {parts} {beam}")

    def run(*words: str) -> str:
        return CliRunner().invoke(command, words).output

    assert run() == "100 () Beam(width=None, early=True)\n"
    assert run("--parts", "a", "b", "--no-early", "--width", "2") == "100 ('a', 'b') Beam(width=2, early=False)\n"
    assert "Invalid value for '--draws': 0 is not in the range x>=1." in run("--draws", "0")
    common, search = " ".join(run("--help").split()).split("Search:")
    assert "--draws N How often. [default: 100; x>=1]" in common
    assert "--width N How many. [default: as many as asked for] [x>=1]" in common
    assert "--early / --no-early Stop early. [default: early]" in search


def test_what_evaluate_names_is_as_declared() -> None:
    parameters = inspect.signature(polyref.evaluate).parameters
    named = [name for name in parameters if name not in declared(EvaluateOptions)]
    assert len(named) == 15
    assert set(named) - {"data"} == set(declared(Measured))
    for name, one in declared(Measured).items():
        default = parameters[name].default
        if name not in ("pairs", "references", "originals"):
            assert (default or None) == (one.default or None)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("cache", "convert")])
def test_help_shows_few_options_before_its_headings(name: str, polyref: Callable[..., Any]) -> None:
    options = polyref(name, "--help").out.split("\nOptions:\n")[1].split("\n\n")[0]
    assert 0 < sum(line.startswith("  -") for line in options.splitlines()) <= 15

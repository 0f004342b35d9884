"""What an engine takes, and what is said where Ray is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from polyref.augment.inputs import Inputs
from polyref.augment.lists import open_lists
from polyref.engine import Engine
from polyref.errors import UsageError


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"name": "spark"}, "`engine` is 'spark', expected one of local, ray"),
        ({"jobs": 0}, "`jobs` is 0, expected 1 or more"),
        ({"address": "auto"}, "`address` is given, but `engine` is local"),
        ({"gpus": 0.5}, "`gpus` is given, but `engine` is local"),
        ({"gpus": -1.0}, "`gpus` is -1, expected a part of 1, or a whole number"),
        ({"gpus": float("nan")}, "`gpus` is nan, expected a part of 1, or a whole number"),
        ({"gpus": float("inf")}, "`gpus` is inf, expected a part of 1, or a whole number"),
        ({"gpus": 1.5}, "`gpus` is 1.5, expected a part of 1, or a whole number"),
    ],
)
def test_what_is_refused(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Engine(**facts)
    assert said in str(caught.value)


@pytest.mark.slow
def test_local_processes_are_workers() -> None:
    workers = Engine("local", jobs=2).workers(partial(partial, pow, 2))
    assert list(workers.map(range(9))) == [2**n for n in range(9)]
    workers.close()


def test_without_ray_one_line_says_what_to_install(
    tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "refs").write_text("One line.\n")
    refs = tmp_path / "refs"
    for command in (("augment", refs), ("score", refs, "-i", refs, "-m", "prism", "-q")):
        done = polyref(*command, "--engine", "ray")
        assert done.code == 2
        assert done.err == "polyref: error: --engine is ray, which is not installed (pip install 'ray[data]')\n"


def test_who_is_asked_by_one_process_is_not_asked_by_an_engine(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    pytest.importorskip("ray")
    refs = tmp_path / "refs.en"
    refs.write_text("One line.\n")
    done = polyref("augment", refs, "--engine", "ray", "--model", "chat:nowhere")
    assert done.code == 2 and "language models are asked by one process" in done.err
    done = polyref("augment", refs, "--engine", "ray", "--candidates", refs)
    assert done.code == 2 and "--engine has no use" in done.err
    from contextlib import ExitStack

    with ExitStack() as stack, pytest.raises(UsageError, match="candidates that are read from files"):
        open_lists([str(refs)], stack.enter_context(Inputs([refs])), stack)[0].reload()

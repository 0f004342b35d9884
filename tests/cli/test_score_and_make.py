"""``polyref score --model``: the added references that are missing are made, kept, and scored with."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

from polyref.cache import sets_folder

REFS = [
    "The committee will meet again on Friday.",
    "He bought a big house near the old station.",
    "Many people think that the new law is a mistake.",
    "She quickly answered the difficult question.",
]
SYSTEMS = {
    "sysA.en": [
        "The committee meets again Friday.",
        "He purchased a large house near the old station.",
        "Many think that the new law is an error.",
        "She answered the hard question quickly.",
    ],
    "sysB.en": [
        "On Friday the board comes together.",
        "He bought a big home by the station.",
        "Many people believe the law is a mistake.",
        "She replied fast.",
    ],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files, which is the current one, and a cache of its own."""
    for name, lines in {"refs.en": REFS, **SYSTEMS}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _kept() -> list[Path]:
    return sorted(sets_folder().rglob("*.polyref.jsonl"))


def _printed(err: str) -> list[list[str]]:
    """The arguments of the commands that were printed."""
    return [shlex.split(line)[1:] for line in err.splitlines() if line.startswith("  polyref ")]


def _same_as_two_commands(polyref: Callable[..., Any], *arguments: str) -> Any:
    """Score in one command, then by the two that it prints; what the first one said."""
    one = polyref("score", "refs.en", "-i", "sysA.en", "sysB.en", "-m", "parbleu", "parchrf", *arguments, "--json")
    assert one.code == 0, one.err
    augment, score = _printed(one.err)
    assert (augment[0], score[0]) == ("augment", "score")
    done = polyref(*augment)
    assert done.code == 0, done.err
    two = polyref(*score)
    assert (two.code, two.out) == (0, one.out)
    (kept,) = _kept()
    assert kept.read_bytes() == Path(score[1]).read_bytes()
    return one


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--model", "lexical", "-k", "3"), id="a table of words"),
        pytest.param(("--model", "lexical", "-k", "0", "1", "2", "--lang", "en", "--filter", "none"), id="options"),
        pytest.param(("--model", "shipped", "-k", "3"), id="the shipped model", marks=pytest.mark.slow),
        pytest.param(
            ("--model", "shipped", "lexical", "-ci", "--seed", "5"), id="two generators", marks=pytest.mark.slow
        ),
    ],
)
def test_the_same_set_and_numbers_as_two_commands(
    polyref: Callable[..., Any], here: Path, arguments: tuple[str, ...]
) -> None:
    one = _same_as_two_commands(polyref, *arguments)
    assert max(row["references"]["max"] for row in one.json()["rows"]) > 1
    assert sorted(path.name for path in here.iterdir()) == [
        "cache",
        "refs.en",
        "refs.polyref.jsonl",
        "sysA.en",
        "sysB.en",
    ]


def test_lists_made_elsewhere(polyref: Callable[..., Any], here: Path) -> None:
    (here / "list.txt").write_text("".join(f"One hears that {line.lower()}\n" for line in REFS), "utf-8")
    _same_as_two_commands(polyref, "--candidates", "list.txt", "--filter", "none")
    (here / "list.txt").write_text("".join(f"People say that {line.lower()}\n" for line in REFS), "utf-8")
    again = polyref("score", "refs.en", "-i", "sysA.en", "--candidates", "list.txt", "--filter", "none")
    assert again.code == 0
    assert len(_kept()) == 2, "a list that changed is another list"


def test_a_language_model_is_asked_once(polyref: Callable[..., Any], here: Path) -> None:
    server = ChatServer()
    with server.running() as url:
        model = ("--model", "openai:tiny", "--base-url", url, "--lang", "en", "-k", "2")
        _same_as_two_commands(polyref, *model, "--filter", "none")
        asked = len(server.requests)
        assert asked == len(REFS), "the second command finds the answers"
        other = polyref("score", "refs.en", "-i", "sysB.en", "-m", "parchrf", *model, "--filter", "none")
        assert other.code == 0
        assert f"made before: {_kept()[0]}" in other.err
        assert polyref("score", "refs.en", "-i", "sysB.en", *model).code == 0  # another filter of the same answers
        assert len(server.requests) == asked
        (here / "refs.en").write_text("".join(f"{line}\n" for line in reversed(REFS)), "utf-8")
        assert polyref("score", "refs.en", "-i", "sysB.en", *model).code == 0
        assert len(server.requests) > asked


def test_what_failed_is_asked_again_on_demand(polyref: Callable[..., Any], here: Path) -> None:
    broken = True
    server = ChatServer(lambda text, attempt, repair: "307" if broken and text == REFS[1] else None)
    with server.running() as url:
        line = ("score", "refs.en", "-i", "sysA.en", "-m", "parbleu", "--model", "openai:tiny", "--base-url", url)
        line += ("--lang", "en", "-k", "2", "--filter", "none")
        assert "failed" in polyref(*line).err
        broken = False
        assert polyref(*line).code == 0
        before = len(server.requests)
        assert polyref(*line, "--retry-failed").code == 0
        assert len(server.requests) == before + 1
    (kept,) = _kept()
    counts = [len(json.loads(line)["refs"]) for line in kept.read_text("utf-8").splitlines()[1:]]
    assert counts == [3, 3, 3, 3]


@pytest.mark.slow
def test_two_programs_make_a_set_once(here: Path) -> None:
    server = ChatServer()
    server.delay = 0.3
    with server.running() as url:
        line = [sys.executable, "-m", "polyref", "score", "refs.en", "-m", "parbleu", "-k", "2", "--model"]
        line += ["openai:tiny", "--base-url", url, "--lang", "en", "-i"]
        both = [subprocess.Popen([*line, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name in SYSTEMS]
        said = [process.communicate()[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert set(server.given.values()) == {1}
    assert sum("another program" in one for one in said) == 1


def test_a_model_of_other_files_is_another_model(polyref: Callable[..., Any], here: Path) -> None:
    table = here / "words.tsv"
    table.write_text("big\tlarge\t0.9\n", "utf-8")
    line = ("score", "refs.en", "-i", "sysA.en", "--model", f"lexical:{table}", "--lang", "en", "-k", "1")
    assert polyref(*line).code == 0
    table.write_text("big\thuge\t0.9\n", "utf-8")
    assert polyref(*line).code == 0
    texts = [path.read_text("utf-8") for path in _kept()]
    assert len(texts) == 2 and texts[0] != texts[1]


def test_nothing_is_made_before_the_files_fit(polyref: Callable[..., Any], here: Path) -> None:
    server = ChatServer()
    with server.running() as url:
        model = ("-m", "parbleu", "--model", "openai:tiny", "--base-url", url, "--lang", "en")
        (here / "short.en").write_text("One line.\n", "utf-8")
        assert polyref("score", "refs.en", "-i", "short.en", *model).code == 1
        assert polyref("score", "refs.en", "-i", "absent.en", *model).code == 1
        assert polyref("score", "refs.en", "-i", "sysA.en", "--paired-ar", *model).code == 2
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("-k", "0", "--model", "lexical"), "--model has no use with -k 0", id="no added reference"),
        pytest.param(("--lang", "en"), "--lang has no use without --model or --candidates", id="lang alone"),
        pytest.param(("--filter", "none"), "--filter has no use without --model or --candidates", id="filter alone"),
        pytest.param(("--base-url", "http://localhost/v1"), "--base-url has no use without --model", id="url alone"),
        pytest.param(("--retry-failed",), "--retry-failed has no use without --model", id="retry alone"),
        pytest.param(("--model", "lexical", "-e", "latin-1"), "--encoding has no use with --model", id="encoding"),
        pytest.param(("--model", "lexical", "-nr", "1"), "--num-refs has no use with --model", id="num-refs"),
        pytest.param(
            ("--model", "lexical", "-sl", "--peers", "leave-one-out"), "--peers has no use with --model", id="peers"
        ),
        pytest.param(
            ("--model", "lexical", "-m", "bertscore", "--no-cache"), "--no-cache turns off", id="without a cache"
        ),
        pytest.param(
            ("--model", "lexical", "--base-url", "http://localhost/v1"), "an option of language models", id="no server"
        ),
        pytest.param(("--model", "lexical", "--device", "cuda"), "--device", id="nothing computes"),
    ],
)
def test_options_without_a_use_are_refused(
    polyref: Callable[..., Any], here: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = polyref("score", "refs.en", "-i", "sysA.en", "sysB.en", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert _kept() == []


def test_references_with_added_ones_need_none(polyref: Callable[..., Any], here: Path) -> None:
    assert polyref("augment", "refs.en", "--model", "lexical", "-k", "2", "-o", "set.jsonl").code == 0
    result = polyref("score", "set.jsonl", "-i", "sysA.en", "--model", "lexical")
    assert result.code == 2
    assert "--model has no use: set.jsonl has added references already (leave it out" in result.err


def test_what_can_be_read_once_is_refused(polyref: Callable[..., Any], here: Path) -> None:
    result = polyref("score", "-", "-i", "sysA.en", "--model", "lexical")
    assert result.code == 2
    assert "<stdin> can be read once, but --model reads it twice (name a file)" in result.err


def test_without_a_generator_it_says_what_is_needed(polyref: Callable[..., Any], here: Path) -> None:
    for arguments in (("-m", "parbleu"), ("-k", "5")):
        result = polyref("score", "refs.en", "-i", "sysA.en", *arguments)
        assert result.code == 2
        assert "but the references have none (add paraphrases with polyref augment" in result.err
        assert "or name generators: --model lexical shipped)" in result.err


def test_a_folder_that_cannot_be_made_is_named(
    polyref: Callable[..., Any], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "file").touch()
    monkeypatch.setenv("POLYREF_CACHE", str(here / "file"))
    result = polyref("score", "refs.en", "-i", "sysA.en", "--model", "lexical")
    assert result.code == 1
    assert "no set can be kept here: Not a directory (POLYREF_CACHE=FOLDER names another place" in result.err


def test_the_printed_commands_overwrite_nothing(polyref: Callable[..., Any], here: Path) -> None:
    (here / "refs.polyref.jsonl").write_text("mine")
    (here / "sys 'A'.en").write_text((here / "sysA.en").read_text("utf-8"), "utf-8")
    one = polyref("score", "refs.en", "-i", "sys 'A'.en", "-m", "parbleu", "--model", "lexical", "--threads", "1")
    assert one.code == 0, one.err
    augment, score = _printed(one.err)
    assert augment[-2:] == ["-o", "refs-2.polyref.jsonl"]
    assert score[1:] == ["refs-2.polyref.jsonl", "-i", "sys 'A'.en", "-m", "parbleu", "--threads", "1"]


def test_quiet(polyref: Callable[..., Any], here: Path) -> None:
    result = polyref("score", "refs.en", "-i", "sysA.en", "-m", "parbleu", "--model", "lexical", "-qq")
    assert (result.code, result.err) == (0, "")


def test_the_cache_command_knows_the_sets(polyref: Callable[..., Any], here: Path) -> None:
    assert polyref("score", "refs.en", "-i", "sysA.en", "--model", "lexical").code == 0
    (row,) = polyref("cache", "info", "--json").json()["rows"]
    assert row["sets"] == sum(path.stat().st_size for path in _kept()) > 0
    assert polyref("cache", "clear").code == 0
    assert not sets_folder().exists()
    (row,) = polyref("cache", "info", "--json").json()["rows"]
    assert row["sets"] == 0

"""``polyref cache``: look, clear, limit, and two processes at once."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from polyref.cache import Cache
from polyref.cli.cache import command
from polyref.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path))
    monkeypatch.delenv("POLYREF_CACHE_LIMIT", raising=False)
    cache = Cache()
    cache.put({bytes([n]): bytes(1_000_000) for n in range(10)})
    cache.close()
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_look_and_clear(folder: Path) -> None:
    assert run("info") == f"folder   {folder}\nentries  10\nsize     0.010 GB of 4.000 GB\nsets     0.000 GB\n"
    assert json.loads(run("info", "--json"))["rows"] == [
        {"folder": str(folder), "entries": 10, "bytes": 10_000_040, "limit": 4_000_000_000, "sets": 0}
    ]
    assert (folder / "cache.sqlite").stat().st_size > 10_000_000
    assert run("clear") == "removed 0.010 GB\n"
    assert "entries  0\n" in run("info")
    assert (folder / "cache.sqlite").stat().st_size < 100_000


def test_a_program_that_ends_says_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache()
    assert cache.get([bytes([1])])
    with monkeypatch.context() as ending:
        ending.setattr("polyref.cache.os", None)  # as Python leaves a module whose turn comes first
        cache.__del__()
    cache.close()


def test_the_limit_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("limit", "0.005") == "holds 0.004 GB of 0.005 GB\n"
    assert "entries  4\nsize     0.004 GB of 0.005 GB\n" in run("info")
    assert sorted(Cache().get([bytes([n]) for n in range(10)])) == [bytes([n]) for n in range(6, 10)]
    monkeypatch.setenv("POLYREF_CACHE_LIMIT", "2")
    assert "of 2.000 GB" in run("info")


def test_a_limit_that_is_none_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polyref: Callable[..., Any]
) -> None:
    (tmp_path / "refs.en").write_text("It is late .\n")
    monkeypatch.setenv("POLYREF_CACHE_LIMIT", "-1")
    done = polyref("score", tmp_path / "refs.en", "-i", tmp_path / "refs.en", "-m", "bleu")
    assert (done.code, done.out) == (1, "")
    assert done.err == "polyref: error: POLYREF_CACHE_LIMIT is -1.0, expected a number of gigabytes from 0 (4, say)\n"


def test_a_cache_that_cannot_be_used_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "file"))
    with pytest.raises(SystemExit) as ended:
        main(["cache", "info"])
    assert ended.value.code == 1
    assert "the cache cannot be used" in capsys.readouterr().err


def _file(place: Path) -> None:
    place.write_text("no folder")


def _garbage(place: Path) -> None:
    place.mkdir()
    (place / "cache.sqlite").write_bytes(b"this is no data base, and long enough to tell" * 50)


def _old_and_full(place: Path) -> None:
    """A cache that was fine, on a disk that is full by now."""
    cache = Cache(place)
    cache.put({b"k": bytes(5_000)})
    cache.close()


def _no_stderr() -> None:
    os.close(2)


SCORE = ["score", "refs.en", "-i", "sys.en", "-m", "bertscore", "prism", "--threads", "1"]
AUGMENT = ["augment", "refs.en", "-k", "1", "--jobs", "2", "--quiet"]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "refs.en").write_text("It is late .\nThe cat sat here .\n")
    (tmp_path / "sys.en").write_text("It was late .\nA cat sat there .\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("always::polyref.errors.PolyrefWarning")
@pytest.mark.parametrize(
    "spoil",
    [_file, _garbage, _old_and_full, lambda place: place.symlink_to("/proc/none")],
    ids=["a-file", "garbage", "a-full-disk", "read-only"],
)
def test_a_cache_that_cannot_be_used_is_said_once(
    spoil: Callable[[Path], None], texts: Path, polyref: Callable[..., Any]
) -> None:
    """Two metrics use it."""
    spoil(texts / "cache")
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if spoil is _old_and_full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, size[1]))
        done = polyref(*SCORE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    assert (done.code, done.out.count("\n") > 2) == (0, True), done
    assert done.err.count("cannot be used") == done.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "start", "said"), [(AUGMENT, None, 1), (SCORE, _no_stderr, 0)], ids=["processes", "no-stderr"]
)
def test_a_program_says_it_once(command: list[str], start: Callable[[], None] | None, said: int, texts: Path) -> None:
    _file(texts / "cache")
    done = subprocess.run(
        [sys.executable, "-m", "polyref", *command], preexec_fn=start, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("\n") > 2) == (0, True), done
    assert done.stderr.count("cannot be used") == done.stderr.count("\n") == said


@pytest.mark.slow
def test_files_do_not_take_the_place_of_a_closed_stderr(tmp_path: Path) -> None:
    """What a library prints there would land in them."""
    program = (
        "import os\n"
        "from polyref.publishing import write_atomically\n"
        "from polyref.cli.main import open_what_is_closed\n"
        "open_what_is_closed()\n"
        "with write_atomically('out.txt') as stream:\n"
        "    os.write(2, b'printed by a library')\n"
        "    stream.write('result')\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, preexec_fn=_no_stderr, check=True)
    assert (tmp_path / "out.txt").read_text() == "result"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_opens_it_itself_or_does_without(folder: Path) -> None:
    def in_a_fork(cache: Cache) -> int:
        if not (process := os.fork()):
            before = set(Path("/proc/self/fd").iterdir())
            cache.put({b"theirs": b"1"})
            said = cache.fault
            cache.close()  # what it opened itself, and no more: SQLite wants that of nobody else
            same = set(Path("/proc/self/fd").iterdir()) == before
            os._exit({None: 0, "it was opened before this process was forked": 9}.get(said, 1) if same else 2)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    assert in_a_fork(Cache()) == 0, "it was not open before"
    cache = Cache()
    cache.put({b"mine": b"2"})
    assert in_a_fork(cache) == 9, "a connection may not be used on both sides"
    assert cache.get([b"mine", b"theirs"]) == {b"mine": b"2", b"theirs": b"1"}


def test_threads_share_it_and_any_may_drop_it(folder: Path) -> None:
    kept = [Cache()]

    def use(number: int) -> None:
        for n in range(30):
            kept[0].put({b"%d %d" % (number, n): b"value"})
            assert kept[0].get([b"%d %d" % (number, n)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
        assert kept[0].fault is None
        # An error there would be an unraisable one, which fails a test.
        pool.submit(kept.clear).result()
    assert len(Cache().get([b"%d %d" % (number, n) for number in range(4) for n in range(30)])) == 120


@pytest.mark.slow
def test_clearing_while_others_write(folder: Path) -> None:
    writer = (
        "from polyref.cache import Cache\n"
        "cache = Cache()\n"
        "for n in range(300):\n"
        "    cache.put({b'%d' % n: b'value %d' % n})\n"
        "    found = cache.get([b'%d' % n])\n"
        "    assert found in ({}, {b'%d' % n: b'value %d' % n})\n"
        "assert cache.fault is None, cache.fault\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", writer]) for _ in range(2)]
    while any(one.poll() is None for one in writers):
        run("clear")
    assert [one.returncode for one in writers] == [0, 0]

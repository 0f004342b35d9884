"""Files of other file systems: read, written whole, and a journal that lies where the output does."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from polyref.augment.candidates import SHARD_SEGMENTS
from polyref.errors import DataError
from polyref.publishing import check_writable, write_atomically
from polyref.references import ReferenceSet
from polyref.store import Journal, pack
from polyref.textfiles import is_remote, read_lines, without_scheme

PROGRAM = Path(__file__).parent.parent / "shared" / "rule_paraphraser.py"
ONE = ("--model", "shipped")  # which is the rules here
LINES = [f"Sentence {n} is here.\n" for n in range(3 * SHARD_SEGMENTS + 10)]


@pytest.fixture
def memory() -> Iterator[Any]:
    """The file system in memory, empty."""
    files = fsspec.filesystem("memory")
    yield files
    for path in files.ls("/", detail=False):
        files.rm(path, recursive=True)


def test_what_is_remote() -> None:
    assert is_remote("s3://bucket/refs.en") and is_remote("memory://refs.en")
    assert not any(map(is_remote, ("refs.en", "/tmp/refs.en", "-", "sacrebleu:wmt20", "file:///tmp/refs.en", "C:/x")))
    assert without_scheme("file:///tmp/a%20b") == "/tmp/a b"
    assert without_scheme("file://localhost/tmp/a") == "/tmp/a"
    assert without_scheme("s3://bucket/a") == "s3://bucket/a"
    with pytest.raises(DataError, match="another machine"):
        without_scheme("file://elsewhere/tmp/a")


def test_lines_are_read_and_written_whole(memory: Any, tmp_path: Path) -> None:
    with write_atomically("memory://new/folder/lines.gz") as stream:
        stream.write("one\ntwo\n")
    assert gzip.decompress(memory.cat_file("/new/folder/lines.gz")) == b"one\ntwo\n"
    assert read_lines("memory://new/folder/lines.gz") == ["one", "two"]
    with pytest.raises(RuntimeError), write_atomically("memory://new/folder/lines.gz") as stream:
        stream.write("three\n")
        raise RuntimeError
    assert read_lines("memory://new/folder/lines.gz") == ["one", "two"]
    with write_atomically(f"file://{tmp_path}/lines") as stream:
        stream.write("four\n")
    assert (tmp_path / "lines").read_text() == "four\n"
    assert read_lines(f"file://{tmp_path}/lines") == ["four"]


def test_faults_name_the_url(memory: Any) -> None:
    with pytest.raises(DataError, match=r"^memory://none: no such file"):
        read_lines("memory://none")
    memory.pipe_file("/latin", "é".encode("latin-1"))
    with pytest.raises(DataError, match=r"^memory://latin:1: invalid UTF-8"):
        ReferenceSet.load("memory://latin")
    for use in (read_lines, check_writable):
        with pytest.raises(DataError, match=r"^nowhere://a: cannot be used: .*nowhere"):
            use("nowhere://a")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, polyref: Callable[..., Any]) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    done = polyref("augment", "s3://bucket/refs.en", "-k", "1")
    assert done.code == 1 and "s3://bucket/refs.en: cannot be opened" in done.err and "pip install s3fs" in done.err


def test_augment_and_score(memory: Any, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    for name, lines in (("refs.en", LINES), ("more.en", LINES[::-1])):
        (tmp_path / name).write_text("".join(lines))
        memory.pipe_file(f"/bucket/{name}", "".join(lines).encode())
    made = {}
    for place in (str(tmp_path), "memory://bucket", f"file://{tmp_path}"):
        output, dropped = f"{place}/set.jsonl", f"{place}/dropped"
        files = [f"{place}/refs.en", "--candidates", f"{place}/more.en", "-o", output, "--dropped", dropped]
        done = polyref("augment", *files, "-k", "1", "--filter", "none", "--quiet")
        assert done.code == 0, done.err
        scores = f"{place}/scores"
        done = polyref("score", output, "-i", f"{place}/more.en", "-m", "chrf", "-k", "0", "1", "-o", scores, "--json")
        assert done.code == 0, done.err
        with fsspec.open(output, "rb") as one, fsspec.open(dropped, "rb") as two, fsspec.open(scores, "rb") as three:
            made[place] = one.read(), two.read(), three.read()
        (tmp_path / "set.jsonl").unlink(missing_ok=True)
    assert len(set(made.values())) == 1, "wherever files lie, the bytes are the same"
    assert not memory.exists("/bucket/set.jsonl.partial")
    done = polyref("augment", "memory://bucket/refs.en", "-o", "memory://bucket/refs.en")
    assert done.code == 2 and "is also an input" in done.err


def test_the_journal_refuses_other_settings_and_drops_a_torn_record(memory: Any) -> None:
    place = "memory://bucket/out.partial"
    with Journal.open(place, {"k": 1}) as journal:
        journal.append({"lines": ["a"]})
        journal.append({"lines": ["b"]})
        assert list(journal) == [{"lines": ["a"]}, {"lines": ["b"]}]
    with pytest.raises(DataError, match=r"^memory://bucket/out.partial: .*other settings: k was 1 and is 2"):
        Journal.open(place, {"k": 2})
    last = max(path for path in memory.ls("/bucket/out.partial", detail=False) if not path.endswith("settings"))
    memory.pipe_file(last, b"torn")
    with Journal.open(place, {"k": 1}) as journal:
        assert journal.length == 1
        journal.remove()
    assert not memory.exists("/bucket/out.partial")
    assert Journal.open(place, {"k": 2}).length == 0


def test_records_of_a_journal_without_settings_go_into_no_other_run(memory: Any) -> None:
    place = "memory://bucket/out.partial"
    with Journal.open(place, {"k": 1}) as journal:
        journal.append("old")
    with pytest.raises(DataError, match="other settings: k was 1 and is 2"):
        Journal.open(place, {"k": 2})
    memory.rm("/bucket/out.partial/settings")
    with Journal.open(place, {"k": 2}) as journal:
        assert (journal.length, list(journal)) == (0, [])
        journal.append("new")
    with Journal.open(place, {"k": 2}) as journal:
        assert list(journal) == ["new"]


def test_what_a_journal_cannot_be_is_refused(memory: Any) -> None:
    place = "memory://bucket/out.partial"
    odd: list[Any] = [{"journal": 2, "settings": {}}, {"journal": 1, "settings": []}, [], 5]
    for found in odd:
        memory.pipe_file("/bucket/out.partial/settings", pack(found))
        with pytest.raises(DataError, match=r"^memory://bucket/out.partial: is in the way and no journal .*\(move it"):
            Journal.open(place, {"k": 1})


def test_a_record_of_an_odd_shape_is_named(memory: Any) -> None:
    with Journal.open("memory://bucket/out.partial", {"k": 1}) as journal:
        journal.append({"lines": ["one"]})
        journal.append({"lines": 5})
        found = journal.records({"lines": [str]}, "delete it")
        assert next(found) == {"lines": ["one"]}
        with pytest.raises(DataError, match=r"-00000001: the record.lines is 5, expected a list \(delete it\)"):
            next(found)


def test_a_record_that_another_run_removes_is_told(memory: Any) -> None:
    place = "memory://bucket/out.partial"
    with Journal.open(place, {"k": 1}) as journal:
        journal.append("one")
        Journal.open(place, {"k": 1}).remove()
        with pytest.raises(DataError, match=rf"^{place}/\w+-00000000: is gone: another run .*\(repeat the command\)"):
            list(journal)


def test_a_file_system_with_folders_gets_one_for_the_journal_and_no_other(tmp_path: Path) -> None:
    # fsspec's own file system of this machine, by a name under which it is no path.
    with Journal.open(f"local://{tmp_path}/out.partial", {"k": 1}) as journal:
        journal.append("one")
    assert list(Journal.open(f"local://{tmp_path}/out.partial", {"k": 1})) == ["one"]
    with pytest.raises(DataError, match="absent"):
        Journal.open(f"local://{tmp_path}/absent/out.partial", {"k": 1})
    assert not (tmp_path / "absent").exists()


def texts(log: Path) -> list[str]:
    return log.read_text().split("\n")[:-1] if log.exists() else []


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_journal_that_lies_with_the_output(tmp_path: Path) -> None:
    refs, log = tmp_path / "refs.en", tmp_path / "log"
    refs.write_text("".join(LINES))
    start = [sys.executable, str(PROGRAM)]
    here = ["augment", str(refs), *ONE, "-k", "2", "-o", str(tmp_path / "here.jsonl")]
    subprocess.run([*start, str(tmp_path / "other"), "0", *here], check=True, stderr=subprocess.DEVNULL)
    # fsspec's own file system of this machine, by a name under which it is no path.
    there = ["augment", f"local://{refs}", *ONE, "-k", "2", "-o", f"local://{tmp_path}/there.jsonl"]
    process = subprocess.Popen([*start, str(log), str(2 * SHARD_SEGMENTS), *there], stderr=subprocess.DEVNULL)
    while len(texts(log)) < 2 * SHARD_SEGMENTS:
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    journal = tmp_path / "there.jsonl.partial"
    done = len(list(journal.iterdir())) - 1
    assert done >= 1 and not (tmp_path / "there.jsonl").exists()
    before = len(texts(log))
    again = subprocess.run([*start, str(log), "0", *there], check=True, stderr=subprocess.PIPE, text=True)
    assert f"{done * SHARD_SEGMENTS} segments are finished" in again.stderr
    assert len(texts(log)) - before == len(LINES) - done * SHARD_SEGMENTS, "what is finished is not made again"
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    assert not journal.exists()

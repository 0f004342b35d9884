"""Files and folders appear whole: killed at any dealing with the disk, a writer leaves the old or the new."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from kills import run_program
from synced import FOLDER, RENAMED, dealings

from polyref.errors import DataError
from polyref.publishing import finish_pending, publish_together, published_file, published_folder, write_atomically


def _hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_killed_file_is_old_or_new(tmp_path: Path) -> None:
    printed = run_program(
        """
from pathlib import Path
from kills import every_kill
from polyref.publishing import write_atomically
def work():
    with write_atomically("out.txt") as stream:
        stream.write("new")
seen = set()
for _ in every_kill(work):
    seen.add(Path("out.txt").read_text() if Path("out.txt").exists() else None)
    Path("out.txt").write_text("old")
    left = sum(path.name.startswith(".") for path in Path().iterdir())
    assert left <= 1, left
print(sorted(map(str, seen)))
""",
        tmp_path,
    )
    # Before the first kill there was no file; later ones found the old one or had put the new one there.
    assert printed.strip() in ("['None', 'new', 'old']", "['None', 'old']")
    with write_atomically(tmp_path / "out.txt") as stream:
        stream.write("new")
    assert (tmp_path / "out.txt").read_text() == "new"
    assert _hidden(tmp_path) == []


@pytest.mark.parametrize("swap", [True, False])
def test_a_killed_folder_is_old_or_new(tmp_path: Path, swap: bool) -> None:
    run_program(
        f"""
from pathlib import Path
from kills import every_kill
from polyref import publishing
if not {swap}:
    publishing._swapped = lambda one, other: False
def work():
    with publishing.published_folder("report") as fresh:
        (fresh / "a").write_text("new")
        (fresh / "b").write_text("new")
def whole():
    return {{path.name: path.read_text() for path in Path("report").iterdir()}}
work()
for at in every_kill(work):
    if not Path("report").exists():
        # Without an exchange by one call the old folder may lie under a hidden name: the next writer gives it back.
        assert not {swap}
        publishing._give_back(Path("report"))
    assert whole() in ({{"a": "old", "b": "old"}}, {{"a": "new", "b": "new"}}), (at, whole())
    for name in "ab":
        (Path("report") / name).write_text("old")
""",
        tmp_path,
    )
    with published_folder(tmp_path / "report") as fresh:
        (fresh / "a").write_text("last")
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["a"]
    assert _hidden(tmp_path) == []


def test_files_that_belong_together(tmp_path: Path) -> None:
    run_program(
        """
from pathlib import Path
from kills import every_kill
from polyref.publishing import finish_pending, publish_together
def work():
    publish_together({Path("seg"): b"new", Path("sys"): b"new"})
for at in every_kill(work):
    finish_pending(Path("."))
    found = [Path(name).read_text() if Path(name).exists() else "old" for name in ("seg", "sys")]
    assert len(set(found)) == 1, (at, found)
    for path in Path().iterdir():  # the next one would finish what this one left, and hide where it stopped itself
        path.unlink()
    for name in ("seg", "sys"):
        Path(name).write_text("old")
""",
        tmp_path,
    )
    publish_together({tmp_path / "seg": b"new", tmp_path / "sys": b"new"})
    assert (tmp_path / "seg").read_bytes() == (tmp_path / "sys").read_bytes() == b"new"
    assert _hidden(tmp_path) == []


def test_a_live_writer_keeps_its_file(tmp_path: Path) -> None:
    with published_file(tmp_path / "x") as first:
        first.write(b"first")
        with published_file(tmp_path / "x") as second:
            second.write(b"second")
        assert (tmp_path / "x").read_bytes() == b"second"
    assert (tmp_path / "x").read_bytes() == b"first"
    assert _hidden(tmp_path) == []


def test_names_that_look_like_patterns(tmp_path: Path) -> None:
    for name in (".ab.1.tmp", ".[a]*?.1.tmp"):  # of another target, and of this one
        (tmp_path / name).touch()
    with published_file(tmp_path / "[a]*?") as stream:
        stream.write(b"x")
    assert _hidden(tmp_path) == [".ab.1.tmp"]


def test_a_failed_block_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with pytest.raises(KeyError), published_file(tmp_path / "x") as stream:
        stream.write(b"half")
        raise KeyError
    with pytest.raises(KeyError), published_folder(tmp_path / "f") as fresh:
        (fresh / "a").write_text("half")
        raise KeyError
    assert (tmp_path / "x").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


@pytest.mark.parametrize("full", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told(tmp_path: Path, full: int) -> None:
    for number, kind in ((full, DataError), (errno.EIO, OSError)):
        with pytest.raises(kind, match=os.strerror(number)), published_file(tmp_path / "x"):
            raise OSError(number, os.strerror(number))
        with pytest.raises(kind, match=os.strerror(number)), published_folder(tmp_path / "f"):
            raise OSError(number, os.strerror(number))
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"absent/f: cannot be written: no directory .*/absent \(create it first\)$"):
        published_folder(tmp_path / "absent" / "f").__enter__()


def test_what_fails_is_told_though_somebody_removed_what_was_made(tmp_path: Path) -> None:
    with pytest.raises(KeyError), published_file(tmp_path / "x"):
        next(tmp_path.iterdir()).unlink()
        raise KeyError
    with pytest.raises(KeyError), published_folder(tmp_path / "f") as fresh:
        fresh.rmdir()
        raise KeyError


def test_what_dead_processes_left_is_removed_or_finished(tmp_path: Path) -> None:
    """By their names: an older version may have left it."""
    (tmp_path / ".x.0123abcd.tmp").touch()
    (tmp_path / ".f.0123abcd.tmp").mkdir()
    (tmp_path / ".f.0123abcd.tmp" / "a").touch()
    (tmp_path / ".f.4567cdef.old").mkdir()
    (tmp_path / ".f.4567cdef.old" / "b").write_text("old")
    (tmp_path / ".0.pending").write_text('{".y.1.tmp": "y", ".z.1.tmp": "z"}')
    for name in "yz":
        (tmp_path / f".{name}.1.tmp").write_text(name)
    with published_file(tmp_path / "y"):  # what is announced for it is not its to remove
        pass
    finish_pending(tmp_path)
    assert [(tmp_path / name).read_text() for name in "yz"] == ["y", "z"]
    (tmp_path / ".1.pending").write_text('{".y.2.tmp": "y", ".z.2.tmp": "z"}')
    for name in "yz":
        (tmp_path / f".{name}.2.tmp").write_text("later")
    (tmp_path / ".z.3.tmp").touch()  # and announced by nobody
    publish_together({tmp_path / "z": b"last", tmp_path / "x": b"last"})
    finish_pending(tmp_path)
    assert [(tmp_path / name).read_text() for name in "xyz"] == ["last", "later", "last"], "each in its turn"
    with pytest.raises(KeyError), published_folder(tmp_path / "f"):
        raise KeyError
    assert (tmp_path / "f" / "b").read_text() == "old", "given back"
    (tmp_path / ".f.4567cdef.old").mkdir()
    for publish in (published_file(tmp_path / "x"), published_folder(tmp_path / "f")):
        with publish:
            pass
    assert _hidden(tmp_path) == [] and not list((tmp_path / "f").iterdir())


@pytest.mark.parametrize("swap", [True, False])
def test_what_cannot_be_removed_stays_and_stops_nobody(
    swap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("f", ".f.0.tmp", ".f.1.old"):
        (tmp_path / name).mkdir()

    def refuse(*place: Any, **how: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", refuse)
        if not swap:
            patch.setattr("polyref.publishing._swapped", lambda one, other: False)
        with published_folder(tmp_path / "f") as fresh:
            (fresh / "a").touch()
    assert (tmp_path / "f" / "a").exists() and {".f.0.tmp", ".f.1.old"} <= set(_hidden(tmp_path))

    real = fcntl.flock

    def removing(handle: int, how: int) -> None:  # as another process does
        (tmp_path / ".x.0.tmp").unlink(missing_ok=True)
        real(handle, how)

    (tmp_path / ".x.0.tmp").touch()
    monkeypatch.setattr(fcntl, "flock", removing)
    with published_file(tmp_path / "x"):
        pass


def test_no_handle_stays_open(tmp_path: Path) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    for _ in range(2):
        (tmp_path / ".x.0.tmp").touch()
        with published_file(tmp_path / "x") as stream, published_file(tmp_path / "x"):
            stream.write(b"x")
        with published_folder(tmp_path / "f") as fresh:
            (fresh / "a").touch()
        publish_together({tmp_path / "a": b"1", tmp_path / "b": tmp_path / "x"})
        with pytest.raises(FileNotFoundError):
            publish_together({tmp_path / "a": b"1", tmp_path / "b": tmp_path / "absent"})
        finish_pending(tmp_path)
    assert sorted(Path("/proc/self/fd").iterdir()) == before and not _hidden(tmp_path)


def test_the_folder_that_a_program_is_in_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report" / "old").mkdir(parents=True)
    (tmp_path / "report" / "a").write_text("old")
    monkeypatch.chdir(tmp_path / "report")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))  # which may be on another disk
    for place in (Path("old/.."), Path(), Path("../report"), tmp_path / "report" / ".." / "report" / "."):
        with published_folder(place) as fresh:
            (fresh / "a").write_text(f"new {place}")
        assert [path.name for path in Path().iterdir()] == ["a"]
        assert Path("a").read_text() == (tmp_path / "report" / "a").read_text() == f"new {place}"
        assert list(tmp_path.iterdir()) == [tmp_path / "report"]


def test_a_new_file_is_as_the_user_wants_new_files(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        with published_file(tmp_path / "x"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o664
    with pytest.raises(FileNotFoundError), published_file(tmp_path / "absent" / "x"):
        pass


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "x").symlink_to("there/x")
    (tmp_path / "self").symlink_to("self")
    with published_file(tmp_path / "x") as stream:
        stream.write(b"1")
    publish_together({tmp_path / "there" / "y": b"2"})
    assert (tmp_path / "x").is_symlink() and (tmp_path / "there" / "x").read_bytes() == b"1"
    for publish in (published_file, published_folder):
        with pytest.raises(
            DataError, match=r"self: is a link that leads to itself \(remove it, or name another file\)$"
        ):
            publish(tmp_path / "self").__enter__()


def test_a_record_reaches_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".evil.pending").write_text('{".t.tmp": "../stolen"}')
    (tmp_path / "out" / ".t.tmp").write_text("text")
    publish_together({tmp_path / "out" / "a": b"1"})
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize("own", [True, False], ids=["files-of-their-own", "the-same-files"])
def test_several_write_into_one_folder_at_once(tmp_path: Path, own: bool) -> None:
    run_program(
        f"""
import os
import traceback
from pathlib import Path
from polyref.publishing import publish_together
children = []
for number in range(6):
    child = os.fork()
    if not child:
        code = 1
        try:
            for turn in range(20):
                name = f"{{number if {own} else 0}}"
                text = f"{{number}} {{turn}}".encode()
                publish_together({{Path(f"{{name}}.{{place}}"): text for place in range(5)}})
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
""",
        tmp_path,
    )
    assert _hidden(tmp_path) == []
    whole = {
        name: {(tmp_path / f"{name}.{place}").read_text() for place in range(5)} for name in range(6 if own else 1)
    }
    assert all(len(texts) == 1 for texts in whole.values()), whole
    if own:
        assert whole == {number: {f"{number} 19"} for number in range(6)}


def test_several_write_one_folder_at_once(tmp_path: Path) -> None:
    run_program(
        """
import os
import traceback
from pathlib import Path
from polyref import publishing
publishing._swapped = lambda one, other: False
children = []
for number in range(4):
    child = os.fork()
    if not child:
        code = 1
        try:
            for turn in range(20):
                with publishing.published_folder("report") as fresh:
                    (fresh / "a").write_text(f"{number} {turn}")
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
""",
        tmp_path,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("..x.tmp", ""),
        ("....x.tmp", ".."),
        ("...x.tmp", "."),
        (".b.x.tmp", 5),
        (".b.x.tmp", "c"),
        (".b.x.old", "b"),
        (".a/b.x.tmp", "a/b"),
        (".b./../.a.x.tmp", "b"),
        (".../stolen.x.tmp", "../stolen"),
    ],
)
def test_a_record_with_one_odd_rename_is_none(name: str, target: object, tmp_path: Path) -> None:
    (tmp_path / ".0.pending").write_text(json.dumps({name: target, ".a.x.tmp": "a"}))
    for left in (".a.x.tmp", ".q.x.tmp"):
        (tmp_path / left).write_text(left)
    with published_file(tmp_path / "q"):  # asks what is announced
        pass
    finish_pending(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".0.pending", ".a.x.tmp", "q"]


@pytest.mark.parametrize(
    "record", [None, '{".a/b.x.tmp": "a/b"}', '{".\\u0000.x.tmp": "\\u0000"}', '{".\\ud800.x.tmp": "\\ud800"}']
)
def test_a_record_of_renames_that_names_no_file_is_passed_over(tmp_path: Path, record: str | None) -> None:
    if record is None:
        (tmp_path / ".0.pending").mkdir()
    else:
        (tmp_path / ".0.pending").write_text(record)
    publish_together({tmp_path / "b": b"1"})
    assert (tmp_path / "b").read_bytes() == b"1"


def test_what_another_process_took_for_a_leftover_is_made_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came between making and locking."""
    real, before = fcntl.flock, len(list(Path("/proc/self/fd").iterdir()))

    def removing(handle: int, how: int) -> None:
        for path in tmp_path.glob(".[xf].*.tmp"):
            path.rmdir() if path.is_dir() else path.unlink()
        monkeypatch.setattr(fcntl, "flock", real)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", removing)
    with published_file(tmp_path / "x") as stream:
        stream.write(b"x")
    monkeypatch.setattr(fcntl, "flock", removing)
    with published_folder(tmp_path / "f") as fresh:
        (fresh / "a").touch()
    assert (tmp_path / "x").read_bytes() == b"x" and (tmp_path / "f" / "a").exists() and not _hidden(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_target_that_is_a_folder_stays(tmp_path: Path) -> None:
    (tmp_path / ".0.pending").write_text('{".a.x.tmp": "a"}')
    (tmp_path / ".a.x.tmp").write_text("text")
    (tmp_path / "a").mkdir()
    publish_together({tmp_path / "b": b"1"})
    assert (tmp_path / "b").read_bytes() == b"1"


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = dealings(monkeypatch)
    with published_file(tmp_path / "a") as stream:
        stream.write(b"new")
    assert seen == ["new", RENAMED, FOLDER]


def test_files_that_belong_together_are_on_the_disk_before_their_names_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large").write_text("2")
    seen = dealings(monkeypatch)
    publish_together({tmp_path / "a": b"1", tmp_path / "b": tmp_path / "large"})
    # The record of the renames between them, which must be there before the first.
    assert seen[:2] == ["1", "2"] and seen[2].startswith('{".a.')
    assert seen[3:] == [RENAMED, FOLDER, RENAMED, RENAMED, FOLDER]


@pytest.mark.parametrize("old", [False, True])
def test_a_folder_is_on_the_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
    if old:
        (tmp_path / "report").mkdir()
    seen = dealings(monkeypatch)
    with published_folder(tmp_path / "report") as fresh:
        (fresh / "within").mkdir()
        (fresh / "a").write_text("1")
        (fresh / "within" / "b").write_text("2")
    assert sorted(seen[:2]) == ["1", "2"]
    # Two renames where two folders cannot be exchanged by one call.
    assert [*dict.fromkeys(seen[2:])] == [RENAMED, FOLDER] and seen.count(FOLDER) == 1


def failing_at(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """The rename of this number fails, once."""
    left, real = [number], {name: getattr(os, name) for name in ("rename", "replace")}

    def dealt(name: str) -> Any:
        def dealing(*places: Any) -> None:
            left[0] -= 1
            if not left[0]:
                raise error
            real[name](*places)

        return dealing

    for name in real:
        monkeypatch.setattr(os, name, dealt(name))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_files_that_belong_together_stay_together_where_a_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    files = {tmp_path / name: b"old" for name in "abc"}
    publish_together(files)
    for number in (2, 3, 4):  # the first is that of the record
        failing_at(monkeypatch, number, error)
        with pytest.raises(type(error)):
            publish_together(dict.fromkeys(files, str(number).encode()))
        monkeypatch.undo()
        # Where not even the first was renamed, none is.
        assert {path.read_bytes() for path in files} == {b"old" if number == 2 else b"%d" % number}
        assert not _hidden(tmp_path)


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_folder_stays_as_it_was_where_a_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool, number: int
) -> None:
    report = tmp_path / "report"
    with published_folder(report) as fresh:
        for name in "ab":
            (fresh / name).write_text("old")
    monkeypatch.setattr("polyref.publishing._swapped", lambda one, other: False)
    if here:
        monkeypatch.chdir(report)
    failing_at(monkeypatch, number, OSError(errno.EIO, "Input/output error"))
    expected = "new" if number > 2 and not here else "old"
    told = contextlib.nullcontext() if expected == "new" else pytest.raises(OSError, match="Input/output error")
    with told, published_folder(report) as fresh:
        for name in "ab":
            (fresh / name).write_text("new")
    assert {path.name: path.read_text() for path in report.iterdir()} == dict.fromkeys("ab", expected)
    assert not _hidden(tmp_path)

"""Files and folders appear whole: killed at any dealing with the disk, a writer leaves the old or the new."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from kills import run_program
from synced import FOLDER, RENAMED, dealings

from polyref.errors import DataError
from polyref.publishing import publish_together, published_file, published_folder
from polyref.textfiles import write_atomically


def _hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_killed_file_is_old_or_new(tmp_path: Path) -> None:
    printed = run_program(
        """
from pathlib import Path
from kills import every_kill
from polyref.textfiles import write_atomically
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
    (tmp_path / ".ab.1.tmp").write_text("of another target")
    with published_file(tmp_path / "[a]*") as stream:
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


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No space left"), published_file(tmp_path / "x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


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


def test_a_record_of_renames_that_names_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".0.pending").write_text('{"..x.tmp": "", "...x.tmp": ".", ".a.x.tmp": "a"}')
    (tmp_path / ".a.x.tmp").write_text("a")
    (tmp_path / "..x.tmp").write_text("b")
    (tmp_path / "...x.tmp").write_text("c")
    (tmp_path / ".1.pending").mkdir()
    (tmp_path / ".2.pending").write_text('{".a/b.x.tmp": "a/b"}')
    (tmp_path / ".3.pending").write_text('{".\\u0000.x.tmp": "\\u0000"}')
    (tmp_path / ".4.pending").write_text('{".\\ud800.x.tmp": "\\ud800"}')
    publish_together({tmp_path / "b": b"1"})
    assert (tmp_path / "b").read_bytes() == b"1"
    assert not (tmp_path / "a").exists()


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
        assert len({path.read_bytes() for path in files}) == 1 and not _hidden(tmp_path)


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
    with contextlib.suppress(OSError), published_folder(report) as fresh:
        for name in "ab":
            (fresh / name).write_text("new")
    assert {path.name: path.read_text() for path in report.iterdir()} == dict.fromkeys("ab", expected)
    assert not _hidden(tmp_path)

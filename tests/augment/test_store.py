from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
from pathlib import Path

import pytest
from synced import FOLDER, dealings

from polyref.errors import DataError, PolyrefWarning
from polyref.publishing import publish_together, published_folder, write_atomically
from polyref.store import Journal, file_sha256, is_journal, pack

SETTINGS = {"model": "m", "k": 5, "inputs": ({"name": "a"},)}
RECORDS = [{"lines": ["é\n"]}, [1, None], "three"]


def _filled(path: Path) -> bytes:
    with Journal.open(path, SETTINGS) as journal:
        for record in RECORDS:
            journal.append(record)
    return path.read_bytes()


def test_a_journal_is_taken_up_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal.open(path, SETTINGS) as journal:
        assert (journal.length, list(journal)) == (0, [])
        journal.append(RECORDS[0])
        journal.append(RECORDS[1])
        assert list(journal) == RECORDS[:2]  # reading must not disturb where the next record goes
        journal.append(RECORDS[2])
    with Journal.open(path, SETTINGS) as journal:
        assert (journal.length, list(journal)) == (3, RECORDS)
        journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_record_goes_to_the_end_wherever_reading_stopped(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j", SETTINGS) as journal:
        for record in RECORDS:
            journal.append(record)
        assert next(iter(journal)) == RECORDS[0]
        with pytest.raises(ValueError, match="Out of range"):
            journal.append(float("nan"))
        journal.append("last")
        assert list(journal) == [*RECORDS, "last"]


def test_a_torn_end_is_gone_before_the_next_record(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(_filled(path) + b"torn")
    with Journal.open(path, SETTINGS) as journal:
        journal.append("next")
    with Journal.open(path, SETTINGS) as journal:
        assert list(journal) == [*RECORDS, "next"]


def test_a_journal_is_a_file_that_no_one_can_execute(tmp_path: Path) -> None:
    os.umask(umask := os.umask(0))
    for name, private, mode in (("j", False, 0o666), ("own", True, 0o600)):
        with Journal.open(tmp_path / name, SETTINGS, private=private):
            assert (tmp_path / name).stat().st_mode & 0o777 == mode & ~umask
    with pytest.raises(DataError, match="/dev/null: is no file: nothing can be kept in it"):
        Journal.open("/dev/null", SETTINGS)


def test_what_begins_as_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    _filled(path)
    assert is_journal(path)
    for text in (pack({"settings": {}}), pack("journal"), pack(["journal"]), b"my thesis\n", b""):
        path.write_bytes(text)
        assert not is_journal(path)


@pytest.mark.slow
def test_cut_at_any_byte_it_keeps_the_whole_records(tmp_path: Path) -> None:
    whole = _filled(tmp_path / "whole")
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path = tmp_path / "cut"
        path.write_bytes(whole[:cut])
        with Journal.open(path, SETTINGS) as journal:
            kept = max(0, sum(end <= cut for end in ends) - 1)
            assert (journal.length, list(journal)) == (kept, RECORDS[:kept])
            journal.append("again")
        with Journal.open(path, SETTINGS) as journal:
            assert list(journal) == [*RECORDS[:kept], "again"]


def test_an_error_can_be_written_whatever_it_names() -> None:
    assert str(DataError("half \ud800 was 1", file="j")).encode() == b"j: half \\ud800 was 1"


def test_a_damaged_record_and_all_after_it_are_done_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = bytearray(_filled(path))
    whole[whole.index(b"[1, null]") + 1] = ord("2")
    path.write_bytes(whole)
    with Journal.open(path, SETTINGS) as journal:
        assert list(journal) == RECORDS[:1]


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = _filled(path)
    changed = ", ".join(f"{name} was null and is 1" for name in "abcdef")
    with pytest.raises(DataError, match=rf"j: holds unfinished work with other settings: {changed}, k was 5 and is 6 "):
        Journal.open(path, {**SETTINGS, "k": 6, **dict.fromkeys("fedcba", 1)})
    assert path.read_bytes() == whole


@pytest.mark.parametrize("torn", [b"", b"0123456789abcdef {half a rec"])
def test_other_settings_are_fine_where_nothing_was_finished(tmp_path: Path, torn: bytes) -> None:
    path, other = tmp_path / "j", {**SETTINGS, "k": 6}
    Journal.open(path, SETTINGS).__exit__(None, None, None)
    path.write_bytes(path.read_bytes() + torn)
    with Journal.open(path, other) as journal:
        assert journal.length == 0
        journal.append("new")
    with Journal.open(path, other) as journal:
        assert list(journal) == ["new"]
    with pytest.raises(DataError, match="k was 6 and is 5"):
        Journal.open(path, SETTINGS)


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_text("my thesis\n")
    with pytest.raises(DataError, match="is in the way and no journal"):
        Journal.open(path, SETTINGS)
    assert path.read_text() == "my thesis\n"
    text = json.dumps({"journal": 99, "settings": {}}).encode()
    path.write_bytes(hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text + b"\n")
    with pytest.raises(DataError, match="no journal of this version"):
        Journal.open(path, SETTINGS)
    for odd in ([], {"journal": 1, "settings": []}):
        path.write_bytes(pack(odd))
        with pytest.raises(DataError, match="no journal of this version"):
            Journal.open(path, SETTINGS)
    # All of the first line but its end: neither torn nor whole.
    first = _filled(tmp_path / "whole").splitlines()[0]
    path.write_bytes(first + b"x")
    with pytest.raises(DataError, match="is in the way and no journal"):
        Journal.open(path, SETTINGS)
    assert path.read_bytes() == first + b"x"


@pytest.mark.parametrize("text", ["my thesis", "{}", "0123456789abcdef {half a rec"])
def test_a_file_without_a_line_feed_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j"
    path.write_text(text)
    with pytest.raises(DataError, match="is in the way and no journal"):
        Journal.open(path, SETTINGS)
    assert path.read_text() == text


def test_no_journal_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "j").symlink_to("file")
    (tmp_path / "dangling").symlink_to("new")
    for name in ("j", "dangling"):
        with pytest.raises(DataError, match=f"{name}: is a link"):
            Journal.open(tmp_path / name, SETTINGS)
    assert not (tmp_path / "new").exists() and (tmp_path / "file").read_bytes() == b""


def test_two_runs_cannot_share_a_journal(tmp_path: Path) -> None:
    """A lock belongs to who opened the file, so a second opening in this process is as good as another process."""
    told = r"j: is in use \(wait for the other run, or choose another output\)$"
    with Journal.open(tmp_path / "j", SETTINGS), pytest.raises(DataError, match=told):
        Journal.open(tmp_path / "j", {})
    Journal.open(tmp_path / "j", {}).remove()


def test_a_file_system_without_locks_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    for length in (0, 1):
        with pytest.warns(PolyrefWarning, match="j: cannot be locked .Function not implemented.: start no second run"):
            journal = Journal.open(tmp_path / "j", SETTINGS)
        with journal:
            assert journal.length == length
            journal.append("one")
    with write_atomically(tmp_path / "out.txt") as stream:
        stream.write("out")
    publish_together({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    with published_folder(tmp_path / "report") as fresh:
        (fresh / "a").write_text("1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "j", "out.txt", "report"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="j: cannot be written: No such file or directory"):
        Journal.open(tmp_path / "absent" / "j", SETTINGS)
    with pytest.raises(DataError, match="cannot be written: Is a directory"):
        Journal.open(tmp_path, SETTINGS)


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    told = r"j: cannot be written: File too large \(what is finished is kept\)$"
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, size[1]))
        # Closing the journal meets the full disk again.
        with pytest.raises(DataError, match=told), Journal.open(tmp_path / "j", {}) as journal:
            journal.append("kept")
            journal.append("x" * 5_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    with Journal.open(tmp_path / "j", {}) as journal:
        assert list(journal) == ["kept"]


def test_hash_is_that_of_sha256sum(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(os.urandom(3_000_000))
    assert file_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_record_is_on_the_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    seen = dealings(monkeypatch)
    with Journal.open(path, SETTINGS) as journal:
        assert seen == [path.read_text(), FOLDER]
        for count, record in enumerate(RECORDS, 1):
            del seen[:]
            journal.append(record)
            assert seen == [path.read_text()] and len(path.read_bytes().splitlines()) == 1 + count

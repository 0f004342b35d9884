"""The cache's file: what is kept and what goes, what damage and a full disk do, and who may use it.

`tests/cli/test_cache.py` has the command, and what programs say.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from polyref.cache import Cache, cache_folder, default_cache, own_limit, sets_folder
from polyref.errors import DataError, PolyrefWarning

DAY = 86_400
#: Each value takes four bytes more, for its checksum.
HALF = bytes(496)
LIMIT = 1_000 / 1e9


def keys(numbers: Iterable[int]) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in numbers]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the time, in seconds."""
    return lambda now: monkeypatch.setattr("polyref.cache.time.time", lambda: float(now))


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Cache]:
    """The cache as a program finds it that begins now."""
    return lambda limit=LIMIT: Cache(tmp_path / "cache", limit)


def rows(tmp_path: Path, query: str) -> list[tuple[object, ...]]:
    """What SQLite says, or is told, beside the cache."""
    base = sqlite3.connect(tmp_path / "cache" / "cache.sqlite", isolation_level=None)
    found = base.execute(query).fetchall()
    base.close()
    return found


@contextmanager
def full_disk() -> Iterator[None]:
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, size[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("POLYREF_CACHE")
    assert cache_folder() == tmp_path / ".cache" / "polyref"
    assert sets_folder() == tmp_path / ".cache" / "polyref" / "sets"
    default_cache().put({b"k": b"v"})
    assert default_cache().folder == cache_folder()
    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "named" / "there"))
    Cache().put({b"k": b"v"})
    assert (tmp_path / "named" / "there").stat().st_mode & 0o777 == 0o700, "nobody else reads it"
    own = Cache(tmp_path / "own")
    own.put({b"k": b"v"})
    own.close()
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["cache.sqlite", "lock"]


def test_what_was_put_is_found_by_another_run(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(dict(zip(keys([1, 2]), (b"one", b""))))
    cache.put({keys([1])[0]: b"one"})
    cache.close()
    again = Cache(tmp_path)
    assert again.get(keys([1, 2, 3])) == dict(zip(keys([1, 2]), (b"one", b"")))
    again.close()


def test_the_limit_holds_to_the_byte(opened: Callable[..., Cache], tmp_path: Path) -> None:
    cache = opened()
    cache.put({b"a": HALF})
    cache.put({b"b": HALF})
    assert cache.summary() == {"entries": 2, "bytes": 1_000, "limit": 1_000}
    cache.clear()
    assert cache.summary() == {"entries": 0, "bytes": 0, "limit": 1_000}
    cache.put({b"a": HALF})
    cache.put({b"b": HALF + b"1"})
    cache.put({b"c": b"once it is full nothing more is stored, however small"})
    assert cache.get([b"a", b"b", b"c"]) == {b"a": HALF}
    cache.clear()
    cache.put({b"a": HALF})
    cache.put({b"a": b"1"})
    assert cache.summary()["bytes"] == 5, "what is replaced counts no more"
    assert rows(tmp_path, "SELECT COUNT(*) FROM contents") == [(1,)]


def test_what_was_used_within_a_day_stays(
    opened: Callable[..., Cache], clock: Callable[[int], None], tmp_path: Path
) -> None:
    clock(0)
    opened().put({b"a": bytes(296), b"b": bytes(296), b"c": bytes(296)})
    clock(DAY)
    assert len(opened().get([b"a"])) == 1
    assert rows(tmp_path, "SELECT MAX(used) FROM entries") == [(0,)], "marked as used once a day, not more"
    full = opened()
    full.put({b"d": bytes(296)})
    assert full.summary()["entries"] == 3, "nothing is older than a day"
    clock(DAY + 1)
    opened().get([b"a"])
    assert rows(tmp_path, "SELECT used FROM entries ORDER BY key") == [(DAY + 1,), (0,), (0,)]
    later = opened()
    later.put({b"d": HALF})  # with it there are 1,400 bytes: two go, and 800 stay
    assert list(later.get([b"a", b"b", b"c", b"d"])) == [b"a", b"d"]
    assert later.summary()["bytes"] == 800 and rows(tmp_path, "SELECT COUNT(*) FROM contents") == [(2,)]
    clock(3 * DAY)
    later = opened()
    later.put({b"e": bytes(196)})
    assert later.summary() == {"entries": 3, "bytes": 1_000, "limit": 1_000}, "what just fits makes nothing go"


def test_a_new_limit_makes_the_oldest_go_down_to_nine_tenths(
    opened: Callable[..., Cache], clock: Callable[[int], None], tmp_path: Path
) -> None:
    clock(0)
    cache = opened(None)
    assert cache.summary()["limit"] == 4_000_000_000
    for number in range(4):
        clock(number)
        opened(None).put({b"%d" % number: bytes(29_996)})
    cache.keep(120_000 / 1e9)
    assert cache.summary() == {"entries": 4, "bytes": 120_000, "limit": 120_000}
    cache.put({b"4": b"1"})
    cache.keep(100_000 / 1e9)
    assert list(cache.get([b"%d" % number for number in range(5)])) == [b"1", b"2", b"3"]
    assert cache.summary() == {"entries": 3, "bytes": 90_000, "limit": 100_000}
    assert opened(None).summary()["limit"] == 100_000, "a later run holds to it as well"
    cache.keep(2)
    cache.put({b"4": b"1"})
    assert cache.summary() == {"entries": 4, "bytes": 90_005, "limit": 2_000_000_000}
    cache.keep(0)
    assert cache.summary()["entries"] == 0
    cache.close()
    assert (tmp_path / "cache" / "cache.sqlite").stat().st_size < 40_000, "the file has shrunk too"


@pytest.mark.parametrize("old", [False, True], ids=["new", "of-an-older-version"])
def test_the_limit_is_one_for_all_programs(old: bool, tmp_path: Path) -> None:
    first = Cache(tmp_path)
    first.keep(1e-5)  # 10,000 bytes
    if old:
        with sqlite3.connect(tmp_path / "cache.sqlite") as base:
            base.execute("DROP TABLE total")
        base.close()
    caches = [Cache(tmp_path) for _ in range(8)]
    assert [cache.get(keys([0])) for cache in caches] == [{}] * 8
    for number, cache in enumerate(caches * 4):
        cache.put({key: bytes(496) for key in keys([2 * number, 2 * number + 1])})
    assert first.summary() == {"entries": 20, "bytes": 10_000, "limit": 10_000}
    first._started -= 2  # a program that began earlier makes room as well
    first.keep(5e-6)
    assert first.summary()["bytes"] <= 5_000
    caches[0].put({key: bytes(9_000) for key in keys([1000])})
    assert first.summary()["bytes"] <= 5_000, "others heed a limit that changes"
    for cache in (first, *caches):
        cache.close()


@pytest.mark.parametrize("limit", [-1, 1e6, float("nan"), float("inf")])
def test_limits_that_are_none(limit: float, opened: Callable[..., Cache], monkeypatch: pytest.MonkeyPatch) -> None:
    refused = rf"^{{}} is {limit!r}, expected a number of gigabytes from 0 \(4, say\)$"
    for use in (opened, opened().keep):
        with pytest.raises(DataError, match=refused.format("`limit`")):
            use(limit)
    monkeypatch.setenv("POLYREF_CACHE_LIMIT", str(limit))
    with pytest.raises(DataError, match=refused.replace("-1", "-1.0").format("POLYREF_CACHE_LIMIT")):
        own_limit()
    monkeypatch.setenv("POLYREF_CACHE_LIMIT", "much")
    with pytest.raises(DataError, match="POLYREF_CACHE_LIMIT is 'much', expected"):
        Cache()


def test_with_no_room_nothing_is_stored(opened: Callable[..., Cache]) -> None:
    cache = opened(0)
    cache.put({b"a": b"1"})
    assert cache.fault is None and cache.get([b"a"]) == {}


def test_all_values_are_put_or_none(opened: Callable[..., Cache]) -> None:
    cache = opened()
    with pytest.raises(TypeError):
        cache.put({b"a": b"1", b"b": "no bytes"})  # type: ignore[dict-item]
    assert (cache.get([b"a"]), cache.summary()["bytes"]) == ({}, 0)
    cache.put({b"a": b"1"})
    assert cache.get([b"a"]) == {b"a": b"1"}


@pytest.mark.parametrize("damage", ["x'00000000ff'", "'text'", "7"])
def test_a_damaged_value_counts_as_absent(damage: str, opened: Callable[..., Cache], tmp_path: Path) -> None:
    cache = opened()
    cache.put({b"a": b"1", b"b": b"2"})
    rows(tmp_path, f"UPDATE contents SET value = {damage} WHERE id = 1")
    assert cache.get([b"a", b"b"]) == {b"b": b"2"}
    cache.put({b"a": b"1"})
    assert cache.get([b"a", b"b"]) == {b"a": b"1", b"b": b"2"}


def test_settings_and_totals_that_others_made_wrong(
    opened: Callable[..., Cache], clock: Callable[[int], None], tmp_path: Path
) -> None:
    clock(0)
    opened(None).keep(LIMIT)
    opened(None).put({b"a": bytes(296)})
    clock(2 * DAY)
    cache = opened(None)
    cache.try_out()
    rows(tmp_path, "UPDATE total SET size = 5000")
    cache.put({b"b": bytes(296)})
    assert cache.summary()["bytes"] == 600, "counted again before anything goes"
    rows(tmp_path, "UPDATE settings SET value = 'much'")
    rows(tmp_path, "DELETE FROM total")
    assert cache.summary() == {"entries": 2, "bytes": 0, "limit": 4_000_000_000}
    assert opened(None).summary()["bytes"] == 600


def test_odd_contents_of_the_cache_change_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put({keys([1])[0]: b"value"})
    cache.keep(1)
    cache.close()
    with sqlite3.connect(tmp_path / "cache.sqlite") as base:
        base.execute("UPDATE settings SET value = 'much'")
        base.execute("UPDATE entries SET used = 'yesterday', size = 'some'")
        base.execute("UPDATE total SET size = 'all'")
    base.close()
    cache = Cache(tmp_path)
    cache.put({keys([2])[0]: b"value"})
    assert cache.get(keys([1, 2])) == dict.fromkeys(keys([1, 2]), b"value")
    assert cache.summary()["limit"] == 4_000_000_000
    cache.close()


def _file(place: Path) -> None:
    place.write_text("no folder")


def _garbage(place: Path) -> None:
    place.mkdir()
    (place / "cache.sqlite").write_bytes(b"this is no data base, and long enough to tell" * 50)


def _no_text(place: Path) -> None:
    """SQLite names a part of the file in its message, and that is no UTF-8."""
    place.mkdir()
    base = sqlite3.connect(place / "cache.sqlite")
    base.executescript("CREATE TABLE t (a); PRAGMA writable_schema = 1;")
    base.execute("UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), sql = 'CREATE TABLE'")
    base.commit()
    base.close()


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [(_file, "File exists"), (_garbage, "file is not a database"), (_no_text, "'utf-8' codec can't decode byte 0xff")],
)
@pytest.mark.parametrize("use", [lambda cache: cache.get([b"k"]), lambda cache: cache.put({b"k": b"v"}), Cache.try_out])
def test_one_that_cannot_be_opened_is_warned_of_once(
    spoil: Callable[[Path], None],
    fault: str,
    use: Callable[[Cache], object],
    opened: Callable[..., Cache],
    tmp_path: Path,
) -> None:
    spoil(tmp_path / "cache")

    def in_a_helping_process() -> None:
        use(opened())  # a warning would be an error here

    helping = multiprocessing.get_context("fork").Process(target=in_a_helping_process)
    helping.start()
    helping.join()
    assert helping.exitcode == 0, "whoever started it says it"
    with pytest.warns(PolyrefWarning, match=f"^{tmp_path}/cache: this cache cannot be used, .*: {fault}"):
        use(opened())
    use(opened())
    broken = opened()
    with pytest.raises(DataError, match=f"cache: the cache cannot be used: {fault}"):
        broken.summary()
    broken.close()
    assert fault in str(broken.fault), "why it is off stays what it was"


def test_without_a_home_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("POLYREF_CACHE")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.warns(PolyrefWarning, match=r"^~/.cache/polyref: this cache cannot be used.* home"):
        assert Cache().get([b"k"]) == {}


@pytest.mark.parametrize("use", [lambda cache: cache.put({b"k": bytes(9_000)}), Cache.clear, Cache.try_out])
def test_a_disk_that_is_full_by_now(
    use: Callable[[Cache], object], opened: Callable[..., Cache], tmp_path: Path
) -> None:
    cache = opened(None)
    cache.put({b"a": b"1"})
    cache.close()
    cache = opened(None)
    cache.try_out()
    with full_disk(), pytest.warns(PolyrefWarning, match=r"cannot be used.*(disk|I/O)"):
        if use is Cache.clear:
            with pytest.raises(DataError, match=r"the cache cannot be used: .*(disk|I/O)"):
                use(cache)
            assert cache.get([b"a"]) == {}
        else:
            use(cache)
    assert opened(None).get([b"a"]) == {b"a": b"1"}


def test_reading_goes_on_where_nothing_can_be_marked_as_used(
    opened: Callable[..., Cache], clock: Callable[[int], None]
) -> None:
    clock(0)
    opened().put({b"a": b"1"})
    clock(2 * DAY)
    cache = opened()
    cache.try_out()
    with full_disk(), pytest.warns(PolyrefWarning, match="cannot be used"):
        assert cache.get([b"a"]) == {b"a": b"1"}


def test_a_closed_one_is_off_whether_it_was_open_or_not(opened: Callable[..., Cache], tmp_path: Path) -> None:
    cache = opened()
    cache.close()
    assert cache.fault == "closed" and not (tmp_path / "cache").exists()
    cache = opened()
    cache.put({b"a": b"1"})
    assert (tmp_path / "cache" / "cache.sqlite-wal").exists()
    cache.close()
    assert not (tmp_path / "cache" / "cache.sqlite-wal").exists(), "all is in the one file"
    cache.put({b"b": b"2"})
    assert (cache.fault, cache.get([b"a"])) == ("closed", {})


def test_one_that_another_process_makes_is_waited_for(opened: Callable[..., Cache], tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    opening = Thread(target=opened().get, args=([b"a"],))
    with (tmp_path / "cache" / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        opening.start()
        opening.join(0.2)
        assert opening.is_alive()
    opening.join(20)
    assert not opening.is_alive()


#: Puts batches of twenty values into the cache of a folder, without end.
FILL = """
import sys
from polyref.cache import Cache
cache, first = Cache(sys.argv[1]), int(sys.argv[2])
for start in range(first, first + 1_000_000, 20):
    keys = [n.to_bytes(32, "big") for n in range(start, start + 20)]
    cache.put({key: key * 100 for key in keys})
"""


@pytest.mark.slow
def test_several_processes_may_write_and_be_killed(tmp_path: Path) -> None:
    starts = [str(n * 1_000_000) for n in range(3)]
    writers = [subprocess.Popen([sys.executable, "-c", FILL, tmp_path, start]) for start in starts]
    cache = Cache(tmp_path)
    deadline = time.monotonic() + 60
    while not all(cache.get(keys([n * 1_000_000 + 39])) for n in range(3)):
        assert cache.fault is None and time.monotonic() < deadline
        time.sleep(0.01)
    for writer in writers:
        writer.kill()
        writer.wait()
    for n in range(3):
        wanted = keys(range(n * 1_000_000, n * 1_000_000 + 100_000))
        found = cache.get(wanted[:2000])
        assert len(found) >= 40 and all(value == key * 100 for key, value in found.items())
        assert len(found) % 20 == 0  # a batch is there whole or not at all
    cache.put({b"k": b"v"})
    assert cache.get([b"k"]) == {b"k": b"v"}
    cache.close()

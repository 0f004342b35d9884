"""What is expensive to compute is kept between runs: one file for all programs of a user.

The cache never changes a result: it only holds what would be computed again. If it cannot be used, everything is
computed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from polyref.errors import DataError

#: Where the cache is, and its limit in gigabytes (10**9 bytes), if not the default.
CACHE_FOLDER: Final = "POLYREF_CACHE"
CACHE_LIMIT: Final = "POLYREF_CACHE_LIMIT"
_GIGABYTES: Final = 4.0
_DAY: Final = 86400
_TABLES: Final = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS contents (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value NOT NULL);
"""

#: What a damaged file ends in: SQLite can name a part of it in a message that is no text.
_BROKEN: Final = (sqlite3.Error, UnicodeDecodeError)


class Cache:
    """Bytes by key, in one SQLite file. Several processes and threads may use it at once, and any may be killed.

    A key names everything the value depends on. Values carry a checksum, and a damaged one counts as absent. Beyond the
    limit, the least recently used values are removed, except those used within the last day. Once these fill the limit,
    nothing more is stored. A cache that cannot be used (full disk, file system without locks) turns itself off.
    """

    def __init__(self, folder: str | Path | None = None, limit: float | None = None) -> None:
        """Prepare. The cache is opened, or made, at its first use: a connection may not be carried into a fork.

        Args:
            folder: Where it is; None takes $POLYREF_CACHE, or ~/.cache/polyref.
            limit: Most gigabytes; None takes $POLYREF_CACHE_LIMIT, or what :meth:`keep` was told last, or 4.
        """
        named = os.environ.get(CACHE_LIMIT)
        try:
            own = limit if limit is not None else float(named) if named else None
            self._limit = int((_GIGABYTES if own is None else own) * 1e9)
        except (ValueError, OverflowError):
            raise DataError(f"{CACHE_LIMIT} is {named!r}, expected a number of gigabytes") from None
        self._own = own
        self._given = folder
        self._fault: str | None = None
        self._process: int | None = None
        self._started = int(time.time())
        self._size = 0
        self._full = False
        self._alone = threading.RLock()

    @property
    def fault(self) -> str | None:
        """Why the cache is off, or None."""
        with self._alone:
            if self._process is None:
                self._open()
        if self._process != os.getpid():
            self._fault = "it was opened before this process was forked"
        return self._fault

    def _open(self) -> None:
        self._process = os.getpid()
        try:
            self.folder = Path(self._given or os.environ.get(CACHE_FOLDER) or Path.home() / ".cache" / "polyref")
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Any thread may be the one in which Python drops the last reference, and closes it.
            self._base = sqlite3.connect(
                self.folder / "cache.sqlite", timeout=30, isolation_level=None, check_same_thread=False
            )
            with contextlib.closing(self.folder.joinpath("lock").open("ab")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a change of journal mode does not wait for another process
                self._base.executescript(_TABLES)
            if self._own is None and (kept := self._base.execute("SELECT value FROM settings").fetchone()):
                self._limit = kept[0]
            self._measure()
        except (OSError, RuntimeError, *_BROKEN) as error:  # RuntimeError: there is no home
            self._fault = str(error)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values that are stored, by key."""
        with self._alone:
            return {} if self.fault is not None else self._found(keys)

    def _found(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        stale: list[tuple[int, int]] = []
        query = "SELECT id, used, value FROM entries JOIN contents USING (id) WHERE key = ?"
        try:
            for key in keys:
                row = self._base.execute(query, (key,)).fetchone()
                if row is None or not isinstance(row[2], bytes) or row[2][:4] != _crc(row[2][4:]):
                    continue
                found[key] = row[2][4:]
                if row[1] < self._started - _DAY:  # an entry is marked as used once a day, not at every reading
                    stale.append((self._started, row[0]))
            if stale:
                with self._writing():
                    self._base.executemany("UPDATE entries SET used = ? WHERE id = ?", stale)
        except _BROKEN as error:
            self._fault = str(error)
        return found

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Add values, all or none."""
        with self._alone:
            if self.fault is None and not self._full:
                self._add(values)

    def _add(self, values: Mapping[bytes, bytes]) -> None:
        try:
            with self._writing():
                for key, value in values.items():
                    # A torn value is replaced; one that another process put there meanwhile is the same.
                    row = self._base.execute("SELECT id FROM entries WHERE key = ?", (key,)).fetchone()
                    place = (None if row is None else row[0], key, len(value) + 4, self._started)
                    number = self._base.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", place).lastrowid
                    content = (number, _crc(value) + value)
                    self._base.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", content)
                    self._size += len(value) + 4
                if self._size > self._limit:
                    self._shrink()
        except _BROKEN as error:
            self._fault = str(error)

    def summary(self) -> dict[str, int]:
        """``entries``, ``bytes`` of their values, and the ``limit`` in bytes."""
        with self._reported():
            self._measure()
            (entries,) = self._base.execute("SELECT COUNT(*) FROM entries").fetchone()
        return {"entries": entries, "bytes": self._size, "limit": self._limit}

    def clear(self) -> None:
        """Remove everything. Other processes compute again what they miss."""
        with self._reported():
            with self._writing():
                self._base.execute("DELETE FROM entries")
                self._base.execute("DELETE FROM contents")
            self._base.execute("VACUUM")
            self._size, self._full = 0, False

    def keep(self, limit: float) -> None:
        """Set the limit for all later runs, and shrink to it now: the least recently used values go, new ones too.

        Args:
            limit: Gigabytes, 0 or more.
        """
        if not 0 <= limit < 1e6:
            raise DataError(f"`limit` is {limit:g}, expected gigabytes from 0")
        with self._reported():
            self._limit = int(limit * 1e9)
            with self._writing():
                self._base.execute("INSERT OR REPLACE INTO settings VALUES ('limit', ?)", (self._limit,))
                self._measure()
                if self._size > self._limit:
                    self._shrink(spared=0)
            self._base.execute("VACUUM")

    def close(self) -> None:
        """Close the file."""
        if self._process == os.getpid() and hasattr(self, "_base"):
            self._base.close()
        self._process = self._process or os.getpid()
        self._fault = self._fault or "closed"

    def __del__(self) -> None:
        if os and hasattr(self, "_process"):  # at the program's end, modules can be gone before this
            self.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(*_BROKEN):
                self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def _measure(self) -> None:
        (self._size,) = self._base.execute("SELECT COALESCE(SUM(size), 0) FROM entries").fetchone()

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        """Faults are errors, for who asks for the cache itself."""
        try:
            if self.fault is None:
                yield
        except _BROKEN as error:
            self._fault = str(error)
        if self.fault is not None:
            raise DataError(f"the cache cannot be used: {self.fault}", file=getattr(self, "folder", None))

    def _shrink(self, spared: int = _DAY) -> None:
        """Shrink to nine tenths of the limit, oldest first; what was used in the last ``spared`` seconds stays."""
        self._measure()  # other processes add and remove as well
        old = "SELECT id, size FROM entries WHERE used < ? ORDER BY used, id"
        gone = []
        for number, size in self._base.execute(old, (self._started - spared + (spared == 0),)):
            if self._size <= self._limit * 0.9:
                break
            gone.append((number,))
            self._size -= size
        self._base.executemany("DELETE FROM entries WHERE id = ?", gone)
        self._base.executemany("DELETE FROM contents WHERE id = ?", gone)
        self._full = self._size > self._limit


@lru_cache(maxsize=1)
def default_cache() -> Cache:
    """The cache that all of this process share."""
    return Cache()


def _crc(value: bytes) -> bytes:
    return zlib.crc32(value).to_bytes(4, "big")

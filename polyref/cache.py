"""What is expensive to compute is kept between runs: one file for all programs of a user.

The cache never changes a result: it only holds what would be computed again. If it cannot be used, everything is
computed, and a warning says so once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Final

from polyref.errors import DataError, PolyrefWarning

#: Where the cache is, and its limit in gigabytes (10**9 bytes), if not the default.
CACHE_FOLDER: Final = "POLYREF_CACHE"
CACHE_LIMIT: Final = "POLYREF_CACHE_LIMIT"
_GIGABYTES: Final = 4.0
_DAY: Final = 86400
#: A second after all others.
_EVER: Final = 1 << 62
_TABLES: Final = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS contents (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value NOT NULL);
    CREATE TABLE IF NOT EXISTS total (id INTEGER PRIMARY KEY CHECK (id = 1), size INTEGER NOT NULL);
"""

#: What a damaged file ends in: SQLite can name a part of it in a message that is no text.
_BROKEN: Final = (sqlite3.Error, UnicodeDecodeError)

#: Caches of this process that were warned of.
_warned_of: Final[set[Path]] = set()


class Cache:
    """Bytes by key, in one SQLite file. Several processes and threads may use it at once, and any may be killed.

    A key names everything the value depends on. Values carry a checksum, and a damaged one counts as absent. Beyond the
    limit, which is one for all processes, the least recently used values are removed, except those used within the
    last day. Once these fill the limit, nothing more is stored. A cache that cannot be used (full disk, file system
    without locks) turns itself off, with one warning in each program.

    Args:
        folder: Where it is; None takes $POLYREF_CACHE, or ~/.cache/polyref.
        limit: Most gigabytes, 0 or more; None takes $POLYREF_CACHE_LIMIT, or what :meth:`keep` was told last, or 4.
    """

    def __init__(self, folder: str | Path | None = None, limit: float | None = None) -> None:
        # It is opened, or made, at its first use: a connection may not be carried into a fork.
        self._own = own_limit() if limit is None else _bytes("`limit`", limit)
        self._given = folder
        self._fault: str | None = None
        self._broken = False
        self._process: int | None = None
        self._started = int(time.time())
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
            self.folder = Path(self._given or cache_folder())
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Any thread may be the one in which Python drops the last reference, and closes it.
            self._base = sqlite3.connect(
                self.folder / "cache.sqlite", timeout=30, isolation_level=None, check_same_thread=False
            )
            with contextlib.closing(self.folder.joinpath("lock").open("ab")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a change of journal mode does not wait for another process
                self._base.executescript(_TABLES)
            # Programs of an older version, and those that were killed long ago, have not kept the total.
            right = "SELECT (SELECT size FROM total) IS (SELECT COALESCE(SUM(size), 0) FROM entries)"
            if not self._base.execute(right).fetchone()[0]:
                with self._writing():
                    self._count()
        except (OSError, RuntimeError, *_BROKEN) as error:  # RuntimeError: there is no home
            self._turn_off(error)

    def _turn_off(self, error: Exception) -> None:
        self._fault, self._broken = getattr(error, "strerror", None) or str(error), True

    def _warn(self) -> None:
        """Say once that the cache is off: here, not in processes that were started to help."""
        folder = getattr(self, "folder", Path("~/.cache/polyref"))
        if not self._broken or folder in _warned_of or parent_process() is not None:
            return
        _warned_of.add(folder)
        warnings.warn(
            f"{folder}: this cache cannot be used, everything is computed: {self._fault} "
            f"({CACHE_FOLDER}=FOLDER names another)",
            PolyrefWarning,
            stacklevel=4,
        )

    def try_out(self) -> None:
        """Open it and write to it: what is wrong is said here, before helping processes meet it, which say nothing."""
        with self._alone:
            if self.fault is None:
                try:
                    with self._writing():
                        self._count()
                except _BROKEN as error:
                    self._turn_off(error)
            self._warn()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values that are stored, by key."""
        with self._alone:
            found = {} if self.fault is not None else self._found(keys)
            self._warn()
            return found

    def _found(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        stale: list[tuple[int, int]] = []
        query = "SELECT id, CAST(used AS INTEGER), value FROM entries JOIN contents USING (id) WHERE key = ?"
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
            self._turn_off(error)
        return found

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Add values, all or none."""
        with self._alone:
            if self.fault is None and not self._full:
                self._add(values)
            self._warn()

    def _add(self, values: Mapping[bytes, bytes]) -> None:
        try:
            with self._writing():
                new = sum(len(value) + 4 for value in values.values())
                if self._total() + new > self._limit():
                    self._shrink(new)
                self._full = self._total() + new > self._limit()
                for key, value in () if self._full else values.items():
                    # A torn value is replaced; one that another process put there meanwhile is the same.
                    row = self._base.execute("SELECT id, size FROM entries WHERE key = ?", (key,)).fetchone()
                    number, old = row or (None, 0)
                    place = (number, key, len(value) + 4, self._started)
                    number = self._base.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", place).lastrowid
                    content = (number, _crc(value) + value)
                    self._base.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", content)
                    self._base.execute("UPDATE total SET size = size + ? - ?", (len(value) + 4, old))
        except _BROKEN as error:
            self._turn_off(error)

    def summary(self) -> dict[str, int]:
        """``entries``, ``bytes`` of their values, and the ``limit`` in bytes."""
        with self._reported():
            (entries,) = self._base.execute("SELECT COUNT(*) FROM entries").fetchone()
            return {"entries": entries, "bytes": self._total(), "limit": self._limit()}

    def clear(self) -> None:
        """Remove everything. Other processes compute again what they miss."""
        with self._reported():
            with self._writing():
                self._base.execute("DELETE FROM entries")
                self._base.execute("DELETE FROM contents")
                self._count()
            self._base.execute("VACUUM")
            self._full = False

    def keep(self, limit: float) -> None:
        """Set the limit (gigabytes) for all later runs, and shrink to it: the least recently used values go first."""
        most = _bytes("`limit`", limit)
        with self._reported():
            with self._writing():
                self._base.execute("INSERT OR REPLACE INTO settings VALUES ('limit', ?)", (most,))
                self._own, self._full = None, False
                if self._total() > most:
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

    def _limit(self) -> int:
        """Most bytes: what this program was told, or what is kept for all of them."""
        if self._own is not None:
            return self._own
        kept = self._base.execute("SELECT value FROM settings WHERE name = 'limit'").fetchone()
        return kept[0] if kept and isinstance(kept[0], int) else int(_GIGABYTES * 1e9)

    def _total(self) -> int:
        """Bytes of all values, whoever put them there."""
        found = self._base.execute("SELECT CAST(size AS INTEGER) FROM total").fetchone()
        return found[0] or 0 if found else 0  # a damaged file can hold anything

    def _count(self) -> None:
        self._base.execute("INSERT OR REPLACE INTO total SELECT 1, COALESCE(SUM(size), 0) FROM entries")

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        """Faults are errors, for who asks for the cache itself."""
        try:
            if self.fault is None:
                yield
        except _BROKEN as error:
            self._turn_off(error)
        if self.fault is not None:
            raise DataError(f"the cache cannot be used: {self.fault}", file=getattr(self, "folder", None))

    def _shrink(self, new: int = 0, spared: int = _DAY) -> None:
        """Shrink to nine tenths of the limit, with ``new`` bytes to come; what was just used (``spared``) stays."""
        self._count()
        size, most = self._total() + new, 0.9 * self._limit()
        old = "SELECT id, size FROM entries WHERE used < ? ORDER BY used, id"
        gone = []
        before = self._started - spared if spared else _EVER  # with 0, nothing stays, whoever put it there and when
        for number, bytes_of_it in self._base.execute(old, (before,)):
            if size <= most:
                break
            gone.append((number,))
            size -= bytes_of_it
        self._base.executemany("DELETE FROM entries WHERE id = ?", gone)
        self._base.executemany("DELETE FROM contents WHERE id = ?", gone)
        self._count()


def cache_folder() -> Path:
    """Where the cache is, unless a program says otherwise; a RuntimeError where there is no home."""
    return Path(os.environ.get(CACHE_FOLDER) or Path.home() / ".cache" / "polyref")


def sets_folder() -> Path:
    """Where reference sets are kept beside the cache, which its limit does not touch."""
    return cache_folder() / "sets"


def own_limit() -> int | None:
    """The limit that $POLYREF_CACHE_LIMIT gives, in bytes; None where it gives none."""
    named = os.environ.get(CACHE_LIMIT)
    try:
        return _bytes(CACHE_LIMIT, float(named)) if named else None
    except ValueError:
        raise _no_limit(CACHE_LIMIT, named) from None


def _bytes(name: str, gigabytes: float) -> int:
    if not 0 <= gigabytes < 1e6:
        raise _no_limit(name, gigabytes)
    return int(gigabytes * 1e9)


def _no_limit(name: str, found: object) -> DataError:
    return DataError(f"{name} is {found!r}, expected a number of gigabytes from 0", remedy="4, say")


@lru_cache(maxsize=1)
def default_cache() -> Cache:
    """The cache that all of this process share."""
    return Cache()


def _crc(value: bytes) -> bytes:
    return zlib.crc32(value).to_bytes(4, "big")

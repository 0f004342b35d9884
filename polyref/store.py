"""Content hashes, and journals of finished work.

A journal is an append-only file beside a result that is still being made. Each record is flushed to the disk before
the next piece of work starts, so a run that is killed at any moment loses at most the piece it was working on.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from polyref.errors import DataError, PolyrefWarning
from polyref.json_files import fitting, try_json
from polyref.publishing import sync_folder
from polyref.textfiles import file_system, reported

_FORMAT: Final = 1
_LONGEST_HEADER: Final = 1 << 24  # bytes: what is longer in one line is no journal
_DIGEST: Final = 16  # hexadecimal digits in front of every record: enough to tell a torn one


def file_sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits (what ``sha256sum`` prints)."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _sha256(stream)


def _sha256(stream: BinaryIO) -> str:  # Python 3.10 has no file_digest
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


class Journal:
    """Finished pieces of work, in order, with the settings they were made with.

    Each line is a record: a checksum, then JSON. The settings come first. Opening an existing journal continues where
    it stopped: an incomplete record at its end, left by a crash, is removed. A lock keeps a second process out,
    if the file system has locks; without them, a warning says so.

    Example::

        with Journal.open("out.partial", settings) as journal:
            for piece in work[journal.length :]:
                journal.append(do(piece))
            results = list(journal)
            journal.remove()
    """

    def __init__(self, path: Path, stream: BinaryIO, length: int) -> None:
        self.path = path
        self.length = length
        self._stream = stream

    @classmethod
    def open(cls, path: str | Path, settings: Mapping[str, Any]) -> Journal:
        """Open or create a journal.

        Args:
            path: The file.
            settings: Everything the work depends on, as JSON values: inputs by their hash, model, options.
        """
        path = Path(path)
        try:
            # Never through a link: whoever may write into the folder could point it at any file of the user's.
            stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "r+b")
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise DataError(
                    "is a link, which no journal follows", file=path, remedy="name the file itself"
                ) from None
            raise DataError(f"cannot be written: {error.strerror}", file=path) from None
        try:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise DataError("is no file: nothing can be kept in it", file=path, remedy="choose another")
            length = _resume(path, stream, settings)
        except BaseException:
            stream.close()
            raise
        return cls(path, stream, length)

    def append(self, record: Any) -> None:
        """Add a record and wait until it is on disk."""
        try:
            self._stream.seek(0, os.SEEK_END)
            _write(self._stream, record)
        except OSError as error:
            raise DataError(
                f"cannot be written: {error.strerror}", file=self.path, remedy="what is finished is kept"
            ) from None
        self.length += 1

    def __iter__(self) -> Iterator[Any]:
        """The records, from the first."""
        self._stream.seek(0)
        lines = _records(self._stream)
        next(lines)  # the settings
        for record, _ in lines:
            yield record

    def records(self, shape: Any, remedy: str) -> Iterator[Any]:
        """The records, each of this shape (:func:`~polyref.json_files.misfit`); faults name line and remedy."""
        return fitting(((record, self.path, line) for line, record in enumerate(self, 2)), shape, remedy)

    def remove(self) -> None:
        """Delete the journal: its work is safe elsewhere."""
        self.path.unlink(missing_ok=True)
        self._stream.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()


def _resume(path: Path, stream: BinaryIO, settings: Mapping[str, Any]) -> int:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError("is in use", file=path, remedy="wait for the other run, or choose another output") from None
    except OSError as error:  # a file system without locks
        warnings.warn(
            f"{path}: cannot be locked ({error.strerror}): start no second run of the same output",
            PolyrefWarning,
            stacklevel=2,
        )
    header = settings_header(settings)
    records = _records(stream)
    try:
        found, end = next(records)
    except StopIteration:
        stream.seek(0)
        whole = pack(header)
        if not whole.startswith(stream.read(len(whole) + 1)):
            raise DataError("is in the way and no journal", file=path, remedy="move it away") from None
        # Empty, or killed before these settings were on the disk: nothing to keep.
        return _begin(path, stream, header)
    check_header(path, found)
    ends = [end, *(end for _, end in records)]
    if found != header and len(ends) == 1:
        # Killed before the first record: nothing that could get mixed.
        return _begin(path, stream, header)
    if found != header:
        raise unfinished_work(path, found, header)
    stream.truncate(ends[-1])
    return len(ends) - 1


def is_journal(path: str | Path) -> bool:
    """Whether a file begins as a journal does."""
    with Path(path).open("rb") as stream:
        found = unpack(stream.readline(_LONGEST_HEADER))
    return isinstance(found, dict) and "journal" in found


def settings_header(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The first record of a journal."""
    # As JSON gives it back: tuples become lists, keys become strings.
    return {"journal": _FORMAT, "settings": json.loads(json.dumps(settings))}


def check_header(path: str | Path, found: Any) -> None:
    """Refuse a first record that is none of this version."""
    if not isinstance(found, dict) or found.get("journal") != _FORMAT or not isinstance(found.get("settings"), dict):
        raise DataError("is in the way and no journal of this version", file=path, remedy="move it away")


class UnfinishedError(DataError):
    """A journal holds records that were made with other settings.

    Attributes:
        settings: Those of the records.
    """

    settings: Mapping[str, Any] = {}


def unfinished_work(path: str | Path, found: Mapping[str, Any], header: Mapping[str, Any]) -> UnfinishedError:
    """The error, to be raised, that a journal holds records that were made with other settings."""
    changes = ", ".join(_differences(found["settings"], header["settings"]))
    error = UnfinishedError(
        f"holds unfinished work with other settings: {changes}",
        file=path,
        remedy="repeat that command to finish it, or delete this file to start afresh",
    )
    error.settings = found["settings"]
    return error


def _begin(path: Path, stream: BinaryIO, header: Mapping[str, Any]) -> int:
    stream.seek(0)
    stream.truncate()
    _write(stream, header)
    sync_folder(path.parent)
    return 0


def _write(stream: BinaryIO, record: Any) -> None:
    stream.write(pack(record))
    stream.flush()
    os.fsync(stream.fileno())


def pack(record: Any) -> bytes:
    """A record as a line: a checksum, then JSON."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return _checksum(text) + b" " + text + b"\n"


def unpack(line: bytes) -> Any:
    """The record of a line; None where it is torn or was written by somebody else."""
    digest, text = line[:_DIGEST], line[_DIGEST + 1 : -1]
    if not line.endswith(b"\n") or digest != _checksum(text):
        return None
    return try_json(text, object)  # a checksum says nothing about what was written


def _records(stream: BinaryIO) -> Iterator[tuple[Any, int]]:
    """Records and the offset at which each ends; stops before the first damaged one."""
    end = 0
    for line in stream:
        if (record := unpack(line)) is None:
            return
        end += len(line)
        yield record, end


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:_DIGEST].encode()


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key} was {json.dumps(old.get(key))} and is {json.dumps(new.get(key))}"


_SETTINGS_NAME: Final = "settings"
_DIGITS: Final = 16  # hexadecimal, of the hash of the settings


class RemoteJournal:
    """Finished pieces of work, in order, with the settings they were made with; see :class:`polyref.store.Journal`.

    Attributes:
        path: The URL of the folder.
        length: Number of records.
    """

    def __init__(self, path: str, header: Mapping[str, Any]) -> None:
        self.path = path
        self.length = 0
        self._hash = hashlib.sha256(pack(header)).hexdigest()[:_DIGITS]

    @classmethod
    def open(cls, path: str | Path, settings: Mapping[str, Any]) -> RemoteJournal:
        """Open or create a journal.

        Args:
            path: The URL of its folder.
            settings: Everything the work depends on, as JSON values.
        """
        header = settings_header(settings)
        journal = cls(str(path), header)
        found = journal._read(_SETTINGS_NAME)
        if found is not None and found != header:
            check_header(path, found)
            if (other := cls(str(path), found))._read(other._name(0)) is not None:
                raise unfinished_work(path, found, header)
        while journal._read(journal._name(journal.length)) is not None:
            journal.length += 1
        if found != header:
            journal._write(_SETTINGS_NAME, header)
        return journal

    def append(self, record: Any) -> None:
        """Add a record; it is there when this returns."""
        self._write(self._name(self.length), record)
        self.length += 1

    def __iter__(self) -> Iterator[Any]:
        """The records, from the first."""
        for number in range(self.length):
            if (record := self._read(self._name(number))) is None:
                raise DataError(
                    "is gone: another run has removed it",
                    file=f"{self.path}/{self._name(number)}",
                    remedy="repeat the command",
                )
            yield record

    def records(self, shape: Any, remedy: str) -> Iterator[Any]:
        """As of a journal on this machine."""
        named = ((record, f"{self.path}/{self._name(number)}", None) for number, record in enumerate(self))
        return fitting(named, shape, remedy)

    def remove(self) -> None:
        """Delete the journal: its work is safe elsewhere."""
        with reported(self.path):
            files, path = file_system(self.path)
            files.rm(path, recursive=True)

    def __enter__(self) -> RemoteJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def _name(self, number: int) -> str:
        return f"{self._hash}-{number:08}"

    def _read(self, name: str) -> Any:
        """A record, or None where there is none or a torn one."""
        with reported(self.path):
            files, path = file_system(f"{self.path}/{name}")
            try:
                return unpack(files.cat_file(path))
            except FileNotFoundError:
                return None

    def _write(self, name: str, record: Any) -> None:
        with reported(self.path):
            files, path = file_system(f"{self.path}/{name}")
            try:
                files.pipe_file(path, pack(record))
            except FileNotFoundError:  # a file system with folders, unlike an object store
                files.mkdir(files._parent(path), create_parents=False)
                files.pipe_file(path, pack(record))

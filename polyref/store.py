"""Content hashes, and journals of finished work.

A journal lies beside a result that is still being made. Each record is on the disk before the next piece of work
starts, so a run that is killed at any moment loses at most the piece it was working on. On this machine it is an
append-only file. On another file system nothing can be appended to an object, so there it is a folder.
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
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from polyref.errors import DataError, PolyrefWarning
from polyref.json_files import fitting, try_json
from polyref.publishing import sync_folder
from polyref.textfiles import file_system, is_remote, reported

_FORMAT: Final = 1
_LONGEST_HEADER: Final = 1 << 24  # bytes: what is longer in one line is no journal
_DIGITS: Final = 16  # hexadecimal, of a hash: enough to tell a torn record, or settings apart


def file_sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits (what ``sha256sum`` prints)."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class UnfinishedError(DataError):
    """A journal holds records that were made with other settings, which are its ``settings``."""

    settings: Mapping[str, Any] = {}


class Journal:
    """Finished pieces of work, in order, with the settings they were made with.

    Opening an existing journal continues where it stopped. Records of other settings are never read.

    Example::

        with Journal.open("out.partial", settings) as journal:
            for piece in work[journal.length :]:
                journal.append(do(piece))
            results = list(journal)
            journal.remove()
    """

    def __init__(self, path: str | Path, length: int, place: _File | _Folder) -> None:
        self.path = path
        self.length = length
        self._place = place

    @classmethod
    def open(cls, path: str | Path, settings: Mapping[str, Any], *, private: bool = False) -> Journal:
        """Open or create a journal.

        Args:
            path: The file, or the URL of a folder.
            settings: Everything the work depends on, as JSON values: inputs by their hash, model, options.
            private: Whether a new file is for its owner alone.
        """
        header = {"journal": _FORMAT, "settings": json.loads(json.dumps(settings))}  # with lists for tuples
        place = _Folder(str(path), header) if is_remote(path) else _File(Path(path), 0o600 if private else 0o666)
        try:
            length = place.resume(header)
        except BaseException:
            place.close()
            raise
        return cls(place.path, length, place)

    def append(self, record: Any) -> None:
        """Add a record; it is safe when this returns."""
        self._place.append(self.length, record)
        self.length += 1

    def __iter__(self) -> Iterator[Any]:
        """The records, from the first."""
        return (record for record, _, _ in self._place.records(self.length))

    def records(self, shape: Any, remedy: str) -> Iterator[Any]:
        """The records, each of this shape (:func:`~polyref.json_files.misfit`); faults name their place and remedy."""
        return fitting(self._place.records(self.length), shape, remedy)

    def remove(self) -> None:
        """Delete the journal: its work is safe elsewhere."""
        self._place.remove()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._place.close()


class _File:
    """A file with a line for each record: a checksum, then JSON. The settings come first.

    A lock keeps a second process out, if the file system has locks; without them, a warning says so.
    """

    def __init__(self, path: Path, mode: int) -> None:
        self.path = path
        try:
            # Never through a link: whoever may write into the folder could point it at any file of the user's.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            self._stream: BinaryIO = os.fdopen(handle, "r+b")
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise DataError(
                    "is a link, which no journal follows", file=path, remedy="name the file itself"
                ) from None
            raise DataError(f"cannot be written: {error.strerror}", file=path) from None

    def resume(self, header: Mapping[str, Any]) -> int:
        """What is torn at the end, left by a crash, is removed."""
        if not stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode):
            raise DataError("is no file: nothing can be kept in it", file=self.path, remedy="choose another")
        self._lock()
        found: Any = None
        ends = []
        for record, end in self._whole_records():
            found = record if found is None else found
            ends.append(end)
        if found is None:
            self._stream.seek(0)
            whole = pack(header)
            # Empty, or killed before these settings were on the disk: nothing to keep.
            if not whole.startswith(self._stream.read(len(whole) + 1)):
                raise DataError("is in the way and no journal", file=self.path, remedy="move it away") from None
        else:
            _check(self.path, found)
        if found != header and len(ends) > 1:
            raise _unfinished(self.path, found, header)
        if found != header:  # killed before the first record: nothing that could get mixed
            self._stream.seek(0)
            self._stream.truncate()
            self._write(header)
            sync_folder(self.path.parent)
            return 0
        self._stream.truncate(ends[-1])
        return len(ends) - 1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                "is in use", file=self.path, remedy="wait for the other run, or choose another output"
            ) from None
        except OSError as error:  # a file system without locks
            warnings.warn(
                f"{self.path}: cannot be locked ({error.strerror}): start no second run of the same output",
                PolyrefWarning,
                stacklevel=4,
            )

    def append(self, number: int, record: Any) -> None:
        try:
            self._stream.seek(0, os.SEEK_END)
            self._write(record)
        except OSError as error:
            raise DataError(
                f"cannot be written: {error.strerror}", file=self.path, remedy="what is finished is kept"
            ) from None

    def records(self, length: int) -> Iterator[tuple[Any, str | Path, int | None]]:
        for line, (record, _) in enumerate(self._whole_records(), 1):
            if line > 1:
                yield record, self.path, line

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        with suppress(OSError):  # what does not reach the disk was told when it was written
            self._stream.close()

    def _write(self, record: Any) -> None:
        self._stream.write(pack(record))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _whole_records(self) -> Iterator[tuple[Any, int]]:
        """Records and the offset at which each ends; stops before the first damaged one."""
        self._stream.seek(0)
        end = 0
        for line in self._stream:
            if (record := _unpack(line)) is None:
                return
            end += len(line)
            yield record, end


class _Folder:
    """A folder by its URL: ``settings``, then ``HASH-00000000``, ... with the hash of the settings.

    Each is put there whole. A driver that is killed loses the records that were not there yet, and a driver on another
    machine goes on with those that are. There is no lock: object stores have none. Two runs of the same work write the
    same bytes into the same objects; one with other settings is refused, unless it starts at the same moment.
    """

    def __init__(self, path: str, header: Mapping[str, Any]) -> None:
        self.path = path
        self._name = _checksum(pack(header)).decode() + "-{:08}"

    def resume(self, header: Mapping[str, Any]) -> int:
        """The number of records that are there in one piece from the first."""
        found = self._read("settings")
        if found is not None and found != header:
            _check(self.path, found)
            other = _Folder(self.path, found)
            if other._read(other._name.format(0)) is not None:
                raise _unfinished(self.path, found, header)
        length = next(number for number in count() if self._read(self._name.format(number)) is None)
        if found != header:
            self._write("settings", header)
        return length

    def append(self, number: int, record: Any) -> None:
        self._write(self._name.format(number), record)

    def records(self, length: int) -> Iterator[tuple[Any, str | Path, int | None]]:
        for number in range(length):
            name = self._name.format(number)
            file = f"{self.path}/{name}"
            if (record := self._read(name)) is None:
                raise DataError("is gone: another run has removed it", file=file, remedy="repeat the command")
            yield record, file, None

    def remove(self) -> None:
        with reported(self.path):
            files, path = file_system(self.path)
            files.rm(path, recursive=True)

    def close(self) -> None:
        """Nothing is open."""

    def _read(self, name: str) -> Any:
        """A record; None where there is none, or a torn one."""
        with reported(self.path), suppress(FileNotFoundError):
            files, path = file_system(f"{self.path}/{name}")
            return _unpack(files.cat_file(path))

    def _write(self, name: str, record: Any) -> None:
        with reported(self.path):
            files, path = file_system(f"{self.path}/{name}")
            try:
                files.pipe_file(path, pack(record))
            except FileNotFoundError:  # a file system with folders, unlike an object store
                files.mkdir(files._parent(path), create_parents=False)
                files.pipe_file(path, pack(record))


def is_journal(path: str | Path) -> bool:
    """Whether a file begins as a journal does."""
    with Path(path).open("rb") as stream:
        found = _unpack(stream.readline(_LONGEST_HEADER))
    return isinstance(found, dict) and "journal" in found


def _check(path: str | Path, found: Any) -> None:
    """Refuse a first record that is none of this version."""
    if not isinstance(found, dict) or found.get("journal") != _FORMAT or not isinstance(found.get("settings"), dict):
        raise DataError("is in the way and no journal of this version", file=path, remedy="move it away")


def _unfinished(path: str | Path, found: Mapping[str, Any], header: Mapping[str, Any]) -> UnfinishedError:
    old, new = found["settings"], header["settings"]
    changes = [
        f"{key} was {json.dumps(old.get(key))} and is {json.dumps(new.get(key))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
    error = UnfinishedError(
        f"holds unfinished work with other settings: {', '.join(changes)}",
        file=path,
        remedy="repeat that command to finish it, or delete this file to start afresh",
    )
    error.settings = old
    return error


def pack(record: Any) -> bytes:
    """A record as a line."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return _checksum(text) + b" " + text + b"\n"


def _unpack(line: bytes) -> Any:
    """The record of a line; None where it is torn or was written by somebody else."""
    digest, text = line[:_DIGITS], line[_DIGITS + 1 : -1]
    if not line.endswith(b"\n") or digest != _checksum(text):
        return None
    return try_json(text, object)  # a checksum says nothing about what was written


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:_DIGITS].encode()

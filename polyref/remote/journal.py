"""A journal of finished work on another file system: one object for each record.

Nothing can be appended to an object, so the journal is a folder: ``settings``, then ``HASH-00000000``,
``HASH-00000001``, ... with the hash of the settings. Each is put there whole. A driver that is killed loses the records
that were not there yet, and a driver on another machine goes on with those that are.

There is no lock: object stores have none. Two runs of the same work write the same bytes into the same objects; one
with other settings is refused, unless it starts at the same moment. Records of other settings are never read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from polyref.errors import DataError
from polyref.json_files import fitting
from polyref.remote.files import file_system, reported
from polyref.store import check_header, pack, settings_header, unfinished_work, unpack

_SETTINGS: Final = "settings"
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
        found = journal._read(_SETTINGS)
        if found is not None and found != header:
            check_header(path, found)
            if (other := cls(str(path), found))._read(other._name(0)) is not None:
                raise unfinished_work(path, found, header)
        while journal._read(journal._name(journal.length)) is not None:
            journal.length += 1
        if found != header:
            journal._write(_SETTINGS, header)
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

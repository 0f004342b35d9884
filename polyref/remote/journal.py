"""A journal of finished work on another file system: one object for each record.

Nothing can be appended to an object, so the journal is a folder: ``settings``, then ``00000000``, ``00000001``, ...
Each is put there whole. A driver that is killed loses the records that were not there yet, and a driver on another
machine goes on with those that are.

There is no lock: object stores have none. Two runs of the same work write the same bytes into the same objects; one
with other settings is refused, unless it starts at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from polyref.remote.files import file_system, reported
from polyref.store import pack, settings_header, unfinished_work, unpack

_SETTINGS: Final = "settings"


class RemoteJournal:
    """Finished pieces of work, in order, with the settings they were made with; see :class:`polyref.store.Journal`.

    Attributes:
        path: The URL of the folder.
        length: Number of records.
    """

    def __init__(self, path: str, length: int) -> None:
        self.path = path
        self.length = length

    @classmethod
    def open(cls, path: str | Path, settings: Mapping[str, Any]) -> RemoteJournal:
        """Open or create a journal.

        Args:
            path: The URL of its folder.
            settings: Everything the work depends on, as JSON values.
        """
        journal = cls(str(path), 0)
        header = settings_header(settings)
        found = journal._read(_SETTINGS)
        if found is not None:
            while journal._read(_name(journal.length)) is not None:
                journal.length += 1
        if found is not None and found != header and journal.length:
            raise unfinished_work(path, found, header)
        if found != header:
            journal._write(_SETTINGS, header)
        return journal

    def append(self, record: Any) -> None:
        """Add a record; it is there when this returns."""
        self._write(_name(self.length), record)
        self.length += 1

    def __iter__(self) -> Iterator[Any]:
        """The records, from the first."""
        return (self._read(_name(number)) for number in range(self.length))

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


def _name(number: int) -> str:
    return f"{number:08}"

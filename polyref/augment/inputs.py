"""The reference files of one run: checked whole before any work, then read again as the work goes on."""

from __future__ import annotations

import shutil
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from polyref.errors import DataError, UsageError
from polyref.formats import Reading, located, nbest, normal, open_references, simple, text
from polyref.references import Segment
from polyref.remote.files import fetch, is_remote
from polyref.segments import Place
from polyref.store import file_sha256
from polyref.tables import name_as_text
from polyref.textfiles import display_name, iter_lines, read_lines, standard_input


class Inputs:
    """Reference files as a sequence of segments that never lies in memory as a whole.

    Standard input, pipes and files of other file systems are copied to a temporary file, because they are read twice.

    Args:
        paths: As for :meth:`polyref.references.ReferenceSet.load`.
        reading: What the files do not say themselves.
        whole: Take all that they say. Without, of forms of others the texts of references and their ids are taken, and
            nothing else: the set is that of the same references in plain text.

    Attributes:
        files: ``{"name", "sha256"}`` of every file, without its folder: results must not depend on where it lies.
        meta: What the header says.
        length: Number of segments.
        plain: Whether they are plain text.
        numbered: Whether the ids are the places, from 1.
        named: Whether a file names segments by ids of its own, whatever they are.
        names: The files, for messages.
        reading: How the files are read.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        reading: Reading = Reading(),  # noqa: B008 (frozen)
        *,
        whole: bool = False,
    ) -> None:
        if sum(str(path) == "-" for path in paths) > 1:
            raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")
        self._stack = ExitStack()
        self._names: dict[str, str] = {}
        self.names = [display_name(path) for path in paths]
        self.numbered, self.named = True, False
        paths, self.reading = located(paths, replace(reading, whole=whole))
        try:
            self._paths = [self._readable(path) for path in paths]
            hashes = [_sha256(path) for path in self._paths]
            with self._named(), ExitStack() as stack:
                opened = open_references(self._paths, stack, self.reading)
                self.meta = dict(opened.meta)
                self.plain = opened.form == text.FORMAT.name
                self._lines = opened.form in (text.FORMAT.name, *(form.FORMAT.name for form in (normal, simple, nbest)))
                # What was read, 8 bytes a segment: the same must be found when it is read again.
                self._seen = array("q")
                for place, segment in enumerate(opened.segments, 1):
                    self._seen.append(hash(repr(segment)))
                    self.numbered = self.numbered and segment.id == str(place)
                    self.named = self.named or not isinstance(segment.id, Place)
            self.files = [
                {"name": _base_name(given), "sha256": str(found)} for given, found in zip(paths, hashes, strict=True)
            ]
            self._check_unchanged()
        except BaseException:
            self._stack.close()
            raise
        self.length = len(self._seen)

    def segments(self) -> Iterator[Segment]:
        """The segments, from the first; may be called again."""
        place = 0
        try:
            with self._named(), ExitStack() as stack:
                for place, segment in enumerate(open_references(self._paths, stack, self.reading).segments, 1):
                    if place > self.length or hash(repr(segment)) != self._seen[place - 1]:
                        raise self._changed(self._paths[0])
                    yield segment
        except DataError:
            self._check_unchanged()  # a file that is broken now and was not at first has changed
            raise
        if place != self.length:
            raise self._changed(self._paths[0])

    def line_of(self, place: int) -> int | None:
        """The line of the segment at ``place``, from 0; None of a file in a form with other things on its lines."""
        if not self._lines:
            return None
        first = next(iter_lines(self._paths[0]), "")
        return place + (2 if first.lstrip().startswith('{"polyref"') else 1)

    def _beside(self, given: str | Path) -> tuple[list[str], dict[str, str]]:
        """All lines of a file beside the references, and what the header says of it."""
        path = self._readable(given)
        before = _sha256(path)
        with self._named():
            lines = read_lines(path)
        if _sha256(path) != before:
            raise self._changed(path)
        return lines, {"name": _base_name(given), "sha256": str(before)}

    def _check_unchanged(self) -> None:
        # Of the files beside them, which are held in memory, nothing is read again.
        for path, file in zip(self._paths, self.files, strict=False):
            if _sha256(path) != file["sha256"]:
                raise self._changed(path)

    def _changed(self, path: Path) -> DataError:
        name = self._names.get(str(path), str(path))
        return DataError("changed while it was read", file=name, remedy="leave it as it is until the work is done")

    def _readable(self, path: str | Path) -> Path:
        """A regular file with the contents of ``path`` (one that does not exist is reported by its reader)."""
        given = Path(path)
        if is_remote(path):
            copy = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="polyref-"))) / given.name
            fetch(path, copy)
            self._names[str(copy)] = str(path)
            return copy
        if str(path) != "-" and (given.is_file() or not given.exists() or given.is_dir()):
            return given
        suffix = "" if str(path) == "-" else "".join(given.suffixes)
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="polyref-"))
        copy = Path(folder) / f"input{suffix}"
        with copy.open("wb") as target:
            if str(path) == "-":
                shutil.copyfileobj(standard_input(), target)
            else:
                with given.open("rb") as source:
                    shutil.copyfileobj(source, target)
        self._names[str(copy)] = display_name(path)
        return copy

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors about a copy name the original."""
        try:
            yield
        except DataError as error:
            if error.file not in self._names:
                raise
            raise DataError(error.message, file=self._names[error.file], line=error.line, remedy=error.remedy) from None

    def __len__(self) -> int:
        return self.length

    def __enter__(self) -> Inputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _sha256(path: Path) -> str | None:
    """None for what cannot be read: its reader says why."""
    try:
        return file_sha256(path)
    except OSError:
        return None


def _base_name(path: str | Path) -> str:
    # A file name need not be UTF-8; the header is.
    return name_as_text(Path(display_name(path)).name)

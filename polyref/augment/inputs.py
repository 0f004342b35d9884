"""The references of one run, or a list of candidates: read once and checked whole, in their context and language."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from polyref.errors import DataError, UsageError
from polyref.formats import Reading, located, open_references, own, segment_line
from polyref.models.language_recognition import language_name, other_language
from polyref.paraphrase.rewriting.options import TextInContext
from polyref.publishing import is_stream
from polyref.references import Place, Reference, ReferenceSet, Segment
from polyref.store import file_sha256
from polyref.tables import name_as_text
from polyref.textfiles import display_name, fetch, is_remote, iter_lines, read_lines, standard_input


class Rows(ABC):
    """A sequence of segments that can be read again, from the first or at a place, and where they come from.

    Attributes:
        files: ``{"name", "sha256"}`` of every file, without its folder: results must not depend on where it lies.
        meta: What the header says.
        plain: Whether they are plain text.
        numbered: Whether the ids are the places, from 1.
        named: Whether segments are named by ids of their own, whatever they are.
        names: The files, for messages.
        file: The first of them, for messages; None where it is none.
        untranslated: Whether they are sources, which are to be translated.
    """

    files: list[dict[str, str]]
    meta: Mapping[str, Any]
    plain = False
    numbered: bool
    named: bool
    names: list[str]
    file: str | None = None
    untranslated = False

    def segments(self) -> Iterator[Segment]:
        """The segments, from the first; may be called again."""
        return map(self.__getitem__, range(len(self)))

    def place_of(self, name: str) -> int | None:
        """The place, from 0, of the segment with an id; None where there is none."""
        if not self.numbered:
            return self._places.get(name)
        # Of ids that count from 1 nothing need be kept.
        place = int(name) - 1 if name.isascii() and name.isdigit() and len(name) < 19 else -1
        return place if 0 <= place < len(self) and name == str(place + 1) else None

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {segment.id: place for place, segment in enumerate(self.segments())}

    def line_of(self, place: int) -> int | None:
        """The line of the segment at ``place``, from 0; None where it has none, or other things are on its lines."""
        return None

    @abstractmethod
    def __len__(self) -> int:
        """Number of segments."""

    @abstractmethod
    def __getitem__(self, place: int) -> Segment:
        """The segment at a place, from 0."""


class Given(Rows):
    """A reference set in memory, which messages and headers call by a name."""

    def __init__(self, references: ReferenceSet, name: str = "memory") -> None:
        self._held = references.segments
        self.meta = references.meta
        self.names = [name]
        self.numbered = all(one.id == str(place) for place, one in enumerate(self._held, 1))
        self.named = not all(isinstance(one.id, Place) for one in self._held)
        digest = hashlib.sha256()
        for segment in self._held:
            digest.update(segment_line(segment).encode("utf-8"))
        self.files = [{"name": name, "sha256": digest.hexdigest()}]

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, place: int) -> Segment:
        return self._held[place]


class Inputs(Rows):
    """Reference files, read once, as a sequence of segments that never lies in memory as a whole.

    The segments are put into a temporary file: what happens to the files later changes nothing. Standard input, pipes
    and files of other file systems are copied to a temporary file, because they are hashed as well.

    Args:
        paths: As for :meth:`polyref.references.ReferenceSet.load`.
        reading: What the files do not say themselves.
        whole: Take all that they say. Without, of forms of others the texts of references and their ids are taken, and
            nothing else: the set is that of the same references in plain text.
        context: How many neighbours references know on each side, as for :func:`in_context`; they know their sources,
            too. None: they know nothing.
        source: A file with the source of every segment, one a line; None takes those that the references bring.
        untranslated: The segments are as :func:`translatable` gives them; lines of plain text are sources.

    Attributes:
        length: Number of segments.
        reading: How the files are read.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        reading: Reading | None = None,
        *,
        whole: bool = False,
        context: int | None = None,
        source: str | Path | None = None,
        untranslated: bool = False,
    ) -> None:
        if sum(str(path) == "-" for path in paths) > 1:
            raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")
        self._stack = ExitStack()
        self._names: dict[str, str] = {}
        self.names = [display_name(path) for path in paths]
        self.file = self.names[0]
        self.numbered, self.named = True, False
        self._context, self._sources, self.untranslated = context, None, untranslated
        self._spool = own.Spool(self._stack)
        try:
            paths, self.reading = located(paths, replace(reading or Reading(), whole=whole))
            self._paths = [self._readable(path) for path in paths]
            hashes = [_sha256(path) for path in self._paths]
            with self._named(), ExitStack() as stack:
                opened = open_references(self._paths, stack, self.reading)
                self.meta = dict(opened.meta)
                self.plain = opened.form == own.PLAIN.name
                self._lines = opened.form in {one.name for one in (own.PLAIN, own.NORMAL, own.SIMPLE, own.NBEST)}
                for place, segment in enumerate(opened.segments, 1):
                    self._spool.add(segment)
                    self.numbered = self.numbered and segment.id == str(place)
                    self.named = self.named or not isinstance(segment.id, Place)
            self._spool.finish()
            self.length = len(self._spool)
            named = zip(paths, self._paths, hashes, strict=True)
            self.files = [_file(given, path, before, self._names) for given, path, before in named]
            if source is not None:
                self._sources = self._beside(source)
        except BaseException:
            self._stack.close()
            raise

    def segments(self) -> Iterator[Segment]:
        """The segments, from the first, in their context; may be called again."""
        found = super().segments()
        if self._sources is not None:
            found = (replace(one, source=source) for one, source in zip(found, self._sources, strict=True))
        if self.untranslated:
            if self.plain:
                found = (replace(one, source=one.refs[0].text, refs=()) for one in found)
            return translatable(found, self._context or 0)
        return found if self._context is None else in_context(found, self._context)

    def line_of(self, place: int) -> int | None:
        """The line of a segment, where every segment has one."""
        if not self._lines:
            return None
        first = next(iter_lines(self._paths[0]), "")
        return place + (2 if first.lstrip().startswith('{"polyref"') else 1)

    def _beside(self, given: str | Path) -> list[str]:
        """The sources in a file of their own, which the header names, too."""
        path = self._readable(given)
        before = _sha256(path)
        with self._named():
            lines = read_lines(path)
        file = _file(given, path, before, self._names)
        if len(lines) != self.length:
            raise DataError(f"has {len(lines)} lines, expected one for each of {self.length} segments", file=given)
        self.files.append(file)
        return lines

    def _readable(self, path: str | Path) -> Path:
        """A regular file with the contents of ``path`` (one that does not exist is reported by its reader)."""
        remote = is_remote(path)
        given = Path(display_name(path) if remote else path)
        if not remote and str(path) != "-" and (given.is_file() or not given.exists() or given.is_dir()):
            return given
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="polyref-")))
        copy = folder / (given.name if remote else f"input{'' if str(path) == '-' else ''.join(given.suffixes)}")
        self._names[str(copy)] = display_name(path)
        if remote:
            fetch(path, copy)
            return copy
        with copy.open("wb") as target:
            if str(path) == "-":
                shutil.copyfileobj(standard_input(), target)
            else:
                with given.open("rb") as source:
                    shutil.copyfileobj(source, target)
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

    def __getitem__(self, place: int) -> Segment:
        segment: Segment = self._spool[place]
        return segment

    def __enter__(self) -> Inputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def open_inputs(
    paths: Sequence[str | Path], reading: Reading, *, source: str | Path | None = None, context: int | None = None
) -> Inputs:
    """References; or, where there are none of people, the sources, which are to be translated.

    ``source`` is a file with the sources, one a line, and ``context`` how many neighbours a reader of the references is
    shown; None where nobody reads them.
    """
    if not paths and source is not None:
        return Inputs([source], reading, whole=True, context=context, untranslated=True)
    inputs = Inputs(paths, reading, context=context, source=None if context is None else source)
    if any(segment.originals for segment in inputs.segments()) or any(map(is_stream, paths)):
        return inputs
    sources = Inputs(paths, reading, whole=True, context=context, source=source, untranslated=True)
    unused = inputs if any(segment.source for segment in sources.segments()) else sources
    unused.__exit__(None, None, None)
    return sources if unused is inputs else inputs


def _sha256(path: Path) -> str | None:
    """None for what cannot be read: its reader says why."""
    try:
        return file_sha256(path)
    except OSError:
        return None


def _file(given: str | Path, path: Path, before: str | None, names: Mapping[str, str]) -> dict[str, str]:
    """What the header says of a file; refused if it is another one now than it was before it was read."""
    if _sha256(path) != before:
        name = names.get(str(path), str(path))
        raise DataError("changed while it was read", file=name, remedy="leave it as it is until it is read")
    # A file name need not be UTF-8; the header is.
    return {"name": name_as_text(Path(display_name(given)).name), "sha256": str(before)}


def in_context(segments: Iterable[Segment], neighbours: int = 0) -> Iterator[Segment]:
    """Segments whose human references know their source and their neighbours, where there are any.

    Args:
        segments: In the order of their documents; a segment's ``source`` is that of its references.
        neighbours: How many segments on each side are shown. Where segments name their document (``doc``), it is not
            left. Of a segment with several references the first one is shown.
    """
    before: deque[Segment] = deque(maxlen=neighbours)
    rest = iter(segments)
    after = deque(islice(rest, neighbours + 1))
    while after:
        segment = after.popleft()
        after.extend(islice(rest, 1))
        shown = [
            [_shown(one) for one in around if one.doc == segment.doc] for around in (before, islice(after, neighbours))
        ]
        yield _told(segment, *([own for own in texts if own] for texts in shown))
        before.append(segment)


def translatable(segments: Iterable[Segment], neighbours: int = 0) -> Iterator[Segment]:
    """Segments whose sources stand before their references, as what is to be written anew, in their context."""
    told = (replace(one, source=None, refs=(Reference(one.source or ""), *one.refs)) for one in segments)
    for segment in in_context(told, neighbours):
        yield replace(segment, source=str(segment.refs[0].text))


def _shown(segment: Segment) -> str:
    return next((str(ref.text) for ref in segment.originals), "")


def _told(segment: Segment, before: Sequence[str], after: Sequence[str]) -> Segment:
    refs = (
        replace(ref, text=TextInContext(ref.text, source=segment.source, before=before, after=after))
        if ref.original
        else ref
        for ref in segment.refs
    )
    return replace(segment, refs=tuple(refs))


def check_sources(texts: Iterable[str], lang: str, file: str | None = None) -> None:
    """Refuse sources that are clearly in another language than the one to translate from."""
    if (found := other_language(texts, [lang])) is not None:
        expected = language_name(lang)
        raise DataError(
            f"the text is {found.name}, but it is to be translated from {expected}",
            file=file,
            remedy="name the pair as SOURCE-TARGET, or `force` to go on",
        )

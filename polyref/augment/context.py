"""References with what stands around them: their sources, and their neighbours in the document."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from polyref.augment.inputs import Inputs
from polyref.errors import DataError
from polyref.formats import Reading
from polyref.paraphrase.rewriting.context import TextInContext
from polyref.references import Reference, Segment


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
        yield _told(segment, *([text for text in texts if text] for texts in shown))
        before.append(segment)


def translatable(segments: Iterable[Segment], neighbours: int = 0) -> Iterator[Segment]:
    """Segments whose sources stand before their references, as what is to be written anew, in their context.

    Args:
        segments: In the order of their documents, each with its source; none with a human reference.
        neighbours: How many sources on each side are shown, as for :func:`in_context`.
    """
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


class InputsInContext(Inputs):
    """References as :class:`Inputs` reads them, in their context.

    Args:
        paths: As for ``Inputs``.
        source: A file with the source of every segment, one a line; None takes those that the references bring.
        neighbours: See :func:`in_context`.
        reading: As for ``Inputs``.
        whole: As for ``Inputs``.

    Raises:
        DataError: As for ``Inputs``; or ``source`` has another number of lines than there are segments.
        UsageError: As for ``Inputs``.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        source: str | Path | None = None,
        neighbours: int = 0,
        reading: Reading = Reading(),  # noqa: B008 (frozen)
        *,
        whole: bool = False,
    ) -> None:
        super().__init__(paths, reading, whole=whole)
        self._neighbours = neighbours
        self._sources: list[str] | None = None
        if source is None:
            return
        try:
            self._sources, file = self._beside(source)
            if len(self._sources) != self.length:
                raise DataError(
                    f"has {len(self._sources)} lines, expected one for each of {self.length} segments", file=source
                )
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.files = [*self.files, file]

    def segments(self) -> Iterator[Segment]:
        """The segments, from the first; may be called again. See :meth:`Inputs.segments`."""
        return in_context(self._with_sources(), self._neighbours)

    def _with_sources(self) -> Iterator[Segment]:
        found = super().segments()
        if self._sources is None:
            return found
        return (replace(one, source=source) for one, source in zip(found, self._sources, strict=True))


class Untranslated(InputsInContext):
    """Sources without human references, from a set or from plain text, as :func:`translatable` gives them.

    Args:
        paths: As for ``Inputs``; of plain text, the lines are the sources.
        source: As for ``InputsInContext``.
        neighbours: As there.
        reading: As for ``Inputs``.
    """

    def __init__(
        self, paths: Sequence[str | Path], source: str | Path | None, neighbours: int, reading: Reading
    ) -> None:
        super().__init__(paths, source, neighbours, reading, whole=True)

    def segments(self) -> Iterator[Segment]:
        """See :meth:`Inputs.segments`."""
        found = self._with_sources()
        if self.plain:
            found = (replace(one, source=one.refs[0].text, refs=()) for one in found)
        return translatable(found, self._neighbours)

"""A text that knows what stands around it."""

from __future__ import annotations

from collections.abc import Iterable


class TextInContext(str):
    """A text with its source and its neighbours. For generators that read no context it is a string like any other.

    Attributes:
        source: What it is a translation of; None where that is unknown.
        before: The sentences before it in its document, in order.
        after: Those after it.
    """

    __slots__ = ("after", "before", "source")
    source: str | None
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __new__(
        cls, text: str, *, source: str | None = None, before: Iterable[str] = (), after: Iterable[str] = ()
    ) -> TextInContext:
        """A text in its context."""
        made = super().__new__(cls, text)
        made.source = source or None
        made.before = tuple(before)
        made.after = tuple(after)
        return made


def in_context(text: str) -> TextInContext:
    """The text itself, or, of a string, the text with nothing around it."""
    return text if isinstance(text, TextInContext) else TextInContext(text)

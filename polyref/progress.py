"""How far long work has come: what computes tells it, and whoever wants to know listens.

Without a listener nothing happens. The command line listens and shows bars; a program can do the same::

    with listening(my_bar):
        polyref.evaluate(...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

#: Told how many more units are done.
Advance: TypeAlias = Callable[[int], object]
#: Told what is done, of what, and how many, at the start of a piece of work, which ends with the context.
Listener: TypeAlias = Callable[[str, str, int], AbstractContextManager[Advance]]

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Let a listener hear of all work in this context; None for nobody."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def work(what: str, unit: str, total: int) -> Iterator[Advance]:
    """A piece of work whose progress can be heard.

    Args:
        what: What is done, such as ``encoding``.
        unit: Of what, in the plural: ``texts``.
        total: How many there are.
    """
    listener = _LISTENER.get()
    if listener is None or not total:
        yield _unheard
        return
    with listener(what, unit, total) as advance:
        yield advance


def _unheard(_done: int) -> None:
    """Nobody listens."""

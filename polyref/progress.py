"""How far long work has come: what computes tells it, and whoever wants to know listens.

Without a listener nothing happens. The command line listens and shows bars; a program can do the same::

    with listening(bar):
        polyref.evaluate(...)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from threading import Event, Thread
from typing import TypeAlias, TypeVar

T = TypeVar("T")

#: Told how many more units are done.
Advance: TypeAlias = Callable[[int], object]
#: Told what is done, of what, how many there are and how many of them were done before, at the start of a piece of
#: work, which ends with the context.
Listener: TypeAlias = Callable[[str, str, int, int], AbstractContextManager[Advance]]


def _unheard(_done: int) -> None:
    """Nobody listens."""


_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
_WORK: ContextVar[Advance] = ContextVar("work", default=_unheard)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Let a listener hear of all work in this context; None for nobody."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def work(what: str, unit: str, total: int, done: int = 0, *, progress: bool | None = None) -> Iterator[Advance]:
    """A piece of work whose progress can be heard.

    Args:
        what: What is done, such as ``encoding``.
        unit: Of what, in the plural: ``texts``.
        total: How many there are; 0 where that is not known, which nobody hears of.
        done: How many of them were done before, in a run that was interrupted.
        progress: True shows a bar on stderr where nobody listens, False is heard by nobody.
    """
    listener = None if progress is False else _LISTENER.get() or (bar if progress else None)
    if listener is None or not total:
        yield _unheard
        return
    with listener(what, unit, total, done) as advance:
        yield advance


def each(items: Sequence[T], what: str, unit: str) -> Iterator[T]:
    """The items, and each is done when the next one is asked for; see :func:`work`."""
    with work(what, unit, len(items)) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def telling(advance: Advance) -> Iterator[None]:
    """Let :func:`tell` speak of this piece of work, for those who compute a part of it and cannot be handed it."""
    token = _WORK.set(advance)
    try:
        yield
    finally:
        _WORK.reset(token)


def tell(more: int) -> None:
    """So many more units of the work in hand are done."""
    in_hand()(more)


def in_hand() -> Advance:
    """Whom :func:`tell` would tell now."""
    return _WORK.get()


@contextmanager
def retold(_what: str, _unit: str, _total: int, _done: int) -> Iterator[Advance]:
    """Listens and tells it on, as progress of the work in hand."""
    yield in_hand()


class Part:
    """Units of a piece of work that are other work in themselves; a listener of that.

    A batch of 8 texts, say, that is encoded and then searched (2 works): when half of it is encoded, 2 texts are done.

    Args:
        advance: Of the whole.
        units: How many of its units.
        works: How many pieces of work they are; each is taken to be as long as the others.
    """

    def __init__(self, advance: Advance, units: int, works: int = 1) -> None:
        self._advance, self._units, self._works = advance, units, works
        self._told = 0
        self._heard = 0

    @contextmanager
    def __call__(self, _what: str, _unit: str, total: int, done: int) -> Iterator[Advance]:
        """Hear of a piece of work."""
        before, self._heard = self._heard, self._heard + 1

        def more(some: int) -> None:
            nonlocal done
            done += some
            if before < self._works:
                self._reach((before * total + done) * self._units // (self._works * total))

        yield more

    @contextmanager
    def telling(self, total: int) -> Iterator[Advance]:
        """The units are all that :func:`tell` says in this context, of so many."""
        with self("", "", total, 0) as more, telling(more):
            yield more

    def end(self) -> None:
        """All is done."""
        self._reach(self._units)

    def _reach(self, place: int) -> None:
        if (place := min(place, self._units)) > self._told:
            self._advance(place - self._told)
            self._told = place


@contextmanager
def bar(what: str, unit: str, total: int, done: int = 0) -> Iterator[Advance]:
    """A bar on stderr, where that is a terminal, which goes away when the work is done; a listener.

    The rate is that of all that was done since the start: slow and fast parts do not make it jump. The clock goes on
    while a batch is computed.
    """
    from tqdm import tqdm

    ended = Event()
    # disable=None: no bar where stderr is no terminal; a program may have none at all.
    with tqdm(
        total=total,
        initial=done,
        desc=what,
        unit=f" {unit}",
        smoothing=0,
        leave=False,
        disable=None if sys.stderr else True,
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}]",
    ) as shown:

        def tick() -> None:
            while not ended.wait(1.0):
                shown.refresh()

        clock = Thread(target=tick, daemon=True)
        if not shown.disable:
            clock.start()
        try:
            yield shown.update
        finally:
            ended.set()
            if not shown.disable:
                clock.join()

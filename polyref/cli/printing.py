"""What every command prints alike: JSON for programs, messages in the words of its options, bars for long work."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

import click

from polyref.cli.commands import in_flags
from polyref.errors import PolyrefWarning, without_secrets
from polyref.progress import Advance, bar
from polyref.tables import shown

_QUIET: Final = "polyref.quiet"
_SAID: Final = "polyref.said"


def silence(times: int) -> None:
    """Let the command that runs say less: 1 leaves out bars, summaries and notes, 2 warnings as well."""
    click.get_current_context().meta[_QUIET] = times


def quietness() -> int:
    """How often -q is given, 0 where no command runs."""
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(_QUIET, 0))


def say(summary: str) -> None:
    """What was done, for people, on stderr."""
    if not quietness():
        click.echo(without_secrets(summary), err=True)


#: Work that takes longer than this many seconds is announced.
LONG: Final = 180.0
#: How long the first batches are measured before that, in seconds.
MEASURED: Final = 5.0
HASH: Final = re.compile("[0-9a-f]{10}")
_show_other_warning = warnings.showwarning


def json_object(signature: Any, rows: Iterable[Mapping[str, Any]], **more: Any) -> str:
    """The common machine output: one object with ``signature`` and ``rows``. NaN must be given as None."""
    return "".join(json_parts(signature, rows, **more))


def json_parts(signature: Any, rows: Iterable[Mapping[str, Any]], **more: Any) -> Iterator[str]:
    """The same in parts, for rows that are too many for memory."""
    yield f'{{"signature": {_json(signature)}, "rows": ['
    for number, row in enumerate(rows):
        yield f"{', ' if number else ''}{_json(row)}"
    yield "]" + "".join(f", {_json(name)}: {_json(value)}" for name, value in more.items() if value) + "}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # A path that is not UTF-8 is written as \udcff, from which Python makes the same path.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def remember(signatures: Mapping[str, str]) -> None:
    """Keep what hashes of signatures stand for, so that ``polyref info HASH`` can tell."""
    from polyref.cache import Cache

    Cache().put({_kept(name): text.encode() for name, text in signatures.items()})


def recalled(name: str) -> str | None:
    """The signature that a hash stands for; None for what is no hash, or is not known here."""
    from polyref.cache import Cache

    if not HASH.fullmatch(name):
        return None
    found = Cache().get([_kept(name)])
    return found[_kept(name)].decode() if found else None


def _kept(name: str) -> bytes:
    return f"signature {name}".encode()


def tell(kind: str, message: str) -> None:
    """A ``note`` or ``warning`` for people, on stderr, in the words of the command that runs; -q keeps them back."""
    if quietness() >= {"note": 1, "warning": 2}[kind]:
        return
    context = click.get_current_context(silent=True)
    with suppress(OSError):  # stderr is full or broken: what nobody can read ends no work
        said = in_flags(without_secrets(message), context.command if context else None)
        click.echo(f"polyref: {kind}: {shown(said)}", err=True)


def show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """What polyref has to say of a result on one line; what others have to say as Python says it."""
    if issubclass(category, PolyrefWarning):
        # Python by itself says some of them twice, and others not, as modules are loaded.
        context = click.get_current_context(silent=True)
        said: set[str] = set() if context is None else context.meta.setdefault(_SAID, set())
        if str(message) in said:
            return
        said.add(str(message))
        tell(getattr(category, "kind", "warning"), str(message))
    elif quietness() < 2:
        _show_other_warning(message, category, *place, **more)


@contextmanager
def bars(what: str, unit: str, total: int, done: int = 0) -> Iterator[Advance]:
    """A bar, unless stderr is no terminal or -q is given, and a warning of long work: a listener of progress."""
    from tqdm import tqdm

    # Processes and models take a while to start: the clock runs from the first news on.
    new, first, started, announced = 0, 0, 0.0, False
    with nullcontext(lambda _more: None) if quietness() else bar(what, unit, total, done) as show:

        def advance(more: int) -> None:
            nonlocal new, first, started, announced
            new += more
            show(more)
            if announced or not more:
                return
            now = time.perf_counter()
            if not first:
                first, started = new, now
                return
            left = (now - started) / (new - first) * (total - done - new)
            if now - started >= MEASURED and left > LONG:
                announced = True
                with tqdm.external_write_mode():
                    rest = f"{total - done - new} {unit}"
                    tell("warning", f"{what}: {rest} will take about {_duration(left)}, judging by the first {new}")

        yield advance
    sys.stderr.flush()


def _duration(seconds: float) -> str:
    """``12 minutes``, ``3.5 hours``."""
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

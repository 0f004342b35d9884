"""How a command ends: terminated, wrongly called, with its output closed, or with nowhere to write."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from typing import Final

import click

from polyref.cli.parsing.gone import gone_option
from polyref.tables import shown
from polyref.textfiles import STDOUT_NAME

# What a full disk, an exceeded quota, a file beyond the size limit, a broken device and a closed output report.
CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def leave_cleanly_when_terminated() -> None:
    """A terminated command ends as after an error, so that unfinished files are removed."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def open_what_is_closed() -> None:
    """Input, output and errors that the caller has closed lead nowhere: no file may get their numbers.

    Python's own objects for them stay None, but for stderr, on which libraries rely.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:  # the smallest that is free
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _terminate(number: int, _frame: object) -> None:
    # timeout(1) sends the signal twice: the second must not interrupt the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def flushed(code: int) -> int:
    """Write what is left for standard output; the exit code after that."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and code == 0:
            cannot_write(error)
        # The rest goes nowhere: Python tries once more at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return code or 1
    return code


def cannot_write(error: OSError) -> None:
    """Say in one line where nothing could be written, and why."""
    place = STDOUT_NAME if error.filename is None else file_name(error)
    click.echo(f"polyref: error: {shown(place)}: cannot be written: {error.strerror}", err=True)


def file_name(error: OSError) -> str:
    """The file that an error names."""
    return os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)


def usage_error(error: click.UsageError) -> None:
    """Say in one line what is wrong with the command, what may have been meant, and where to read more."""
    command = "polyref" if error.ctx is None else error.ctx.command_path
    message = error.format_message().rstrip(".").replace("a valid integer range", "a whole number")
    if instead := gone_option(error):
        message = instead
    elif isinstance(error, click.NoSuchOption) and error.possibilities:
        message = f"{error.message.rstrip('.')}: did you mean {error.possibilities[0]}?"
    click.echo(f"polyref: error: {shown(message[:1].lower() + message[1:])} ({command} --help)", err=True)

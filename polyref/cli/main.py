"""How a command ends: terminated, wrongly called, with its output closed, or with nowhere to write."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Final

import click

from polyref import __version__
from polyref.cli.commands import LazyGroup, gone_option, in_flags
from polyref.cli.printing import show_warning
from polyref.errors import PolyrefError
from polyref.tables import shown
from polyref.textfiles import STDOUT_NAME

# What a full disk, an exceeded quota, a file beyond the size limit, a broken device and a closed output report.
CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def leave_cleanly_when_terminated() -> None:
    """A terminated command, and one whose terminal is closed, ends as after an error: unfinished files are removed."""
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:  # nohup(1) has SIGHUP ignored
                signal.signal(number, _terminate)


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
    for ending in _ENDING:
        signal.signal(ending, signal.SIG_IGN)
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


# oneDNN keeps a compiled product for each of 1,024 shapes, with its buffers: decoding meets many shapes once. A command
# (not the library, whose process is the user's) keeps fewer: less memory, no slower. Read when torch is imported.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")

#: What libraries of matrix products and torch read when they are loaded.
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Command -> its module, one line of help. Modules are imported only when their command runs: help stays light.
COMMANDS = {
    "paraphrase": ("polyref.cli.paraphrase", "Write n-best paraphrases of sentences."),
    "augment": ("polyref.cli.augment", "Add paraphrases to a set of references."),
    "score": ("polyref.cli.score", "Score systems with any number of references."),
    "evaluate": ("polyref.cli.evaluate", "Measure agreement with human judgements against the number of references."),
    "inspect": ("polyref.cli.inspect", "Look at a set of references: counts, diversity, refusals, examples."),
    "submit": ("polyref.cli.submit", "Write score files for the WMT metrics task."),
    "info": ("polyref.cli.info", "Describe a paraphrase model."),
    "cache": ("polyref.cli.cache", "Show or clear what is kept of neural metrics."),
    "convert": ("polyref.cli.convert", "Write references in another format."),
    "demo": ("polyref.cli.demo", "Run the main job on the example texts that come with polyref."),
}


@click.group(
    cls=LazyGroup,
    commands_in=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="polyref")
def cli() -> None:
    """Add references to a test set, score systems with them, and prove whether they help.

    \b
    polyref score refs.en -i sysA.en sysB.en -m prism
    polyref augment refs.en -k 10 -o refs.polyref.jsonl
    polyref score refs.polyref.jsonl -i sysA.en sysB.en -m bleu chrf++ -k 0 10
    polyref evaluate DIR -l zh-en --refs refs.polyref.jsonl --gold mqm -m bleu -k 0 1 5 10

    Exit codes: 0 done, 1 bad data, 2 bad usage.
    """  # noqa: D301


def announce_threads(arguments: Sequence[str]) -> None:
    """Tell libraries that are not loaded yet how many threads they may start, before a command is imported."""
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--threads" and "numpy" not in sys.modules:
            value = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
            if value.isdecimal() and int(value):
                os.environ.update(dict.fromkeys(_VARIABLES, value))


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        warnings.showwarning = show_warning
        open_what_is_closed()
        leave_cleanly_when_terminated()
        code = 1
        try:
            code = _run(argv)
        finally:
            # What is still buffered would otherwise fail when Python ends, with a traceback and a code of its own.
            code = flushed(code)
        sys.exit(code)
    except (KeyboardInterrupt, click.exceptions.Abort):  # click's, of what interrupts a command
        click.echo("polyref: interrupted", err=True)
        sys.exit(130)


def _run(argv: list[str] | None) -> int:
    ran: list[click.Command] = []
    announce_threads(sys.argv[1:] if argv is None else argv)
    try:
        if os.environ.get("POLYREF_CACHE_LIMIT"):
            from polyref.cache import own_limit

            own_limit()  # refused before any work, which would be lost
        code = cli.main(args=argv, prog_name="polyref", standalone_mode=False, obj=ran)
    except PolyrefError as error:
        click.echo(f"polyref: error: {shown(in_flags(str(error), ran[-1] if ran else None))}", err=True)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        usage_error(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        if error.errno in CANNOT_WRITE:
            cannot_write(error)
        elif error.filename is not None:
            # A name that is too long, a directory that may not be entered: wherever it is met, it is no fault of ours.
            click.echo(f"polyref: error: {shown(file_name(error))}: cannot be used: {error.strerror}", err=True)
        else:
            raise
        return 1
    return code if isinstance(code, int) else 0

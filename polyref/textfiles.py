r"""Strict reading of text files, and what names of files mean. Writing is in ``polyref.publishing``.

Rules for every text file polyref touches: UTF-8, a BOM accepted on reading and never written, lines end in ``\n``
alone (one ``\r`` before it is cut), ``.gz`` and ``.xz`` read and written transparently, ``-`` is standard input or
output. ``str.splitlines`` is never used: it also splits at U+0085, U+2028 and U+2029.

URLs (``s3://``, ``gs://``, ``memory://`` and all else that fsspec knows) are files of other file systems; ``file://``
is a path. Object stores have no rename, so a file is finished on this machine first, and then put there as one object.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit

from polyref.errors import DataError, PolyrefError, UsageError, without_secrets

STDIN_NAME = "<stdin>"
STDOUT_NAME = "<stdout>"
#: Most bytes of a line, if not the default: a small packed file may unpack to more than the memory holds.
MAX_LINE: Final = "POLYREF_MAX_LINE"
_LONGEST_LINE: Final = 16 << 20
#: Most bytes that a packed file (``.gz``, ``.npz``) may unpack to, if not the default.
MAX_UNPACKED: Final = "POLYREF_MAX_UNPACKED"
_MOST_UNPACKED: Final = 4 << 30
#: Most lines (of XML, elements) that a packed file may hold, if not the default: short ones take most of the memory.
MAX_LINES: Final = "POLYREF_MAX_LINES"
_MOST_LINES: Final = 10_000_000
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: What has to be installed for a scheme.
_PACKAGES: Final = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
}


def display_name(path: str | Path) -> str:
    """The name of ``path`` for messages and headers: of a URL, without password and query."""
    return STDIN_NAME if str(path) == "-" else without_secrets(str(path))


def standard_input() -> BinaryIO:
    """The bytes of standard input."""
    if sys.stdin is None:
        raise DataError("cannot be read: it is closed", file=STDIN_NAME)
    return sys.stdin.buffer


def open_unpacked(path: str | Path) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in ``.gz`` or ``.xz``. That it cannot be opened is an OSError."""
    source: Any = without_scheme(path)
    if is_remote(path):
        with reported(path):
            files, place = file_system(path)
            source = io.BufferedReader(files.open(place, "rb"))  # fsspec's own files cannot read a part of a line
    if display_name(path).endswith(".gz"):
        return cast(BinaryIO, gzip.open(source, "rb"))
    if display_name(path).endswith(".xz"):
        return cast(BinaryIO, lzma.open(source, "rb"))
    return cast(BinaryIO, source) if is_remote(path) else Path(source).open("rb")


@contextmanager
def _open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield standard_input()
        return
    try:
        stream = open_unpacked(path)
    except FileNotFoundError:
        raise DataError("no such file", file=path, remedy="check the path") from None
    except IsADirectoryError:
        raise DataError("is a directory, expected a text file", file=path, remedy="name a file in it") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    with stream:
        # Whether it is packed as its name says: a pipe cannot be looked at before.
        if str(path).endswith(".gz") and Path(path).is_file():
            with Path(path).open("rb") as raw:
                packed = raw.read(2) in (b"", b"\x1f\x8b")
            if not packed:
                raise DataError(
                    "is no gzip file, although its name says so", file=path, remedy="rename it without .gz, or pack it"
                )
        yield stream


def iter_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file without their line ends.

    Args:
        path: The file.
        encoding: One that Python knows, in which a line feed is the byte 0x0A and nothing else is.

    Raises:
        UsageError: Python does not know the encoding, or lines cannot be told in it (UTF-16, UTF-32).
        DataError: The file is missing, unreadable, not in that encoding, or holds a NUL byte or a line longer than
            $POLYREF_MAX_LINE bytes, by default 16 MiB (file and line are named); or it is packed and unpacks to more
            than $POLYREF_MAX_UNPACKED bytes, by default 4 GiB, or $POLYREF_MAX_LINES lines, by default ten million.
    """
    name = display_name(path)
    encoding = _known_encoding(encoding)
    most = _number(MAX_LINE, _LONGEST_LINE)
    room = most_unpacked() if is_packed(name) else sys.maxsize
    lines = most_lines() if is_packed(name) else sys.maxsize
    with _open_bytes(path) as stream:
        number = 0
        try:
            while raw := stream.readline(most + 3):  # the line ends of Windows, and one more
                number += 1
                room -= len(raw)
                if room < 0:
                    raise unpacks_to_more(name, line=number)
                if number > lines:
                    raise holds_more(name, "lines", line=number)
                if len(raw.removesuffix(b"\n").removesuffix(b"\r")) > most:
                    raise DataError(
                        f"longer than {most} bytes",
                        file=name,
                        line=number,
                        remedy=f"is it a text file? {MAX_LINE}=BYTES in the environment allows longer lines",
                    )
                yield _decode(raw, name, number, encoding)
        except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
            packing = "xz" if str(path).endswith(".xz") else "gzip"
            raise DataError(f"broken {packing} data: {error}", file=name, line=number + 1) from None
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", file=name) from None


def most_unpacked(default: int = _MOST_UNPACKED) -> int:
    """The number of bytes that a packed file may unpack to: $POLYREF_MAX_UNPACKED, or ``default``."""
    return _number(MAX_UNPACKED, default)


def most_lines() -> int:
    """The number of lines, or of elements, that a packed file may hold: $POLYREF_MAX_LINES, or ten million."""
    return _number(MAX_LINES, _MOST_LINES, "lines")


def unpacks_to_more(path: str | Path, *, line: int | None = None) -> DataError:
    """The error, to be raised, that a packed file unpacks to more than :func:`most_unpacked`."""
    return _too_much(f"unpacks to more than {most_unpacked()} bytes", f"{MAX_UNPACKED}=BYTES", path, line)


def holds_more(path: str | Path, what: str, *, line: int | None = None) -> DataError:
    """The error, to be raised, that a packed file holds more than :func:`most_lines` of something."""
    return _too_much(f"holds more than {most_lines()} {what}", f"{MAX_LINES}=NUMBER", path, line)


def _too_much(found: str, setting: str, path: str | Path, line: int | None) -> DataError:
    remedy = f"is it what it seems? {setting} in the environment allows more"
    return DataError(found, file=path, line=line, remedy=remedy)


def is_packed(path: str | Path) -> bool:
    """Whether a file is unpacked as it is read."""
    return str(path).endswith((".gz", ".xz"))


def _number(variable: str, default: int, of: str = "bytes") -> int:
    named = os.environ.get(variable) or str(default)
    try:
        most = int(named)
    except ValueError:
        most = -1
    if most < 1:
        raise DataError(f"{variable} is {named!r}, expected a number of {of} from 1")
    return most


def _known_encoding(encoding: str) -> str:
    """Python's own name of an encoding, ``utf-8`` for all that it calls UTF-8, if lines can be read in it."""
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")
        plain = "a\n".encode(name) == b"a\n"
    except (LookupError, UnicodeError, TypeError):
        raise UsageError(
            f"`encoding` is {encoding!r}, which Python does not know",
            remedy="for example: latin-1, cp1252, gb18030, shift_jis",
        ) from None
    if not plain:
        raise UsageError(f"`encoding` is {encoding!r}, in which lines cannot be told", remedy="convert to UTF-8: iconv")
    return name


def _decode(raw: bytes, name: str, number: int, encoding: str) -> str:
    if number == 1 and encoding == "utf-8":
        raw = raw.removeprefix(codecs.BOM_UTF8)
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DataError("is UTF-16, expected UTF-8", file=name, remedy="convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in raw:
        raise DataError(
            f"NUL byte at column {raw.index(0) + 1}, expected text", file=name, line=number, remedy="is it a text file?"
        )
    try:
        line = raw.decode(encoding)
        if encoding != "utf-8":
            line.encode("utf-8")  # some encodings have halves of surrogate pairs
    except UnicodeEncodeError:
        raise DataError(f"invalid {encoding}: half of a surrogate pair", file=name, line=number) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"invalid {'UTF-8' if encoding == 'utf-8' else encoding}: byte 0x{raw[error.start]:02x} at column "
            f"{error.start + 1}",
            file=name,
            line=number,
            remedy="convert the file to UTF-8",
        ) from None
    return line.removesuffix("\n").removesuffix("\r")


def read_lines(path: str | Path, *, allow_empty_file: bool = False, encoding: str = "utf-8") -> list[str]:
    """All lines of a text file, which :func:`iter_lines` reads; an empty file is a DataError unless allowed."""
    lines = list(iter_lines(path, encoding))
    if not lines and not allow_empty_file:
        raise DataError(
            "the file is empty, expected one segment a line", file=display_name(path), remedy="check how it was made"
        )
    return lines


def check_parallel(files: Sequence[tuple[str | Path, int]]) -> None:
    """Refuse parallel files whose numbers of lines differ, naming the first pair and both counts."""
    for name, count in files[1:]:
        first, expected = files[0]
        if count != expected:
            raise DataError(
                f"has {count} segments, but {display_name(first)} has {expected}",
                file=display_name(name),
                remedy="parallel files need one line a segment, in the same order",
            )


def is_remote(path: str | Path) -> bool:
    """Whether ``path`` is a URL, but not one of a file of this machine."""
    scheme = _SCHEME.match(str(path))
    return scheme is not None and scheme[1].lower() != "file"


def without_scheme(path: str | Path) -> str | Path:
    """The path that a URL ``file://`` stands for; anything else as it is."""
    if not str(path).lower().startswith("file://"):
        return path
    parts = urlsplit(str(path))
    if parts.netloc not in ("", "localhost"):
        raise DataError("names another machine, expected file:///PATH", file=path)
    return unquote(parts.path)


def fetch(url: str | Path, target: Path) -> None:
    """Copy a file to this machine."""
    with reported(url):
        files, path = file_system(url)
        files.get_file(path, str(target))


def file_system(url: str | Path) -> tuple[Any, str]:
    """The file system of a URL, and the path there. Credentials are what its package finds: environment, files."""
    from fsspec.core import url_to_fs

    files, path = url_to_fs(str(url))
    return files, path


@contextmanager
def reported(url: str | Path) -> Iterator[None]:
    """Whatever goes wrong with a file system is an error of that file."""
    try:
        yield
    except PolyrefError:
        raise
    except FileNotFoundError:
        raise DataError("no such file", file=url, remedy="check the address") from None
    except ImportError as error:
        scheme = _SCHEME.match(str(url))
        package = _PACKAGES.get(scheme[1].lower() if scheme else "", "fsspec")
        raise DataError(f"cannot be opened: {error}", file=url, remedy=f"pip install {package}") from None
    except Exception as error:  # every file system has errors of its own
        reason = re.sub(r"\?\S*", "", " ".join(f"{type(error).__name__}: {error}".split()))  # no query
        raise DataError(f"cannot be used: {reason}", file=url, remedy="check address and credentials") from None

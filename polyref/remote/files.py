"""Files by URL: ``s3://``, ``gs://``, ``memory://`` and all else that fsspec knows. ``file://`` is a path.

Reading is as for files of this machine. Writing is different: object stores have no rename, so a file is finished on
this machine first, and then put there as one whole object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit

from polyref.errors import DataError, PolyrefError

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


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


def open_remote(url: str | Path) -> BinaryIO:
    """The bytes of a file, from its beginning."""
    with reported(url):
        files, path = file_system(url)
        return cast(BinaryIO, files.open(path, "rb"))


def fetch(url: str | Path, target: Path) -> None:
    """Copy a file to this machine."""
    with reported(url):
        files, path = file_system(url)
        files.get_file(path, str(target))


def publish(file: Path, url: str | Path) -> None:
    """Put a finished file there, as one object that takes the place of what is there."""
    with reported(url):
        files, path = file_system(url)
        files.put_file(str(file), path)


def check_remote(url: str | Path) -> None:
    """Refuse a URL whose file system cannot be used, before any work."""
    with reported(url):
        file_system(url)


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
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"cannot be used: {reason}", file=url, remedy="check address and credentials") from None


#: What has to be installed for a scheme.
_PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
}

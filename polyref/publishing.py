"""Results appear whole or not at all: built under a hidden name beside their place, and put there by one rename.

What a dead process left is removed by the next one, or finished, where a record names files that belong together.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gzip
import hashlib
import io
import json
import lzma
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, BinaryIO, Final, cast

from polyref.errors import DataError
from polyref.json_files import try_json
from polyref.textfiles import STDOUT_NAME, display_name, file_system, is_remote, reported, without_scheme

#: What a full disk, a quota and a file system's limit of size are.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TEMPORARY: Final = ".tmp"
_PENDING: Final = ".pending"
_OLD: Final = ".old"


@contextmanager
def published_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``path`` when the block ends; nothing happens to it when it raises.

    A symbolic link stays one: the file it leads to is replaced.
    """
    target = _resolved(path)
    with _faults(path):
        _clean(target)
        temporary, lock = _begun(target)
        try:
            with os.fdopen(os.dup(lock), "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)  # noqa: PTH105 - tests kill the process at this very call
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(lock)
        sync_folder(target.parent)


@contextmanager
def published_folder(path: str | Path) -> Iterator[Path]:
    """A fresh folder to fill, which takes the place of ``path`` and all that is in it when the block ends."""
    target = _resolved(path)
    if not target.parent.is_dir():
        raise DataError(f"cannot be written: no directory {target.parent}", file=path, remedy="create it first")
    with _faults(path):
        _clean(target)
        with _alone(target.parent):
            _give_back(target)
        fresh, lock = _begun(target, folder=True)
        try:
            yield fresh
            for file in fresh.rglob("*"):
                if file.is_file():
                    _sync(file)
            with _alone(target.parent):
                if target.is_dir() and target.samefile("."):
                    _refill(fresh, target)
                elif target.is_dir():
                    _exchange(fresh, target)
                else:
                    os.rename(fresh, target)  # noqa: PTH104
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        sync_folder(target.parent)
        shutil.rmtree(fresh, ignore_errors=True)


def publish_together(files: Mapping[Path, bytes | Path]) -> None:
    """Write files of one folder that belong together, from bytes or from large files: all are new, or none is."""
    targets = {_resolved(path): content for path, content in files.items()}
    folder = next(iter(targets)).parent
    locks: list[int] = []
    moves: dict[str, str] = {}
    with _faults(next(iter(files))):
        try:
            for target, content in targets.items():
                _clean(target)
                temporary, lock = _begun(target)
                locks.append(lock)
                moves[temporary.name] = target.name
                with contextlib.ExitStack() as stack:
                    made = stack.enter_context(os.fdopen(os.dup(lock), "wb"))
                    source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
                    shutil.copyfileobj(stack.enter_context(source), made, 1 << 20)
                    made.flush()
                    os.fsync(made.fileno())
            together = hashlib.sha256("\n".join(sorted(moves.values())).encode()).hexdigest()[:16]
            record = folder / f".{together}{_PENDING}"
            with _alone(folder):
                _finish_others(folder)
                with published_file(record) as stream:
                    stream.write(json.dumps(moves).encode())
                try:
                    _finish(folder, moves)
                except BaseException:
                    if any(not (folder / name).exists() for name in moves):  # renamed: so shall the others be
                        _finish(folder, moves)
                    record.unlink()
                    raise
                record.unlink()
        except BaseException:
            for name in moves.keys() - _announced(folder):
                (folder / name).unlink(missing_ok=True)
            raise
        finally:
            for lock in locks:
                os.close(lock)


def finish_pending(folder: Path) -> None:
    """Finish the renames that a killed process announced in this folder."""
    with _alone(folder):
        _finish_others(folder)


def _finish_others(folder: Path) -> None:
    for record in sorted(folder.glob(f".*{_PENDING}")):
        if (moves := _moves(record)) is not None:
            # A folder lies there now, say, or what is named can be no file (ValueError): nobody announced this.
            with contextlib.suppress(OSError, ValueError):
                _finish(folder, moves)
            record.unlink(missing_ok=True)


def _finish(folder: Path, moves: Mapping[str, str]) -> None:
    for name, target in moves.items():
        with contextlib.suppress(FileNotFoundError):  # done before
            os.replace(folder / name, folder / target)  # noqa: PTH105
    sync_folder(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process renames what belongs together in this folder meanwhile, if the file system has locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk; some file systems refuse, and the files are safe there."""
    with contextlib.suppress(OSError):
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _resolved(path: str | Path) -> Path:
    """What is renamed and has a name of its own, unlike ``.``; a link leads to it, if to anything but itself."""
    nameless = Path(path).name in {"", ".."}
    found = Path(os.path.realpath(path)) if nameless or Path(path).is_symlink() else Path(path)
    if found.is_symlink():
        raise DataError("is a link that leads to itself", file=path, remedy="remove it, or name another file")
    return found


@contextmanager
def _faults(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DataError(f"cannot be written: {error.strerror}", file=path, remedy="make room") from None
        raise


def _begun(target: Path, *, folder: bool = False) -> tuple[Path, int]:
    """A new file or folder beside ``target``, and the locked handle that says it is in use."""
    while True:
        fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY}")
        if folder:
            fresh.mkdir()
        try:
            handle = os.open(fresh, os.O_RDONLY if folder else os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except FileNotFoundError:
            if not folder:
                raise
            continue  # taken for a leftover
        if _locked(handle, fresh):
            return fresh, handle
        os.close(handle)


def _locked(handle: int, path: Path) -> bool:
    """Lock what was just made; False where another process took it for a leftover and removed it meanwhile."""
    with contextlib.suppress(OSError):  # a file system without locks: leftovers stay there
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _clean(target: Path) -> None:
    """Remove what dead processes left of this target."""
    for left in sorted(target.parent.glob(f".{_escaped(target.name)}.*{_TEMPORARY}")):
        try:
            handle = os.open(left, os.O_RDONLY)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # in use, or no locks here
            continue
        else:
            # Looked up with the lock in hand: who announces a file holds it until then.
            if left.name in _announced(target.parent):
                continue
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _give_back(target: Path) -> None:
    """Give back a folder that a dead process had moved away."""
    for old in sorted(target.parent.glob(f".{_escaped(target.name)}.*{_OLD}")):
        if not target.exists():
            os.rename(old, target)  # noqa: PTH104
        else:
            shutil.rmtree(old, ignore_errors=True)


def _announced(folder: Path) -> set[str]:
    return {name for record in folder.glob(f".*{_PENDING}") for name in _moves(record) or ()}


def _moves(record: Path) -> dict[str, str] | None:
    """What a record announces: name of the new file -> that of its target; None for a file that is no such record."""
    moves = None
    with contextlib.suppress(OSError):
        moves = try_json(record.read_bytes())
    if moves is None:
        return None
    # A record cannot reach outside of its folder, nor rename what was not made for that target.
    made = all(
        isinstance(target, str)
        and PurePath(target).name == target not in ("", "..")
        and name.startswith(f".{target}.")
        and name.endswith(_TEMPORARY)
        and PurePath(name).name == name
        for name, target in moves.items()
    )
    return moves if made else None


def _escaped(name: str) -> str:
    """A name as a pattern that matches itself alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _exchange(fresh: Path, target: Path) -> None:
    """Swap two folders by one system call; where there is none, move the old one away first."""
    if not _swapped(fresh, target):
        old = fresh.with_suffix(_OLD)
        _rename((target, old), (fresh, target))
        shutil.rmtree(old, ignore_errors=True)


def _refill(fresh: Path, target: Path) -> None:
    """Exchange what is in two folders: the one that a program and its shell are in must stay the same folder."""
    made = [(new, target / new.name) for new in sorted(fresh.iterdir())]
    aside = Path(tempfile.mkdtemp(dir=fresh))
    _rename(*((old, aside / old.name) for old in sorted(target.iterdir())), *made)


def _rename(*moves: tuple[Path, Path]) -> None:
    """One after the other; where one fails, those before it are taken back."""
    try:
        for old, new in moves:
            os.rename(old, new)  # noqa: PTH104
    except BaseException:
        for old, new in reversed(moves):
            if not os.path.lexists(old):
                os.rename(new, old)  # noqa: PTH104
        raise


def _swapped(one: Path, other: Path) -> bool:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # of Linux alone
    exchange, here = 2, -100  # RENAME_EXCHANGE, AT_FDCWD
    names = (here, os.fsencode(one), here, os.fsencode(other))
    return rename is not None and bool(rename(*names, ctypes.c_uint(exchange)) == 0)


def is_stream(path: str | Path) -> bool:
    """Whether ``path`` is ``-``, a pipe or a device: written as it goes, and never replaced by a file."""
    target = Path(without_scheme(path))
    return str(path) == "-" or (target.exists() and not target.is_file() and not target.is_dir())


def check_writable(path: str | Path) -> None:
    """Refuse an output path that cannot be written, before any work is done. ``-`` always passes."""
    if is_remote(path):
        with reported(path):
            file_system(path)
        return
    if is_stream(path):
        return
    target = Path(without_scheme(path))
    target = _resolved(target)
    if target.is_dir():
        raise DataError("is a directory, expected an output file name", file=path)
    if not target.parent.is_dir():
        raise DataError(f"cannot be written: no directory {target.parent}", file=path, remedy="create it first")
    try:
        # os.access() is wrong for root and on read-only mounts: try it.
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from None


@contextmanager
def write_atomically(path: str | Path) -> Iterator[IO[str]]:
    """Open ``path`` for text; the file appears whole when the block ends, or not at all when it raises.

    ``-``, pipes and devices are written as it goes. ``.gz`` and ``.xz`` are compressed, without a time stamp, so
    that equal text gives equal bytes. A symbolic link stays one: the file it leads to is replaced. What goes to another
    file system (``s3://``) is written on this machine first, and put there as a whole.
    """
    if is_remote(path):
        with tempfile.TemporaryDirectory(prefix="polyref-") as folder:
            whole = Path(folder) / Path(display_name(path)).name
            with write_atomically(whole) as stream:
                yield stream
            with reported(path):
                files, place = file_system(path)
                files.put_file(str(whole), place)
        return
    path = without_scheme(path)
    if is_stream(path):
        yield from _stream(path)
        return
    check_writable(path)
    with published_file(path) as raw:
        if Path(path).name.endswith(".gz"):
            with gzip.GzipFile(mode="wb", fileobj=raw, mtime=0) as packed:
                yield from _text(cast(BinaryIO, packed))
        elif Path(path).name.endswith(".xz"):
            with lzma.open(raw, "wb") as compressed:
                yield from _text(cast(BinaryIO, compressed))
        else:
            yield from _text(raw)


def _stream(path: str | Path) -> Iterator[IO[str]]:
    try:
        if str(path) != "-":
            with Path(path).open("w", encoding="utf-8") as stream:
                yield stream
            return
        if sys.stdout is None:
            raise DataError("cannot be written: it is closed", file=STDOUT_NAME)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Whatever the locale, polyref's files are UTF-8 with \n.
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        # A reader that went away is no fault; an error with another file's name is not about this one.
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(path)):
            raise
        name = STDOUT_NAME if str(path) == "-" else path
        raise DataError(f"cannot be written: {error.strerror or error}", file=name) from None


def _text(raw: BinaryIO) -> Iterator[IO[str]]:
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    try:
        yield stream
    finally:
        stream.detach()

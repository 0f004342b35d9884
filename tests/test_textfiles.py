from __future__ import annotations

import gzip
import io
import lzma
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import DataError
from polyref.publishing import check_writable, is_stream, write_atomically
from polyref.textfiles import check_parallel, display_name, iter_lines, read_lines


def _file(folder: Path, content: bytes, name: str = "f.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"\n\n", ["", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"  a \t\n", ["  a \t"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", [""]),
        ("a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"]),
    ],
)
def test_lines_end_in_newline_alone(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert read_lines(_file(tmp_path, content)) == lines
    assert read_lines(_file(tmp_path, gzip.compress(content), "f.gz")) == lines
    assert read_lines(_file(tmp_path, lzma.compress(content), "f.xz")) == lines


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r")), min_size=1))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("round")
    for name in ("a.txt", "a.gz", "a.xz"):
        with write_atomically(folder / name) as stream:
            stream.writelines(f"{line}\n" for line in lines)
        # A BOM is never written; one that the text starts with is read as a BOM.
        assert read_lines(folder / name) == [lines[0].removeprefix("\ufeff"), *lines[1:]]
    assert (folder / "a.txt").read_bytes() == "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ok\na\0b\n", "f.txt:2: NUL byte at column 2, expected text"),
        (b"ok\nok\nna\xefve\n", "f.txt:3: invalid UTF-8: byte 0xef at column 3"),
        (b"\xed\xa0\x80\n", "f.txt:1: invalid UTF-8: byte 0xed at column 1"),
        (b"cut \xe2\x82\n", "f.txt:1: invalid UTF-8"),
        ("utf-16".encode("utf-16"), "f.txt: is UTF-16, expected UTF-8 (convert it: iconv"),
        (b"", "f.txt: the file is empty, expected one segment a line"),
    ],
)
def test_bad_bytes_name_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_lines(_file(tmp_path, content))
    assert message in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf8", "U8", "utf-8-sig"])
def test_a_byte_order_mark_is_left_out_however_utf_8_is_written(tmp_path: Path, encoding: str) -> None:
    path = _file(tmp_path, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert read_lines(path, encoding=encoding) == ["a", "\ufeffb"]


def test_an_empty_file_can_be_allowed(tmp_path: Path) -> None:
    assert read_lines(_file(tmp_path, b""), allow_empty_file=True) == []


def test_lines_before_a_bad_one_are_given(tmp_path: Path) -> None:
    lines = iter_lines(_file(tmp_path, b"a\n\xff\n"))
    assert next(lines) == "a"
    with pytest.raises(DataError, match=":2: "):
        next(lines)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"hello world " * 1000))
    torn, damaged = bytes(packed[:-10]), packed.copy()
    damaged[len(damaged) // 2] ^= 0xFF
    for path, message in [
        (tmp_path / "absent", "no such file"),
        (tmp_path / "absent.gz", "no such file"),
        (tmp_path, "is a directory"),
        (_file(tmp_path, b"plain\n", "plain.gz"), "plain.gz: is no gzip file, although its name says so"),
        (_file(tmp_path, torn, "torn.gz"), "torn.gz:1: broken gzip data"),
        (_file(tmp_path, bytes(damaged), "damaged.gz"), "damaged.gz:1: broken gzip data"),
        (_file(tmp_path, b"plain\n", "plain.xz"), "plain.xz:1: broken xz data"),
        (_file(tmp_path, lzma.compress(b"hello world")[:-9], "torn.xz"), "torn.xz:1: broken xz data"),
        (_file(tmp_path, b"a\n") / "under", "cannot be read: Not a directory"),
    ]:
        with pytest.raises(DataError, match=message):
            read_lines(path)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\r\n\xff\n")))
    lines = iter_lines("-")
    assert next(lines) == "a"
    with pytest.raises(DataError, match=r"^<stdin>:2: invalid UTF-8"):
        next(lines)
    assert (display_name("-"), display_name(Path("x"))) == ("<stdin>", "x")


def test_parallel_files() -> None:
    check_parallel([("a", 3), ("b", 3), ("c", 3)])
    check_parallel([])
    with pytest.raises(DataError) as caught:
        check_parallel([("a", 3), ("b", 3), ("-", 4)])
    assert str(caught.value).startswith("<stdin>: has 4 segments, but a has 3 (")


def test_an_exception_leaves_no_trace_and_no_damage(tmp_path: Path) -> None:
    path = _file(tmp_path, b"before\n")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), write_atomically(path) as stream:
            stream.write("half")
            stream.flush()
            raise error
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"before\n"]


def test_nothing_appears_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    with write_atomically(path) as stream:
        stream.write("all")
        stream.flush()
        assert not path.exists()
    assert path.read_text() == "all"


@pytest.mark.parametrize("packing", ["gz", "xz"])
def test_equal_text_gives_equal_packed_bytes(tmp_path: Path, packing: str) -> None:
    for name in ("a", "b"):
        with write_atomically(tmp_path / f"{name}.{packing}") as stream:
            stream.write("text\n")
    packed = (tmp_path / f"a.{packing}").read_bytes()
    assert packed == (tmp_path / f"b.{packing}").read_bytes()
    assert (gzip if packing == "gz" else lzma).decompress(packed) == b"text\n"
    if packing == "gz":
        assert packed[3:8] == bytes(5), "neither a name nor a time (RFC 1952)"


def test_results_have_the_usual_permissions(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        with write_atomically(tmp_path / "f"):
            pass
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path / "absent" / "f", "cannot be written: no directory"),
        (tmp_path, "is a directory, expected an output file name"),
        (Path("/proc/f"), "/proc/f: cannot be written"),
    ]:
        with pytest.raises(DataError, match=message):
            check_writable(path)
        with pytest.raises(DataError, match=message), write_atomically(path):
            pass
    assert list(tmp_path.iterdir()) == []
    check_writable(tmp_path / "f")
    check_writable("-")
    assert list(tmp_path.iterdir()) == []


def test_devices_and_pipes_are_written_not_replaced(tmp_path: Path) -> None:
    with write_atomically("/dev/null") as stream:
        stream.write("gone\n")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    with write_atomically(fifo) as stream:
        stream.write("through\n")
    reader.join()
    assert read == [b"through\n"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert [is_stream(path) for path in ("-", fifo, tmp_path, tmp_path / "absent")] == [True, True, False, False]


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "file")
    with write_atomically(tmp_path / "link") as stream:
        stream.write("text")
    assert (tmp_path / "link").is_symlink()
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["file"]
    (tmp_path / "astray").symlink_to(tmp_path / "absent" / "file")
    with pytest.raises(DataError, match="astray: cannot be written: no directory"):
        check_writable(tmp_path / "astray")


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from polyref.publishing import write_atomically; from polyref.errors import DataError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n"
        "    with write_atomically(sys.argv[1]) as stream: stream.write('x' * 99999)\n"
        "except DataError as error: print(error)"
    )
    path = tmp_path / "f"
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert done.stdout == f"{path}: cannot be written: File too large (make room)\n", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_device_that_takes_nothing_is_one_error() -> None:
    fault = "^/dev/full: cannot be written: No space left on device$"
    with pytest.raises(DataError, match=fault), write_atomically("/dev/full") as stream:
        stream.write("text\n")
    # An error about another file stays what it is.
    with pytest.raises(FileNotFoundError), write_atomically("/dev/null"):
        Path("/absent/file").read_bytes()
    program = (
        "import sys; from polyref.publishing import write_atomically; from polyref.errors import DataError\n"
        "try:\n"
        "    with write_atomically('-') as stream: stream.write('text')\n"
        "except DataError as error: sys.exit(str(error))"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.stderr.split("\n")[0] == "<stdout>: cannot be written: No space left on device"


def test_what_is_written_is_utf8_in_any_locale(tmp_path: Path) -> None:
    program = (
        "import os, sys; from polyref.publishing import write_atomically\n"
        "sys.stdout.reconfigure(newline='\\r\\n')\n"
        "os.mkfifo('pipe'); reader = os.open('pipe', os.O_RDONLY | os.O_NONBLOCK)\n"
        "for path in ('-', 'pipe', 'file'):\n"
        "    with write_atomically(path) as stream: stream.write(f'{path}: na\\u00efve \\u201c\\u00f8\\u201d\\n')\n"
        "os.write(1, os.read(reader, 99))"  # standard output has been written by then
    )
    ascii_alone = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    environment = {**os.environ, **ascii_alone, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path)
    assert done.stdout == "-: naïve “ø”\npipe: naïve “ø”\n".encode(), done.stderr
    assert (tmp_path / "file").read_bytes() == "file: naïve “ø”\n".encode()


def test_what_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(DataError, match=r"^socket: cannot be written: No such device"), write_atomically("socket"):
            pass
    monkeypatch.setattr(sys, "stdout", None)  # so it is where a program starts with it closed
    with pytest.raises(DataError, match=r"^<stdout>: cannot be written: it is closed$"), write_atomically("-"):
        pass


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError), write_atomically(tmp_path / "pipe") as stream:
        os.close(reader)
        stream.write("text")

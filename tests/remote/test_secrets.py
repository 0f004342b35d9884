"""Addresses of files that hold a password or a signature: nobody else is told them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from polyref.errors import DataError, without_secrets
from polyref.textfiles import display_name

FILES = {
    "/refs.en": "The committee met on Friday.\nPrices rose last year.\n",
    "/more.en": "On Friday the committee met.\nLast year prices rose.\n",
    "/sys.en": "The committee met on a Friday.\nPrices rose.\n",
    "/one.en": "The committee met on Friday.\n",
    "/latin.en": "caf\udce9\nx\n",
    "/table.tsv": "this\tthat\na\tb\n",
}
QUERY = "X-Amz-Expires=60&X-Amz-Signature=sEcReT%2Fone&token"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        status = 404 if path == "/none.en" else 200 if "X-Amz-Expires=60" in query and path in FILES else 403
        content = FILES.get(path, "").encode("utf-8", "surrogateescape") if status == 200 else b"no"
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if self.command == "GET" else b"")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[Callable[[str], str]]:
    """The address of a file on a server that wants a signature, with a password in it."""
    pytest.importorskip("aiohttp")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        yield lambda name: f"http://me-sEcReT:two-sEcReT@127.0.0.1:{http.server_address[1]}/{name}?{QUERY}"
        http.shutdown()


def test_what_is_public_of_an_address() -> None:
    for address, public in {
        "https://b.s3.amazonaws.com/a/refs.en.gz?X-Amz-Signature=1": "https://b.s3.amazonaws.com/a/refs.en.gz",
        "https://me:word@host:8000/refs": "https://host:8000/refs",
        "https://token@host/refs?key": "https://host/refs",
        "ftp://me:w@rd@host/refs": "ftp://host/refs",
        "simplecache::https://host/refs?sig=1": "simplecache::https://host/refs",
        "az://container/refs?sv=1&sig=2": "az://container/refs",
        "HTTPS://token@host/refs#a": "HTTPS://host/refs#a",
        "what?a=b": "what?a=b",
    }.items():
        assert display_name(address) == public
        assert without_secrets(f"url='{address}', or {address} ") == f"url='{public}', or {public} "
        error = DataError(f"not {address}", file=address, remedy=f"name {address}")
        assert str(error) == f"{public}: not {public} (name {public})"


def test_no_file_and_no_message_holds_a_password_or_a_signature(
    url: Callable[[str], str], polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = []
    for command in (
        ["augment", url("refs.en"), "--candidates", url("more.en"), "-k", "1", "-o", "set.jsonl", "--json"],
        ["augment", url("refs.en"), "--candidates", url("more.en"), "-k", "1", "--dropped", "dropped", "-o", "two"],
        ["score", url("refs.en"), "-i", url("sys.en"), url("more.en"), "-m", "chrf", "--json", "--segments-out", "s"],
        ["score", url("refs.en"), "-i", url("sys.en"), "-m", "chrf", "-o", "table"],
        ["inspect", url("refs.en"), "-o", "page.html"],
        ["inspect", url("refs.en"), "--json"],
        ["convert", "refs", url("refs.en"), "out.tsv"],
    ):
        done = polyref(*command)
        said.append((command[0], done.code, done.out + done.err))
    for command in (
        ["score", url("refs.en").partition("?")[0] + "?X-Amz-Signature=sEcReT", "-i", url("sys.en")],
        ["score", url("none.en"), "-i", url("sys.en")],
        ["score", url("refs.en"), "-i", url("one.en")],
        ["score", url("latin.en"), "-i", url("sys.en")],
        ["score", url("refs.en"), "-i", url("sys.en"), url("sys.en")],
        ["score", url("refs.en"), "-i", url("sys.en"), url("sys.en") + "&x=1"],
        ["score", url("table.tsv"), "-i", url("sys.en")],
        ["augment", url("refs.en").replace("127.0.0.1:", "127.0.0.1:1"), "-o", "three"],
        ["augment", url("refs.en"), "--candidates", url("one.en"), "-o", "three"],
        ["convert", "refs", url("table.tsv"), "out.tsv"],
        ["convert", "refs", url("refs.en"), url("new.en")],
        ["augment", url("refs.en"), "--candidates", url("more.en"), "-o", url("new.en")],
    ):
        done = polyref(*command)
        assert done.code in (1, 2) and "127.0.0.1" in done.err, (command, done.err)
        said.append((command[0], done.code, done.out + done.err))
    assert [code for _, code, _ in said[:7]] == [0] * 7, said
    assert not [one for one in said if "sEcReT" in one[2]]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"set.jsonl", "table", "s", "page.html", "out.tsv"}
    assert not [path for path in files if b"sEcReT" in path.read_bytes() or "sEcReT" in path.name]
    assert '"name": "refs.en"' in (tmp_path / "set.jsonl").read_text()

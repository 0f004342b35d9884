"""Batches: requests in a file, answers from a file, and no server at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, no_trouble

from polyref.chat.answers import Answers
from polyref.errors import DataError
from polyref.paraphrase.rewriting.answers import read_batch

REFS = ["The committee will meet again in the town.", "", "Prices rose fast last year.", "Nobody has seen the ferry."]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text("".join(f"{text}\n" for text in REFS))
    return tmp_path


def _lines(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def _answered(requests: str, results: str, trouble: Callable[..., str | None] = no_trouble) -> None:
    """What a batch gives back: in any order, with errors in their place."""
    rows = []
    for line in reversed(_lines(requests)):
        body, text = line["body"], line["body"]["messages"][1]["content"]
        fault = trouble(text, 0, len(body["messages"]) > 2)
        row = {"id": "batch_req_1", "custom_id": line["custom_id"], "response": None, "error": None}
        if fault == "expired":
            row["error"] = {"code": "batch_expired", "message": "too late"}
        elif fault == "500":
            row["response"] = {"status_code": 500, "request_id": "r", "body": {"error": {}}}
        else:
            completion = ChatServer().completion(body, fault, {})
            row["response"] = {"status_code": 200, "request_id": "r", "body": completion}
        rows.append(row)
    Path(results).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow
def test_a_batch_gives_what_the_server_gives(polyref: Callable[..., Any]) -> None:
    command = ["augment", "refs", "--lang=en", "-k", 2, "--model", "openai:tiny", "--filter", "none"]
    written = polyref(*command, "-o", "out", "--batch", "write", "batch")
    assert written.code == 0 and "3 requests for 3 references are in batch" in written.err
    lines = _lines("batch")
    assert {line["method"] for line in lines} == {"POST"} and {line["url"] for line in lines} == {
        "/v1/chat/completions"
    }
    assert len({line["custom_id"] for line in lines}) == 3 and not Path("out").exists()
    _answered("batch", "results")
    read = polyref(*command, "-o", "out", "--batch", "read", "results", "--json")
    assert read.code == 0, read.err
    with ChatServer().running() as url:
        live = polyref(*command, "-o", "live", "--base-url", url)
    assert live.code == 0, live.err
    assert Path("out").read_bytes() == Path("live").read_bytes()
    # The answers stay: neither the batch nor a server is needed for another selection.
    again = polyref(*command, "-o", "other", "--answers", "out.answers", "--select", "mmr")
    assert again.code == 0, again.err
    # What is asked in the batch is what the server was asked.
    assert {line["custom_id"] for line in lines} <= set(Answers("live.answers")._known)


@pytest.mark.slow
def test_repairs_are_a_second_batch(polyref: Callable[..., Any]) -> None:
    def trouble(text: str, attempt: int, repair: bool) -> str | None:
        if "Prices" in text:
            return None if repair else "copies"
        return "500" if "ferry" in text else None

    command = ["augment", "refs", "--lang=en", "-k2", "--model", "openai:tiny", "--filter=none", "-o", "out", "--json"]
    assert polyref(*command, "--batch", "write", "one").code == 0
    _answered("one", "one.results", trouble)
    first = polyref(*command, "--batch", "read", "one.results").json()["rows"][0]
    assert first["failed"] == {"batch: error 500": 1, "not answered in the batch": 1} and first["kept"] == 2
    second = polyref(*command, "--batch", "write", "two")
    assert "1 requests for 3 references" in second.err
    (line,) = _lines("two")
    assert len(line["body"]["messages"]) == 4
    _answered("two", "two.results", trouble)
    last = polyref(*command, "--batch", "read", "two.results").json()["rows"][0]
    assert last["kept"] == 4 and last["failed"] == {"batch: error 500": 1}


@pytest.mark.slow
def test_what_the_batch_leaves_out_fails_and_is_not_kept_as_failed(polyref: Callable[..., Any]) -> None:
    command = ["augment", "refs", "--lang=en", "-k2", "--model", "openai:tiny", "--filter=none", "-o", "out", "--json"]
    assert polyref(*command, "--batch", "write", "one").code == 0
    _answered("one", "results", lambda text, *about: "expired" if "ferry" in text else None)
    whole = Path("results").read_text().splitlines(keepends=True)
    Path("some").write_text("".join(line for line in whole if "Prices" not in line))
    row = polyref(*command, "--batch", "read", "some").json()["rows"][0]
    assert row["failed"] == {"batch: batch_expired": 1, "not answered in the batch": 1}
    row = polyref(*command, "--batch", "read", "results").json()["rows"][0]
    assert row["failed"] == {"batch: batch_expired": 1}
    with ChatServer().running() as url:
        row = polyref(*command, "--base-url", url, "--retry-failed").json()["rows"][0]
    assert "failed" not in row and row["requests"]["requests"] == 1  # the one that failed


@pytest.mark.slow
def test_tokens_and_cost_are_of_all_runs_and_of_batches(polyref: Callable[..., Any]) -> None:
    command = ["augment", "refs", "--lang=en", "-k", 2, "--model", "openai:tiny", "--filter", "none", "-o", "out"]
    command += ["--price", 1, 10, "--json"]
    assert polyref(*command, "--batch", "write", "one").code == 0
    _answered("one", "results", lambda text, *about: "expired" if "ferry" in text else None)
    usages = [line["response"]["body"]["usage"] for line in _lines("results") if line["response"]]
    read, written = (sum(usage[f"{name}_tokens"] for usage in usages) for name in ("prompt", "completion"))
    cost = round((read + 10 * written) / 1e6, 6)
    for _ in range(2):  # the second time nothing is new
        result = polyref(*command, "--batch", "read", "results")
        row = result.json()["rows"][0]
        assert (row["requests"]["prompt_tokens"], row["requests"]["completion_tokens"]) == (read, written)
        assert row["cost"] == cost > 0 and f"in all runs {read:,} tokens read, {written:,} written, cost" in result.err
        kept = Path("out.answers").read_bytes()
    server = ChatServer()
    with server.running() as url:
        later = polyref(*command, "--base-url", url, "--retry-failed").json()["rows"][0]
    assert len(server.requests) == 1 and later["cost"] > cost
    assert Path("out.answers").read_bytes().startswith(kept)
    again = polyref(*command, "--answers", "out.answers").json()["rows"][0]
    assert again["cost"] == later["cost"] and again["requests"]["requests"] == 0


@pytest.mark.slow
def test_a_failed_batch_is_kept_once_and_says_why(polyref: Callable[..., Any]) -> None:
    command = ["augment", "refs", "--lang=en", "-k", 2, "--model", "openai:tiny", "--filter", "none", "-o", "out"]
    assert polyref(*command, "--batch", "write", "one").code == 0
    response = {"status_code": 400, "body": {"error": {"message": "no \ud83d temperature"}}}
    rows: list[dict[str, Any]] = [{"custom_id": line["custom_id"], "response": response} for line in _lines("one")]
    rows.append({"custom_id": "\ud83d", "response": None, "error": {"code": "\ud83d"}})
    Path("results").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = []
    for _ in range(2):
        read = polyref(*command, "--batch", "read", "results")
        assert read.code == 0, read.err
        assert "of a request that failed the server says: no \ufffd temperature (--body changes" in read.err
        sizes.append(Path("out.answers").stat().st_size)
    assert sizes[0] == sizes[1]
    said = [line["refs"][0].get("failed") for line in _lines("out")[1:]]
    assert said == ["batch: error 400", None, "batch: error 400", "batch: error 400"]


def test_what_cannot_be_sent_leaves_no_batch(polyref: Callable[..., Any]) -> None:
    for model, body in (
        ("openai:ti\udcff", "{}"),
        ("openai:tiny", '{"user": "\\ud83d"}'),
        ("openai:tiny", '{"a": NaN}'),
    ):
        result = polyref(
            "augment", "refs", "--lang=en", "--model", model, "-o", "out", "--batch", "write", "b", "--body", body
        )
        assert result.code == 2 and "Traceback" not in result.err, result.err
        assert not Path("b").exists() and not Path("out").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no JSON", "results:2: no result of a batch: no JSON object with a custom_id"),
        ("[]", "results:2: no result of a batch: no JSON object with a custom_id"),
        ('{"custom_id": "x"}', "results:2: no result of a batch: neither response nor error"),
    ],
)
def test_a_file_that_is_no_batch_is_named(line: str, message: str) -> None:
    Path("results").write_text(f"\n{line}\n")
    with pytest.raises(DataError) as caught:
        list(read_batch("results"))
    assert str(caught.value) == message


def test_a_journal_of_something_else_is_left_alone(polyref: Callable[..., Any]) -> None:
    Path("out.answers").write_text("my notes\n")
    command = ["augment", "refs", "--lang", "en", "--model", "openai:tiny", "-o", "out", "--batch", "write", "b"]
    result = polyref(*command)
    assert result.code == 1 and "out.answers: is in the way and no journal" in result.err
    assert Path("out.answers").read_text() == "my notes\n"
    refused = polyref(*command[:-1], "refs")
    assert refused.code == 2 and "refs is also an input" in refused.err

"""Files of OpenAI's batches: requests to be answered by the next day at a lower price, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError
from polyref.json_files import try_json
from polyref.paraphrase.rewriting.answers import Answer, NoAnswerError, read_completion, readable
from polyref.paraphrase.rewriting.requests import Request
from polyref.textfiles import iter_lines, write_atomically

_URL: Final = "/v1/chat/completions"


def write_batch(requests: Iterable[Request], path: str | Path) -> int:
    """Write requests as a batch's file of requests, whole or not at all; how many there are."""
    count = 0
    with write_atomically(path) as stream:
        for request in requests:
            line = {"custom_id": request.key, "method": "POST", "url": _URL, "body": dict(request.body)}
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_batch(path: str | Path) -> Iterator[tuple[str, Answer]]:
    """Keys and answers of a batch's file of results; what a line says of an error is a failure."""
    for number, line in enumerate(iter_lines(path), 1):
        if line.strip():
            yield _read(line, path, number)


def _read(line: str, path: str | Path, number: int) -> tuple[str, Answer]:
    row = try_json(line) or {}
    if not isinstance(key := row.get("custom_id"), str):
        raise DataError("no result of a batch: no JSON object with a custom_id", file=path, line=number)
    key = readable(key)
    response, error = row.get("response"), row.get("error")
    if not isinstance(response, dict):
        reason = error.get("code") or error.get("message") if isinstance(error, dict) else None
        if reason is None:
            raise DataError("no result of a batch: neither response nor error", file=path, line=number)
        return key, Answer(failure=readable(f"batch: {reason}"))
    if response.get("status_code") != 200:
        return key, Answer(_said(response.get("body")), failure=readable(f"batch: error {response.get('status_code')}"))
    try:
        return key, read_completion(response.get("body"))
    except NoAnswerError as reason:
        return key, Answer(failure=f"batch: broken answer ({reason})")


def _said(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return readable(message) if isinstance(message, str) else ""

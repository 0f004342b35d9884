"""Answers: the rewrites in them, and those that come back in files of batches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from polyref.chat.answers import Answer, NoAnswerError, read_completion, readable
from polyref.chat.requests import Request
from polyref.errors import DataError
from polyref.json_files import try_json
from polyref.publishing import write_atomically
from polyref.textfiles import iter_lines

_FENCE: Final = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
#: A string with a comma after it, in a list that breaks off.
_FOLLOWED: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*,', re.DOTALL)


def rewrites_in(answer: Answer, wanted: int, *, listed: bool) -> tuple[list[str], str | None]:
    """The rewrites in an answer, not checked yet, and the fault of the answer as a whole; None where it has none."""
    if answer.refusal is not None or answer.finish == "content_filter":
        return [], "refused"
    content = answer.said
    if answer.finish == "length":
        whole = _whole_strings(content) if listed else []
        return whole, None if whole else "cut short"
    if not content:
        return [], "empty"
    if not listed:
        return [content], None
    found = _strings(content)
    if found is None:
        return [], "no JSON list"
    return found, None if found else f"0 rewrites of {wanted}"


def _strings(content: str) -> list[str] | None:
    """The list in a JSON object, whatever its key and whatever stands around the object; or in a bare list."""
    if fence := _FENCE.match(content):
        content = fence[1]
    for start, end in (("{", "}"), ("[", "]")):
        first, last = content.find(start), content.rfind(end)
        if first < 0 or last < first:
            continue
        found = try_json(content[first : last + 1], object)
        if not isinstance(found, (dict, list)):
            continue
        lists = [found] if isinstance(found, list) else [value for value in found.values() if isinstance(value, list)]
        strings = [one for one in lists[0] if isinstance(one, str)] if len(lists) == 1 else []
        if strings or lists == [[]]:
            return strings
    return None


def _whole_strings(content: str) -> list[str]:
    """What is whole in a list that breaks off."""
    found: list[str] = []
    place = content.find("[") + 1
    while place and (one := _FOLLOWED.match(content, place)):
        if (text := try_json(one[1], str)) is None:
            break
        found.append(text)
        place = one.end()
    return found


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

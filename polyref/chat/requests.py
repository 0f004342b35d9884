"""Requests, and checks of what a user puts into them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from polyref.errors import UsageError
from polyref.json_files import try_json
from polyref.values import is_text

#: Digits of a key: half a SHA-256, short enough for the ``custom_id`` of a batch.
_KEY: Final = 32


@dataclass(frozen=True)
class Request:
    """One request for one answer."""

    number: int  # tells apart those that are equal otherwise, from 0
    body: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """Hash of all that the answer depends on, the server left out."""
        content = json.dumps([self.number, self.body], ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY]

    @property
    def sendable(self) -> bool:
        """Whether it is text: what holds half of a surrogate pair is none."""
        return is_text(json.dumps(self.body["messages"], ensure_ascii=False))


def parse_body(text: str) -> dict[str, Any]:
    """Parts of a request from a JSON object."""
    found: dict[str, Any] | None = try_json(text)
    if found is None:
        raise UsageError(f'`body` is {text!r}, expected a JSON object such as {{"top_p": 0.9}}')
    check_body(found)
    return found


def check_body(body: Mapping[str, Any]) -> None:
    """Refuse parts of a request that polyref sets, and what cannot be sent."""
    if taken := sorted(body.keys() & {"model", "messages", "n", "stream"}):
        raise UsageError(f"`body` names {taken[0]!r}, which polyref sets")
    try:
        fine = is_text(json.dumps(dict(body), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        fine = False
    if not fine:
        raise UsageError(
            "`body` holds what JSON cannot: NaN, infinity, half of a surrogate pair, or an object of Python",
            remedy='a JSON object such as {"top_p": 0.9}',
        )

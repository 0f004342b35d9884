"""Requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

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

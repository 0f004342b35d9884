"""Keys of requests, and what may not be put into one."""

from __future__ import annotations

from typing import Any

import pytest

from polyref.chat.requests import Request, check_body, parse_body
from polyref.errors import UsageError

MESSAGES = [{"role": "user", "content": "Es ist spät."}]


def test_keys_stay_what_they_were() -> None:
    """Answers that were paid for are found by them."""
    # The first 32 digits of SHA-256 of the JSON, with names in order and nothing escaped (by sha256sum).
    request = Request(3, {"model": "m", "messages": MESSAGES})
    assert request.key == "9afcb2e297a4d452ff950629f0a91681"
    assert Request(3, {"messages": MESSAGES, "model": "m"}).key == request.key, "in any order"
    assert Request(4, request.body).key != request.key
    assert Request(3, {**request.body, "seed": 1}).key != request.key


def test_half_of_a_letter_has_a_key_and_is_not_sent() -> None:
    halves = [Request(0, {"messages": [{"role": "user", "content": half}]}) for half in ("\ud83d", "\ud83e")]
    assert halves[0].key != halves[1].key
    assert not halves[0].sendable and Request(0, {"messages": MESSAGES, "user": "\ud83d"}).sendable


def test_parts_of_a_request_are_read_from_json() -> None:
    assert parse_body('{"top_p": 0.9, "stop": null}') == {"top_p": 0.9, "stop": None}
    for text in ("[]", "top_p=0.9", ""):
        with pytest.raises(UsageError, match=r"`body` is .*, expected a JSON object such as {\"top_p\": 0.9}$"):
            parse_body(text)
    with pytest.raises(UsageError, match="`body` names 'n', which polyref sets"):
        parse_body('{"n": 2}')


def test_parts_that_polyref_sets_are_refused() -> None:
    for name in ("model", "messages", "n", "stream"):
        with pytest.raises(UsageError, match=f"^`body` names '{name}', which polyref sets$"):
            check_body({"top_p": 0.9, name: None})
    for both in (["stream", "n"], ["n", "model"], ["model", "messages"], ["stream", "messages"]):
        with pytest.raises(UsageError, match=f"names '{min(both)}'"):
            check_body(dict.fromkeys(both))


def _endless() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize("value", [{"a"}, float("nan"), "\ud83d", _endless()], ids=["set", "nan", "half", "endless"])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="`body` holds what JSON cannot"):
        check_body({"stop": value})

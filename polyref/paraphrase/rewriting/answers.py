"""Answers: what comes back, and the rewrites in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from polyref.json_files import try_json

#: What stands in the place of a key that a server repeats.
CROSSED_OUT: Final = "[key]"
#: Thoughts: where a template opens them, the answer holds their end alone; an answer may also break off in them.
_THOUGHT: Final = re.compile(r"\A(?:.*?</think(?:ing)?>|\s*<think(?:ing)?>.*)", re.DOTALL)
_FENCE: Final = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
#: A string with a comma after it, in a list that breaks off.
_FOLLOWED: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*,', re.DOTALL)
_HALF: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Answer:
    """What a model answered, or why there is no answer.

    Attributes:
        content: The text; "" where there is none. Of a failure, what the server said.
        refusal: Why the model refused; None where it did not.
        finish: Why it ended: ``stop``, ``length``, ``content_filter`` ...
        failure: Why there is no answer; None where there is one.
        model: The model as it names itself.
        fingerprint: What the server calls its state; None where it says nothing.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
        without: The parts of the request that the server refused, and that were left out; with commas between them.
    """

    content: str = ""
    refusal: str | None = None
    finish: str = "stop"
    failure: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    without: str | None = None

    def record(self) -> dict[str, Any]:
        """As plain values, without what is not said."""
        return {name: value for name, value in asdict(self).items() if value != getattr(Answer, name)}


class NoAnswerError(ValueError):
    """A body that is no chat completion."""


def read_completion(body: Any) -> Answer:
    """The answer in a chat completion."""
    if not isinstance(body, Mapping):
        raise NoAnswerError("no JSON object")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise NoAnswerError("without choices")
    message = choices[0].get("message")
    if not isinstance(message, Mapping):
        raise NoAnswerError("without a message")
    usage = body.get("usage")
    return Answer(
        content=_text(message.get("content")) or "",
        refusal=_text(message.get("refusal")),
        finish=_text(choices[0].get("finish_reason")) or "stop",
        model=_text(body.get("model")),
        fingerprint=_text(body.get("system_fingerprint")),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def _text(value: Any) -> str | None:
    return readable(value) if isinstance(value, str) and value else None


def readable(text: str) -> str:
    """What somebody sent, as it can be kept and shown: halves of surrogate pairs are no text."""
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", text)


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def rewrites_in(answer: Answer, wanted: int, *, listed: bool) -> tuple[list[str], str | None]:
    """The rewrites in an answer, not checked yet, and the fault of the answer as a whole; None where it has none.

    Args:
        answer: One that is there.
        wanted: How many there should be. Fewer, or more, are no fault.
        listed: Whether they are asked for as JSON.
    """
    if answer.refusal is not None or answer.finish == "content_filter":
        return [], "refused"
    content = _THOUGHT.sub("", answer.content).strip()
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

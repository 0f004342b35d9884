"""Requests: what is sent for a text, under a key that says all that the answer depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from polyref.paraphrase.markup import markup
from polyref.paraphrase.rewriting.context import TextInContext
from polyref.paraphrase.rewriting.options import RewritingOptions, is_text
from polyref.paraphrase.rewriting.prompts import Prompt

#: What is said of a text with markup, behind every prompt: those without are asked for in the same words as ever.
KEEP: Final = (
    "The text holds markup. All of it stays, as it is and in its order; only the words between change. It is: "
)
#: Digits of a key: half a SHA-256, short enough for the ``custom_id`` of a batch.
_KEY: Final = 32


@dataclass(frozen=True)
class Request:
    """One request for one answer.

    Attributes:
        text: What is to be rewritten.
        wanted: Number of rewrites that the answer should have.
        listed: Whether the answer is a JSON object; else it is the rewrite itself.
        number: Tells the samples of a text apart, from 0.
        body: What is sent.
    """

    text: TextInContext
    wanted: int
    listed: bool
    number: int
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


class Requests:
    """Makes the requests of a run.

    Args:
        model: Name of the model.
        prompt: What to say.
        options: How to ask.
        language: Code of the language to write, or None.
        source_language: Code of the language to translate from, or None.
    """

    def __init__(
        self,
        model: str,
        prompt: Prompt,
        options: RewritingOptions,
        language: str | None,
        source_language: str | None = None,
    ) -> None:
        self.model = model
        self.prompt = prompt
        self.options = options
        self.language, self.source_language = language, source_language
        self.temperature = prompt.temperature if options.temperature is None else options.temperature

    def first(self, text: TextInContext, k: int) -> list[Request]:
        """The requests for ``k`` rewrites of a text: one, or one a sample."""
        if self.options.form == "list":
            return [self._request(text, k, True, 0, self._messages(text, k))]
        messages = self._messages(text, None)
        return [self._request(text, 1, False, number, messages) for number in range(k)]

    def _messages(self, text: TextInContext, k: int | None) -> list[dict[str, str]]:
        *before, asked = self.prompt.messages(text, k, self.language, self.source_language)
        kept = ", ".join(mark for mark in dict.fromkeys(markup(text)) if any(map(str.isalpha, mark)))
        return [*before, {**asked, "content": f"{asked['content']}\n\n{KEEP}{kept}"}] if kept else [*before, asked]

    def repair(self, request: Request, answer: str, fault: str) -> Request:
        """The request that follows an answer that cannot be used."""
        messages = self.prompt.repaired(request.body["messages"], answer, fault)
        return self._request(request.text, request.wanted, request.listed, request.number, messages)

    def _request(
        self, text: TextInContext, wanted: int, listed: bool, number: int, messages: list[dict[str, str]]
    ) -> Request:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature,
            "seed": self.options.seed + number,
            "max_tokens": self.options.max_tokens or _enough(text, wanted, self.source_language is not None),
        }
        if listed:
            body["response_format"] = _schema(wanted)
        body |= self.options.body
        return Request(text, wanted, listed, number, {name: part for name, part in body.items() if part is not None})


def _enough(text: str, wanted: int, translated: bool) -> int:
    """More tokens than such an answer needs: a token for every two bytes, and a few around them.

    The letters of a translation may be of more bytes: two for every byte.
    """
    bytes_ = len(text.encode("utf-8", "surrogatepass"))
    return 256 + wanted * (32 + (2 * bytes_ if translated else bytes_ // 2))


def _schema(wanted: int) -> dict[str, Any]:
    """What the answer must look like, for servers that can make sure of it."""
    strings = {"type": "array", "items": {"type": "string"}, "minItems": wanted, "maxItems": wanted}
    schema = {
        "type": "object",
        "properties": {"rewrites": strings},
        "required": ["rewrites"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "rewrites", "strict": True, "schema": schema}}

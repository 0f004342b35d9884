"""How a language model is asked, and the texts it is asked about (imports no torch)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from polyref.errors import UsageError
from polyref.paraphrase.decoding import check_choice, check_numbers, setting


class TextInContext(str):
    """A text with its source and its neighbours. For generators that read no context it is a string like any other.

    Attributes:
        source: What it is a translation of; None where that is unknown.
        before: The sentences before it in its document, in order.
        after: Those after it.
    """

    __slots__ = ("after", "before", "source")
    source: str | None
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __new__(
        cls, text: str, *, source: str | None = None, before: Iterable[str] = (), after: Iterable[str] = ()
    ) -> TextInContext:
        """A text in its context."""
        made = super().__new__(cls, text)
        made.source = source or None
        made.before = tuple(before)
        made.after = tuple(after)
        return made


def in_context(text: str) -> TextInContext:
    """The text itself, or, of a string, the text with nothing around it."""
    return text if isinstance(text, TextInContext) else TextInContext(text)


#: Generators that take these options.
GENERATORS: Final = ("openai", "chat")
#: All paraphrases in one answer, or one in each of several.
FORMS: Final = ("list", "samples")


@dataclass(frozen=True)
class RewritingOptions:
    """What is asked for, of whom, and how patiently.

    The first group changes the paraphrases and is part of the signature. The second changes how they are come by, not
    what they are.

    Attributes:
        form: ``list`` asks for all paraphrases in one answer, as JSON; ``samples`` for each of them by a request of
            its own, with seeds that follow each other.
        temperature: 0 is greedy; None takes the prompt's.
        seed: Sent with every request.
        body: Such as ``{"top_p": 0.9}``; None as a value takes a part out.
        context: The reader of references gives so many neighbours on each side. For the signature.
        source: The reader of references gives sources: their hash. For the signature.
        base_url: None asks none: what is not known already counts as failed.
        answers: None of them is asked for twice. None keeps them in memory.
        batch: A batch's file of results, which are taken as answers.
    """

    prompt: str = setting(
        "faithful",
        help="faithful, diverse, or a TOML file.",
        metavar="NAME|FILE",
        otherwise="faithful, or one that translates",
    )
    form: str = setting(
        "list",
        help="All paraphrases in one answer, as JSON, or one in each of several.",
        choices=FORMS,
        flag="--answer-form",
        otherwise="list",
    )
    temperature: float | None = setting(None, help="Of the model.", least=0, most=100, metavar="T")
    seed: int = setting(0, help="Of the first request for a text.", least=0, metavar="S")
    max_tokens: int | None = setting(
        None, help="Most tokens of an answer.", least=1, metavar="N", otherwise="what it may need"
    )
    body: Mapping[str, Any] = field(default_factory=dict)
    context: int = setting(0, help="Neighbours on each side, shown to it too.", least=0, metavar="N", otherwise="0")
    source: str | None = None

    base_url: str | None = setting(None, help="Server of openai:NAME, such as http://localhost:8000/v1.", metavar="URL")
    plain_http: bool = setting(False, help="Send the key over http too, where others on the way can read it.")
    answers: str | Path | None = None
    retry_failed: bool = setting(False, help="Ask again what the server did not answer.")
    batch: str | Path | None = None
    concurrency: int = setting(8, help="Requests at a time.", least=1, metavar="N", otherwise="8")
    retries: int = setting(6, help="Further tries of a request.", least=0, metavar="N", otherwise="6")
    timeout: float = setting(120.0, help="Seconds for a whole answer.", least=0.001, metavar="S", otherwise="120")

    def __post_init__(self) -> None:
        check_choice("form", self.form, FORMS)
        check_numbers(self)
        if self.form == "samples" and self.temperature == 0:
            raise UsageError(
                "`temperature` is 0, and all samples would be the same", remedy="name more, or `form` list"
            )
        if self.form == "samples" and (self.body.get("seed") is not None or self.body.get("temperature") == 0):
            raise UsageError(
                "`body` names one seed, or a temperature of 0, and all samples would be the same",
                remedy="leave it out: `seed` is that of the first sample",
            )

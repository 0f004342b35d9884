"""Prompts, and the requests that are made of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from polyref.chat.requests import Request
from polyref.errors import DataError, UsageError
from polyref.json_files import read_toml
from polyref.models.language_recognition import language_name
from polyref.paraphrase.decoding import check_number
from polyref.paraphrase.rewriting.options import RewritingOptions, TextInContext
from polyref.paraphrase.sentences import markup
from polyref.textfiles import read_lines

FOLDER: Final = Path(__file__).parent / "prompts"
PROMPTS: Final = ("faithful", "diverse")
#: The one that asks for translations.
TRANSLATE: Final = "translate"
_TEXTS: Final = ("system", "list", "sample", "repair")
_LONGEST_NAME: Final = 40
_TEMPLATES: Final = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
#: A line of a prompt that quotes a text.
_QUOTATION: Final = re.compile(r"^> \{\{ *(\w+) *\}\}", re.MULTILINE)


@dataclass(frozen=True)
class Prompt:
    """The messages that ask for rewrites."""

    name: str  # name and version, such as faithful-1
    digest: str  # the first 12 digits of the SHA-256 of the file
    temperature: float  # what it was written for
    system: str  # who the model is; "" for no such message
    several: str  # asks for k rewrites in one answer
    sample: str  # asks for one rewrite
    repair: str  # says what was wrong with an answer, and asks for another one

    def messages(
        self, text: TextInContext, k: int | None, language: str | None, source_language: str | None = None
    ) -> list[dict[str, str]]:
        """What to send for ``k`` rewrites of a text, or (None) for a sample, in its own language or another one."""
        said = "the language of the text" + (f" ({language})" if language else "")
        if source_language is not None:
            said = _named(language or "")
        values: dict[str, Any] = {"text": str(text), "k": k, "language": said}
        values["source_language"] = None if source_language is None else _named(source_language)
        values |= {"source": text.source, "before": list(text.before), "after": list(text.after)}
        system = [{"role": "system", "content": _render(self.system, values)}] if self.system else []
        asked = self.sample if k is None else self.several
        return [*system, {"role": "user", "content": _render(asked, values)}]

    def repaired(self, messages: list[dict[str, str]], answer: str, fault: str) -> list[dict[str, str]]:
        """What to send after an answer that cannot be used."""
        again = _render(self.repair, {"fault": fault})
        return [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": again}]


def _named(code: str) -> str:
    """A language as people call it, and its code, which may say a region: ``German (de_AT)``."""
    name = language_name(code)
    return code if name == code else f"{name} ({code})"


def _render(template: str, values: dict[str, Any]) -> str:
    # Every line of a text is quoted: none is taken for the prompt's own.
    return _TEMPLATES.from_string(_QUOTATION.sub(r"{{ \1 | quoted }}", template)).render(values).strip()


def _quoted(text: str) -> str:
    return "> " + "> ".join(text.splitlines(keepends=True))


_TEMPLATES.filters["quoted"] = _quoted


def load_prompt(name: str) -> Prompt:
    """A prompt of polyref by name, or a file of that form."""
    own = name in (*PROMPTS, TRANSLATE)
    path = FOLDER / f"{name}.toml" if own else Path(name)
    if not own and not path.is_file():
        raise DataError(f"no such prompt: `prompt` is {', '.join(PROMPTS)}, or a TOML file", file=name)
    text = "".join(f"{line}\n" for line in read_lines(path))
    values = read_toml(text, path)
    for kinds, expected, keys in (
        ((str,), "a text", ("name", *_TEXTS)),
        ((int,), "a whole number", ("version",)),
        ((int, float), "a number", ("temperature",)),
    ):
        for key in keys:
            if not isinstance(values.get(key), kinds) or isinstance(values[key], bool):
                raise DataError(f"{key!r} is {values.get(key)!r}, expected {expected}", file=path)
    try:
        check_number("temperature", values["temperature"], 0, 100)
    except UsageError as error:
        raise DataError(error.message, file=path) from None
    if unknown := values.keys() - {"name", "version", "temperature", *_TEXTS}:
        raise DataError(f"{min(unknown)!r} is no part of a prompt", file=path)
    label = f"{values['name']}-{values['version']}"
    if not label.replace("-", "").replace("_", "").isalnum() or len(label) > _LONGEST_NAME:
        raise DataError(
            f"'name' is {values['name']!r}, expected letters, digits, - and _ ({_LONGEST_NAME} at most)", file=path
        )
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
    prompt = Prompt(label, digest, float(values["temperature"]), *(values[key].strip() for key in _TEXTS))
    _try(prompt, path)
    return prompt


def _try(prompt: Prompt, path: Path) -> None:
    """Use every text once: a template that fails fails before anything is asked."""
    mark = "\N{BLACK SQUARE}7\N{BLACK SQUARE}"
    text = TextInContext(mark, source="s", before=["b"], after=["a"])
    try:
        for k in (None, 2):
            if mark not in prompt.messages(text, k, "en")[-1]["content"]:
                key = "sample" if k is None else "list"
                raise DataError(f"{key!r} leaves out {{{{ text }}}}", file=path)
        prompt.repaired([], "", "nothing")
    except TemplateError as error:
        raise DataError(f"no template: {error}", file=path) from None


#: What is said of a text with markup, behind every prompt: those without are asked for in the same words as ever.
KEEP: Final = (
    "The text holds markup. All of it stays, as it is and in its order; only the words between change. It is: "
)


@dataclass(frozen=True)
class RewriteRequest(Request):
    """A request for rewrites of a text."""

    text: TextInContext  # what is to be rewritten
    wanted: int  # rewrites that the answer should have
    listed: bool  # whether the answer is a JSON object; else it is the rewrite itself


class Requests:
    """Makes the requests of a run."""

    def __init__(
        self,
        model: str,
        prompt: Prompt,
        options: RewritingOptions,
        language: str | None,
        source_language: str | None = None,
    ) -> None:
        self.model, self.prompt, self.options = model, prompt, options
        self.language, self.source_language = language, source_language
        self.temperature = prompt.temperature if options.temperature is None else options.temperature

    def first(self, text: TextInContext, k: int) -> list[RewriteRequest]:
        """The requests for ``k`` rewrites of a text: one, or one a sample."""
        if self.options.form == "list":
            return [self._request(text, k, True, 0, self._messages(text, k))]
        messages = self._messages(text, None)
        return [self._request(text, 1, False, number, messages) for number in range(k)]

    def _messages(self, text: TextInContext, k: int | None) -> list[dict[str, str]]:
        *before, asked = self.prompt.messages(text, k, self.language, self.source_language)
        kept = ", ".join(
            " ".join(mark.splitlines()) for mark in dict.fromkeys(markup(text)) if any(map(str.isalpha, mark))
        )
        return [*before, {**asked, "content": f"{asked['content']}\n\n{KEEP}{kept}"}] if kept else [*before, asked]

    def repair(self, request: RewriteRequest, answer: str, fault: str) -> RewriteRequest:
        """The request that follows an answer that cannot be used."""
        messages = self.prompt.repaired(request.body["messages"], answer, fault)
        return self._request(request.text, request.wanted, request.listed, request.number, messages)

    def _request(
        self, text: TextInContext, wanted: int, listed: bool, number: int, messages: list[dict[str, str]]
    ) -> RewriteRequest:
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
        sent = {name: part for name, part in body.items() if part is not None}
        return RewriteRequest(number, sent, text, wanted, listed)


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

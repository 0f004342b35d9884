"""A model behind any server that speaks OpenAI's protocol, by their own client.

The server is the one that the user names, and no other: without an address nothing is sent, and redirections are not
followed. The key comes from the environment, goes into the header of requests, and nowhere else.
"""

from __future__ import annotations

import email.utils
import json
import os
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from polyref.chat.answers import CROSSED_OUT, Answer, NoAnswerError, read_completion, readable
from polyref.chat.asking import GivenUpError, RefusedError, TransientError
from polyref.errors import ModelError, UsageError

#: Environment variable of the key.
KEY: Final = "OPENAI_API_KEY"
#: A key with fewer letters may be a word in place of one, such as EMPTY, for servers that want none.
_WORD: Final = 12
#: Bytes of an answer after which it is none.
_LONGEST: Final = 16 << 20
_SHOWN: Final = 300


class Server:
    """A server and a model of it."""

    def __init__(self, model: str, base_url: str, timeout: float = 120.0) -> None:
        try:
            import openai
        except ImportError as error:
            raise ModelError(
                f"the client of such servers cannot be imported: {error}", remedy="pip install openai py3langid"
            ) from None
        self.model = model
        self._openai = openai
        self._key = os.environ.get(KEY, "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError(f"{KEY} has characters that no key has", remedy="set it anew in the environment")
        self._spelt = _spellings(self._key) if self._key else None
        if len(self._key) >= _WORD and self._key in base_url:
            raise UsageError(f"`base_url` holds the key of {KEY}", remedy="leave it out: it is sent in a header")
        self._timeout = timeout
        self._client = openai.OpenAI(
            api_key=self._key or "none",  # servers of one's own ask for none, the client does
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """Send a request once."""
        openai = self._openai
        try:
            answer = read_completion(_parsed(self._send(body)))
            said = {name: self._without_key(text, body) for name, text in vars(answer).items() if isinstance(text, str)}
            return Answer(**{**vars(answer), **said})
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, NoAnswerError) else "no whole JSON"
            raise TransientError(f"broken answer ({what})") from None
        except openai.APITimeoutError:
            raise TransientError("timeout") from None
        except openai.APIConnectionError as error:
            if _unreachable(error):
                reason = self._shown(error.__cause__ or error)
                raise TransientError(
                    "no connection", fatal=f"the server {self._client.base_url} cannot be reached: {reason}"
                ) from None
            raise TransientError("connection lost") from None
        except openai.APIStatusError as error:
            raise self._refused(error) from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __del__(self) -> None:
        if hasattr(self, "_client"):
            self.close()

    def _send(self, body: Mapping[str, Any]) -> bytes:
        """The bytes of the response, all of them within the timeout, however slowly they come."""
        end = time.monotonic() + self._timeout
        # Not `create(**body)`: parts that the client does not know are sent as they are.
        call = self._client.chat.completions.with_streaming_response.create
        known = {name: body[name] for name in ("model", "messages")}
        rest = {name: part for name, part in body.items() if name not in known}
        received = bytearray()
        try:
            with call(**known, extra_body=rest) as response:
                for block in response.iter_bytes():
                    received += block
                    if time.monotonic() > end:
                        raise TransientError("timeout")
                    if len(received) > _LONGEST:
                        raise TransientError(f"broken answer (more than {_LONGEST} bytes)")
        except (TransientError, self._openai.OpenAIError):
            raise
        except Exception as error:
            # While the body is read, errors are those of the HTTP library: httpx, or httpx2 of later clients.
            if not type(error).__module__.startswith("httpx"):
                raise
            slow = "timeout" in type(error).__name__.lower()
            raise TransientError("timeout" if slow else "connection lost") from None
        return bytes(received)

    def _refused(self, error: Any) -> Exception:
        """What a status other than success means."""
        status = error.status_code
        said = self._shown(error)
        if status in (401, 403):
            remedy = f"check {KEY} in the environment" if self._key else f"set {KEY} in the environment"
            return ModelError(f"the server does not accept the key ({status}): {said}", remedy=remedy)
        if status < 400:
            return GivenUpError(f"redirected ({status})", said)
        if status == 404:
            return ModelError(
                f"the server has no such model or address ({status}): {said}",
                remedy="`base_url` mostly ends in /v1; the server lists its models under /models",
            )
        if status == 429:
            if error.code == "insufficient_quota":
                return ModelError(f"the account is empty ({status}): {said}", remedy="no answer is lost")
            return TransientError("rate limit", _retry_after(error.response.headers))
        if status in (408, 409, 425) or status >= 500:
            return TransientError(f"server error {status}", _retry_after(error.response.headers))
        return RefusedError(f"request not accepted ({status})", said, _named(error.body, said))

    def _shown(self, error: BaseException) -> str:
        """What an error says, on one line, not too long, and without the key."""
        body = getattr(error, "body", None)
        # OpenAI says "message"; servers that are made with FastAPI say "detail".
        said = (
            next((body[key] for key in ("message", "detail") if key in body), body) if isinstance(body, dict) else body
        )
        line = " ".join(self._without_key(readable(str(said or error))).split())
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."

    def _without_key(self, text: str, sent: Mapping[str, Any] | None = None) -> str:
        """A text of the server in which the key, if it repeats it, is crossed out, however it is spelt.

        A short key that stands in the messages that were sent is a word of theirs.
        """
        if self._spelt is None:
            return text
        messages = sent["messages"] if sent is not None and len(self._key) < _WORD else ()
        if any(self._spelt.search(message["content"]) for message in messages):
            return text
        return self._spelt.sub(CROSSED_OUT, text)


def _spellings(key: str) -> re.Pattern[str]:
    """A key in all spellings of JSON, packed into other JSON or not; a short one as a word of its own."""
    letters = []
    for letter in key:
        slashes = r"\\{0,8}" if letter in '/"\\' else ""
        letters.append(rf"(?:{slashes}{re.escape(letter)}|\\{{1,8}}u(?i:{ord(letter):04x}))")
    spelt = "".join(letters)
    begins = r"(?:(?<![^\W_])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
    return re.compile(spelt if len(key) >= _WORD else rf"{begins}{spelt}(?![^\W_])")


def _parsed(content: bytes) -> Any:
    """JSON; bytes that are no UTF-8 spoil what they stand in, and nothing else."""
    try:
        return json.loads(content)
    except UnicodeDecodeError:
        return json.loads(content.decode("utf-8", "replace"))


def _named(body: Any, said: str) -> list[str]:
    """Names of parts of a request, as a refusal holds them: what it says they are, and its words."""
    found: list[Any] = []
    if isinstance(body, Mapping):
        found.append(body.get("param"))
        details = body.get("detail")
        for detail in details if isinstance(details, list) else ():
            place = detail.get("loc") if isinstance(detail, Mapping) else None
            found += place if isinstance(place, list) else ()
    names = [name for one in found if isinstance(one, str) for name in re.findall(r"\w+", one)]
    return names + re.findall(r"\w+", said)


def _unreachable(error: BaseException) -> bool:
    """Whether no connection was made at all."""
    cause = error.__cause__
    return cause is not None and type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, as the header ``Retry-After`` says them: a number, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if re.fullmatch(r"\s*\d{1,9}(?:\.\d+)?\s*", value):
            return float(value) * unit
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(date.timestamp() - time.time(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None

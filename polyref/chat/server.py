"""A model behind any server that speaks OpenAI's protocol, by their own client.

The server is the one that the user names, and no other: without an address nothing is sent, and redirections are not
followed. The key comes from the environment, goes into the header of requests, and nowhere else. Nothing else that the
environment holds for OpenAI's own servers is sent.
"""

from __future__ import annotations

import email.utils
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from polyref.chat.answers import CROSSED_OUT, Answer, NoAnswerError, read_completion, readable
from polyref.chat.asking import GivenUpError, RefusedError, TransientError
from polyref.errors import ModelError, UsageError

#: Environment variable of the key.
KEY: Final = "OPENAI_API_KEY"
#: A key with fewer letters may be a word in place of one, such as EMPTY, for servers that want none.
_WORD: Final = 12
#: Bytes of an answer, headers and all, after which it is none.
_LONGEST: Final = 16 << 20
#: Headers that are sent; what the client adds from the environment, or to say what machine this is, is not.
_HEADERS: Final = frozenset(("accept", "connection", "content-length", "content-type", "host", "transfer-encoding"))
_SHOWN: Final = 300


class Server:
    """A server and a model of it.

    ``plain_http`` allows the key to go to another machine where all on the way can read it.
    """

    def __init__(self, model: str, base_url: str, timeout: float = 120.0, *, plain_http: bool = False) -> None:
        _check_url(base_url)
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
        in_clear = urlsplit(base_url).scheme == "http"
        here = in_clear and _is_here(urlsplit(base_url).hostname or "")
        if len(self._key) >= _WORD and in_clear and not here and not plain_http:
            raise UsageError(
                f"the key of {KEY} would be sent over plain http, where others can read it",
                remedy=f"name https, unset {KEY} if the server wants none, or say `plain_http`",
            )
        guard = _Guard(self._key or "none", timeout)
        self._client = openai.OpenAI(
            api_key=self._key or "none",  # servers of one's own ask for none, the client does
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultHttpxClient(
                follow_redirects=False,
                trust_env=not here,  # what stays on this machine goes through no proxy
                event_hooks={"request": [guard.begin], "response": [guard.check]},
            ),
        )
        # Not __del__: where an error ties this in a knot, it would come after the sockets' own end.
        self._close = weakref.finalize(self, self._client.close)

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """Send a request once."""
        openai = self._openai
        try:
            # Not `chat.completions.create(**body)`: parts that the client does not know are sent as they are.
            content = self._client.post("/chat/completions", cast_to=bytes, body=dict(body))
            answer = read_completion(_parsed(content))
            said = {name: self._without_key(text, body) for name, text in vars(answer).items() if isinstance(text, str)}
            return Answer(**{**vars(answer), **said})
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, NoAnswerError) else "no whole JSON"
            raise TransientError(f"broken answer ({what})") from None
        except openai.APITimeoutError:
            raise TransientError("timeout") from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, TransientError):
                raise TransientError(error.__cause__.reason) from None  # a new one: two that name each other live on
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
        self._close()

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


class _Guard(threading.local):
    """What goes to a server, and how long and how much is read of its answer, for each thread that asks.

    The client reads the bodies of errors itself, and headers before them: time and bytes are counted where they come
    from the network.
    """

    def __init__(self, key: str, timeout: float) -> None:
        self._key, self._timeout = key, timeout
        self._end, self._left = 0.0, 0

    def begin(self, request: Any) -> None:
        """Let a request go out with the headers of polyref alone, and its answer be watched."""
        for name in set(request.headers) - _HEADERS:
            del request.headers[name]
        own = {"Authorization": f"Bearer {self._key}", "User-Agent": "polyref", "Accept-Encoding": "identity"}
        request.headers.update(own)
        request.extensions["trace"] = self._watch
        self._end, self._left = time.monotonic() + self._timeout, _LONGEST

    def check(self, response: Any) -> None:
        """Refuse what is packed: a few bytes may unpack to more than the memory holds."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TransientError("broken answer (packed, which was not asked for)")

    def _watch(self, event: str, about: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            stream = about["return_value"]
            # No cycle: a stream that nobody has any more is closed at once.
            stream.read = partial(self._read, partial(type(stream).read, weakref.proxy(stream)))

    def _read(self, read: Callable[..., bytes], most: int, timeout: float | None = None) -> bytes:
        if (left := self._end - time.monotonic()) <= 0:
            raise TransientError("timeout")
        block = read(most, timeout=left)
        self._left -= len(block)
        if self._left < 0:
            raise TransientError(f"broken answer (more than {_LONGEST} bytes)")
        return block


def _is_here(host: str) -> bool:
    """Whether a host is this machine; 0.0.0.0 is what servers say that listen everywhere."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _check_url(url: str) -> None:
    """Refuse what is no address of a server, or holds a key. The message does not repeat the address."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fine = False
    if not fine:
        raise UsageError("`base_url` is no address of a server, expected one such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "`base_url` has a user, a password or a query", remedy="keys are taken from OPENAI_API_KEY alone"
        )


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

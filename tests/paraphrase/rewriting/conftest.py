"""A server of the tests, and a generator that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from chat_server import ChatServer, Trouble, no_trouble

from polyref import load_paraphraser
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.paraphrase.rewriting.rewriter import Rewriter


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Rewriter, ChatServer]]]:
    """Start a server with some trouble; a generator that has asked it for a first text, and the server."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ExitStack() as stack:

        def start(trouble: Trouble = no_trouble, **options: Any) -> tuple[Rewriter, ChatServer]:
            server = ChatServer(trouble)
            url = stack.enter_context(server.running())
            given = {"base_url": url, "retries": 2, "timeout": 20.0, **options}
            rewriter = load_paraphraser("openai:tiny", lang="en", rewriting=RewritingOptions(**given))
            assert isinstance(rewriter, Rewriter)
            rewriter.prepare(["The committee will meet again on Friday."], 1)
            stack.callback(rewriter.answers.close)
            return rewriter, server

        yield start

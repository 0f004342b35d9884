"""The generator ``openai``: a model behind any server that speaks OpenAI's protocol."""

from __future__ import annotations

from dataclasses import replace

from polyref.chat.answers import Answers
from polyref.chat.asking import ChatModel, Nobody
from polyref.chat.server import Server
from polyref.errors import UsageError
from polyref.paraphrase.loading import LoadingOptions
from polyref.paraphrase.rewriting.answers import read_batch
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.paraphrase.rewriting.rewriter import Rewriter


def load(argument: str | None, loading: LoadingOptions) -> Rewriter:
    """The model that a server calls so, or the answers of a batch; without the address of one nothing is asked."""
    if not argument:
        raise UsageError("no model is named", remedy="openai:NAME, with the name that the server gives it")
    if not argument.isprintable():
        raise UsageError(
            f"the model's name is {argument!r}, which cannot be sent", remedy="the name that the server gives it"
        )
    options = loading.rewriting or RewritingOptions()
    chat: ChatModel = (
        Nobody(argument)
        if options.base_url is None
        else Server(argument, options.base_url, options.timeout, plain_http=options.plain_http)
    )
    asked = options.base_url is not None
    answers = Answers(options.answers, options.base_url, retry_failed=asked and options.retry_failed)
    if options.batch is not None:
        answers.take_over(read_batch(options.batch))
    known = None if asked else answers.identity(argument)
    # Where nobody is asked there is nothing to wait for.
    options = options if asked else replace(options, concurrency=1)
    return Rewriter("openai", chat, known, options, answers, loading.lang, loading.source_lang)

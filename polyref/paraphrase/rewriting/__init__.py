"""Paraphrases by a language model: behind a server, or a chat model of this machine."""

from __future__ import annotations

from polyref.paraphrase.rewriting.options import RewritingOptions, TextInContext

__all__ = ["RewritingOptions", "TextInContext"]

"""What depends on the language pair of a set, whatever regions its codes name."""

from __future__ import annotations

from polyref.languages import base, split_pair
from polyref.metrics.ngram.tokenizers import tokenizer_of


def target_language(pair: str) -> str:
    """The target language of ``SRC-TGT`` without script and region: ``zh`` of ``en-zh_CN`` and of ``en-zh-Hans-CN``."""
    codes = split_pair(pair)
    return base(codes[1] if codes else pair.rpartition("-")[2])


def bleu_tokenizer(pair: str) -> str | None:
    """The tokeniser that sacreBLEU uses for the pair's target language, or None for its default (13a)."""
    return tokenizer_of(target_language(pair))

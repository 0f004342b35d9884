from __future__ import annotations

import pytest

from polyref.languages import target_language
from polyref.metrics.registry import make_metrics


@pytest.mark.parametrize(
    ("pair", "language", "tokenizer"),
    [
        ("en-zh", "zh", "zh"),
        ("en-zh_CN", "zh", "zh"),
        ("en-zh-CN", "zh", "zh"),
        ("eng_Latn-zho_Hans", "zh", "zh"),
        ("en-ja_JP", "ja", "ja-mecab"),
        ("en-US-ko-KR", "ko", "ko-mecab"),
        ("zh_CN-en", "en", None),
        ("ja-zh_TW", "zh", "zh"),
        ("en-sr_Cyrl_RS", "sr", None),
        ("EN-ZH", "zh", "zh"),
    ],
)
def test_regions_and_scripts_change_nothing(pair: str, language: str, tokenizer: str | None) -> None:
    (bleu,) = make_metrics(["bleu"], pair=pair).values()
    assert (target_language(pair), bleu.tokenize) == (language, tokenizer or "13a")  # type: ignore[attr-defined]

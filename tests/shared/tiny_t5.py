"""A T5 of random weights, and sources for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def t5() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.T5Config(
        vocab_size=40,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        initializer_factor=4.0,
    )
    return transformers.T5ForConditionalGeneration(config).eval()


SOURCES = [[7, 9, 30, 14, 1], [5, 1], [1], [8] * 20 + [1]]

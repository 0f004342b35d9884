"""Any Hugging Face encoder-decoder through its own forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_t5 import SOURCES, t5

from polyref.errors import ModelError
from polyref.models.networks.hugging_face import HuggingFaceModel
from polyref.paraphrase.search import SearchOptions, search

transformers = pytest.importorskip("transformers")

__all__ = ["t5"]
pytestmark = pytest.mark.usefixtures("quiet_transformers")


def test_t5_searches_alone_in_batches_and_as_transformers_does(t5: Any) -> None:
    network = HuggingFaceModel(t5)
    options = SearchOptions(semantics="hf", beam=4, max_len_b=10, no_repeat_ngram=2, early_stopping="never")
    together = search(network, SOURCES, options)
    for source, found in zip(SOURCES, together):
        alone = search(network, [source], options)[0]
        assert [c.tokens for c in alone] == [c.tokens for c in found]
        with torch.inference_mode():
            expected = t5.generate(
                torch.tensor([source]),
                num_beams=4,
                num_return_sequences=4,
                max_length=12,
                min_length=2,
                no_repeat_ngram_size=2,
                early_stopping="never",
                return_dict_in_generate=True,
                output_scores=True,
            )
        assert [c.score for c in alone] == pytest.approx(expected.sequences_scores.tolist(), abs=2e-5)
        # Its own forward differs this much between a padded batch and one sentence.
        assert [c.score for c in found] == pytest.approx([c.score for c in alone], abs=1e-4)
        for c, sequence in zip(found, expected.sequences.tolist()):
            assert list(c.tokens) == sequence[1 : 1 + len(c.tokens)]


@pytest.mark.parametrize("semantics", ["paper", "fairseq", "hf"])
def test_t5_takes_every_semantics(t5: Any, semantics: Any) -> None:
    options = SearchOptions(beam=6, groups=3, max_len_b=8, semantics=semantics)
    for found in search(HuggingFaceModel(t5), SOURCES, options):
        assert 1 <= len(found) <= 6 and all(len(c.tokens) <= 9 for c in found)


def test_what_is_no_encoder_decoder_is_refused() -> None:
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=10))
    with pytest.raises(ModelError, match="no encoder-decoder"):
        HuggingFaceModel(gpt)

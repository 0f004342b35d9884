"""Decoder-only language models with a prompt: lists equal ``generate``, lines end by any token that ends a line."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_causal import bytewise, save
from tiny_chat import TEXT, chat_model

from polyref.errors import DataError, ModelError, UsageError
from polyref.paraphrase import DiverseBeam, SearchOptions, SearchParaphraser, load_paraphraser

pytestmark = pytest.mark.usefixtures("quiet_transformers")

TEXTS = ["the old river", "small ferry", "nobody has seen this since early morning"]


def loaded(argument: str) -> SearchParaphraser:
    found = load_paraphraser(f"causal:{argument}")
    assert isinstance(found, SearchParaphraser)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama", "bloom", "opt"])
def test_lists_equal_generate(family: str, tmp_path: Path) -> None:
    """Alone and in a batch; with the end of text as the only end, as ``generate`` knows no sum of ends."""
    paraphraser = loaded(str(save(family, tmp_path)))
    model: Any = paraphraser.model
    network, eos = model.model, model.eos
    model._others = model._others[:0]
    options = SearchOptions(semantics="hf", beam=4, max_len_b=7, min_len=0)
    together = list(paraphraser.paraphrase(TEXTS, 4, decoding=options))
    for text, batched in zip(TEXTS, together, strict=True):
        (found,) = paraphraser.paraphrase([text], 4, decoding=options)
        assert [one.tokens for one in found.hypotheses] == [one.tokens for one in batched.hypotheses]
        ids = torch.tensor([paraphraser.codec.encode(text)])
        with torch.inference_mode():
            expected = network.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                num_beams=4,
                num_return_sequences=4,
                max_new_tokens=8,
                pad_token_id=eos,
                output_scores=True,
                return_dict_in_generate=True,
            )
        scores = [one.score for one in found.hypotheses]
        assert scores == pytest.approx(expected.sequences_scores.tolist(), abs=2e-5, rel=1e-5)
        for one, row in zip(found.hypotheses, expected.sequences[:, ids.shape[1] :].tolist(), strict=True):
            assert list(one.tokens) == row[: len(one.tokens)]


def test_all_tokens_that_end_a_line_are_one_end(tmp_path: Path) -> None:
    paraphraser = loaded(str(save("gpt2", tmp_path)))
    model: Any = paraphraser.model
    line = next(iter(bytewise(tmp_path)("\n")["input_ids"]))
    assert model._others.tolist() == [line] and model.pad == line
    prompt = paraphraser.codec.encode(TEXTS[0])
    with torch.inference_mode():
        step = model.step(model.encode([prompt]), torch.zeros(1, 1, dtype=torch.int64))[0, 0]
        plain = model.model(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    together = math.exp(plain[model.eos]) + math.exp(plain[line])
    assert math.exp(step[model.eos]) == pytest.approx(together, rel=1e-4)
    assert float(step[line]) == -math.inf
    others = [token for token in range(len(plain)) if token not in (model.eos, line)]
    torch.testing.assert_close(step[others], plain[others], atol=1e-5, rtol=1e-5)


def test_nothing_follows_a_token_that_holds_a_line_end(tmp_path: Path) -> None:
    merged = (".", "Ċ")
    paraphraser = loaded(str(save("gpt2", tmp_path, merged)))
    model: Any = paraphraser.model
    closing = bytewise(tmp_path, merged).convert_tokens_to_ids("".join(merged))
    state = model.encode([paraphraser.codec.encode(TEXTS[0])])
    assert model.step(state, torch.tensor([[closing]]))[0, 0].isfinite().sum() > 2, "the first step reads the prompt"
    after = model.step(state, torch.tensor([[closing]]))[0, 0]
    assert float(after[model.eos]) == 0.0 and after.isfinite().sum() == 1
    assert paraphraser.codec.decode([closing, model.eos]) == "."


def test_a_diverse_beam_over_a_prompt_of_ones_own(tmp_path: Path) -> None:
    folder = chat_model(tmp_path / "model")
    (tmp_path / "prompt.txt").write_text("this small ferry\n{text} and\n")
    own = loaded(f"{folder},{tmp_path / 'prompt.txt'}")
    assert own.codec.encode("old mill") == folder_ids(folder)("this small ferry old mill and")
    found = own(TEXTS, 5, decoding=DiverseBeam(beam=6, groups=3))
    assert all(len(set(nbest.paraphrases)) == len(nbest.paraphrases) >= 2 for nbest in found)
    assert {word for nbest in found for text in nbest.paraphrases for word in text.split()} <= set(TEXT.split())
    plain = loaded(str(folder))
    assert plain.signature != own.signature and plain.name == own.name == "model"
    assert plain(TEXTS[0], 5).paraphrases != own(TEXTS[0], 5).paraphrases


def folder_ids(folder: Path) -> Callable[[str], list[int]]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return lambda text: tokenizer(text)["input_ids"]


def test_long_texts_are_cut_before_the_prompt_goes_on(tmp_path: Path) -> None:
    paraphraser = loaded(str(save("llama", tmp_path)))
    assert paraphraser.max_source == 200
    cut, whole = paraphraser(["ferry " * 100, "ferry"], 1, decoding=SearchOptions(beam=1, max_len_b=3))
    assert (cut.truncated, whole.truncated) == (True, False)
    ids, was_cut = paraphraser._source("ferry " * 100)
    assert was_cut and 190 < len(ids) <= 200
    assert bytewise(tmp_path).decode(ids).endswith("ferry\nSecond wording:")


def test_what_cannot_be_used_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no folder with a Hugging Face model.*causal:DIR\[,PROMPT.txt\]"):
        load_paraphraser("causal:nowhere")
    folder = save("llama", tmp_path)
    (tmp_path / "none.txt").write_text("Paraphrase this.")
    with pytest.raises(DataError, match=r"none.txt: 0 places {text} for the text, expected one"):
        loaded(f"{folder},{tmp_path / 'none.txt'}")
    (tmp_path / "long.txt").write_text("river " * 90 + "{text}")
    with pytest.raises(UsageError, match="the prompt leaves no room for a text: the model reads 200 tokens"):
        list(loaded(f"{folder},{tmp_path / 'long.txt'}").paraphrase(["old mill"], 1))
    with pytest.raises(UsageError, match="`dtype` is 'int8', expected one of float32, bfloat16, float16"):
        load_paraphraser(f"causal:{folder}", dtype="int8")

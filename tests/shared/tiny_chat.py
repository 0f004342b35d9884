"""A tiny chat model with random weights, a tokeniser of words and a chat template, as Transformers writes it.

It writes some words at random and then ends: a third of its tokens are ends.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end0|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ENDS = [f"<|end{number}|>" for number in range(10)]
SPECIALS = [*ENDS, "<|pad|>", "<|unknown|>", "<|system|>", "<|user|>", "<|assistant|>"]
TEXT = "the river runs behind old mill and nobody has seen this small ferry since early morning when wind turned"
WORDS = TEXT.split()
POSITIONS = 2048


def chat_model(folder: Path, template: str | None = TEMPLATE) -> Path:
    """Write a Llama of two layers; every token is about as probable as any other."""
    transformers.utils.logging.disable_progress_bar()
    vocabulary = {token: number for number, token in enumerate([*SPECIALS, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<|unknown|>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(SPECIALS)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=ENDS[0],
        pad_token="<|pad|>",
        unk_token="<|unknown|>",
        additional_special_tokens=SPECIALS,
        chat_template=template,
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        bos_token_id=None,
        initializer_range=0.1,
    )
    model = transformers.LlamaForCausalLM(config)
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=list(range(len(ENDS))),
        pad_token_id=SPECIALS.index("<|pad|>"),
        do_sample=True,
        repetition_penalty=1.1,  # of the folder, and not of a request
    )
    model.save_pretrained(folder)
    return folder

"""A tiny model of random weights of every encoder-decoder that Transformers has for text, saved with a tokeniser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from tiny_seq2seq import TEXT
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES as NAMES

#: Models of speech that Transformers lists as encoder-decoders.
SPEECH: Final = {
    "audioflamingo3",
    "glmasr",
    "granite_speech",
    "granite_speech_plus",
    "moss_transcribe_diarize",
    "musicflamingo",
    "nemo_speechlm",
    "qwen2_audio",
    "qwen3_asr",
    "vibevoice_asr",
    "voxtral",
    "voxtral_realtime",
}
#: Positions of those that have a limit.
POSITIONS: Final = 40
VOCABULARY: Final = 60
_BART: Final = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
_T5: Final = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
_GEMMA: Final = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
_FFN: Final = {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": POSITIONS}
_LAYERS: Final = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
_BART_SHAPE: Final = {"d_model": 16, "init_std": 0.5, **_LAYERS, **_FFN, **_BART}
_T5_SHAPE: Final = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "initializer_factor": 2.0,
    **_T5,
}
_SEAMLESS: Final = {"hidden_size": 16, "initializer_range": 0.5, **_LAYERS, **_FFN, **_BART} | {
    f"{part}_{name}": value
    for part in ("speech_encoder", "t2u_encoder", "t2u_decoder")
    for name, value in {"layers": 1, "attention_heads": 2, "ffn_dim": 24, "intermediate_size": 24}.items()
}
_BERT: Final = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.5,
}
_SIDE: Final = {
    **{name: value for name, value in _BERT.items() if name != "initializer_range"},
    **_GEMMA,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "sliding_window": 16,
    "query_pre_attn_scalar": 8,
}
_VISION: Final = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_EXPERTS: Final = {"num_experts": 4, "expert_capacity": 16, "encoder_sparse_step": 1}
#: The configuration of each, without the size of the vocabulary.
FAMILIES: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(("bart", "mbart", "marian", "m2m_100", "blenderbot", "blenderbot-small"), _BART_SHAPE),
    **dict.fromkeys(("mvp", "pegasus", "plbart"), _BART_SHAPE),
    "pegasus_x": _BART_SHAPE | {"block_size": 8, "num_global_tokens": 4},
    "bigbird_pegasus": _BART_SHAPE | {"attention_type": "original_full", "block_size": 4, "num_random_blocks": 1},
    "led": {name: value for name, value in _BART_SHAPE.items() if name != "max_position_embeddings"}
    | {"max_encoder_position_embeddings": 48, "max_decoder_position_embeddings": POSITIONS, "attention_window": 8},
    "nllb-moe": _BART_SHAPE | _EXPERTS | {"decoder_sparse_step": 1},
    "fsmt": _BART_SHAPE | {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["en", "de"]},
    "prophetnet": {
        "hidden_size": 16,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "num_encoder_attention_heads": 2,
        "num_decoder_attention_heads": 2,
        "init_std": 0.5,
        **_FFN,
        # Its positions are counted from the number of the padding token.
        **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2},
    },
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5"), _T5_SHAPE),
    "switch_transformers": _T5_SHAPE | _EXPERTS | {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), _SEAMLESS),
    "encoder-decoder": {
        "encoder": {"model_type": "bert", **_BERT},
        "decoder": {"model_type": "bert", "is_decoder": True, "add_cross_attention": True, **_BERT},
        **_BART,
    },
    "t5gemma": {"encoder": _SIDE, "decoder": _SIDE, "initializer_range": 0.5},
    "t5gemma2": {
        "encoder": {"text_config": _SIDE, "vision_config": _VISION},
        "decoder": _SIDE,
        "initializer_range": 0.5,
        "image_token_index": VOCABULARY - 1,
    },
}


def write_family(name: str, folder: Path) -> Any:
    """Save a model of a family, with words as its tokens. Returns the model."""
    torch.manual_seed(3)
    shape = dict(FAMILIES[name])
    if "vocab_size" not in shape and name != "encoder-decoder":
        shape["vocab_size"] = VOCABULARY
    config = transformers.AutoConfig.for_model(name, **shape)
    model = getattr(transformers, NAMES[name])(config).eval()
    specials = {key: value for key, value in {**_GEMMA, **shape}.items() if key.endswith("_token_id")}
    for key, value in specials.items():
        setattr(model.generation_config, key, value)
    model.save_pretrained(folder)
    _tokenizer(int(specials["pad_token_id"]), int(specials["eos_token_id"])).save_pretrained(folder)
    return model


def _tokenizer(pad: int, eos: int) -> Any:
    words = sorted({word for text in TEXT for word in text.split()})
    names = {pad: "<pad>", eos: "</s>"}
    free = iter(["<unk>", "<s>", *words])
    vocabulary = {names.get(number) or next(free): number for number in range(len(words) + 4)}
    made = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", eos)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )

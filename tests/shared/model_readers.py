"""What opens folders of models, and what writes a small one for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tiny_chat import chat_model
from tiny_encoders import bert, gpt
from tiny_seq2seq import write_bart, write_t5

from polyref.augment import measures
from polyref.models.checkpoints.seq2seq import read_generation
from polyref.models.encoders import load_encoder
from polyref.models.language_model import load_language_model
from polyref.models.scorers import load_scorer
from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.rewriting.local import LocalChat


def encode(folder: Path) -> Any:
    return load_encoder(str(folder)).states(np.array([[2, 5, 3]], dtype=np.int32), [1])


def _complete(folder: Path) -> object:
    found = LocalChat(folder, "cpu", "float32")
    return found.answer({"messages": [{"role": "user", "content": "the river"}], "temperature": 0, "max_tokens": 2})


#: What opens a folder, and what writes one that it opens.
READERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "tokens": (lambda folder: load_encoder(str(folder)).tokens(["a cat"]), bert),
    "vectors": (encode, bert),
    "adequacy": (lambda folder: measures.Cosine(str(folder)), bert),
    "language model": (lambda folder: load_language_model(str(folder)).fluency(["a cat"]), gpt),
    "lean scorer": (lambda folder: load_scorer(folder).name, write_bart),
    "scorer": (lambda folder: load_scorer(folder).name, write_t5),
    "paraphraser": (lambda folder: load_paraphraser(folder)("a cat", 2), write_t5),
    "causal": (lambda folder: load_paraphraser(f"causal:{folder}")("the river", 2), chat_model),
    "chat": (_complete, chat_model),
    "generation": (read_generation, write_t5),
}

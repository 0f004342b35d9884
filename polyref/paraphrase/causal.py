"""The generator ``causal``: a decoder-only language model that continues a prompt by one line, searched by polyref.

For models without a chat template, and for whoever wants the best lines by their probability, or a diverse beam,
instead of samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

from polyref.errors import DataError, ModelError, UsageError
from polyref.models.checkpoints.text import load_tokenizer
from polyref.models.device import torch_device, use_threads
from polyref.models.language_recognition import language_name
from polyref.models.networks.hugging_face import CausalModel
from polyref.models.opening import LONGEST_SOURCE, hash_model, load_network
from polyref.paraphrase.decoding import check_choice
from polyref.paraphrase.loading import DTYPES_ELSEWHERE, LoadingOptions, told_dtype
from polyref.paraphrase.search_paraphraser import SearchParaphraser, batch_limits
from polyref.textfiles import read_lines

#: Where the text stands in a prompt.
PLACE: Final = "{text}"
#: The prompt of whoever names none.
PROMPT: Final = "The same sentence in two different wordings.\nFirst wording: {text}\nSecond wording:"
_TRANSLATION: Final = "A text in {0} and its translation into {1}.\n{0}: {{text}}\n{1}:"


class PromptCodec:
    """Texts in a prompt as token ids, and the line that a model wrote as text."""

    def __init__(self, tokenizer: Any, prompt: str, ends: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._before, self._after = prompt.split(PLACE)
        self._ends = frozenset(ends)

    def encode(self, text: str) -> list[int]:
        """Token ids of the prompt with the text. An end that the tokeniser adds is left out."""
        ids = [int(token) for token in self._tokenizer(f"{self._before}{text}{self._after}")["input_ids"]]
        while ids and ids[-1] in self._ends:
            ids.pop()
        return ids

    def beginning(self, text: str, longest: int) -> list[int]:
        """The prompt with as many words of the text as fit into ``longest`` tokens."""
        words = text.split()
        fit, too_many = -1, len(words)
        while too_many - fit > 1:
            middle = (fit + too_many) // 2
            if len(self.encode(" ".join(words[:middle]))) <= longest:
                fit = middle
            else:
                too_many = middle
        if fit < 1:
            raise UsageError(f"the prompt leaves no room for a text: the model reads {longest} tokens")
        return self.encode(" ".join(words[:fit]))

    def decode(self, tokens: Sequence[int]) -> str:
        """The first line of what was written."""
        kept = [token for token in tokens if token not in self._ends]
        lines = str(self._tokenizer.decode(kept, skip_special_tokens=True)).strip().splitlines()
        return lines[0].strip() if lines else ""


def load(argument: str | None, options: LoadingOptions) -> SearchParaphraser:
    """A language model: ``FOLDER``, or ``FOLDER,FILE`` with a prompt (``{text}`` in one place) that it continues."""
    name, _, file = (argument or "").partition(",")
    folder = Path(name)
    if not name or not (folder / "config.json").is_file():
        raise ModelError("no folder with a Hugging Face model", file=name or None, remedy="causal:DIR[,PROMPT.txt]")
    device, dtype, source_lang = options.device, options.dtype or "float32", options.source_lang
    check_choice("dtype", dtype, DTYPES_ELSEWHERE)
    use_threads(options.threads)
    torch_device(device)
    named = [language_name(code) for code in (source_lang, options.lang) if code]
    prompt = read_prompt(file) if file else PROMPT if source_lang is None else _TRANSLATION.format(*named)
    tokenizer = load_tokenizer(folder)
    loaded: Any = load_network("AutoModelForCausalLM", folder, "language model")
    network = loaded.to(torch.device(device), getattr(torch, dtype))
    ends, closing = line_ends(tokenizer, network)
    pad = _padding(tokenizer, ends, folder)
    model = CausalModel(network, ends=ends, pad=pad, unk=ends[0], closing=closing, longest=LONGEST_SOURCE)
    digest = f"{hash_model(folder)[:12]}|prompt:{hashlib.sha256(prompt.encode()).hexdigest()[:12]}"
    made = SearchParaphraser(
        model,
        PromptCodec(tokenizer, prompt, ends),
        name=folder.resolve().name,
        digest=digest + told_dtype(dtype),
        max_source=model.max_source,
        **batch_limits(options.memory, device),
    )
    made.need = "good-writer"
    return made


def read_prompt(file: str) -> str:
    """The prompt of a file; the line end at its end is not part of it."""
    prompt = "\n".join(read_lines(file))
    if (count := prompt.count(PLACE)) != 1:
        raise DataError(f"{count} places {PLACE} for the text, expected one", file=file)
    return prompt


def line_ends(tokenizer: Any, network: Any) -> tuple[list[int], list[int]]:
    """Tokens that end a text, then those that begin with a line end; and those with a line end later on."""
    named = getattr(network.generation_config, "eos_token_id", None)
    found = [named] if isinstance(named, int) else list(named or ())
    if tokenizer.eos_token_id is not None:
        found.append(tokenizer.eos_token_id)
    closing: list[int] = []
    size = network.get_output_embeddings().weight.shape[0]
    for token in sorted(tokenizer.get_vocab().values()):
        if token < size and "\n" in (text := str(tokenizer.decode([token]))):
            (found if text.lstrip(" \t").startswith("\n") else closing).append(int(token))
    if not found:
        raise ModelError("its tokeniser has no end of text and no line end")
    ends = list(dict.fromkeys(int(token) for token in found))
    return ends, [token for token in closing if token not in ends]


def _padding(tokenizer: Any, ends: Sequence[int], folder: Path) -> int:
    """A token that is never written: padding, or an end that another one stands for."""
    for token in (tokenizer.pad_token_id, *ends[1:], tokenizer.bos_token_id, tokenizer.unk_token_id):
        if token is not None and token != ends[0]:
            return int(token)
    raise ModelError("its tokeniser has no padding token", file=folder, remedy="set one and save it again")

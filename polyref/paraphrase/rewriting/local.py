"""The generator ``chat``: a chat model of this machine, run by Transformers, greedily or with seeded sampling.

Requests are answered one after the other, each with random numbers of its own: what a text gets depends neither on the
other texts nor on their order.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from polyref.chat.answers import Answer, Answers
from polyref.chat.asking import GivenUpError
from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints.text import load_tokenizer
from polyref.models.device import torch_device, use_threads
from polyref.models.opening import hash_model, load_network
from polyref.paraphrase.decoding import check_choice
from polyref.paraphrase.loading import DTYPES_ELSEWHERE, LoadingOptions
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.paraphrase.rewriting.rewriter import Rewriter

#: Parts of a request that mean something here; the form of the answer is asked for in words alone.
_PARTS: Final = frozenset(
    [
        *("model", "messages", "temperature", "seed", "max_tokens", "response_format"),
        *("top_p", "top_k", "chat_template_kwargs"),
    ]
)
#: Most tokens where neither the request nor the model has a limit.
_ROOM: Final = 4096


def load(argument: str | None, loading: LoadingOptions) -> Rewriter:
    """A chat model of a folder that Transformers wrote: weights as safetensors, a tokeniser with a chat template."""
    options = loading.rewriting or RewritingOptions()
    if options.base_url is not None or options.batch is not None:
        name = "base_url" if options.base_url is not None else "batch"
        raise UsageError(
            f"`{name}` is given, but the model of chat:DIR runs here", remedy="leave it out, or openai:NAME"
        )
    dtype = loading.dtype or "float32"
    check_choice("dtype", dtype, DTYPES_ELSEWHERE)
    if unknown := sorted(options.body.keys() - _PARTS):
        raise UsageError(f"`body` names {unknown[0]!r}, which a model of this machine does not take")
    emptied = [name for name, value in options.body.items() if value is None and name in ("seed", "temperature")]
    if options.form == "samples" and emptied:
        raise UsageError(
            f"`body` takes out {emptied[0]!r}, and all samples would be the same", remedy=f"leave {emptied[0]!r} in"
        )
    if not argument or not (Path(argument) / "config.json").is_file():
        raise ModelError("no folder with a Hugging Face model", file=argument or None, remedy="chat:DIR")
    folder = Path(argument)
    use_threads(loading.threads)
    torch_device(loading.device)
    chat = LocalChat(folder, loading.device, dtype)
    return Rewriter("chat", chat, [], options, Answers(options.answers), loading.lang, loading.source_lang)


class LocalChat:
    """A chat model in memory.

    Its ``model`` is the name of the folder, the first 12 digits of the SHA-256 of its files, and what it computes in,
    where that is not float32: requests to other models have other keys.
    """

    def __init__(self, folder: Path, device: str, dtype: str) -> None:
        self.model = f"{folder.resolve().name}@{hash_model(folder)[:12]}" + ("" if dtype == "float32" else f",{dtype}")
        self._device = torch.device(device)
        self._turn = threading.Lock()
        self._tokenizer = load_tokenizer(folder)
        if not self._tokenizer.chat_template:
            raise ModelError("its tokeniser has no chat template", file=folder, remedy="choose a chat (instruct) model")
        network: Any = load_network("AutoModelForCausalLM", folder, "chat model")
        self._network = network.to(self._device, getattr(torch, dtype))
        ends = network.generation_config.eos_token_id
        ends = self._tokenizer.eos_token_id if ends is None else ends
        self._ends = [ends] if isinstance(ends, int) else list(ends or ())
        # Sampling is as the request says, whatever the folder has as a default.
        network.generation_config = transformers.GenerationConfig()
        self._longest = getattr(network.config.get_text_config(), "max_position_embeddings", None)

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """Write an answer."""
        with self._turn:
            return self._answer(body)

    def _answer(self, body: Mapping[str, Any]) -> Answer:
        try:
            ids: list[int] = self._tokenizer.apply_chat_template(
                body["messages"],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **body.get("chat_template_kwargs", {}),
            )["input_ids"]
        except Exception as error:  # a template may refuse a system message, or anything
            raise GivenUpError("refused by the chat template", str(error).split("\n")[0]) from None
        room = int(body.get("max_tokens", _ROOM))
        if self._longest is not None:
            room = min(room, self._longest - len(ids))
        if room < 1:
            raise GivenUpError("longer than the model reads")
        written = self._write(ids, room, body)
        return Answer(
            content=self._tokenizer.decode(written, skip_special_tokens=True).strip(),
            finish="stop" if written and written[-1] in self._ends else "length",
            prompt_tokens=len(ids),
            completion_tokens=len(written),
        )

    @torch.inference_mode()
    def _write(self, ids: list[int], room: int, body: Mapping[str, Any]) -> list[int]:
        temperature = float(body.get("temperature", 0.0))
        ends, pad = self._ends, self._tokenizer.pad_token_id
        how: dict[str, Any] = {"max_new_tokens": room, "eos_token_id": ends or None, "do_sample": temperature > 0}
        how["pad_token_id"] = pad if pad is not None else ends[0] if ends else 0
        if temperature > 0:
            how |= {"temperature": temperature, "top_p": body.get("top_p", 1.0), "top_k": body.get("top_k", 0)}
        prompt = torch.tensor([ids], device=self._device)
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(_seed(body))
            made = self._network.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                generation_config=transformers.GenerationConfig(**how),
            )
        return [int(token) for token in made[0, len(ids) :]]


def _seed(body: Mapping[str, Any]) -> int:
    """A stream of random numbers for each request."""
    return int.from_bytes(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[:7], "big")

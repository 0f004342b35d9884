"""Encoders that Transformers can load, cut off after any of their layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from polyref.errors import ModelError
from polyref.metrics.embedding.encoders.base import Encoder, Tokens
from polyref.metrics.embedding.encoders.products import use_products
from polyref.models.checkpoints.automodel import load_network
from polyref.models.checkpoints.files import hash_model, most_positions, read_config
from polyref.models.checkpoints.tokenizer import load_tokenizer
from polyref.models.device import torch_device
from polyref.values import as_texts

if TYPE_CHECKING:
    from torch import Tensor, nn


#: For encoders that name no limit of their own (relative positions).
LONGEST: Final = 512
#: A token between two special ones.
_SHORTEST: Final = 3
#: Texts that are tokenised in one go.
_TOKENISED: Final = 4096


class TransformersEncoder(Encoder):
    """An encoder, or the encoder half of a model, that Transformers can load; float32.

    A layer's vectors are what the model gives when it is cut off after that layer: for models that normalise at the
    very end this includes the final normalisation, as in bert_score.
    """

    #: Where the blocks are, from the encoder.
    _BLOCKS: Final = ("encoder.layer", "layers", "block", "transformer.layer", "encoder.layers", "layer")
    #: Families whose states on the way equal those of a model cut there: one pass gives all layers. Their linear layers
    #: are called as such, and their weights not used otherwise.
    _ONE_PASS: Final = frozenset({"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "mpnet"})

    def __init__(self, folder: Path, device: str, name: str) -> None:
        self._folder = folder
        self.device = device
        self.name = name
        path = folder / "config.json"
        config = read_config(folder)
        self.family = str(config.get("model_type", ""))
        self.origin = str(config.get("_name_or_path", ""))
        self.layers = _number(config, path, "encoder_layers", "num_hidden_layers", "n_layers", "num_layers", "n_layer")
        self.width = _number(config, path, "hidden_size", "d_model", "dim", "n_embd", "emb_dim")
        self._positions = most_positions(folder, config)

    @cached_property
    def digest(self) -> str:
        """See :class:`Encoder`."""
        return hash_model(self._folder)

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
        """See :class:`Encoder`."""
        limits = [self._tokenizer.model_max_length]
        if self._positions is not None:
            limits.append(self._positions)
        known = min(limits)
        if known < _SHORTEST:
            raise ModelError(f"reads {known} tokens, expected {_SHORTEST} or more", file=self._folder)
        return int(known) if known < 1 << 20 else LONGEST

    @cached_property
    def _tokenizer(self) -> Any:
        # bert_score reads the first word of a sentence as it reads the others, which these two do not by themselves.
        options = {"add_prefix_space": True} if self.family in ("roberta", "gpt2") else {}
        return load_tokenizer(self._folder, **options)

    @cached_property
    def _reserved(self) -> frozenset[int]:
        return frozenset({self._tokenizer.cls_token_id, self._tokenizer.sep_token_id}) - {None}

    @cached_property
    def _model(self) -> nn.Module:
        model: Any = load_network("AutoModel", self._folder, "encoder")
        if hasattr(model, "encoder") and hasattr(model, "decoder"):
            model = model.encoder
        model = model.to(torch_device(self.device))
        if self.family in self._ONE_PASS:
            use_products(model)
        return cast("nn.Module", model)

    @cached_property
    def _blocks(self) -> tuple[nn.Module, str, list[nn.Module]] | None:
        from torch import nn

        for path in self._BLOCKS:
            *way, last = path.split(".")
            owner: Any = self._model
            for step in way:
                owner = getattr(owner, step, None)
            blocks = getattr(owner, last, None)
            if isinstance(blocks, nn.ModuleList) and len(blocks) == self.layers:
                return owner, last, list(blocks)
        return None

    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """See :class:`Encoder`. bert_score's rule for white space: that at the ends is no text."""
        most = min(longest or self.longest, self.longest)
        plain = [text.strip() for text in as_texts(texts, "`texts`")]
        found: list[Tokens] = []
        for start in range(0, len(plain), _TOKENISED):
            part = plain[start : start + _TOKENISED]
            for text, entry in zip(part, self._tokenized(part, None), strict=True):
                found.append(entry if len(entry) <= most else self._tokenized([text], most)[0])
        return found

    def _tokenized(self, texts: Sequence[str], most: int | None) -> list[Tokens]:
        read = self._tokenizer(
            list(texts),
            add_special_tokens=True,
            truncation=most is not None,
            max_length=most,
            return_special_tokens_mask=True,
            return_attention_mask=False,
            verbose=False,
        )
        found = []
        for row, mask in zip(read["input_ids"], read["special_tokens_mask"], strict=True):
            ids = np.array(row, dtype=np.int32)
            special = np.array(mask, dtype=np.bool_) | np.isin(ids, list(self._reserved))
            found.append(Tokens(ids, special, most is not None))
        return found

    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        """See :class:`Encoder`."""
        import torch

        with torch.inference_mode():
            tokens = torch.from_numpy(ids.astype(np.int64)).to(torch_device(self.device))
            if self._blocks is None:  # shared or unusual blocks: run all of them
                by_layer = dict(enumerate(self._run(tokens, output_hidden_states=True).hidden_states))
            elif len(set(layers)) > 1 and max(layers) and self.family in self._ONE_PASS:
                by_layer = self._on_the_way(tokens, max(layers), self._blocks[2])
            else:
                by_layer = {
                    layer: self._cut(tokens, layer).last_hidden_state for layer in dict.fromkeys(layers) if layer
                }
                if 0 in layers and self.family.startswith("deberta"):  # it does not run without any block
                    by_layer |= {0: self._on_the_way(tokens, 1, self._blocks[2])[0]}
                elif 0 in layers:
                    by_layer[0] = self._cut(tokens, 0).last_hidden_state
            chosen = torch.stack([by_layer[layer] for layer in layers], 1)
        return cast("npt.NDArray[np.float32]", chosen.float().cpu().numpy())

    def _on_the_way(self, tokens: Tensor, deepest: int, blocks: Sequence[nn.Module]) -> dict[int, Tensor]:
        """What goes into the first block and what comes out of each."""
        found: dict[int, Tensor] = {}

        def before(_block: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            found[0] = args[0] if args else options["hidden_states"]

        def after(layer: int) -> Callable[[nn.Module, Any, Any], None]:
            def keep(_block: nn.Module, _inputs: Any, output: Any) -> None:
                found[layer] = output if not isinstance(output, tuple) else output[0]

            return keep

        hooks = [blocks[0].register_forward_pre_hook(before, with_kwargs=True)]
        hooks += [block.register_forward_hook(after(n)) for n, block in enumerate(blocks[:deepest], 1)]
        try:
            self._cut(tokens, deepest)
        finally:
            for hook in hooks:
                hook.remove()
        return found

    def _cut(self, tokens: Tensor, layer: int) -> Any:
        from torch import nn

        assert self._blocks is not None
        owner, name, blocks = self._blocks
        setattr(owner, name, nn.ModuleList(blocks[:layer]))
        try:
            return self._run(tokens)
        finally:
            setattr(owner, name, nn.ModuleList(blocks))

    def _run(self, tokens: Tensor, **options: Any) -> Any:
        import torch

        return self._model(tokens, attention_mask=torch.ones_like(tokens), **options)


def _number(config: dict[str, Any], path: Path, *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int):
            if value < 1 or value is True:
                raise ModelError(f"{name} is {value}, expected 1 or more", file=path)
            return value
    raise ModelError(f"the configuration has none of {', '.join(names)}: not an encoder that is known", file=path)

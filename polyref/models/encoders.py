"""Text encoders: a text becomes tokens, tokens become vectors of every layer."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from polyref.errors import ModelError, UsageError
from polyref.json_files import Record
from polyref.models.checkpoints.text import load_tokenizer
from polyref.models.device import own_device, torch_device
from polyref.models.opening import Found, find, hash_files, load_network, most_positions
from polyref.values import as_texts

if TYPE_CHECKING:
    from torch import Tensor, nn

    from polyref.models.checkpoints.pointer import PointerModel


@dataclass(frozen=True)
class Tokens:
    """A text as its encoder reads it.

    Attributes:
        ids: Shape (T,), int32: token ids, special tokens included.
        special: Shape (T,), bool: which of them the encoder adds or reserves (start, separator, end).
        cut: Whether the text is longer than the encoder reads, and its end is missing here.
    """

    ids: npt.NDArray[np.int32]
    special: npt.NDArray[np.bool_]
    cut: bool

    def __len__(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.ids)


class Encoder(ABC):
    """What turns texts into token vectors. Layer 0 is the embedding, layer l what comes out of the l-th block.

    Attributes:
        layers: Number of blocks.
        width: Length of a vector.
        longest: Most tokens it reads, special ones included.
        languages: Codes of the languages it knows; empty: not stated.
    """

    name: str
    layers: int
    width: int
    longest: int
    device: str = "cpu"
    languages: tuple[str, ...] = ()

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 over the files that decide the vectors (configuration, vocabulary, weights), 64 hex digits."""

    @abstractmethod
    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """Tokens of texts, each cut after ``longest`` tokens at most (special ones included and kept).

        White space at the ends is no text. An empty text is its special tokens.
        """

    @abstractmethod
    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        """Vectors ``[N, L, T, width]`` of L layers of texts ``[N, T]`` of one length, so that there is no padding."""

    def check_layer(self, layer: int) -> None:
        """Refuse a layer the encoder does not have."""
        if not 0 <= layer <= self.layers:
            raise UsageError(f"layer {layer}, but {self.name} has layers 0 to {self.layers}")


@cache
def default_layers(chosen_by: Literal["bert_score", "polyref"]) -> dict[str, int]:
    """Model -> layer that correlates best with judgements, by bert_score (hub names, WMT16) or polyref (WMT21)."""
    text = files("polyref.models").joinpath("default_layers.json").read_text("utf-8")
    tables: dict[str, dict[str, int]] = json.loads(text)
    return tables[chosen_by]


def use_products(network: nn.Module) -> None:
    """Let a network's linear layers compute by :class:`Product`, on the CPU.

    Weights that were packed are given up: the network cannot be trained or saved any more.
    """
    import torch
    from torch import nn

    from polyref.models.networks.matmul import Product, packs

    for module in network.modules():
        if type(module) is nn.Linear and packs(module.weight):
            layer: Any = module
            layer.forward = Product(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())
            layer.weight.data = torch.empty(0)


class PointerEncoder(Encoder):
    """The encoder of a paraphraser of the shipped kind; the end of sentence is its special token.

    A layer's vectors are its block's output under the encoder's final layer normalisation: the residual stream of a
    pre-norm network grows with depth and is never read bare.
    """

    def __init__(self, found: Found, device: str = "cpu") -> None:
        self._folder = found.folder
        self.device = device
        self._network = found.config.get("network")
        config = Record(dict(found.config), found.folder / "config.json", error=ModelError)
        network = config.needed("network", config.child)
        self.name = config.needed("name", config.text)
        self.layers, self.width, self.longest = (
            network.needed(key, network.whole) for key in ("encoder_layers", "d_model", "max_source")
        )
        self.languages = (config.needed("language", config.text),)

    @cached_property
    def digest(self) -> str:
        """The decoding defaults in ``config.json`` change no state and are left out."""
        network = json.dumps(self._network, sort_keys=True)
        files = hash_files([self._folder / file for file in ("model.safetensors", "spm.model")])
        return hashlib.sha256(f"{network}\0{files}".encode()).hexdigest()

    @cached_property
    def _model(self) -> PointerModel:
        from polyref.models.checkpoints.pointer import load_pointer

        model = load_pointer(self._folder)
        model.network.place(torch_device(self.device))
        use_products(model.network.encoder)
        for layer in model.network.encoder:
            attention: Any = layer.attend_self
            attention.mix = partial(_mix, attention.out)
        return model

    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        model, most = self._model, min(longest or self.longest, self.longest)
        pieces = model.spm.encode([" ".join(text.split()) for text in as_texts(texts, "`texts`")])
        found = []
        for row in pieces:
            ids = np.array([*row[: most - 1], model.network.eos], dtype=np.int32)
            special = np.zeros(len(ids), dtype=np.bool_)
            special[-1] = True
            found.append(Tokens(ids, special, len(row) + 1 > most))
        return found

    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        import torch

        network = self._model.network
        with torch.inference_mode():
            source = torch.from_numpy(ids.astype(np.int64)).to(network.device)
            found = list(islice(network.encoder_states(source), max(layers) + 1))
            chosen = torch.stack([network.encoder_norm(found[layer]) for layer in layers], 1)
        return cast("npt.NDArray[np.float32]", chosen.float().cpu().numpy())


def _mix(out: Callable[[Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor, _mask: Tensor) -> Tensor:
    """Attention ``[N, T, d]`` of queries, keys and values ``[N, H, T, e]`` of texts without padding.

    Each text is attended to by itself: in a batched product of small matrices, the order of the additions depends on
    how many there are.
    """
    from torch.nn.functional import scaled_dot_product_attention

    return out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


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

    def __init__(self, found: Found, device: str) -> None:
        self._found = found
        self._folder = found.folder
        self.device = device
        self.name = found.name
        path, config = found.folder / "config.json", found.config
        self.family = str(config.get("model_type", ""))
        self.origin = str(config.get("_name_or_path", ""))
        self.layers = _number(config, path, "encoder_layers", "num_hidden_layers", "n_layers", "num_layers", "n_layer")
        self.width = _number(config, path, "hidden_size", "d_model", "dim", "n_embd", "emb_dim")
        self._positions = most_positions(found.folder, config)

    @cached_property
    def digest(self) -> str:
        return self._found.digest

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
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
        """By bert_score's rule for white space: that at the ends is no text."""
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


def _number(config: Mapping[str, Any], path: Path, *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int):
            if value < 1 or value is True:
                raise ModelError(f"{name} is {value}, expected 1 or more", file=path)
            return value
    raise ModelError(f"the configuration has none of {', '.join(names)}: not an encoder that is known", file=path)


@lru_cache(maxsize=4)
def load_encoder(name: str = "shipped", device: str = "cpu", *, fetch: bool = True) -> Encoder:
    """Find an encoder. Its network is loaded when it encodes for the first time.

    Args:
        name: ``shipped`` (the encoder of the English paraphraser in the package), ``minilm`` (the extra of this
            name), a folder (Transformers' or the shipped kind), or a name on the Hugging Face hub: ``owner/model``,
            or one of those bert_score knows, such as ``roberta-large``. Only a hub name uses the network.
        device: A torch device; of several, :func:`polyref.models.device.own_device`.
        fetch: Whether the hub is asked for what is not here.
    """
    device, found = own_device(device), find(name, "encoder", fetch=fetch)
    return (PointerEncoder if found.kind == "shipped" else TransformersEncoder)(found, device)

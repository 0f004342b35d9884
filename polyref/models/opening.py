"""From a name to a model: the package's own, folders, names of the Hugging Face hub; and what their folders say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from polyref.errors import ModelError
from polyref.json_files import Record

if TYPE_CHECKING:
    from torch import nn


SHIPPED = Path(__file__).parent / "shipped"
#: Some checkpoints have no limit of their own.
LONGEST_SOURCE = 1024


def shipped_languages() -> list[str]:
    """Languages with a model in the package."""
    return sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "model.safetensors").is_file())


def find_model(name: str) -> tuple[Path, bool]:
    """The folder a name stands for, and whether it holds a model of the shipped kind; hub names stay as they are."""
    folder = shipped_folder(name)
    if folder is not None:
        return folder, True
    if is_pointer_folder(Path(name)):
        return Path(name), True
    if not Path(name).is_dir() and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(
            "no such model folder", file=name, remedy="give a folder, `shipped`, or a hub name owner/model"
        )
    return Path(name), False


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


def is_fairseq_directory(path: str | Path) -> bool:
    """Whether ``path`` is a directory with a ``checkpoint.pt`` in it."""
    return (Path(path) / "checkpoint.pt").is_file()


def is_pointer_folder(folder: Path) -> bool:
    """Whether ``folder`` holds a model of this kind (its configuration says so)."""
    try:
        return "polyref_model" in read_config(folder)
    except ModelError:
        return False


# `owner/model`, or one of the old names without owner that bert_score knows (`roberta-large`).
_HUB_NAME: Final = re.compile(
    r"[\w-][\w.-]*/[\w.-]+|(albert|bert|distilbert|distilroberta|roberta|t5|xlm|xlnet)-[\w-]+"
)


def locate(name: str | Path) -> Path:
    """The directory of a model, downloaded first if ``name`` is one of the Hugging Face hub."""
    directory = Path(name)
    if is_fairseq_directory(directory):
        return directory
    if not directory.is_dir():
        if directory.exists() or str(name).startswith((".", "/", "~")) or str(name).count("/") > 1:
            raise ModelError("no such model directory", file=name)
        if not _HUB_NAME.fullmatch(str(name)):
            raise ModelError("no such model folder", file=name, remedy="give a folder, or a hub name owner/model")
        return _download(str(name))
    if not (directory / "config.json").is_file():
        raise ModelError("no model: neither checkpoint.pt (fairseq) nor config.json (Hugging Face)", file=directory)
    return directory


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(
            name, allow_patterns=["*.json", "*.safetensors", "*.bin", "*.model", "*.spm", "*.txt"]
        )
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise ModelError(
            f"{name!r} is no directory here, and the Hugging Face hub did not give it: {reason}",
            remedy="name a directory, or check the name and the network",
        ) from None
    return Path(found)


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

    Args:
        family: The model type.
        padding: Id of the padding token. Where there is none, it is 1, as in these families; MPNet has no other.
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
    """SHA-256 over the settings, the tokeniser's files and the weights of a folder as Transformers writes it."""
    kept = [file for file in folder.iterdir() if file.name.endswith(_READ) and file.is_file()]
    weights = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return hash_files(sorted([*kept, *weights], key=lambda file: file.name))


#: Attention that torch can do by itself; for others Transformers fetches code and runs it.
_OWN_ATTENTION: Final = ("eager", "sdpa")


def from_folder(kind: str, folder: str | Path, **options: Any) -> Any:
    """An object of Transformers from a folder. Every folder is opened here: nothing is fetched, none of its code runs.

    Without `trust_remote_code` Transformers asks on standard input, and takes a line of piped text for consent.

    Args:
        kind: A class of Transformers, such as ``AutoTokenizer``.
        folder: The folder.
        options: What else its ``from_pretrained`` takes.
    """
    import transformers

    with quiet():
        found = getattr(transformers, kind)
        return found.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **options)


def load_network(kind: str, folder: Path, what: str) -> nn.Module:
    """The network of a folder, in float32, for inference.

    Args:
        kind: A class of Transformers, such as ``AutoModel``.
        folder: The folder. Nothing is fetched, and no code of the folder runs.
        what: What is expected there, for the message.
    """
    from polyref.models.checkpoints.weights import check_numbers

    _check_attention(read_config(folder), folder)
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


def _check_attention(settings: Any, folder: Path) -> None:
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
        _check_attention(value, folder)


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

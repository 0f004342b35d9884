"""What Transformers makes of folders, without running code of theirs: settings, tokenisers, networks in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from polyref.errors import ModelError
from polyref.models.checkpoints.files import read_config

if TYPE_CHECKING:
    from torch import nn


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

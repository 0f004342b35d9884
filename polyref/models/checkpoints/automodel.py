"""Networks of Transformers in folders, whatever they are for, loaded in float32 without running code of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from polyref.errors import ModelError

if TYPE_CHECKING:
    from torch import nn


def load_network(kind: str, folder: Path, what: str) -> nn.Module:
    """The network of a folder, in float32, for inference.

    Args:
        kind: A class of Transformers, such as ``AutoModel``.
        folder: The folder. Nothing is fetched, and no code of the folder runs.
        what: What is expected there, for the message.
    """
    import transformers

    try:
        with quiet():
            model, found = getattr(transformers, kind).from_pretrained(
                str(folder),
                local_files_only=True,
                trust_remote_code=False,
                weights_only=True,
                dtype="float32",
                output_loading_info=True,
            )
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
    return cast("nn.Module", model.eval().requires_grad_(False))


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

"""Weights of Hugging Face directories, read without running anything in them."""

from __future__ import annotations

import math
import os
import pickle
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from polyref.errors import ModelError, PolyrefError
from polyref.json_files import Record
from polyref.textfiles import MAX_UNPACKED, most_unpacked

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
    return {str(name): value for name, value in stored.items() if isinstance(value, Tensor)}
